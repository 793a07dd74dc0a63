// Where recomputed ops stand in a backward body. Private to offload/.
#pragma once

#include <vector>

#include "harness/program.h"

namespace spillway {

// An op of a backward body: its own, or a forward op that runs again.
struct BodyOp {
  Op op;
  bool clone = false;
  int forward_position = 0;  // of a clone
};

// The ops in the order they are given, except that clones stand before their first reader, in
// forward order, and that an op a clone shares with the body moves up to it (such an op reads
// nothing that the body writes). Clones may stand anywhere in `ops`.
std::vector<BodyOp> place_clones(const Program& program, std::vector<BodyOp> ops);

}  // namespace spillway
