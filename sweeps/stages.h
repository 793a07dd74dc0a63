// Where the time of a point goes, by the stages of its data flow (run.cpp). Nothing is measured
// unless somebody asks.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <utility>

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

// Summed over points.
struct StageSeconds {
  std::array<double, point_stage_count> seconds{};

  double& operator[](PointStage stage) { return seconds[static_cast<size_t>(stage)]; }
};

class StageClock {
 public:
  // Null: no clock is read.
  explicit StageClock(StageSeconds* into) : into_(into) {
    if (into_) last_ = Clock::now();
  }

  // Adds the time since the last lap to `stage`.
  void lap(PointStage stage) {
    if (!into_) return;
    const Clock::time_point now = Clock::now();
    (*into_)[stage] += std::chrono::duration<double>(now - last_).count();
    last_ = now;
  }
  // The same, once `value` was made; passes it on.
  template <class Value>
  Value lap(PointStage stage, Value value) {
    lap(stage);
    return value;
  }

 private:
  using Clock = std::chrono::steady_clock;
  StageSeconds* into_;
  Clock::time_point last_;
};

}  // namespace spillway
