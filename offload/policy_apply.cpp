// A policy applied to a Program, and the summary of what that did.
#include <algorithm>
#include <array>
#include <cstdio>
#include <string>

#include "harness/error.h"
#include "harness/ops.h"
#include "offload/layer_rewrite.h"
#include "offload/policy.h"
#include "offload/policy_fates.h"

namespace spillway {

namespace {

using Row = PolicySummary::Row;

// The fate of a name is that of the tensors it decided; an alias that decided none shows what
// became of its tensor (lse, in `context` alone, may differ from its sibling).
Row empty_row(const Program& program, const std::vector<TensorFate>& fates,
              const std::string& name) {
  Row row{.name = name};
  bool decided = false;
  for (size_t id = 0; id < fates.size(); ++id) {
    const auto& names = program.tensors[id].activations;
    if (std::find(names.begin(), names.end(), name) == names.end()) continue;
    const bool decides = fates[id].name == name;
    if (decides || !decided) row.fate = fates[id].fate;
    decided = decided || decides;
  }
  return row;
}

// A tensor counts once, under the name that decided its fate.
int64_t count(PolicySummary& summary, const Program& program, const TensorFate& fate, TensorId id,
              int64_t layers) {
  const int64_t bytes = program.at(id).slice_bytes() * layers;
  for (Row& row : summary.rows) {
    if (row.name != fate.name) continue;
    row.tensors += 1;
    row.bytes += bytes;
  }
  return bytes;
}

void add(PolicySummary& summary, const Program& program, const std::vector<TensorFate>& fates,
         const LayerRewrite& done) {
  const auto fate = [&](TensorId id) { return fates[static_cast<size_t>(id)]; };
  for (TensorId id : done.kept) {
    summary.kept_bytes += count(summary, program, fate(id), id, done.layers);
  }
  for (TensorId id : done.moved) {
    summary.offloaded_bytes += count(summary, program, fate(id), id, done.layers);
  }
  for (TensorId id : done.recomputed)
    count(summary, program, fate(id), id, done.layers);
  const Segment& backward = program.segments[static_cast<size_t>(done.backward)];
  for (int op : done.clones) {
    const OpCost cost = info(backward.ops[static_cast<size_t>(op)].kind)
                            .cost(program, backward.ops[static_cast<size_t>(op)]);
    summary.recomputed_ops += done.layers;
    summary.recomputed_flops +=
        static_cast<double>(done.layers) * (cost.matmul_flops + cost.attention_flops);
  }
}

std::string gib(int64_t bytes) {
  std::array<char, 32> out{};
  std::snprintf(out.data(), out.size(), "%.3f GiB", static_cast<double>(bytes) / (1 << 30));
  return out.data();
}

const char* verb_of(Fate fate) {
  switch (fate) {
    case Fate::device:
      return "kept on the device";
    case Fate::offload:
      return "moved to the host";
    case Fate::remat:
      return "recomputed";
  }
  return "?";
}

}  // namespace

PolicyResult apply_policy(const Program& built, const Policy& policy) {
  const std::vector<TensorFate> fates = fates_of(built, policy);
  PolicyResult result{built, {}};
  const std::vector<std::string> present = names_in(built);
  for (const std::string& name : present) {
    result.summary.rows.push_back(empty_row(built, fates, name));
  }
  for (const auto& [name, fate] : policy.fates) {
    if (std::find(present.begin(), present.end(), name) == present.end()) {
      result.summary.skipped.push_back(name);
    }
  }
  for (size_t i = 0; i < built.segments.size(); ++i) {
    if (built.segments[i].forward_segment < 0) continue;
    const LayerRewrite done = rewrite_layers(result.program, static_cast<int>(i), fates);
    add(result.summary, result.program, fates, done);
  }
  verify(result.program, Stage::complete);
  return result;
}

std::string PolicySummary::text() const {
  std::string out;
  for (const Row& row : rows) {
    out += spillway::text("  ", row.name, ": ", name_of(row.fate), ", ", row.tensors,
                          row.tensors == 1 ? " tensor " : " tensors ", verb_of(row.fate), ", ",
                          gib(row.bytes), " over all layers",
                          row.tensors == 0 ? " (the backward needs none)\n" : "\n");
  }
  if (!skipped.empty()) {
    out += "  skipped, not in this program:";
    for (const std::string& name : skipped)
      out += " " + name;
    out += "\n";
  }
  out += spillway::text("  kept ", gib(kept_bytes), ", moved ", gib(offloaded_bytes),
                        " each way, recomputed ", recomputed_ops, " ops (", recomputed_flops / 1e12,
                        " TFLOP) a step\n");
  if (offloaded_bytes == 0) out += "  this policy moves 0 bytes to the host\n";
  return out;
}

}  // namespace spillway
