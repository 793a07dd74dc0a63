// Max-min fair sharing of the machine among what runs at one moment.

#include <algorithm>
#include <cmath>
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

using Speeds = std::array<double, lane_count>;
using Running = std::array<const Demand*, lane_count>;

// At full speed, by the ops together; a resource below 1 holds nobody back.
std::array<double, resource_count> asked_of(const Running& running) {
  std::array<double, resource_count> asked{};
  for (const Demand* demand : running)
    for (size_t r = 0; demand && r < resource_count; ++r)
      asked[r] += demand->share[r];
  return asked;
}

// Speed of an op under the levels of all resources but one.
double speed_under(const Demand& demand, const std::array<double, resource_count>& levels,
                   size_t but) {
  double speed = 1;
  for (size_t r = 0; r < resource_count; ++r)
    if (r != but && demand.share[r] * speed > levels[r]) speed = levels[r] / demand.share[r];
  return speed;
}

double level_of(const Running& running, const std::array<double, resource_count>& levels,
                size_t resource) {
  std::array<double, lane_count> asked{};
  for (size_t lane = 0; lane < lane_count; ++lane)
    if (running[lane])
      asked[lane] = running[lane]->share[resource] * speed_under(*running[lane], levels, resource);
  return fair_level(asked);
}

}  // namespace

// Levels are set in turn, each to what the others leave it, until none moves. One that has to give
// way to a later one only frees its own capacity: the last round lowers levels alone.
Speeds fair_speeds(const Running& running) {
  constexpr int most_rounds = 16;
  const std::array<double, resource_count> asked = asked_of(running);
  std::array<double, resource_count> levels;
  levels.fill(std::numeric_limits<double>::infinity());
  bool moved = true;
  for (int round = 0; moved && round <= most_rounds; ++round) {
    moved = false;
    for (size_t r = 0; r < resource_count; ++r) {
      if (asked[r] <= 1) continue;
      double level = level_of(running, levels, r);
      if (round == most_rounds) level = std::min(level, levels[r]);
      moved = moved || !(std::abs(level - levels[r]) <= 1e-14 || level == levels[r]);
      levels[r] = level;
    }
  }
  Speeds speeds{};
  for (size_t lane = 0; lane < lane_count; ++lane)
    if (running[lane]) speeds[lane] = speed_under(*running[lane], levels, resource_count);
  return speeds;
}

}  // namespace spillway
