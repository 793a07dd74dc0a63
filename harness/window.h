// Which iterations of a segment stand for all of them in a race check.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/program.h"

namespace spillway {

// Iterations that are looked at: [0, head) and [tail, trips); all if head == tail. Rings repeat
// after the least common multiple of their slots and the gap is a multiple of it, so that across
// the gap every slot meets whom it would have met.
struct Window {
  int64_t head = 0, tail = 0;
};
Window window_of(const Program& program, const Segment& segment);

// Per tensor and slice: touched in an iteration that is not looked at and written in none that is.
// Such a slice holds its value for as long as its tensor lives.
std::vector<std::vector<bool>> skipped_slices(const Program& program);

}  // namespace spillway
