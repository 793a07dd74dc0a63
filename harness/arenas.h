// Where tensors are: the plan's offsets as addresses in the two arenas of a run.
#pragma once

#include <cstddef>
#include <cstdint>

#include "harness/error.h"
#include "harness/plan.h"
#include "harness/program.h"

namespace spillway {

struct Arenas {
  const Program* program = nullptr;
  const Plan* plan = nullptr;
  std::byte* device = nullptr;
  std::byte* host = nullptr;

  int64_t offset(TensorId id) const { return plan->offset[static_cast<size_t>(id)]; }
  bool placed(TensorId id) const { return offset(id) >= 0; }

  // First byte of the tensor. A tensor the plan left out is our own mistake.
  std::byte* address(TensorId id) const {
    const Tensor& tensor = program->at(id);
    check(placed(id), "tensor ", tensor.name, " is used and has no place in the plan");
    return (tensor.space == Space::device ? device : host) + offset(id);
  }
};

}  // namespace spillway
