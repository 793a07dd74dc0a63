// From a Program to one order per segment body: latency hiding off or on.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "harness/schedule.h"
#include "offload/lhs_options.h"

namespace spillway {

enum class CollectivesWithoutLhs : uint8_t { post, adjacent };

struct SchedulerOptions {
  bool lhs = true;
  CollectivesWithoutLhs collectives_without_lhs = CollectivesWithoutLhs::post;
  int64_t memory_limit = 0;  // device bytes for transients; 0 = none (the memory rules sleep)
  // Seconds an op takes alone; copies and collectives included.
  std::function<double(const Program&, const Op&)> seconds;
  LhsRules rules;  // InputError for an unknown name
  LhsLimits limits;
  std::map<std::string, OpHint> hints;  // by name of the op
};

// A decision for every body, of the Program after merging of neighbouring segments of trip count 1.
struct OrderedProgram {
  Program program;
  std::vector<BodyOrder> orders;               // one per segment
  std::map<std::string, int64_t> rule_counts;  // LHS: how often each rule decided
};

struct ScheduleResult {
  Schedule schedule;
  std::map<std::string, int64_t> rule_counts;
};

// Off: the order of lowest peak among program order, depth-first and greedy list order; a host
// copy's done stands right after its start; collectives by option: `post` starts them just after
// their last operand and waits just before the first reader (XLA's post-process), `adjacent` like
// copies. On: bottom-up list scheduling, one body at a time.
OrderedProgram order_bodies(Program program, const SchedulerOptions& options);
// The same, laid out on lanes.
ScheduleResult schedule_program(Program program, const SchedulerOptions& options);

}  // namespace spillway
