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
#include "offload/resident_tail.h"

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

// A tensor counts once, under the name that decided its fate, and a tail's copy of it not again.
int64_t count(PolicySummary& summary, const TailSplit& split, TensorId id, int64_t layers,
              bool resident) {
  const int64_t bytes = split.program.at(id).slice_bytes() * layers;
  const TensorFate& fate = split.fates[index_of(id)];
  for (Row& row : summary.rows) {
    if (row.name != fate.name) continue;
    if (id < split.first_copy) row.tensors += 1;
    (resident && fate.fate == Fate::offload ? row.resident_bytes : row.bytes) += bytes;
  }
  return bytes;
}

void add(PolicySummary& summary, const TailSplit& split, const LayerRewrite& done, bool resident) {
  for (TensorId id : done.kept)
    summary.kept_bytes += count(summary, split, id, done.layers, resident);
  for (TensorId id : done.moved)
    summary.offloaded_bytes += count(summary, split, id, done.layers, resident);
  for (TensorId id : done.recomputed)
    count(summary, split, id, done.layers, resident);
  const Program& program = split.program;
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

int64_t layers_of(const Program& built) {
  int64_t layers = 0;
  for (const Segment& segment : built.segments)
    if (segment.forward_segment >= 0) layers += segment.trips;
  return layers;
}

// What the last layers keep of what is offloaded by name; empty without a tail.
std::string tail_text(const PolicySummary& summary) {
  if (summary.resident_tail == 0) return "";
  std::string out;
  for (const Row& row : summary.rows)
    if (row.resident_bytes > 0)
      out += spillway::text(out.empty() ? " keep " : ", ", row.name, ' ', gib(row.resident_bytes));
  if (summary.all_resident) out = " are the whole model: nothing moves";
  if (out.empty()) out = " offload nothing that they could keep";
  return spillway::text("  the last ", summary.resident_tail, " layers", out, "\n");
}

}  // namespace

PolicyResult apply_policy(Program built, const Policy& policy, int64_t resident_tail) {
  std::vector<TensorFate> fates = fates_of(built, policy);
  PolicyResult result;
  result.summary.resident_tail = resident_tail;
  result.summary.all_resident = resident_tail > 0 && resident_tail >= layers_of(built);
  if (result.summary.all_resident) {
    for (TensorFate& tensor : fates)
      if (tensor.fate == Fate::offload) tensor.fate = Fate::device;
  }
  const std::vector<std::string> present = names_in(built);
  for (const std::string& name : present) {
    result.summary.rows.push_back(empty_row(built, fates, name));
  }
  for (const auto& [name, fate] : policy.fates) {
    if (std::find(present.begin(), present.end(), name) == present.end()) {
      result.summary.skipped.push_back(name);
    }
  }
  TailSplit split = split_tail(std::move(built), std::move(fates), resident_tail);
  for (size_t i = 0; i < split.program.segments.size(); ++i) {
    if (split.program.segments[i].forward_segment < 0) continue;
    const bool resident = split.resident[i];
    const LayerRewrite done =
        rewrite_layers(split.program, static_cast<int>(i), split.fates, resident);
    add(result.summary, split, done, resident);
  }
  result.program = std::move(split.program);
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
  out += tail_text(*this);
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
