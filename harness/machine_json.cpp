// Strict reading of the JSON of machine files.
#include "harness/machine_json.h"

#include <cmath>
#include <set>
#include <vector>

#include "harness/error.h"

namespace spillway {

using Json = nlohmann::json;

Json parse_without_duplicates(const std::string& json_text, const std::string& file) {
  std::vector<std::set<std::string>> keys;
  const auto callback = [&](int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second)
      throw InputError(text(file, ": key ", parsed.dump(), " appears twice in one object"));
    return true;
  };
  try {
    return Json::parse(json_text, callback);
  } catch (const Json::exception& error) {  // its text names line and column, or what overflowed
    throw InputError(text(file, ": malformed JSON: ", error.what()));
  }
}

const Json& member(const Json& object, const char* key, Json::value_t type, const char* expected,
                   const std::string& where) {
  const auto found = object.find(key);
  if (found == object.end())
    throw InputError(text(where, ": key \"", key, "\" is missing, expected ", expected));
  const bool number = type == Json::value_t::number_float && found->is_number();
  if (!number && found->type() != type)
    throw InputError(
        text(where, ": key \"", key, "\" is ", found->dump(), ", expected ", expected));
  return *found;
}

double number_member(const Json& object, const char* key, double least, const std::string& where) {
  const std::string expected = text("a number >= ", least);
  const double value =
      member(object, key, Json::value_t::number_float, expected.c_str(), where).get<double>();
  if (std::isfinite(value) && value >= least) return value;
  throw InputError(text(where, ": key \"", key, "\" is ", value, ", expected ", expected));
}

void refuse_other_keys(const Json& object, std::initializer_list<const char*> known,
                       const std::string& where) {
  for (const auto& [key, value] : object.items()) {
    bool found = false;
    std::string list;
    for (const char* name : known) {
      found = found || key == name;
      list += text(list.empty() ? "" : ", ", name);
    }
    if (!found) throw InputError(text(where, ": unknown key \"", key, "\", expected ", list));
  }
}

}  // namespace spillway
