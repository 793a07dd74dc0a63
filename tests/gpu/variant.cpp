#include "tests/gpu/variant.h"

#include "harness/error.h"
#include "harness/race.h"

namespace spillway {

SubjectPoint::SubjectPoint(const Subject& subject, const Point& point) {
  schedule = with_workspaces(prepare(point, {}).schedule, subject.workspace_bytes);
  plan = plan_memory(schedule);
  Proven proven = drop_and_prove(std::move(schedule), plan);
  check(!proven.race, "with scratch memory: ", proven.race ? proven.race->message : "");
  schedule = std::move(proven.schedule);
}

std::string text_of(const Shown& shown) {
  std::string losses;
  for (const double loss : shown.losses)
    losses += text(" ", loss);
  return text("losses", losses, ", digest ", shown.digest, ", ", shown.stale_slots, " stale slots",
              shown.error.empty() ? "" : ", " + shown.error);
}

Shown show(ValueExecutor& executor, int64_t steps) {
  Shown shown;
  try {
    for (int64_t step = 0; step < steps; ++step)
      shown.losses.push_back(executor.step().loss);
  } catch (const RunError& error) {
    shown.error = error.what();
  }
  shown.digest = executor.gradient_digest();
  shown.stale_slots = executor.stale_slots();
  return shown;
}

Shown show(const Subject& subject, const SubjectPoint& point, const Schedule& schedule,
           CudaOptions options, int64_t steps) {
  options.threads = 1;
  return show(*make_stream_executor(schedule, point.plan, options, subject.memory, subject.kernels),
              steps);
}

}  // namespace spillway
