// Which micro batch fits, by the memory plan alone, and what its host copies ask of the machine.
// Nothing here runs a step for real.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sweeps/run.h"

namespace spillway {

// Whether an option says what a point needs; the others say how it runs (or, `micro-batch`, what is
// asked; `policy` is given apart, any number of times).
bool shapes_plan(const Field& field);

// Micro batches above this are not asked for.
inline constexpr int64_t most_micro_batch = int64_t{1} << 16;

// One micro batch, planned.
struct Trial {
  struct Entry {
    std::string name;
    Role role = Role::activation;
    int64_t bytes = 0;
  };
  int64_t micro_batch = 0;
  int64_t device_bytes = 0, host_bytes = 0;        // what the plan needs
  std::array<int64_t, role_count> peak_by_role{};  // with `holes` adds up to device_bytes
  int64_t holes = 0;
  std::vector<Entry> largest_device, largest_host;  // five: alive at the peak; on the host
  bool fits = false;
};

// Asks fits(n) for powers of two until two in a row do not fit, halves the interval above the
// largest that does, and goes on upwards until two neighbours do not fit: a packing of memory need
// not be monotone in n, and what was not asked is not known. Returns the largest that fits, at most
// `most`; 0 if none does.
int64_t largest_that_fits(const std::function<bool(int64_t)>& fits, int64_t most);

// The answer for one policy (that of the point).
struct CapacityAnswer {
  int64_t largest = 0;        // micro batch; 0: not even 1 fits
  std::vector<Trial> trials;  // every micro batch that was planned, ascending
  Capacity capacity;
  PolicySummary summary;  // at micro batch 1

  const Trial* at(int64_t micro_batch) const;  // null when it was not planned
};

// The point is simulated; its micro batch is not read. Throws as plan_point() does.
CapacityAnswer find_capacity(Point point);

// What the copies of one direction ask of the host link so that compute never waits, per device.
struct CopyNeed {
  int64_t bytes = 0;                    // a step
  double step_bytes_per_second = 0;     // over the whole step
  double busiest_bytes_per_second = 0;  // over the loop that moves most in its time
};
// Rates are over times in which copies cost nothing: a step that waits for copies would ask for
// less.
struct HostNeed {
  double step_seconds = 0;  // simulated
  double tokens_per_second = 0;
  double exposed_seconds = 0;         // of it, waiting for host copies
  double step_seconds_if_hidden = 0;  // simulated with free copies
  CopyNeed d2h, h2d;
};
HostNeed host_need(Point point, int64_t micro_batch);

// A policy, with others of the list it comes from that decide the same for the model.
struct AskedPolicy {
  std::string name;
  std::vector<std::string> same;
};
// Every preset that decides differently for this model, in the order of policy_presets().
std::vector<AskedPolicy> distinct_presets(Point point);

// The JSON object of `capacity --json`; fields in README, "Fields of a capacity".
nlohmann::json capacity_result(const Point& point, const std::vector<AskedPolicy>& policies);

}  // namespace spillway
