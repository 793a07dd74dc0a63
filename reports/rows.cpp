// Reading and checking rows. Everything after this may rely on the types checked here.
#include "reports/rows.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

#include "harness/error.h"
#include "reports/published.h"

namespace spillway {

namespace {

using nlohmann::json;

struct ResultField {
  const char* key;
  bool of_run;    // one of the fields `run --json` promises
  bool required;  // may not be absent or null
  bool (*holds)(const json&);
  const char* expected;
};

bool text_or_null(const json& v) { return v.is_string() || v.is_null(); }
bool number_or_null(const json& v) { return v.is_number() || v.is_null(); }
bool amount_or_null(const json& v) {
  return v.is_null() || (v.is_number() && v.get<double>() >= 0);
}
bool object_or_null(const json& v) { return v.is_object() || v.is_null(); }
bool array_or_null(const json& v) { return v.is_array() || v.is_null(); }
bool is_object(const json& v) { return v.is_object(); }
bool is_bool(const json& v) { return v.is_boolean(); }

bool is_status(const json& v) {
  return v == "ok" || v == "oom" || v == "host_oom" || v == "failed";
}
bool is_kind(const json& v) { return v == "measured" || v == "simulated" || v == "projected"; }

bool list_of_objects(const json& v) {
  return v.is_null() || (v.is_array() && std::all_of(v.begin(), v.end(), is_object));
}
bool object_of_numbers(const json& v) {
  return v.is_null() || (v.is_object() && std::all_of(v.begin(), v.end(), number_or_null));
}
bool object_of_amounts(const json& v) {
  return v.is_null() || (v.is_object() && std::all_of(v.begin(), v.end(), amount_or_null));
}

constexpr const char* amounts = "an object of numbers of at least 0, or null";
constexpr const char* an_amount = "a number of at least 0, or null";
constexpr const char* a_text = "a string or null";
constexpr const char* numbers = "an object of numbers, or null";

constexpr std::array fields = std::to_array<ResultField>({
    {"status", true, true, is_status, "one of \"ok\", \"oom\", \"host_oom\", \"failed\""},
    {"reason", true, false, text_or_null, a_text},
    {"kind", true, true, is_kind, "one of \"measured\", \"simulated\", \"projected\""},
    {"checked", true, true, is_bool, "true or false"},
    {"fitted", true, false, object_or_null, "an object {figure, value, on} or null"},
    {"step_seconds", true, false, object_of_amounts, amounts},
    {"tflops_per_s_per_device", true, false, amount_or_null, an_amount},
    {"tflops_per_s_per_device_full_attention", true, false, amount_or_null, an_amount},
    {"executed_matmul_flops", true, false, amount_or_null, an_amount},
    {"attention_backward_extra_flops", true, false, amount_or_null, an_amount},
    {"tokens_per_s_per_device", true, false, amount_or_null, an_amount},
    {"global_batch", true, false, amount_or_null, an_amount},
    {"peak_hbm_bytes", true, false, amount_or_null, an_amount},
    {"peak_hbm_bytes_used", true, false, amount_or_null, an_amount},
    {"peak_hbm_by_role", true, false, object_of_amounts, amounts},
    {"routing", true, false, object_or_null, "an object or null"},
    {"host_bytes", true, false, amount_or_null, an_amount},
    {"host_bytes_reserved", true, false, amount_or_null, an_amount},
    {"offloaded_bytes_per_step", true, false, amount_or_null, an_amount},
    {"exposed_transfer_seconds", true, false, amount_or_null, an_amount},
    {"transfers", true, false, list_of_objects, "a list of objects, or null"},
    {"link_bytes_per_second", true, false, amount_or_null, an_amount},
    {"loss", true, false, array_or_null, "a list or null"},
    {"gradient_digest", true, false, text_or_null, a_text},
    {"config", true, true, is_object, "an object"},
    {"environment", true, false, object_or_null, "an object or null"},
    {"label", false, false, text_or_null, a_text},
    {"published", false, false, text_or_null, "the id of a published result, or null"},
    {"stands_for", false, false, text_or_null, "the id of a published result, or null"},
    {"sweep", false, false, object_or_null, "an object or null"},
    {"policy_summary", false, false, object_or_null, "an object or null"},
    {"memory_curve", false, false, list_of_objects, "a list of objects, or null"},
    {"timeline", false, false, list_of_objects, "a list of objects, or null"},
    {"projected", false, false, object_or_null, "an object or null"},
    {"compute_lane", false, false, object_of_numbers, numbers},
    {"op_seconds", false, false, object_of_numbers, numbers},
});

void check_field(const json& result, const ResultField& field, const std::string& where) {
  const auto found = result.find(field.key);
  if (found == result.end()) {
    if (field.required)
      throw InputError(
          text(where, ": key \"", field.key, "\" is missing, expected ", field.expected));
  } else if (!field.holds(*found)) {
    throw InputError(text(where, ": key \"", field.key, "\": found ", found->dump().substr(0, 80),
                          ", expected ", field.expected));
  }
}

std::string config_value(const json& config, const char* key) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null()) return "";
  return found->is_string() ? found->get<std::string>() : found->dump();
}

