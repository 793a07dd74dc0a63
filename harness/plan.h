// Where everything lives: a static offset for every tensor in a device arena and a host arena.
// Peak HBM is a property of the plan, known before anything runs.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/schedule.h"

namespace spillway {

inline constexpr int64_t arena_alignment = 64;  // bytes; of every tensor's offset

struct LivePoint {
  int segment = 0;
  int step = 0;                             // on the compute lane
  std::array<int64_t, role_count> bytes{};  // live bytes by role at this position
};

struct Plan {
  std::vector<int64_t> offset;   // bytes, per tensor, in the arena of its space; -1 if never live
  int64_t device_bytes = 0;      // peak: highest byte used, aligned up; the capacity a run needs
  int64_t host_bytes = 0;        // exact: the sum of the host tensors
  int64_t host_arena_bytes = 0;  // with alignment
  std::array<int64_t, role_count> peak_by_role{};  // live at the highest-sum position
  int64_t holes = 0;                               // device_bytes - sum of peak_by_role
  int64_t peak_ragged_bytes = 0;                   // of peak_by_role, in ragged tensors
  int64_t live_peak = 0;          // largest sum of live bytes at one position (a lower bound)
  int64_t static_bytes = 0;       // weights, gradients, optimizer, stacked residuals
  std::vector<LivePoint> curve;   // memory over the step, compute-lane order
  std::vector<TensorId> largest;  // the five largest tensors alive at the peak
};

// Deterministic. The device's peak is at most 0.5 % of what comes and goes (all but static_bytes)
// over the largest sum of live bytes, or as near to it as a bounded search comes (packing.h).
Plan plan_memory(const Schedule& schedule);

}  // namespace spillway
