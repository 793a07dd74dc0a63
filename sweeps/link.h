// The rate of the copy lanes of CPU runs: a number, or matched to a machine.
#pragma once

#include <string>

#include "sweeps/run.h"

namespace spillway {

struct LinkOption {
  double bytes_per_second = 0;  // 0 when matched
  std::string machine;          // match:MACHINE
  double divisor = 1;           // match:MACHINE/K
};
bool is_matched_link(const std::string& text);  // match:...
// "1.5" (GB/s) or "match:MACHINE[/K]". Throws InputError: --link, found, expected.
LinkOption parse_link_option(const std::string& text);

// Layers of a short run that stands for the whole model: `few` of its last kind, after its dense
// ones where experts follow.
int64_t layers_to_probe(const ModelConfig& config, int64_t few);

// Bytes per second. `match:` gives the proxy the ratio of transfer time to layer time that the
// model it stands for has on MACHINE, divided by K:
//   ratio = bytes one layer of the full-size point offloads / the machine's one-GPU link rate (mean
//           of both directions) / that point's simulated layer time (forward + backward, LHS on,
//           collectives and MoE path as in its published sweep, transfers free)
//   link  = bytes one proxy layer offloads / (ratio x the proxy's measured layer time without
//           transfers) / K
// A layer is one of the stack with the most layers.
// Throws InputError when the point's model is not a proxy or the machine is unknown.
double resolve_link(const Point& point, const Settings& settings);

}  // namespace spillway
