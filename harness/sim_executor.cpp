// The simulator: a schedule's lanes on a virtual clock. Computes no values.

#include <cmath>

#include "harness/sim_ranks.h"
#include "harness/sim_steady.h"

namespace spillway {
namespace {

class SimExecutor : public Executor {
 public:
  SimExecutor(const Schedule& schedule, const Machine& machine, const SimOptions& options)
      : program_(flatten(schedule, machine, options)), options_(options) {}

  Trace step() override {
    if (options_.ranks.differ()) return simulate_ranks(program_, options_.ranks);
    SimClock clock(program_);
    SimSteady steady(program_);
    do {
      clock.begin_all();
      if (!options_.every_iteration) steady.look(clock);
    } while (clock.pass_time());
    clock.check_finished();
    Trace trace;
    trace.seconds = clock.state.now;
    trace.loss = std::nan("");
    trace.spans = std::move(clock.spans);
    std::copy(clock.state.moved.begin(), clock.state.moved.end(), trace.bytes_moved);
    return trace;
  }

 private:
  SimProgram program_;
  SimOptions options_;
};

}  // namespace

std::unique_ptr<Executor> make_sim_executor(const Schedule& schedule, const Machine& machine,
                                            const SimOptions& options) {
  return std::make_unique<SimExecutor>(schedule, machine, options);
}

}  // namespace spillway
