// Which fate each tensor of a Program gets under a Policy. Private to offload/.
#pragma once

#include <string>
#include <vector>

#include "offload/policy.h"

namespace spillway {

struct TensorFate {
  Fate fate = Fate::remat;
  std::string name;  // the activation name that decided (the first one it has, if none was given)
};

// Names of the program's tensors, in MaxText's order.
std::vector<std::string> names_in(const Program& program);

// Throws InputError as apply_policy() does: names that match nothing, two fates for one tensor,
// decoder_layer_input=remat.
std::vector<TensorFate> fates_of(const Program& program, const Policy& policy);

}  // namespace spillway
