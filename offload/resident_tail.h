// The last layers of a model as a part of their own, so that what they save need not leave the
// device: it is read again soonest. Private to offload/.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/program.h"
#include "offload/policy_fates.h"

namespace spillway {

struct TailSplit {
  Program program;                // Stage::built
  std::vector<TensorFate> fates;  // per tensor; a copy has its original's
  std::vector<bool> resident;     // per segment: whether its layers are of the tail
  TensorId first_copy = 0;        // tensors from here on are copies, for a tail's bodies
};

// Marks the stacks of the model's last `layers` layers. A stack that lies in the tail by a part, n
// of L layers, is cut where it offloads something: forward becomes L - n trips and n of the tail,
// backward n of the tail and L - n. Weights, gradients and carries stay whole, each part means its
// own slices of them; what is local to a body is copied.
TailSplit split_tail(Program built, std::vector<TensorFate> fates, int64_t layers);

}  // namespace spillway
