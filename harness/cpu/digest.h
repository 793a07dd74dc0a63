// A digest over the bits of tensors: equal digests mean equal bits, for every practical purpose.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "harness/thread_pool.h"

namespace spillway {

// 64-bit hash of all bytes of the given pieces in their order; where one piece ends and the next
// begins counts. Pieces are hashed in blocks of 1 MiB, in parallel, and the blocks' hashes are
// combined in order, so the number of threads does not matter. Not cryptographic.
uint64_t digest_of(std::span<const std::span<const std::byte>> pieces, ThreadPool& pool);

std::string hex(uint64_t value);  // 16 digits

}  // namespace spillway
