// JSON text -> a DOM, for input written by users: says where it is malformed and which keys were
// given twice. Not a schema: config.cpp says what the keys mean.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace spillway {

struct ParsedJson {
  nlohmann::json root;
  std::vector<std::string>
      warnings;  // a key given twice: file, key and both values; the last counts
};

// A byte order mark and CRLF are accepted. Throws InputError: file, line and column of malformed
// text; file and key of a number that no double holds.
ParsedJson parse_json(const std::string& text, const std::string& file);

// A value as a message shows it: scalars as written, "an array", "an object".
std::string shown(const nlohmann::json& value);

}  // namespace spillway
