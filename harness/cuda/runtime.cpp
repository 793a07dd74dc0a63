// A Gpu of the CUDA runtime, and what devices there are. Every return code goes through cuda_check.
#include "harness/cuda/gpu.h"
#include "harness/error.h"

#if SPILLWAY_HAVE_CUDA

#include <algorithm>
#include <array>

#include <cuda_runtime_api.h>

#include "harness/cuda/check.h"

namespace spillway {
namespace {

size_t size_of(int64_t bytes) { return static_cast<size_t>(bytes); }

int attribute(int device, cudaDeviceAttr which) {
  int value = 0;
  cuda_check(cudaDeviceGetAttribute(&value, which, device), "cudaDeviceGetAttribute",
             text("device ", device));
  return value;
}

CudaDevice describe(int index) {
  cudaDeviceProp properties{};
  cuda_check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties",
             text("device ", index));
  std::array<char, 32> address{};
  cuda_check(cudaDeviceGetPCIBusId(address.data(), static_cast<int>(address.size()), index),
             "cudaDeviceGetPCIBusId", text("device ", index));
  CudaDevice device;
  device.index = index;
  device.name = properties.name;
  device.major = properties.major;
  device.minor = properties.minor;
  device.multiprocessors = properties.multiProcessorCount;
  device.memory_bytes = static_cast<int64_t>(properties.totalGlobalMem);
  device.l2_bytes = properties.l2CacheSize;
  device.pci_address = address.data();
  device.host_page_tables =
      attribute(index, cudaDevAttrPageableMemoryAccessUsesHostPageTables) != 0;
  return device;
}

class CudaGpu : public Gpu {
 public:
  explicit CudaGpu(const CudaDevice& device) : device_(device) {
    cuda_check(cudaSetDevice(device.index), "cudaSetDevice", device.name);
  }
  const CudaDevice& device() const override { return device_; }

  CUstream_st* create_stream() override {
    cudaStream_t stream = nullptr;
    cuda_check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
               "cudaStreamCreateWithFlags");
    return stream;
  }
  CUevent_st* create_event(EventUse use) override {
    cudaEvent_t event = nullptr;
    const unsigned flags = use == EventUse::time ? cudaEventDefault : cudaEventDisableTiming;
    cuda_check(cudaEventCreateWithFlags(&event, flags), "cudaEventCreateWithFlags");
    return event;
  }
  std::byte* allocate_device(int64_t bytes) override {
    void* memory = nullptr;
    cuda_check(cudaMalloc(&memory, size_of(bytes)), "cudaMalloc", text(bytes, " bytes"));
    return static_cast<std::byte*>(memory);
  }
  std::byte* allocate_host(int64_t bytes) override {
    void* memory = nullptr;
    cuda_check(cudaHostAlloc(&memory, size_of(bytes), cudaHostAllocPortable), "cudaHostAlloc",
               text(bytes, " bytes"));
    return static_cast<std::byte*>(memory);
  }
  void destroy(CUstream_st* stream) noexcept override { forget(cudaStreamDestroy(stream)); }
  void destroy(CUevent_st* event) noexcept override { forget(cudaEventDestroy(event)); }
  void destroy(CUgraphExec_st* graph) noexcept override { forget(cudaGraphExecDestroy(graph)); }
  void free_device(std::byte* memory) noexcept override { forget(cudaFree(memory)); }
  void free_host(std::byte* memory) noexcept override { forget(cudaFreeHost(memory)); }
  int64_t available_bytes() override {
    size_t available = 0, total = 0;
    cuda_check(cudaMemGetInfo(&available, &total), "cudaMemGetInfo");
    return static_cast<int64_t>(available);
  }

  void record(CUevent_st* event, CUstream_st* stream) override {
    cuda_check(cudaEventRecord(event, stream), "cudaEventRecord");
  }
  void record_time(CUevent_st* event, CUstream_st* stream) override {
    // Within a capture a plain record is only an order between nodes and takes no time.
    const unsigned flags = capturing_ ? cudaEventRecordExternal : cudaEventRecordDefault;
    cuda_check(cudaEventRecordWithFlags(event, stream, flags), "cudaEventRecordWithFlags");
  }
  void wait(CUstream_st* stream, CUevent_st* event) override {
    cuda_check(cudaStreamWaitEvent(stream, event, 0), "cudaStreamWaitEvent");
  }
  void copy(std::byte* to, const std::byte* from, int64_t bytes, CUstream_st* stream) override {
    cuda_check(cudaMemcpyAsync(to, from, size_of(bytes), cudaMemcpyDefault, stream),
               "cudaMemcpyAsync");
  }
  void fill(std::byte* at, std::byte value, int64_t bytes, CUstream_st* stream) override {
    cuda_check(cudaMemsetAsync(at, std::to_integer<int>(value), size_of(bytes), stream),
               "cudaMemsetAsync");
  }
  void launch(CUgraphExec_st* graph, CUstream_st* stream) override {
    cuda_check(cudaGraphLaunch(graph, stream), "cudaGraphLaunch");
  }
  void check_launch() override { cuda_check(cudaGetLastError(), "launching the kernel"); }

