// The lanes of one device on a virtual clock. Between two events (an op ending on some lane) all
// speeds are constant. Private to the simulator.
#pragma once

#include <functional>
#include <limits>

#include "harness/sim_program.h"

namespace spillway {

inline constexpr double sim_never = std::numeric_limits<double>::infinity();

// Where one lane stands. `finished` counts its steps since the step began.
struct SimLaneState {
  size_t segment = 0, position = 0, wait = 0;
  int64_t iteration = 0, finished = 0;
  bool running = false;  // an op is under way
  double left = 0;       // its seconds still to do, at full speed
  double began = 0;
  double blocked = sim_never;  // since when it has stood at the wait
};

struct SimState {
  std::array<SimLaneState, lane_count> lanes;
  double now = 0;
  std::array<int64_t, lane_count> moved{};  // bytes
};

// Sees every stretch of time between two events: its seconds, what runs (null: nothing on that
// lane), how fast (1 = as fast as alone).
using SimWatch = std::function<void(double, const std::array<const Demand*, lane_count>&,
                                    const std::array<double, lane_count>&)>;

class SimClock {
 public:
  // The program must outlive it.
  explicit SimClock(const SimProgram& program, SimWatch watch = nullptr);

  // Passes waits and begins ops until every lane runs, stands or is done.
  void begin_all();
  // Runs on to the next end of an op; false when nothing runs.
  bool pass_time();
  // Throws std::logic_error if a lane still stands at a wait.
  void check_finished() const;

  SimState state;
  std::vector<Span> spans;

 private:
  const SimLane& lane_at(size_t lane) const {
    return program_.segments[state.lanes[lane].segment].lanes[lane];
  }
  const SimStep& step_at(size_t lane) const {
    return program_.steps[lane_at(lane).first + state.lanes[lane].position];
  }
  bool done(size_t lane) const { return state.lanes[lane].segment == program_.segments.size(); }
  void settle(size_t lane);
  bool pass_waits(size_t lane);
  void begin(size_t lane);
  void end(size_t lane);
  void finish(size_t lane);
  Span& add_span(size_t lane, SpanKind kind, double begin);
  void record_wait(size_t lane, const SimWait& wait);

  const SimProgram& program_;
  SimWatch watch_;
};

}  // namespace spillway
