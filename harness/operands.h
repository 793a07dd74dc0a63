// How operands of one body relate, and which slice they mean; shared by the passes that order ops
// and by the proof.
#pragma once

#include "harness/error.h"
#include "harness/program.h"

namespace spillway {

// Whether the two name a common slice in at least one of `trips` iterations of their segment.
bool may_overlap(const Program& program, const Operand& a, const Operand& b, int64_t trips);

// The slice that an operand of one slice means in this iteration. A rotated prefetch or drain may
// name slot -1 of a ring: the remainder is taken non-negative.
inline int64_t slice_of(const Tensor& tensor, const Index& index, int64_t iteration) {
  int64_t slice = index.stride * iteration + index.offset;
  if (tensor.ring) {
    slice %= tensor.slices;
    return slice < 0 ? slice + tensor.slices : slice;
  }
  if (slice < 0 || slice >= tensor.slices)
    check(false, "slice ", slice, " of tensor ", tensor.name, " with ", tensor.slices, " slices");
  return slice;
}

}  // namespace spillway