  void begin_capture(CUstream_st* stream) override {
    cuda_check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
               "cudaStreamBeginCapture");
    capturing_ = true;
  }
  CUgraphExec_st* end_capture(CUstream_st* stream) override {
    capturing_ = false;
    cudaGraph_t graph = nullptr;
    cuda_check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
    cudaGraphExec_t ready = nullptr;
    const cudaError_t code = cudaGraphInstantiate(&ready, graph, 0);
    forget(cudaGraphDestroy(graph));
    cuda_check(code, "cudaGraphInstantiate");
    cuda_check(cudaGraphUpload(ready, stream), "cudaGraphUpload");
    return ready;
  }
  void abandon_capture(CUstream_st* stream) noexcept override {
    if (!capturing_) return;
    capturing_ = false;
    cudaGraph_t graph = nullptr;
    forget(cudaStreamEndCapture(stream, &graph));
    if (graph != nullptr) forget(cudaGraphDestroy(graph));
  }
  void synchronize(CUstream_st* stream) override {
    cuda_check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  }
  void drain(CUstream_st* stream) noexcept override { forget(cudaStreamSynchronize(stream)); }
  double seconds_between(CUevent_st* from, CUevent_st* to) override {
    float milliseconds = 0;
    cuda_check(cudaEventElapsedTime(&milliseconds, from, to), "cudaEventElapsedTime");
    return static_cast<double>(milliseconds) * 1e-3;
  }

 private:
  // Where nothing can be done about an error: it must not be taken for the next call's.
  static void forget(cudaError_t code) noexcept {
    if (code != cudaSuccess) cudaGetLastError();
  }

  CudaDevice device_;
  bool capturing_ = false;
};

// Without a driver cudaGetDeviceCount leaves the count untouched.
void find_devices(CudaState& state) {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaSuccess && count > 0) {
    for (int index = 0; index < count; ++index)
      state.devices.push_back(describe(index));
    return;
  }
  cudaGetLastError();
  if (state.driver_version == 0) {
    state.problem = "no CUDA driver";
    state.advice = text("install an NVIDIA driver for CUDA ", version_text(state.runtime_version),
                        " or later on a machine with an NVIDIA GPU; in a container, start it with "
                        "its GPUs");
  } else if (code == cudaErrorInsufficientDriver) {
    state.problem = text("the CUDA driver, ", version_text(state.driver_version), ", is too old");
    state.advice =
        text("install a driver for CUDA ", version_text(state.runtime_version), " or later");
  } else {
    state.problem = text("no CUDA device (", cudaGetErrorName(code), ")");
    state.advice = "see what nvidia-smi lists and whether CUDA_VISIBLE_DEVICES hides it";
  }
}

}  // namespace

CudaState cuda_state() {
  CudaState state;
  state.built = true;
  cuda_check(cudaRuntimeGetVersion(&state.runtime_version), "cudaRuntimeGetVersion");
  if (cudaDriverGetVersion(&state.driver_version) != cudaSuccess) cudaGetLastError();
  find_devices(state);
  return state;
}

std::unique_ptr<Gpu> open_gpu(int device) {
  const CudaState state = cuda_state();
  if (!state.problem.empty()) throw RunError(text(state.problem, ": ", state.advice));
  const auto count = static_cast<int>(state.devices.size());
  if (device < 0 || device >= count)
    throw RunError(text("no CUDA device ", device, ": this machine has ", count));
  return std::make_unique<CudaGpu>(state.devices[static_cast<size_t>(device)]);
}

}  // namespace spillway

#else

namespace spillway {

CudaState cuda_state() {
  CudaState state;
  state.problem = "this build has no CUDA executor";
  state.advice =
      "configure with a CUDA toolkit of 12.8 or later (cmake --preset cuda) and build again";
  return state;
}

std::unique_ptr<Gpu> open_gpu(int) {
  const CudaState state = cuda_state();
  throw RunError(text(state.problem, ": ", state.advice));
}

}  // namespace spillway

#endif

namespace spillway {

std::string version_text(int version) { return text(version / 1000, ".", version % 1000 / 10); }

}  // namespace spillway
