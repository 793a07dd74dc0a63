// Max-min fair sharing of the machine among what runs at one moment.

#include <algorithm>
#include <limits>

#include "harness/sim_demand.h"

namespace spillway {
namespace {

// The level at which a capacity of 1 is used up when everybody gets the smaller of the level and
// what they ask for; infinity when all can have what they ask for.
double fair_level(std::array<double, lane_count> asked) {
  std::sort(asked.begin(), asked.end());
  double left = 1;
  for (size_t i = 0; i < asked.size(); ++i) {
    const double level = left / static_cast<double>(asked.size() - i);
    if (asked[i] > level) return level;
    left -= asked[i];
  }
  return std::numeric_limits<double>::infinity();
}

}  // namespace

std::array<double, lane_count> fair_speeds(const std::array<const Demand*, lane_count>& running) {
  std::array<double, lane_count> speeds;
  for (size_t lane = 0; lane < running.size(); ++lane)
    speeds[lane] = running[lane] ? 1 : 0;
  for (size_t resource = 0; resource < resource_count; ++resource) {
    std::array<double, lane_count> asked{};
    for (size_t lane = 0; lane < running.size(); ++lane)
      if (running[lane]) asked[lane] = running[lane]->share[resource] * speeds[lane];
    const double level = fair_level(asked);
    for (size_t lane = 0; lane < running.size(); ++lane)
      if (asked[lane] > level) speeds[lane] *= level / asked[lane];
  }
  return speeds;
}

}  // namespace spillway
