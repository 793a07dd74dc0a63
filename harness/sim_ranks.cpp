#include "harness/sim_ranks.h"

#include <cmath>
#include <numbers>
#include <queue>

namespace spillway {
namespace {

// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014).
uint64_t mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Above 0, at most 1.
double uniform(uint64_t bits) { return (static_cast<double>(bits >> 11) + 1) * 0x1p-53; }

// All ranks on one clock: whose next op ends first goes first.
class RankedRun {
 public:
  RankedRun(const SimProgram& program, const SimRanks& ranks) {
    gates_.ranks = static_cast<size_t>(ranks.count);
    clocks_.reserve(gates_.ranks);
    versions_.resize(gates_.ranks);
    for (size_t rank = 0; rank < gates_.ranks; ++rank) {
      SimRank own;
      own.factor = log_normal(ranks.rank_sigma, mixed(ranks.seed), rank);
      if (rank + 1 == gates_.ranks) own.factor *= ranks.straggler;
      own.op_sigma = ranks.op_sigma;
      own.seed = mixed(ranks.seed ^ mixed(rank));
      own.gates = &gates_;
      own.records = rank == 0;
      clocks_.emplace_back(program, nullptr, own);
    }
  }

  void run() {
    for (size_t rank = 0; rank < clocks_.size(); ++rank)
      go_on(rank);
    while (!next_.empty()) {
      const Next next = next_.top();
      next_.pop();
      if (next.version != versions_[next.rank]) continue;
      clocks_[next.rank].pass(next.seconds);
      go_on(next.rank);
    }
    for (const SimClock& clock : clocks_)
      clock.check_finished();
  }

  Trace trace() {
    Trace trace;
    for (const SimClock& clock : clocks_) {
      trace.seconds = std::max(trace.seconds, clock.state.now);
      trace.rank_waiting_seconds += clock.rank_waiting / static_cast<double>(clocks_.size());
    }
    trace.spans = std::move(clocks_[0].spans);
    std::copy_n(clocks_[0].state.moved.begin(), lane_count, trace.bytes_moved);
    trace.loss = std::nan("");
    return trace;
  }

 private:
  struct Next {
    double at = 0, seconds = 0;  // seconds: from where the rank stands
    size_t rank = 0;
    uint64_t version = 0;
    bool operator<(const Next& other) const { return at > other.at; }  // the earliest on top
  };

  // Begins what rank can begin. Where it was the last at a gate, the others begin with it.
  void go_on(size_t rank) {
    const std::array<SimGates::Gate, lane_count> before = gates_.lanes;
    clocks_[rank].begin_all();
    expect_next(rank);
    bool opened = false;
    for (size_t lane = 0; lane < lane_count; ++lane)
      opened = opened || gates_.lanes[lane].open != before[lane].open;
    if (!opened) return;
    const double now = clocks_[rank].state.now;
    for (size_t other = 0; other < clocks_.size(); ++other)
      if (other != rank) join(other, now);
  }

  // A rank that stood before a gate goes on from the time at which it opened.
  void join(size_t rank, double now) {
    SimClock& clock = clocks_[rank];
    bool stood = false;
    for (const SimLaneState& lane : clock.state.lanes)
      stood = stood || lane.gate != sim_never;
    if (!stood) return;
    clock.until_next_end();
    clock.pass(std::max(0.0, now - clock.state.now));
    go_on(rank);
  }

  void expect_next(size_t rank) {
    SimClock& clock = clocks_[rank];
    const double seconds = clock.until_next_end();
    ++versions_[rank];
    if (seconds != sim_never)
      next_.push({clock.state.now + seconds, seconds, rank, versions_[rank]});
  }

  SimGates gates_;
  std::vector<SimClock> clocks_;
  std::vector<uint64_t> versions_;  // only the latest entry of a rank counts
  std::priority_queue<Next> next_;
};

}  // namespace

double log_normal(double sigma, uint64_t seed, uint64_t count) {
  if (sigma == 0) return 1;
  const uint64_t bits = mixed(seed ^ mixed(count));
  const double radius = std::sqrt(-2 * std::log(uniform(bits)));
  const double normal = radius * std::cos(2 * std::numbers::pi * uniform(mixed(bits)));
  return std::exp(sigma * normal - sigma * sigma / 2);
}

Trace simulate_ranks(const SimProgram& program, const SimRanks& ranks) {
  RankedRun run(program, ranks);
  run.run();
  return run.trace();
}

}  // namespace spillway
