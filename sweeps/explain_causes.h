// Every second of a simulated step under one cause. The causes of two steps can be subtracted, since
// those of each add up to it exactly.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "harness/executor.h"
#include "harness/machine.h"
#include "harness/schedule.h"
#include "harness/trace.h"

namespace spillway {

enum class StepCause : uint8_t {
  recompute,
  compute,
  quantisation,
  rotation_copies,
  launches,
  contention_collectives,
  contention_copies,
  contention_both,
  exposed_gathers,
  exposed_gathers_repeated,
  exposed_reduce_scatters,
  exposed_exchanges,
  exposed_exchanges_repeated,
  exposed_d2h,
  exposed_h2d,
  peeled,
  idle,
  variation,
};
inline constexpr size_t step_cause_count = 18;

struct StepCauseInfo {
  StepCause cause;
  const char* key;      // "rotation_copies"
  const char* name;     // "rotation copies"
  const char* meaning;  // one line
};
const std::array<StepCauseInfo, step_cause_count>& step_cause_table();

// Seconds by cause and, within one, by what they were spent on: a kind of op, a weight, an
// activation.
struct StepCauses {
  std::array<std::map<std::string, double>, step_cause_count> seconds;

  std::map<std::string, double>& operator[](StepCause cause) {
    return seconds[static_cast<size_t>(cause)];
  }
  double total(StepCause cause) const;
  double total() const;  // the step
};

// An op's time alone is split by the machine's own figures: what it loses when launch_seconds are 0
// is launching, what it loses when quantisation moves no bytes is quantisation. Time beyond that is
// contention; it is divided among what ran beside the op as the seconds beside it are. A wait is
// charged to the op that kept the awaited lane busy meanwhile (lane_partition.h).
StepCauses causes_of(const Schedule& schedule, const Machine& machine, const SimOptions& options,
                     const Trace& trace);

// Whether a collective only exists because a policy computes values again: it is run again itself,
// or all that reads its result is.
bool is_repeated(const Program& program, const Op& collective);

}  // namespace spillway
