// The parts of reference() (op_case.h), by families of ops.
#pragma once

#include "tests/support/op_case.h"

namespace spillway {

inline double& at(Values& values, int64_t i) { return values[static_cast<size_t>(i)]; }
inline double at(const Values& values, int64_t i) { return values[static_cast<size_t>(i)]; }
inline int64_t index_at(const Values& values, int64_t i) {
  return static_cast<int64_t>(at(values, i));
}

// Each computes the outputs (zero before) of the kinds it knows; false for others.
bool rope_reference(const OpCase& c, const std::vector<Values>& in, std::vector<Values>& out);
bool routing_reference(const OpCase& c, const std::vector<Values>& in, std::vector<Values>& out);
bool capacity_reference(const OpCase& c, const std::vector<Values>& in, std::vector<Values>& out);

}  // namespace spillway
