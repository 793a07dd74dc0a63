// The products of a run, each with the algorithm it is computed by.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "harness/cuda/algorithms.h"
#include "harness/cuda/cuda_executor.h"
#include "harness/cuda/gpu.h"

namespace spillway {

// Memory of calls whose values nobody needs yet, so that their products can be timed.
struct ProductCall {
  OpCall call;
  std::span<std::byte> workspace;
};

class ChosenProducts {
 public:
  // `library` and `gpu` must outlive it. Reads the file; throws InputError as it does.
  ChosenProducts(ProductLibrary& library, Gpu& gpu, std::filesystem::path file,
                 std::string machine);

  // Before the first step. An algorithm for every product of these calls: that of the file, else
  // the fastest of the library's candidates, run on the calls' own operands, which it overwrites.
  // Then writes the file. Throws InputError where the file's cannot run here.
  void prepare(const std::vector<ProductCall>& calls, CUstream_st* stream);

  // In a step: issues all products of an op; false where one of them has no algorithm (or the op is
  // made of none), and nothing has been issued.
  bool run(const OpCall& call, std::span<std::byte> workspace, CUstream_st* stream) const;

  const CudaMatmuls& report() const { return report_; }

 private:
  double seconds_of(const DenseProduct& product, const Algorithm& algorithm,
                    std::span<std::byte> workspace, CUstream_st* stream);
  void time(const DenseProduct& product, std::span<std::byte> workspace, CUstream_st* stream);
  void resolve(const ProductCall& call);

  ProductLibrary& library_;
  Gpu& gpu_;
  AlgorithmFile file_;
  std::set<ProductShape> without_;  // that the library does not compute
  std::map<ProductShape, Algorithm> chosen_;
  CudaMatmuls report_;
};

}  // namespace spillway
