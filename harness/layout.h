// The bytes of a plan cut into pieces: what the race check keeps state for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/plan.h"
#include "harness/window.h"

namespace spillway {

// Pieces [first, end) of the cut.
struct Pieces {
  int first = 0, end = 0;
};

// A tensor that lies outside its arena, as a sentence.
std::optional<std::string> misplaced(const Program& program, const Plan& plan);

// Whether every tensor comes once and goes once, within a body or at the borders of segments (as
// lay_out() has it), and no two that are alive together share bytes. Then all that shares bytes is
// kept apart by a release and an allocation, in this order on the compute lane, and each tensor can
// be looked at as if it had its bytes for itself.
bool alive_apart(const Schedule& schedule, const Plan& plan);

// Pieces of each part (window.h): itself, where tensors are looked at apart.
std::vector<Pieces> pieces_apart(const Parts& parts);
// Cut at every border of a part of a placed tensor, by address. misplaced() must have found none.
std::vector<Pieces> pieces_shared(const Program& program, const Plan& plan, const Parts& parts);

}  // namespace spillway
