// Which iterations of a segment stand for all of them in a race check, and which slices of a tensor
// need not be told apart there.
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

template <class Visit>
void for_each_iteration(const Window& window, int64_t trips, const Visit& visit) {
  for (int64_t i = 0; i < trips; ++i) {
    if (i == window.head && window.head < window.tail) i = window.tail;
    visit(i);
  }
}

// Tensors in parts: neighbouring slices that iterations looked at only touch together, with the
// rest of their tensor.
struct Parts {
  std::vector<int> first;        // per tensor: its first part; one entry more for the end
  std::vector<int64_t> slice;    // per part: its first slice; ascending within a tensor
  std::vector<bool> held;        // per part: see below
  std::vector<int> first_slice;  // per tensor: where its slices begin in `of_slice`, and the end
  std::vector<int> of_slice;     // part of each slice

  int end(TensorId tensor) const { return first[static_cast<size_t>(tensor) + 1]; }
  int64_t end_slice(const Program& program, TensorId tensor, int part) const {
    return part + 1 == end(tensor) ? program.at(tensor).slices
                                   : slice[static_cast<size_t>(part) + 1];
  }
};

// A part is held if its slices are touched in iterations that are not looked at and written in none
// that is: it has its value for as long as its tensor lives.
Parts parts_of(const Program& program);

}  // namespace spillway
