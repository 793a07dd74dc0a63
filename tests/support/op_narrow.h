// Quantised tensors as tests see them: codes, scales and places written out from the formats'
// specifications, apart from the code under test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "tests/support/op_case.h"

namespace spillway {

// Value of a code: OCP 8-bit Floating Point v1.0, table 1 and 2; OCP Microscaling v1.0, E2M1.
double e4m3_value(unsigned code);
double e5m2_value(unsigned code);
double e2m1_value(unsigned code);

// Values that a tensor of this dtype holds exactly under the scales that pack() gives it.
Values narrow_random(const Item& item, std::mt19937_64& random);
// Tensor scale 1/4; block scales 1/2, 1, 2 and 3 in turn over rows and blocks.
std::vector<std::byte> pack(const Values& values, const Item& item);
// Whatever scales the bytes hold.
Values unpack(const std::vector<std::byte>& bits, const Item& item);
size_t narrow_bytes(const Item& item);

}  // namespace spillway
