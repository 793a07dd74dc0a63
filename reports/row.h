// One result as reports see it: the JSON object that `run --json` prints and a sweep stores, plus
// what a sweep knows of it. Reports never run anything.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace spillway {

// A published result (reports/published/*.csv). What was not published is empty.
struct Published {
  std::string id;  // "llama3.1-405b/qkv-offload-lhs"
  std::string workload, label;
  std::optional<double> tflops_per_s_per_device;
  std::optional<double> peak_hbm_gib;
  std::string outcome;  // ok, oom, failed, empty; invalid: ok with a figure that is not finite
  std::string source;
  std::string note;  // conditions, or how a derived figure was obtained
};

// `result` holds the fields of `run --json` (README, "Fields of a result") and, where a run has them:
//   "label", "published" (id), "stands_for" (id), "sweep" {"name", "title", "hypotheses": [{"id","setting","status","text"}]}
//   "policy_summary": {"text", "rows": [{"name","fate","tensors","bytes"}], "kept_bytes", "offloaded_bytes",
//                      "recomputed_flops"}
//   "memory_curve": [{"segment","step","seconds" or null,"bytes": {role: n}}]  compute-lane order
//   "timeline": {"segment": name, "spans": [{"lane","kind" ("op"|"wait"),"name","begin","end"}]} list, one
//               entry for a middle forward layer and one for a middle backward layer, seconds from its start;
//               spans may say "op" (the op's kind, which colours it) and a wait "on" (the lane waited for)
//   "compute_lane": {"busy_seconds","waiting_seconds","idle_seconds"}   of the median step
//   "rule_counts": {rule: n}
//   "op_seconds": {op kind: seconds}   compute lane, per step
struct Row {
  std::string label;
  nlohmann::json result;
  std::optional<Published> published;
  std::optional<Published> stands_for =
      {};  // of a proxy: its rates do not compare, their ratios do
};

}  // namespace spillway
