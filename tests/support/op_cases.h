// The shared op-test table: every kind with a kernel, odd sizes, both dtypes, in place where that
// is legal. One case more is one line in op_cases.cpp.
#pragma once

#include <vector>

#include "tests/support/op_case.h"

namespace spillway {

std::vector<OpCase> op_cases();
// Appends those of latent attention and mixtures of experts (op_cases_moe.cpp).
void add_moe_cases(std::vector<OpCase>& cases);

}  // namespace spillway
