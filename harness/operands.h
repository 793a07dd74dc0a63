// How two operands of one body relate; shared by the passes that order ops.
#pragma once

#include "harness/program.h"

namespace spillway {

// Whether the two name a common slice in at least one of `trips` iterations of their segment.
bool may_overlap(const Program& program, const Operand& a, const Operand& b, int64_t trips);

}  // namespace spillway
