// Solves the one fitted figure of a sweep.
#include "sweeps/fit.h"

#include "harness/error.h"

namespace spillway {

namespace {

// The schedule too depends on the figure, through the latencies, so every trial starts anew.
double tflops_at(const Point& point, Settings settings, double efficiency) {
  settings.fitted = Fitted{"matmul_efficiency", efficiency, ""};
  const Prepared prepared = prepare(point, settings);
  const double seconds = run_sim(prepared).traces.front().seconds;
  return static_cast<double>(prepared.account.flops_step_causal) / 1e12 / seconds;
}

}  // namespace

Fitted fit_matmul_efficiency(const SweepPoint& point, double published, const Settings& settings) {
  double low = 0.01, high = 1;
  const double at_low = tflops_at(point.point, settings, low),
               at_high = tflops_at(point.point, settings, high);
  if (!(at_low <= published && published <= at_high))
    throw RunError(text("calibrate: matmul_efficiency on '", point.label, "': found ", at_low,
                        " to ", at_high, " TFLOPs/s/device for efficiencies ", low, " to ", high,
                        ", expected the published ", published, " between them"));
  while (high - low > 1e-9 * high) {
    const double middle = (low + high) / 2;
    (tflops_at(point.point, settings, middle) < published ? low : high) = middle;
  }
  return {"matmul_efficiency", (low + high) / 2, point.label};
}

}  // namespace spillway
