// The CUDA executor, and what there is to run it on. A plain header: it compiles, links and answers
// in builds without CUDA and on machines without a driver.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/executor.h"
#include "harness/plan.h"
#include "harness/schedule.h"

namespace spillway {

struct CudaDevice {
  int index = 0;
  std::string name;
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  int64_t memory_bytes = 0, l2_bytes = 0;
  std::string pci_address;        // "0000:65:00.0"
  bool host_page_tables = false;  // it reads plain system memory through the CPU's page tables
};

// What a process finds. `problem` is empty where devices can be used, else what is missing, and
// `advice` how to get it.
struct CudaState {
  bool built = false;  // with CUDA
  std::string problem, advice;
  int runtime_version = 0, driver_version = 0;  // 13000 for 13.0; 0: none
  std::vector<CudaDevice> devices;
};
CudaState cuda_state();
std::string version_text(int version);  // "13.0"

// Which kernels compute dense matrix products: cuBLASLt's where the machine has it, else and for
// what it does not compute our own; or those alone.
enum class MatmulBy : uint8_t { automatic, cublaslt, plain };

struct CudaOptions {
  int threads = 0;       // that make initial values on the host; 0: usable_cpus()
  double slow_copy = 1;  // every copy is made so many times over, rounded up (tests)
  uint64_t seed = 0;
  bool poison = false;     // as for the CPU executor; found out at the end of a step
  bool graphs = false;     // one graph a segment, of all its iterations, from the second step on
  bool timestamps = true;  // around every op; off: a step's trace has no spans
  bool flush_l2 = false;   // before every step
  MatmulBy matmul = MatmulBy::automatic;
  std::string algorithms =
      {};  // file of chosen ones (algorithms.h); empty: default_algorithm_file()
};

// A device with its two arenas, kept and reused (and grown) by the executors that follow.
class CudaMemory;
// Throws RunError: no CUDA in this build, no driver, no such device.
std::shared_ptr<CudaMemory> open_cuda(int device = 0);
const CudaDevice& device_of(const CudaMemory& memory);
// Device bytes an arena may have: free ones and those it holds already.
int64_t available_bytes(CudaMemory& memory);
int64_t host_reserved(const CudaMemory& memory);

// Bytes of device memory a run takes, each kind by itself.
struct CudaUse {
  int64_t arena = 0;     // of it, workspaces as the plan has them
  int64_t l2_flush = 0;  // buffer that is written before a step
  int64_t context = 0;   // CUDA's own, the kernels' code, and what else uses the device
};

// How a run's dense matrix products are computed.
struct CudaMatmuls {
  std::string library;     // "cuBLASLt 13.1.0"; else why our own kernels do
  std::string file;        // of the algorithms
  int64_t by_library = 0;  // different products
  int64_t timed = 0;       // of them, that the file did not have
  std::vector<std::string>
      plain;  // products that our own kernels compute though there is a library
};

// What this build's kernels are compiled for, as CMake names it: "80-real 90a-real"; empty without
// CUDA. And whether that includes a GPU of this compute capability.
std::string cuda_targets();
bool built_for(const std::string& targets, int major, int minor);

// Throws InputError naming every op this build or the device cannot run: kinds without a kernel, FP8
// below compute capability 8.9, NVFP4 below 10.0, several devices.
void refuse_for_cuda(const Program& program, const CudaDevice& device);

// Bytes of scratch memory an op's kernel wants; 0 without a kernel.
int64_t cuda_workspace_bytes(const Program& program, const Op& op);
// The same with what a product's library wants, where this device's products are computed by one.
// Throws InputError where cuBLASLt is asked for and missing.
std::function<int64_t(const Program&, const Op&)> cuda_workspaces(CudaMemory& memory, MatmulBy by);

class CudaExecutor : public ValueExecutor {
 public:
  virtual CudaUse use() const = 0;
  virtual const CudaMatmuls& matmuls() const = 0;
};

// The plan must be one of a schedule with workspaces (workspaces.h). Schedule and plan must outlive
// it. Refuses as refuse_for_cuda() does. Throws InputError where the file of algorithms is not one.
std::unique_ptr<CudaExecutor> make_cuda_executor(const Schedule& schedule, const Plan& plan,
                                                 const CudaOptions& options,
                                                 std::shared_ptr<CudaMemory> memory);

}  // namespace spillway
