// 64-bit integer arithmetic that refuses to overflow: sizes come from users.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace spillway {

// Throw InputError naming `what` when the result does not fit 64 bits. Factors and terms >= 0.
int64_t checked_product(const char* what, std::initializer_list<int64_t> factors);
int64_t checked_sum(const char* what, std::initializer_list<int64_t> terms);

}  // namespace spillway
