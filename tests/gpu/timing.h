// What a device does by itself, timed by its own events: the ceilings that others are held against.
#pragma once

#include <functional>
#include <vector>

#include "harness/cuda/chosen_products.h"
#include "tests/gpu/part.h"

namespace spillway {

// Seconds of what `issue` puts on the streams, from before the first of it to after the last; the
// median of `times` after one that is not counted.
double seconds_of_issued(Gpu& gpu, const std::vector<CUstream_st*>& streams, int times,
                         const std::function<void()>& issue);

// Bytes read and written a second by copies within the device.
double copy_ceiling(const Subject& subject, int64_t bytes);

// Null where no library computes products here.
std::unique_ptr<ChosenProducts> library_products(const Subject& subject);

// FLOP a second of one matmul alone, operands in the device's arena as they happen to lie there;
// by the library where there is one.
double product_rate(const Subject& subject, const Program& program, const Op& op);
// Of a large square product of bf16 matrices.
double square_product_rate(const Subject& subject, int64_t width);

}  // namespace spillway
