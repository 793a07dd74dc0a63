// What lies in a device's arenas between steps: values in and out, and the poison of test runs.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "harness/arenas.h"
#include "harness/cuda/memory.h"
#include "harness/thread_pool.h"

namespace spillway {

class Contents {
 public:
  // Copies go through memory.staging() on `stream`, and are waited for.
  Contents(CudaMemory& memory, const Arenas& arenas, CUstream_st* stream)
      : memory_(memory), arenas_(arenas), stream_(stream) {}

  // As init_persistent() does, by way of the host.
  void fill_persistent(uint64_t seed, ThreadPool& pool);

  // A persistent tensor in parts of CudaMemory::staging_bytes; the spans are not to be kept.
  using Visit = std::function<void(std::span<const std::byte>)>;
  void visit(TensorId id, const Visit& visit) const;
  std::vector<std::byte> read(TensorId id) const;
  void write(TensorId id, const std::vector<std::byte>& bytes);

  // Both arenas whole; host tensors that are not persistent.
  void poison_all();
  void poison_host();
  // Throws RunError naming the first byte of the device arena outside persistent tensors that is not
  // poison: at the end of a step nothing else lives.
  void verify_poison() const;

 private:
  std::span<std::byte> persistent(TensorId id) const;
  void expect_poison(int64_t begin, int64_t end) const;    // offsets
  void fetch(const std::byte* from, int64_t bytes) const;  // into staging

  CudaMemory& memory_;
  Arenas arenas_;
  CUstream_st* stream_;
};

}  // namespace spillway
