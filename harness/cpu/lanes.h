// Lanes at work: each walks the schedule by itself, from segment to segment, and meets the others
// only in the waits that the schedule states.
#pragma once

#include <array>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "harness/bound_program.h"
#include "harness/cpu/pacer.h"
#include "harness/cpu/poison.h"
#include "harness/cpu/progress.h"
#include "harness/stamps.h"
#include "harness/executor.h"
#include "harness/thread_pool.h"
#include "harness/trace.h"

namespace spillway {

// What the lanes of one executor share. Plain members are written before `started` lets the copy
// lanes go and read after every lane has finished the step.
struct LaneShare {
  LaneShare(const Schedule& schedule, const Arenas& arenas);
  // Keeps the first failure and stops all lanes.
  void fail(std::exception_ptr failure);
  void rethrow_failure();
  // Counts a stale slot unless the host side of a copy of `segment` is as SlotStamps::fresh asks.
  void expect_fresh(size_t segment, int op, int64_t iteration);

  const Schedule& schedule;
  Arenas arenas;
  BoundProgram bound;
  SlotStamps stamps;
  std::array<Progress, lane_count> progress;
  Progress started;      // training steps begun
  int64_t step = 0;      // the running one
  int64_t begin_ns = 0;  // when it began
  std::atomic<int64_t> stale_slots{0};

 private:
  std::mutex mutex_;
  std::exception_ptr failure_;
};

// One walk through the schedule, and what was seen on it.
class LaneWalk {
 public:
  LaneWalk(LaneShare& share, Lane lane);
  std::vector<Span> spans;  // of the current training step
  int64_t bytes_moved = 0;

 protected:
  // Where a walk is.
  struct Position {
    size_t segment = 0;
    int64_t iteration = 0;
  };
  // True when the lane stood still.
  bool wait(const BoundStep& step, Position at);
  void record_op(const BoundStep& step, Position at, int64_t begin_ns);
  void finish_step();  // of this lane: tells the others
  double seconds(int64_t time_ns) const {
    return static_cast<double>(time_ns - share_.begin_ns) * 1e-9;
  }

  LaneShare& share_;
  Lane lane_;

 private:
  int64_t finished_ = 0;  // lane steps since the first training step
};

// The calling thread and the pool.
class ComputeLane : public LaneWalk {
 public:
  ComputeLane(LaneShare& share, ThreadPool& pool, Poison* poison)
      : LaneWalk(share, Lane::compute), pool_(pool), poison_(poison) {}
  void run_training_step();
  double loss() const { return loss_; }  // NaN when the program has none

 private:
  void run_segment(size_t segment);
  void run_lane_step(BoundStep& step, Position at);
  void run_op(BoundStep& step, Position at);
  void allocate(const std::vector<TensorId>& tensors);
  void release(const std::vector<TensorId>& tensors);
  void read_loss();

  ThreadPool& pool_;
  Poison* poison_;  // null: no poison
  double loss_ = 0;
};

// A thread that moves bytes for one direction, as long as the executor lives.
class CopyLane : public LaneWalk {
 public:
  CopyLane(LaneShare& share, Lane lane, const CpuOptions& options);
  ~CopyLane();

 private:
  void serve();
  void run_training_step();
  void run_copy(BoundStep& step, Position at);

  Pacer pacer_;
  std::thread thread_;
};

}  // namespace spillway
