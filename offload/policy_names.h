// MaxText's activation names. Private to offload/.
#pragma once

#include <string>
#include <vector>

namespace spillway {

// Every name a policy may give, in the order of MaxText's configuration; summaries use it too.
const std::vector<std::string>& activation_names();

}  // namespace spillway
