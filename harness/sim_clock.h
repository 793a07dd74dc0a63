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
  double gate = sim_never;     // since when it has stood before a collective, for other ranks
};

struct SimState {
  std::array<SimLaneState, lane_count> lanes;
  double now = 0;
  std::array<int64_t, lane_count> moved{};  // bytes
};

// Collectives of ranks that run side by side: each begins when the last rank has arrived at it. All
// ranks arrive at the same ones in the same order, lane by lane.
struct SimGates {
  struct Gate {
    int64_t open = 0;    // this many steps of the lane may begin
    size_t arrived = 0;  // ranks, at the next one
  };
  size_t ranks = 1;
  std::array<Gate, lane_count> lanes;
};

// How one rank differs from what the machine's figures say.
struct SimRank {
  double factor = 1;          // of the time of all of its compute ops
  double op_sigma = 0;        // of the logarithm of each op's own factor, whose mean is 1
  uint64_t seed = 0;          // of those
  SimGates* gates = nullptr;  // shared by all ranks; null: there are no others
  bool records = true;        // spans
};

// Sees every stretch of time between two events: its seconds, what runs (null: nothing on that
// lane), how fast (1 = as fast as alone).
using SimWatch = std::function<void(double, const std::array<const Demand*, lane_count>&,
                                    const std::array<double, lane_count>&)>;

class SimClock {
 public:
  // The program must outlive it.
  explicit SimClock(const SimProgram& program, SimWatch watch = nullptr, SimRank rank = {});

  // Passes waits and begins ops until every lane runs, stands or is done.
  void begin_all();
  // Runs on to the next end of an op; false when nothing runs.
  bool pass_time();
  // Seconds to it, infinite when nothing runs; and how to stop before.
  double until_next_end();
  void pass(double seconds);
  // Throws std::logic_error if a lane still stands at a wait.
  void check_finished() const;

  SimState state;
  std::vector<Span> spans;
  double rank_waiting = 0;  // seconds that compute stood for a collective that stood for a rank

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
  bool pass_gate(size_t lane, const SimStep& step);
  double compute_factor();
  void begin(size_t lane);
  void end(size_t lane);
  void finish(size_t lane);
  Span& add_span(size_t lane, SpanKind kind, double begin);
  void record_wait(size_t lane, const SimWait& wait);

  const SimProgram& program_;
  SimWatch watch_;
  SimRank rank_;
  uint64_t drawn_ = 0;  // factors of ops
  // Of what runs now.
  std::array<const Demand*, lane_count> running_{};
  std::array<double, lane_count> speeds_{};
};

}  // namespace spillway
