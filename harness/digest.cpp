// Four independent multiply-rotate streams a block, 32 bytes a round: as fast as memory delivers.
#include "harness/digest.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "harness/error.h"

namespace spillway {
namespace {

// Odd constants with about half of their bits set, from the golden ratio and SplitMix64.
constexpr uint64_t odd1 = 0x9e3779b97f4a7c15, odd2 = 0xbf58476d1ce4e5b9;

// Invertible in `word` for a given state: a single changed word always changes the result.
inline uint64_t absorb(uint64_t state, uint64_t word) {
  return std::rotl(state ^ (word * odd1), 29) * odd2;
}

uint64_t word_at(const std::byte* data, int64_t bytes) {
  uint64_t word = 0;
  std::memcpy(&word, data, static_cast<size_t>(bytes));
  return word;
}

uint64_t hash_block(const std::byte* data, int64_t bytes) {
  std::array<uint64_t, 4> streams = {1, 2, 3, 4};
  int64_t at = 0;
  for (; at + 32 <= bytes; at += 32) {
    for (size_t s = 0; s < 4; ++s) {
      streams[s] = absorb(streams[s], word_at(data + at + 8 * static_cast<int64_t>(s), 8));
    }
  }
  for (; at < bytes; at += 8) {
    streams[0] = absorb(streams[0], word_at(data + at, std::min<int64_t>(8, bytes - at)));
  }
  uint64_t hash = static_cast<uint64_t>(bytes);  // a tail of zeros is not the absence of a tail
  for (const uint64_t stream : streams)
    hash = absorb(hash, stream);
  return hash;
}

}  // namespace

void Digest::add(std::span<const std::byte> bytes, ThreadPool& pool) {
  check(size_ % block_bytes == 0, "a digest goes on after a part of a block: ", size_, " bytes");
  const auto total = static_cast<int64_t>(bytes.size());
  const size_t first = blocks_.size();
  const int64_t blocks = (total + block_bytes - 1) / block_bytes;
  blocks_.resize(first + static_cast<size_t>(blocks));
  pool.run(blocks, [&](int64_t i, int) {
    const int64_t at = i * block_bytes;
    blocks_[first + static_cast<size_t>(i)] =
        hash_block(bytes.data() + at, std::min(block_bytes, total - at));
  });
  size_ += total;
}

void Digest::end_piece() {
  sizes_.push_back(size_);
  size_ = 0;
}

uint64_t Digest::value() const {
  uint64_t digest = sizes_.size();
  for (const uint64_t hash : blocks_)
    digest = absorb(digest, hash);
  for (const int64_t size : sizes_)
    digest = absorb(digest, static_cast<uint64_t>(size));
  return digest ^ (digest >> 32);
}

uint64_t digest_of(std::span<const std::span<const std::byte>> pieces, ThreadPool& pool) {
  Digest digest;
  for (const auto& piece : pieces) {
    digest.add(piece, pool);
    digest.end_piece();
  }
  return digest.value();
}

std::string hex(uint64_t value) {
  std::string digits(16, '0');
  for (size_t i = 16; i-- > 0; value >>= 4)
    digits[i] = "0123456789abcdef"[value & 15];
  return digits;
}

}  // namespace spillway
