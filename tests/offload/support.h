// A small training step written by hand: a scanned stack of gated MLP layers. Tests of policies,
// rotation and schedules read its names and order, so it does not change with any workload.
#pragma once

#include <string>
#include <vector>

#include "harness/program.h"

namespace spillway {

// Activation names of the layer: decoder_layer_input, mlpwi_0 (gate), mlpwi_1 (up), mlpwo (down).
// Segments: embed, layers.forward, head, layers.backward, optimizer; `layers` trips, 8 rows.
Program mlp_stack(int64_t layers);

// The same for two devices, as sharding leaves it: each weight of the layer is cut out of its stack
// and gathered where it is used, each weight gradient scattered and written to the stack.
Program sharded_mlp_stack(int64_t layers);

// `built` after a policy as the command line writes it.
Program with_policy(const Program& built, const std::string& policy);

const Segment& segment_named(const Program& program, const std::string& name);
const Tensor& tensor_named(const Program& program, const std::string& name);
bool has_tensor(const Program& program, const std::string& name);
// Names of the ops, in order.
std::vector<std::string> op_names(const Segment& segment);
const Op& op_named(const Segment& segment, const std::string& name);

}  // namespace spillway
