// Attributes the bytes alive at a planned peak.
#include "sweeps/memory_growth.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace spillway {

namespace {

enum Cause : size_t {
  state,
  residuals,
  carried_copies,
  carried_collectives,
  staging_to_host,
  staging_from_host,
  peeled_copies,
  peeled_collectives,
  peeled_others,
  copies_in_body,
  gathered_weights,
  gradients,
  activations,
  packing_holes,
  cause_count
};

struct CauseText {
  int number;
  const char* name;
};
constexpr std::array<CauseText, cause_count> cause_texts{{
    {0, "weights, gradients and optimizer state"},
    {0, "activations kept from forward to backward"},
    {1, "copy sets carried between iterations"},
    {1, "collectives carried between iterations"},
    {2, "copies made before writing to the host"},
    {3, "copies of loop state after reading from the host"},
    {4, "peeled bodies: host copies"},
    {4, "peeled bodies: gathered weights and gradients"},
    {4, "peeled bodies: everything else"},
    {5, "host copies within a body: sources until done, landings from start"},
    {5, "gathered weights"},
    {5, "gradients around their reduce-scatter"},
    {5, "activations"},
    {0, "holes of packing"},
}};

using CauseBytes = std::array<int64_t, cause_count>;

int64_t sum_of(const CauseBytes& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
}

// What the ops of a program use a device tensor for.
struct Use {
  bool to_host = false, from_host = false;      // an end of a host copy
  bool copied_from = false, copied_to = false;  // an end of a rotation copy
  bool scattered = false;                       // an end of a reduce-scatter
};

std::vector<Use> uses_of(const Program& program) {
  std::vector<Use> uses(program.tensors.size());
  for (const Segment& segment : program.segments) {
    for (const Op& op : segment.ops) {
      const auto in = [&]() -> Use& { return uses[index_of(op.inputs[0].tensor)]; };
      const auto out = [&]() -> Use& { return uses[index_of(op.outputs[0].tensor)]; };
      if (op.kind == OpKind::copy_d2h) in().to_host = true;
      if (op.kind == OpKind::copy_h2d) out().from_host = true;
      if (op.kind == OpKind::copy_d2d) in().copied_from = out().copied_to = true;
      if (op.kind != OpKind::reduce_scatter) continue;
      for (const auto* operands : {&op.inputs, &op.outputs})
        for (const Operand& operand : *operands)
          uses[index_of(operand.tensor)].scattered = true;
    }
  }
  return uses;
}

Cause cause_of(const Tensor& tensor, const Use& use) {
  if (tensor.extent == Extent::persistent) return state;
  if (tensor.role == Role::kept) return residuals;  // a ring of a resident tail too
  const bool carried = tensor.extent == Extent::step;
  if (use.to_host && use.copied_to) return staging_to_host;
  if (use.from_host && use.copied_from) return staging_from_host;
  if (use.to_host || use.from_host || use.copied_from || use.copied_to)
    return carried ? carried_copies : copies_in_body;
  if (tensor.role != Role::gathered_weight) return activations;
  if (carried) return carried_collectives;
  return use.scattered ? gradients : gathered_weights;
}

// A local tensor of a peeled body carries that body's name (offload/pipeline.cpp).
bool is_peeled(const Tensor& tensor) {
  return tensor.extent == Extent::local && tensor.name.find('@') != std::string::npos;
}

// Follows the compute lane through a step and remembers its two highest places.
class PeakWalk {
 public:
  explicit PeakWalk(const Schedule& schedule)
      : program_(schedule.program), uses_(uses_of(schedule.program)) {
    for (size_t id = 0; id < program_.tensors.size(); ++id) {
      if (program_.tensors[id].extent == Extent::persistent) count({static_cast<TensorId>(id)}, 1);
    }
    for (const SegmentSchedule& segment : schedule.segments)
      walk(segment);
  }
  const CauseBytes& peak() const { return peak_; }
  const CauseBytes& peak_unpeeled() const { return peak_unpeeled_; }

 private:
  void walk(const SegmentSchedule& segment) {
    count(segment.enter_allocate, 1);
    look();  // also of a body without a compute step
    for (const LaneStep& step : segment.lanes[index_of(Lane::compute)]) {
      count(step.allocate, 1);
      look();
      count(step.release, -1);
    }
    count(segment.exit_release, -1);
  }

  void count(const std::vector<TensorId>& ids, int64_t sign) {
    for (const TensorId id : ids) {
      const Tensor& tensor = program_.at(id);
      if (tensor.space != Space::device) continue;
      const Cause cause = cause_of(tensor, uses_[index_of(id)]);
      now_[cause] += sign * tensor.bytes();
      if (!is_peeled(tensor)) unpeeled_[cause] += sign * tensor.bytes();
    }
  }

  void look() {
    if (sum_of(now_) > sum_of(peak_)) peak_ = now_;
    if (sum_of(unpeeled_) > sum_of(peak_unpeeled_)) peak_unpeeled_ = unpeeled_;
  }

  const Program& program_;
  std::vector<Use> uses_;
  CauseBytes now_{}, unpeeled_{}, peak_{}, peak_unpeeled_{};
};

Cause peeled_cause_of(size_t cause) {
  switch (cause) {
    case carried_copies:
    case staging_to_host:
    case staging_from_host:
    case copies_in_body:
      return peeled_copies;
    case carried_collectives:
    case gathered_weights:
    case gradients:
      return peeled_collectives;
    default:
      return peeled_others;
  }
}

CauseBytes peak_by_cause(const Prepared& prepared) {
  const PeakWalk walk(prepared.schedule);
  CauseBytes bytes = walk.peak_unpeeled();
  for (size_t cause = 0; cause < cause_count; ++cause)
    bytes[peeled_cause_of(cause)] += walk.peak()[cause] - walk.peak_unpeeled()[cause];
  bytes[packing_holes] = prepared.plan.device_bytes - sum_of(walk.peak());
  return bytes;
}

}  // namespace

std::vector<MemoryCause> memory_growth(const Prepared& base, const Prepared& variant) {
  const CauseBytes before = peak_by_cause(base), after = peak_by_cause(variant);
  std::vector<MemoryCause> causes;
  for (size_t cause = 0; cause < cause_count; ++cause) {
    const auto [number, name] = cause_texts[cause];
    causes.push_back({name, number, before[cause], after[cause]});
  }
  return causes;
}

}  // namespace spillway
