// The half of verify() that follows values through the step (dataflow.cpp). Callers want verify()
// of program.h.
#pragma once

#include "harness/program.h"

namespace spillway {

// Operands must be known to exist and to be in range. Throws std::logic_error as verify() does.
void verify_dataflow(const Program& program, Stage stage);

}  // namespace spillway
