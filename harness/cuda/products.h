// Dense matrix products as a library is asked for them, and which ops are made of such products. No
// CUDA header is needed: a stand-in for the library runs them on the CPU in tests.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "harness/ops.h"

struct CUstream_st;

namespace spillway {

// Row-major, as it lies: an operand of type nvfp4_rows is stored turned (narrow.h), so it is of type
// nvfp4 here and the other way round. Element (r, c) of one of the batch is at r * stride + c, or c * stride + r where the
// matrix stands transposed in memory; the next of the batch begins `step` elements later.
struct ProductMatrix {
  DType dtype = DType::bf16;
  bool transposed = false;
  int64_t stride = 0;
  int64_t step = 0;
  // Bytes that the address of each of the batch is a multiple of, at most 16: of any slice of the
  // operand, so that all iterations and all policies ask for the same product.
  int64_t alignment = 16;
  friend auto operator<=>(const ProductMatrix&, const ProductMatrix&) = default;
};

// c[m, n] = a[m, k] b[k, n], `batch` times, with fp32 accumulation. c is not transposed.
struct ProductShape {
  int64_t m = 0, n = 0, k = 0, batch = 1;
  ProductMatrix a, b, c;
  friend auto operator<=>(const ProductShape&, const ProductShape&) = default;
};
// "4096x8192x1024 a bf16/1024 b bf16^T/1024 c f32/8192": m x n x k, strides; "+" and a step, "@" and
// an alignment where they are not 0 and 16.
std::string key_of(const ProductShape& shape);

struct DenseProduct {
  ProductShape shape;
  const std::byte *a = nullptr, *b = nullptr;
  std::byte* c = nullptr;
  // Of narrow operands: scales of the tensors, which the product is multiplied by, and of blocks
  // (null but for NVFP4), in device memory.
  const float *a_scale = nullptr, *b_scale = nullptr;
  const std::byte *a_blocks = nullptr, *b_blocks = nullptr;
};

// matmul is one product, of narrow operands too; of bf16 and fp32 alone dispatch_einsum and mask_gradient are one a sequence, batched over experts;
// so is combine_einsum where there is one sequence (of several, an expert's rows lie apart).
bool is_dense_product(const Op& op);
// Of an op that is one: calls `visit` for each of its products, which may run at once.
void for_each_product(const OpCall& call, const std::function<void(const DenseProduct&)>& visit);

// How a library computes a product, as it wrote it down: words that mean something to the same
// version of it alone (cublasLtMatmulAlgo_t).
struct Algorithm {
  std::array<uint64_t, 8> words{};
  friend bool operator==(const Algorithm&, const Algorithm&) = default;
};

class ProductLibrary {
 public:
  virtual ~ProductLibrary() = default;
  virtual std::string name() const = 0;  // with its version: "cuBLASLt 13.1.0"

  // ---- before the first step
  // The best first, by the library's own judgement; none: it does not compute such products. All
  // give the same bits in every run. Both make what run() needs for the shape.
  virtual std::vector<Algorithm> candidates(const ProductShape& shape, int64_t workspace_bytes) = 0;
  // Whether one that was written down can still run, deterministically.
  virtual bool usable(const ProductShape& shape, const Algorithm& algorithm,
                      int64_t workspace_bytes) = 0;

  // ---- in a step: issues to the stream and returns. Throws RunError where the library refuses.
  virtual void run(const DenseProduct& product, const Algorithm& algorithm,
                   std::span<std::byte> workspace, CUstream_st* stream) = 0;
};

struct OpenedLibrary {
  std::unique_ptr<ProductLibrary> library;  // null where this build or the machine has none
  std::string why;                          // it is null
};
// Of this name; none: that of the toolkit this was built with.
// `multiply_scales` issues *product = *a * *b and *zero = 0, all in device memory.
using MultiplyScales = void (*)(const float* a, const float* b, float* product, float* zero,
                                CUstream_st* stream);
OpenedLibrary open_cublaslt(const std::string& name, MultiplyScales multiply_scales);
OpenedLibrary open_cublaslt();

// Scratch memory of a product, the same for all: what NVIDIA's documentation recommends
// (cublasSetWorkspace): 32 MiB from Hopper on, 4 MiB before.
int64_t product_workspace_bytes(int compute_capability_major);

}  // namespace spillway
