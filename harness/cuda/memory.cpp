// Arenas grow and never shrink: page-locking host memory takes seconds a hundred gigabytes.
#include "harness/cuda/memory.h"

#include "harness/error.h"

namespace spillway {
namespace {

constexpr int64_t device_page = int64_t{2} << 20;  // what cudaMalloc takes from the device
constexpr int64_t host_page = 4096;

int64_t whole_pages(int64_t bytes, int64_t page) { return (bytes + page - 1) / page * page; }

}  // namespace

CudaMemory::CudaMemory(std::unique_ptr<Gpu> gpu, OpenedLibrary products)
    : gpu_(std::move(gpu)), products_(std::move(products)) {
  constexpr auto words = static_cast<int64_t>(sizeof(StepWords));
  device_words_ = {*gpu_, gpu_->allocate_device(words)};
  host_words_ = {*gpu_, gpu_->allocate_host(words)};
  staging_ = {*gpu_, gpu_->allocate_host(staging_bytes)};
}

int64_t CudaMemory::host_bytes_of(int64_t bytes) { return whole_pages(bytes, host_page); }

void CudaMemory::reserve(int64_t device_bytes, int64_t host_bytes) {
  check(device_bytes >= 0 && host_bytes >= 0, "arenas of ", device_bytes, " and ", host_bytes,
        " bytes");
  const int64_t device = whole_pages(device_bytes, device_page), host = host_bytes_of(host_bytes);
  if (device > device_bytes_) {
    device_.reset();
    device_bytes_ = 0;
    device_ = {*gpu_, gpu_->allocate_device(device)};
    device_bytes_ = device;
  }
  if (host > host_bytes_) {
    host_.reset();
    host_bytes_ = 0;
    host_ = {*gpu_, gpu_->allocate_host(host)};
    host_bytes_ = host;
  }
}

std::shared_ptr<CudaMemory> open_cuda(int device) {
  std::unique_ptr<Gpu> gpu = open_gpu(device);  // cuBLASLt opens on the device set here
  return std::make_shared<CudaMemory>(std::move(gpu), open_cublaslt());
}

const CudaDevice& device_of(const CudaMemory& memory) { return memory.gpu().device(); }

int64_t available_bytes(CudaMemory& memory) {
  return memory.gpu().available_bytes() + memory.device_reserved();
}

int64_t host_reserved(const CudaMemory& memory) { return memory.host_reserved(); }

}  // namespace spillway
