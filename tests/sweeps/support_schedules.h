// Schedules of real programs the way a run makes them, for tests that vary policy and scheduling.
#pragma once

#include <string>

#include "harness/schedule.h"
#include "offload/pipeline.h"
#include "offload/scheduler.h"

namespace spillway {

struct ScheduleVariant {
  std::string policy;
  int64_t devices = 1;
  bool lhs = true;
  PipelineOptions rotation;
  CollectivesWithoutLhs collectives = CollectivesWithoutLhs::post;
  int64_t resident_tail = 0;
  Streams streams = Streams::position;
};

std::string label(const ScheduleVariant& variant);

// `built` (sharded already, where `devices` > 1) under the variant's policy, rotation and order. Op
// times are rough: 1 TFLOP/s, 1 TB/s, links of 100 GB/s, so that copies are neither free nor
// everything.
Schedule schedule_of(const Program& built, const ScheduleVariant& variant);

}  // namespace spillway
