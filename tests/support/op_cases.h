// The shared op-test table: every kind with a kernel, odd sizes, both dtypes, in place where that
// is legal. One case more is one line in op_cases.cpp.
#pragma once

#include <vector>

#include "tests/support/op_case.h"

namespace spillway {

std::vector<OpCase> op_cases();

}  // namespace spillway
