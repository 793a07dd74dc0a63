// What happened: spans on lanes, the same from every executor.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "harness/ops.h"

namespace spillway {

enum class SpanKind : uint8_t {
  op,    // from the start of a kernel to the end of its last thread; a copy: its bytes moving
  wait,  // the lane stood still for another lane
};

struct Span {
  SpanKind kind = SpanKind::op;
  Lane lane = Lane::compute;
  Lane on = Lane::compute;  // wait: the lane waited for
  int32_t segment = 0;
  int32_t op = 0;  // index into Segment::ops; wait: the op that was waited for
  int64_t iteration = 0;
  double begin = 0, end = 0;  // seconds since the step began
  // In the steady state of a simulated loop one span stands for `repeats` of them, each `period`
  // seconds and `period_iterations` iterations after the one before. 1: for itself alone, as
  // everywhere else. measurement.h reads traces with this in mind.
  int64_t repeats = 1, period_iterations = 0;
  double period = 0;
};

// A GPU right after a step; NaN and empty where nobody can tell.
struct DeviceClocks {
  double compute_hertz = std::numeric_limits<double>::quiet_NaN();
  double memory_hertz = compute_hertz, watts = compute_hertz, celsius = compute_hertz;
  std::vector<std::string> throttled;  // why clocks are lower than they could be
};

// One step.
struct Trace {
  double seconds = 0;
  std::vector<Span> spans;
  int64_t bytes_moved[lane_count] = {};  // counted by the copy lanes themselves
  double loss = 0;                       // NaN where nothing was computed
  // Simulated ranks: how long compute stood for a collective that stood for a slower rank, mean over
  // the ranks. The spans are those of rank 0.
  double rank_waiting_seconds = 0;
  std::optional<DeviceClocks> clocks;  // of a GPU, where its driver's library was found
};

}  // namespace spillway
