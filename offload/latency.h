// What the scheduler takes an op to last: models of latency over the seconds that a machine gives.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "harness/program.h"

namespace spillway {

// xla: constants where XLA's speed-of-light model has them. size: bytes over bandwidth, FLOPs over
// rates. measured: a profile, by name of the op; what it lacks as size.
enum class LatencyModel : uint8_t { size, xla, measured };
const char* name_of(LatencyModel model);
// Throws InputError.
LatencyModel parse_latency_model(const std::string& text);

using OpSeconds = std::function<double(const Program&, const Op&)>;

// XLA's SoL estimator (mechanisms.md 3.6): a host copy 5000 units (5 ms) whatever its size,
// collectives, products and fusions by `model`, the rest 0.01 of its T-shirt size: attention, a
// custom call of 1000 units, 10 us; a copy on the device, of 1 unit, 10 ns.
OpSeconds xla_seconds(OpSeconds model);

// "segment.op" of an op of `program`, whose bodies hold it by reference.
std::string profile_name(const Program& program, const Op& op);
// Seconds by profile_name(), else by `model`.
OpSeconds measured_seconds(std::map<std::string, double> profile, OpSeconds model);

}  // namespace spillway
