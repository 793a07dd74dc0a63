// The parts of a calibration, each a group of measurements between two timings of the reference.
// Private to calibrate.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sweeps/calibrate.h"
#include "sweeps/probe.h"
#include "sweeps/run.h"

namespace spillway {

// Seconds of ops, all at the pace of one moment.
using OpSamples = std::vector<std::pair<OpSize, std::vector<double>>>;

// A group's samples and how fast the machine was while they were taken.
struct OpGroup {
  OpSamples samples;
  double reference = 0;  // seconds, median of before, between and after
};

// What the groups share.
struct Calibrator {
  const CalibrateOptions& options;
  ReferenceProduct reference;
  std::shared_ptr<CpuMemory> memory = std::make_shared<CpuMemory>();
  std::vector<double> references = {};  // every timing, seconds

  // Times the reference, does the work, which may time it in between by calling what it is given, and
  // times it again. The median: one timing of several can be far out on a shared machine.
  using Work = std::function<void(const std::function<void()>& time_again)>;
  double between_references(const std::string& what, const Work& work);
};

// A step of a few layers of a model that keeps layer inputs only: every kind of op of a step, most
// of them twice. No host copies.
struct CalibrationPoint {
  std::string model;
  int64_t micro_batch = 0;
  bool contention = false;  // measured with copies beside it too
};
std::vector<CalibrationPoint> calibration_points(const std::vector<std::string>& models);

// Adds to `gaps` the mean time between ops of every step, to `contention` what copies cost.
OpGroup measure_ops(Calibrator& calibrator, const CalibrationPoint& point, double seconds,
                    std::vector<double>& gaps, std::vector<Contention>& contention);
// Device copies and an fp32 product, which those steps do without.
OpGroup measure_other_ops(Calibrator& calibrator);

// Copy lanes as fast as they go, alone and together; fixed times of lanes and of a thread pool.
void measure_copies(Calibrator& calibrator, Rates& rates);

}  // namespace spillway
