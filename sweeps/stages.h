// Where the time of a point goes, by the stages of its data flow (run.cpp). Nothing is measured
// unless somebody asks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <time.h>

namespace spillway {

enum class PointStage : uint8_t {
  config,  // files found, config and account
  build,
  shard,
  policy,
  pipeline,
  order,  // LHS, or the order without it
  lay_out,
  plan,
  prove,  // implied waits and races
  simulate,
};
inline constexpr int point_stage_count = 10;
const char* name_of(PointStage stage);

// Processor time of the calling thread, summed over points: what else a machine does is not in it.
struct StageSeconds {
  std::array<double, point_stage_count> seconds{};

  double& operator[](PointStage stage) { return seconds[static_cast<size_t>(stage)]; }
};

class StageClock {
 public:
  // Null: no clock is read.
  explicit StageClock(StageSeconds* into) : into_(into) {
    if (into_) last_ = now();
  }

  // Adds the time since the last lap to `stage`.
  void lap(PointStage stage) {
    if (!into_) return;
    const double time = now();
    (*into_)[stage] += time - last_;
    last_ = time;
  }
  // The same, once `value` was made; passes it on.
  template <class Value>
  Value lap(PointStage stage, Value value) {
    lap(stage);
    return value;
  }

 private:
  static double now() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  }

  StageSeconds* into_;
  double last_ = 0;
};

}  // namespace spillway
