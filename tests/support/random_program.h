// Programs drawn at random: scanned loops of vector ops, copies to and from the host, collectives,
// values carried in rings and handed from one iteration to the next, straight-line code around.
#pragma once

#include <random>

#include "harness/program.h"

namespace spillway {

// Two loops of 1 to 4 iterations with up to 14 ops a body, all legal to run in any order that keeps
// their dependencies. The same numbers from `random` give the same program.
Program random_program(std::mt19937& random);

}  // namespace spillway
