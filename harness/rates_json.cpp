// The section `rates` of a machine file.
#include "harness/rates_json.h"

#include "harness/error.h"
#include "harness/machine_json.h"

namespace spillway {
namespace {

using Type = nlohmann::json::value_t;
using nlohmann::json;
using nlohmann::ordered_json;

// Times and rates that something is divided by.
constexpr double least_time = 1e-12;

std::string text_member(const json& object, const char* key, const std::string& where) {
  return member(object, key, Type::string, "a text", where).get<std::string>();
}

int64_t whole_member(const json& object, const char* key, int64_t least, const std::string& where) {
  const double value = number_member(object, key, static_cast<double>(least), where);
  const auto whole = static_cast<int64_t>(value);
  if (static_cast<double>(whole) != value || value > 9e15)
    throw InputError(
        text(where, ": key \"", key, "\" is ", value, ", expected a whole number >= ", least));
  return whole;
}

// Calls each(row, where) for every object of a list.
template <class Each>
void for_rows(const json& object, const char* key, const std::string& file, const Each& each) {
  const json& rows = member(object, key, Type::array, "a list of objects", file + ": rates");
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::string where = text(file, ": rates: ", key, "[", i, "]");
    if (!rows[i].is_object())
      throw InputError(text(where, " is ", rows[i].dump(), ", expected an object"));
    each(rows[i], where);
  }
}

OpKind parse_kind(const std::string& name, const std::string& where) {
  std::string known;
  for (int i = 0; i < op_kind_count; ++i) {
    const auto kind = static_cast<OpKind>(i);
    if (name == info(kind).name) return kind;
    known += std::string(i == 0 ? "" : ", ") + info(kind).name;
  }
  throw InputError(text(where, ": key \"op\" is \"", name, "\", expected one of ", known));
}

CopyLanes parse_lanes(const json& row, const std::string& where) {
  const std::string name = text_member(row, "lanes", where);
  for (const CopyLanes lanes : {CopyLanes::d2h, CopyLanes::h2d, CopyLanes::both})
    if (name == name_of(lanes)) return lanes;
  throw InputError(
      text(where, ": key \"lanes\" is \"", name, "\", expected one of d2h, h2d, both"));
}

OpRate parse_op(const json& row, const std::string& where) {
  refuse_other_keys(row, {"op", "variant", "shape", "work", "seconds", "spread", "samples"}, where);
  OpRate rate;
  rate.size.kind = parse_kind(text_member(row, "op", where), where);
  rate.size.variant = text_member(row, "variant", where);
  for (const json& dimension : member(row, "shape", Type::array, "whole numbers", where)) {
    if (!dimension.is_number_integer() || dimension.get<int64_t>() < 0)
      throw InputError(
          text(where, ": key \"shape\" holds ", dimension.dump(), ", expected whole numbers >= 0"));
    rate.size.shape.push_back(dimension.get<int64_t>());
  }
  rate.size.work = number_member(row, "work", 1, where);
  rate.seconds = number_member(row, "seconds", least_time, where);
  rate.spread = number_member(row, "spread", 0, where);
  rate.samples = whole_member(row, "samples", 1, where);
  return rate;
}

CopyRate parse_copy(const json& row, const std::string& where) {
  refuse_other_keys(row, {"lanes", "bytes", "bytes_per_second", "spread"}, where);
  return {parse_lanes(row, where), whole_member(row, "bytes", 1, where),
          number_member(row, "bytes_per_second", 1, where), number_member(row, "spread", 0, where)};
}

Contention parse_contention(const json& row, const std::string& where) {
  refuse_other_keys(row, {"lanes", "paced", "moved", "products", "stream"}, where);
  return {parse_lanes(row, where), number_member(row, "paced", 0, where),
          number_member(row, "moved", 0, where), number_member(row, "products", least_time, where),
          number_member(row, "stream", least_time, where)};
}

Overheads parse_overheads(const json& rates, const std::string& file) {
  const std::string where = file + ": rates: overheads";
  const json& row = member(rates, "overheads", Type::object, "an object", file + ": rates");
  refuse_other_keys(row, {"between_ops", "pool_start", "copy_start", "copy_end"}, where);
  return {number_member(row, "between_ops", 0, where), number_member(row, "pool_start", 0, where),
          number_member(row, "copy_start", 0, where), number_member(row, "copy_end", 0, where)};
}

}  // namespace

Rates parse_rates(const json& object, const std::string& file) {
  const std::string where = file + ": rates";
  refuse_other_keys(object,
                    {"date", "environment", "threads", "reference", "overheads", "copy_cost",
                     "copies", "contention", "ops"},
                    where);
  Rates rates;
  rates.date = text_member(object, "date", where);
  for (const auto& [key, value] :
       member(object, "environment", Type::object, "an object", where).items())
    rates.environment[key] = value.is_string() ? value.get<std::string>() : value.dump();
  rates.threads = whole_member(object, "threads", 1, where);
  const json& reference = member(object, "reference", Type::object, "an object", where);
  rates.reference = {number_member(reference, "seconds", least_time, where + ": reference"),
                     number_member(reference, "spread", 0, where + ": reference")};
  const json& cost = member(object, "copy_cost", Type::object, "an object", where);
  rates.copy_cost = {number_member(cost, "products", 0, where + ": copy_cost"),
                     number_member(cost, "stream", 0, where + ": copy_cost")};
  rates.overheads = parse_overheads(object, file);
  for_rows(object, "copies", file, [&](const json& row, const std::string& at) {
    rates.copies.push_back(parse_copy(row, at));
  });
  for_rows(object, "contention", file, [&](const json& row, const std::string& at) {
    rates.contention.push_back(parse_contention(row, at));
  });
  for_rows(object, "ops", file,
           [&](const json& row, const std::string& at) { rates.ops.push_back(parse_op(row, at)); });
  return rates;
}

ordered_json json_of(const Rates& rates) {
  ordered_json ops = ordered_json::array(), copies = ops, contention = ops;
  for (const OpRate& rate : rates.ops)
    ops.push_back({{"op", info(rate.size.kind).name},
                   {"variant", rate.size.variant},
                   {"shape", rate.size.shape},
                   {"work", rate.size.work},
                   {"seconds", rate.seconds},
                   {"spread", rate.spread},
                   {"samples", rate.samples}});
  for (const CopyRate& copy : rates.copies)
    copies.push_back({{"lanes", name_of(copy.lanes)},
                      {"bytes", copy.bytes},
                      {"bytes_per_second", copy.bytes_per_second},
                      {"spread", copy.spread}});
  for (const Contention& row : rates.contention)
    contention.push_back({{"lanes", name_of(row.lanes)},
                          {"paced", row.paced},
                          {"moved", row.moved},
                          {"products", row.products},
                          {"stream", row.stream}});
  return {
      {"date", rates.date},
      {"environment", rates.environment},
      {"threads", rates.threads},
      {"reference", {{"seconds", rates.reference.seconds}, {"spread", rates.reference.spread}}},
      {"overheads",
       {{"between_ops", rates.overheads.between_ops},
        {"pool_start", rates.overheads.pool_start},
        {"copy_start", rates.overheads.copy_start},
        {"copy_end", rates.overheads.copy_end}}},
      {"copy_cost", {{"products", rates.copy_cost.products}, {"stream", rates.copy_cost.stream}}},
      {"copies", copies},
      {"contention", contention},
      {"ops", ops}};
}

}  // namespace spillway
