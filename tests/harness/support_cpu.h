// A small program with the moves of an offloaded stack, and helpers around the CPU executor.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/executor.h"
#include "harness/plan.h"
#include "harness/schedule.h"

namespace spillway {

// forward, `layers` times:  hidden[i + 1] = hidden[i] + weight[i], hidden[i] goes to host[i]
// backward, `layers` times: r = host[l], d = d + r, gradient[l] = d + r   (l = layers - 1 - i)
// before:  hidden[0] = x + x    between: d = hidden[layers] + start, loss = one + one
// fp32 vectors of `elements`; hidden is a ring of two; r is local.
struct OffloadStack {
  OffloadStack(int64_t layers, int64_t elements);
  Schedule schedule;  // the copy to host runs beside the add; the reload has nothing to hide behind
  TensorId x, weight, start, gradient, host, hidden, d, loss, r;

  // Gradients of a step computed by plain loops from the executor's own inputs.
  std::vector<float> expected_gradient(const ValueExecutor& executor) const;
  int64_t layers, elements;
};

// Every tensor at its own offset, nothing shared, 64 bytes aligned.
Plan plan_apart(const Program& program);

std::vector<float> read_floats(const ValueExecutor& executor, TensorId tensor);

}  // namespace spillway
