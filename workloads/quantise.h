// The rewrite for narrow precisions: operands of products become quantised copies, made by ops of
// their own.
#pragma once

#include "harness/program.h"

namespace spillway {

// Before the first product of a body that runs in FP8 or NVFP4 and reads a value, an op `quantise`;
// later products of the body read the same copy while the value is not written again. FP8 has one
// scale a tensor, so one copy serves products that sum over either axis: E5M2 for gradients, E4M3 for
// the rest (https://docs.nvidia.com/deeplearning/transformer-engine, "hybrid"). Blocks of NVFP4 that
// share a scale lie along the summed axis: a value summed both ways has two copies. Comes after the
// policy: kept and offloaded values stay in the program's dtype and are quantised where they are
// read, so that a policy changes no value. What a body writes in a backward pass and does not
// compute again is a gradient.
Program quantise_operands(Program program);

}  // namespace spillway