// A lone `run` has no label: what sets it apart from other runs of its model stands in.
std::string label_from(const json& config) {
  const std::string policy = config_value(config, "policy");
  const auto is_on = [&](const char* key) {
    const std::string value = config_value(config, key);
    return value == "on" || value == "true";
  };
  return text(policy.empty() ? "run" : policy, is_on("lhs") ? ", LHS" : ", LHS off",
              is_on("pipeline") ? ", pipelined" : "");
}

// What find_published() says of the id under `key`, if there is one, with the place it stands at.
std::optional<Published> published_at(const json& result, const char* key,
                                      const std::string& where) {
  const auto id = result.find(key);
  if (id == result.end() || !id->is_string()) return std::nullopt;
  try {
    return find_published(id->get<std::string>());
  } catch (const InputError& error) {
    throw InputError(text(where, ": ", error.what()));
  }
}

std::string file_of(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return path;
  return (fs::path(path) / "results.jsonl").string();
}

std::string contents_of(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in)
    throw InputError(text(file,
                          ": cannot be read, expected a file of results (.jsonl) or a "
                          "directory that holds results.jsonl"));
  return std::string(std::istreambuf_iterator<char>(in), {});
}

bool is_blank(const std::string& line) {
  return line.find_first_not_of(" \t\r") == std::string::npos;
}

void read_file(const std::string& file, const Warn& warn, std::vector<Row>& rows) {
  const std::string contents = contents_of(file);
  int64_t number = 0;
  for (size_t begin = 0; begin < contents.size(); ++number) {
    const size_t end = std::min(contents.find('\n', begin), contents.size());
    const std::string line = contents.substr(begin, end - begin);
    const std::string where = text(file, ":", number + 1);
    begin = end + 1;
    if (is_blank(line)) continue;
    try {
      rows.push_back(row_of(json::parse(line), where));
    } catch (const json::exception& error) {
      if (end < contents.size())
        throw InputError(
            text(where, ": found a line that is not JSON (", error.what(), "), expected a result"));
      warn(text(where, ": the last line is incomplete and was left out"));
    }
  }
}

}  // namespace

Row row_of(json result, const std::string& where) {
  if (!result.is_object())
    throw InputError(
        text(where, ": found ", result.dump().substr(0, 80), ", expected a JSON object"));
  for (const ResultField& field : fields)
    check_field(result, field, where);
  Row row;
  const auto label = result.find("label");
  const bool labelled = label != result.end() && label->is_string();
  row.label = labelled ? label->get<std::string>() : label_from(result.at("config"));
  row.published = published_at(result, "published", where);
  row.stands_for = published_at(result, "stands_for", where);
  row.result = std::move(result);
  return row;
}

std::vector<Row> read_rows(const std::vector<std::string>& paths, const Warn& warn) {
  std::vector<Row> rows;
  for (const std::string& path : paths)
    read_file(file_of(path), warn, rows);
  return rows;
}

std::vector<Row> read_rows(const std::vector<std::string>& paths) {
  return read_rows(paths,
                   [](const std::string& line) { std::cerr << "warning: " << line << "\n"; });
}

std::span<const char* const> result_fields() {
  static const std::vector<const char*> keys = [] {
    std::vector<const char*> list;
    for (const ResultField& field : fields)
      if (field.of_run) list.push_back(field.key);
    return list;
  }();
  return keys;
}

}  // namespace spillway
