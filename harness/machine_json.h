// Strict reading of the JSON of machine files. Messages name the file, the key, what was found and
// what was expected.
#pragma once

#include <initializer_list>
#include <string>

#include <nlohmann/json.hpp>

namespace spillway {

// Parses with a check the library leaves out: of two equal keys it would keep the last unseen.
// Throws InputError.
nlohmann::json parse_without_duplicates(const std::string& json_text, const std::string& file);

// The member of an object, of the type wanted. Throws InputError.
const nlohmann::json& member(const nlohmann::json& object, const char* key,
                             nlohmann::json::value_t type, const char* expected,
                             const std::string& where);

// A finite number of at least `least`. Throws InputError.
double number_member(const nlohmann::json& object, const char* key, double least,
                     const std::string& where);

// Throws InputError.
void refuse_other_keys(const nlohmann::json& object, std::initializer_list<const char*> known,
                       const std::string& where);

}  // namespace spillway
