// The section `rates` of a machine file, read and written.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "harness/op_rates.h"

namespace spillway {

// Throws InputError: file, key, found, expected.
Rates parse_rates(const nlohmann::json& object, const std::string& file);
nlohmann::ordered_json json_of(const Rates& rates);

}  // namespace spillway
