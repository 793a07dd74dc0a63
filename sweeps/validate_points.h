// Which points validate a calibrated machine: policies, LHS, pipelining, batch sizes and link rates
// of a model.
#pragma once

#include <string>
#include <vector>

#include "sweeps/point.h"

namespace spillway {

struct ValidatePoint {
  Point point;
  std::string link;                  // "4 x matched"; empty: the point moves nothing
  double link_bytes_per_second = 0;  // 0 where it moves nothing
};
std::string label_of(const ValidatePoint& validated);
std::string workload_of(const ValidatePoint& validated);  // model, micro batch, layers

// All with the machine's latencies. `matched`: the model's link rate by --link match; rates go from
// four times it to one at which copies take longer than all of a step's compute. No point is one
// that calibrate runs: layers, policy or micro batch differ.
std::vector<ValidatePoint> validate_points(const std::string& model, const std::string& machine,
                                           double matched);

// Bytes/s at which the copies of one direction take `part` of the simulated time of a step whose
// transfers are free; policy and micro batch are the model's own.
double rate_for_part(const std::string& model, const std::string& machine, double part);

}  // namespace spillway
