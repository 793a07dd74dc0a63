// The values of step 0. Each element depends on the seed, the tensor's name and the element's index
// only: not on threads, placement, policy or schedule.
#pragma once

#include <cstdint>

#include "harness/arenas.h"
#include "harness/thread_pool.h"

namespace spillway {

// Whether a persistent tensor says how it is filled: Tensor::init or init_from.
//   normal: mean 0, standard deviation init_scale: the sum of four uniform 16-bit numbers from one
//           64-bit hash, scaled to unit variance (so within +-3.46 standard deviations)
//   tokens, targets: one stream of seq + 1 uniform tokens a row of the batch, below init_scale; the
//           target of a token is the next one of its row
//   init_from: the other tensor's values in its own dtype, converted
bool has_init(const Tensor& tensor);

// Elements [first, first + count) of such a tensor, slices one after the other, in its dtype.
struct ElementRange {
  int64_t first = 0, count = 0;
};
void init_elements(const Program& program, TensorId id, uint64_t seed, ElementRange range,
                   std::byte* out, ThreadPool& pool);

// Fills every persistent tensor of the plan that says how; others are left alone.
void init_persistent(const Arenas& arenas, uint64_t seed, ThreadPool& pool);

// What the hashes start from and one token of the stream, for tests.
uint64_t init_key(uint64_t seed, const std::string& name);
int32_t stream_token(uint64_t seed, int64_t position, int64_t vocabulary);

}  // namespace spillway
