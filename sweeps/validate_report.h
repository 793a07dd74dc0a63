// What a validation found, as JSON and as a table in text.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "sweeps/validate_judge.h"

namespace spillway {

// {"points": [...], "order": {...}, "limits": [{"limit", "figure", "passed"}], "passed"}; fields in
// README, "Fields of a validation". Records must not be empty.
nlohmann::json validation_json(const std::vector<ValidateRecord>& records);

// The same for a reader: a line a point, a line a kind of op of each, the distribution, the limits.
std::string validation_text(const nlohmann::json& validation);

}  // namespace spillway
