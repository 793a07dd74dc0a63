// Iterations of a loop that do what the one before did, passed over at once. Private to the
// simulator.
#pragma once

#include "harness/sim_clock.h"

namespace spillway {

// Compares where the lanes stand each time the compute lane enters an iteration with how they stood
// a few iterations before. Once nothing but the time differs, what lies between is a period: as
// many periods as no lane leaves the loop in are passed over at once, and the spans of the last
// one stand for theirs (Span::repeats).
class SimSteady {
 public:
  explicit SimSteady(const SimProgram& program) : program_(program) {}
  // To be called when every lane runs, stands or is done.
  void look(SimClock& clock);

 private:
  struct Seen {
    SimState state;
    size_t spans = 0;
  };
  bool repeats(const SimState& then, const SimState& now) const;
  int64_t periods_to_skip(const SimState& then, const SimState& now) const;
  void skip(const Seen& then, SimClock& clock, int64_t periods) const;

  const SimProgram& program_;
  std::vector<Seen> seen_;  // of the segment compute is in, the latest last
  size_t segment_ = 0;      // compute's, when it was last looked at
  int64_t iteration_ = -1;
};

}  // namespace spillway
