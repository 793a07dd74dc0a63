// A digest over the bits of tensors: equal digests mean equal bits, for every practical purpose.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "harness/thread_pool.h"

namespace spillway {

// 64-bit hash of pieces of bytes in their order; where one piece ends and the next begins counts.
// Bytes are hashed in blocks, in parallel, and the blocks' hashes are combined in order, so the
// number of threads does not matter. Not cryptographic.
class Digest {
 public:
  static constexpr int64_t block_bytes = int64_t{1} << 20;

  // The next bytes of the piece at hand: whole blocks in every call but a piece's last.
  void add(std::span<const std::byte> bytes, ThreadPool& pool);
  void end_piece();
  uint64_t value() const;  // of the pieces that have ended

 private:
  std::vector<uint64_t> blocks_;
  std::vector<int64_t> sizes_;  // of pieces
  int64_t size_ = 0;            // of the piece at hand, so far
};

// Of whole pieces in memory.
uint64_t digest_of(std::span<const std::span<const std::byte>> pieces, ThreadPool& pool);

std::string hex(uint64_t value);  // 16 digits

}  // namespace spillway
