// Products by the definition in products.h.
#include "tests/cuda/support_products.h"

#include <algorithm>
#include <cstring>

#include "tests/cuda/support_fake_gpu.h"

namespace spillway {
namespace {

int64_t place(const ProductMatrix& matrix, int64_t row, int64_t column, int64_t of_batch) {
  const int64_t down = matrix.transposed ? column : row, along = matrix.transposed ? row : column;
  return of_batch * matrix.step + down * matrix.stride + along;
}

float read(const ProductMatrix& matrix, const std::byte* data, int64_t at) {
  uint32_t bits = 0;
  const auto size = static_cast<size_t>(bytes_of(matrix.dtype));
  std::memcpy(&bits, data + at * bytes_of(matrix.dtype), size);
  if (matrix.dtype == DType::bf16) bits <<= 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

void write(const ProductMatrix& matrix, std::byte* data, int64_t at, float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if (matrix.dtype == DType::bf16) bits = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  std::memcpy(data + at * bytes_of(matrix.dtype), &bits,
              static_cast<size_t>(bytes_of(matrix.dtype)));
}

void multiply(const DenseProduct& product) {
  const ProductShape& s = product.shape;
  for (int64_t batch = 0; batch < s.batch; ++batch)
    for (int64_t i = 0; i < s.m; ++i)
      for (int64_t j = 0; j < s.n; ++j) {
        float sum = 0;
        for (int64_t p = 0; p < s.k; ++p)
          sum += read(s.a, product.a, place(s.a, i, p, batch)) *
                 read(s.b, product.b, place(s.b, p, j, batch));
        write(s.c, product.c, place(s.c, i, j, batch), sum);
      }
}

}  // namespace

std::vector<Algorithm> FakeProducts::candidates(const ProductShape& shape, int64_t) {
  ++asked[key_of(shape)];
  std::vector<Algorithm> algorithms;
  for (const uint64_t number : numbers)
    algorithms.emplace_back().words[0] = number;
  return algorithms;
}

bool FakeProducts::usable(const ProductShape&, const Algorithm& algorithm, int64_t) {
  return std::find(numbers.begin(), numbers.end(), algorithm.words[0]) != numbers.end();
}

void FakeProducts::run(const DenseProduct& product, const Algorithm&,
                       std::span<std::byte> workspace, CUstream_st* stream) {
  const std::string key = key_of(product.shape);
  ++ran[key];
  const auto work = [=] {
    std::fill(workspace.begin(), workspace.end(), std::byte{0xa5});
    multiply(product);
  };
  if (stream == nullptr) return work();
  reinterpret_cast<FakeStream*>(stream)->gpu->run_kernel(stream, key, work);
}

}  // namespace spillway
