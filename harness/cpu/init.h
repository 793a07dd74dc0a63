// The values of step 0. Each element depends on the seed, the tensor's name and the element's index
// only: not on threads, placement, policy or schedule.
#pragma once

#include <cstdint>

#include "harness/cpu/arenas.h"
#include "harness/thread_pool.h"

namespace spillway {

// Fills every persistent tensor that says how (Tensor::init, init_from); others are left alone.
//   normal: mean 0, standard deviation init_scale: the sum of four uniform 16-bit numbers from one
//           64-bit hash, scaled to unit variance (so within +-3.46 standard deviations)
//   tokens, targets: one stream of seq + 1 uniform tokens a row of the batch, below init_scale; the
//           target of a token is the next one of its row
void init_persistent(const Arenas& arenas, uint64_t seed, ThreadPool& pool);

// What the hashes start from and one token of the stream, for tests.
uint64_t init_key(uint64_t seed, const std::string& name);
int32_t stream_token(uint64_t seed, int64_t position, int64_t vocabulary);

}  // namespace spillway
