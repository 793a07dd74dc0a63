// What masks over a fixed number of slots must fit; shared by capacity_mask and its products.
#pragma once

#include "harness/ops/operands.h"

namespace spillway {

// Why a mask [T, W] does not fit batch, seq and capacity; empty where it does.
std::string check_mask(const Attributes& attributes, const Signature& sizes);

}  // namespace spillway
