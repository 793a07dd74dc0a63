// The bytes of a plan cut at every border of a tensor or slice: what the race check keeps state
// for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/plan.h"

namespace spillway {

// Pieces [first, end) of the cut.
struct Pieces {
  int first = 0, end = 0;
};

class Layout {
 public:
  Layout(const Program& program, const Plan& plan);

  // A tensor that lies outside its arena, as a sentence.
  const std::optional<std::string>& violation() const { return violation_; }
  int pieces() const { return static_cast<int>(borders_.size()); }
  // Slices [first, end) of a tensor. It must have an offset.
  Pieces pieces_of(TensorId tensor, int64_t first_slice, int64_t end_slice) const;
  bool placed(TensorId tensor) const {
    return !slice_borders_[static_cast<size_t>(tensor)].empty();
  }

 private:
  std::vector<int64_t> borders_;                 // device bytes, then host bytes
  std::vector<std::vector<int>> slice_borders_;  // per tensor: piece where each slice begins, end
  std::optional<std::string> violation_;
};

}  // namespace spillway
