// A library of products made of the CPU, for the fake GPU: it computes by the definition of a shape
// and runs when the stream does.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/cuda/products.h"

namespace spillway {

class FakeProducts : public ProductLibrary {
 public:
  std::string name() const override { return "fake 1.2.3"; }
  std::vector<Algorithm> candidates(const ProductShape& shape, int64_t workspace_bytes) override;
  bool usable(const ProductShape& shape, const Algorithm& algorithm,
              int64_t workspace_bytes) override;
  // At once where there is no stream.
  void run(const DenseProduct& product, const Algorithm& algorithm, std::span<std::byte> workspace,
           CUstream_st* stream) override;

  std::map<std::string, int> asked, ran;      // how often, by key
  std::vector<uint64_t> numbers = {1, 2};  // of its algorithms, for every shape
};

}  // namespace spillway
