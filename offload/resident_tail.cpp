// Cuts scanned stacks at the layer from which the tail begins.
#include "offload/resident_tail.h"

#include <algorithm>
#include <string>
#include <utility>

#include "offload/instance.h"

namespace spillway {

namespace {

bool offloads(const Segment& forward, const std::vector<TensorFate>& fates) {
  const auto leaves = [&](const Operand& operand) {
    return fates[index_of(operand.tensor)].fate == Fate::offload;
  };
  return std::any_of(forward.ops.begin(), forward.ops.end(), [&](const Op& op) {
    return std::any_of(op.inputs.begin(), op.inputs.end(), leaves) ||
           std::any_of(op.outputs.begin(), op.outputs.end(), leaves);
  });
}

// Layers of the tail in each segment of a stack; 0 elsewhere. Backward segments stand from the last
// stack to the first.
std::vector<int64_t> layers_in_tail(const Program& program, const std::vector<TensorFate>& fates,
                                    int64_t layers) {
  std::vector<int64_t> in_tail(program.segments.size());
  for (size_t s = 0; s < program.segments.size(); ++s) {
    const Segment& backward = program.segments[s];
    if (backward.forward_segment < 0) continue;
    const size_t forward = index_of(backward.forward_segment);
    const int64_t taken = std::min(layers, backward.trips);
    layers -= taken;
    if (offloads(program.segments[forward], fates)) in_tail[s] = in_tail[forward] = taken;
  }
  return in_tail;
}

void shift(Segment& segment, int64_t iterations) {
  const auto later = [&](Operand& operand) {
    if (!operand.index.whole) operand.index.offset += operand.index.stride * iterations;
  };
  for (Op& op : segment.ops) {
    std::for_each(op.inputs.begin(), op.inputs.end(), later);
    std::for_each(op.outputs.begin(), op.outputs.end(), later);
  }
}

// The part of a segment that runs its last `layers` layers.
Segment tail_of(const Segment& segment, int64_t layers, Instance& instance) {
  Segment tail{.name = segment.name + ".tail",
               .pass = segment.pass,
               .trips = layers,
               .forward_segment = -1,
               .ops = {}};
  tail.ops.reserve(segment.ops.size());
  for (const Op& op : segment.ops)
    tail.ops.push_back(instance.copy(op, [](const Index& index) { return index; }));
  // Forward the tail comes last, backward first.
  if (segment.pass == Pass::forward) shift(tail, segment.trips - layers);
  return tail;
}

void shorten(Segment& segment, int64_t by) {
  segment.trips -= by;
  if (segment.pass == Pass::backward) shift(segment, by);
}

}  // namespace

TailSplit split_tail(Program built, std::vector<TensorFate> fates, int64_t layers) {
  const std::vector<int64_t> in_tail = layers_in_tail(built, fates, layers);
  std::vector<Segment> segments = std::move(built.segments);
  TailSplit split{std::move(built), std::move(fates), {}, 0};
  split.first_copy = static_cast<TensorId>(split.program.tensors.size());
  // A forward segment and its backward share their copies; one stack at most is cut.
  Instance instance(split.program, ".tail");
  std::vector<int> now_at(segments.size(), -1), tail_at = now_at;
  std::vector<Segment>& out = split.program.segments;
  out.clear();
  for (size_t s = 0; s < segments.size(); ++s) {
    Segment& segment = segments[s];
    const bool cut = in_tail[s] > 0 && in_tail[s] < segment.trips;
    const int forward = segment.forward_segment;
    if (forward >= 0) segment.forward_segment = now_at[index_of(forward)];
    std::vector<Segment> tail;
    if (cut) {
      tail.push_back(tail_of(segment, in_tail[s], instance));
      if (forward >= 0) tail.front().forward_segment = tail_at[index_of(forward)];
      shorten(segment, in_tail[s]);
    }
    const auto add = [&](Segment&& part, bool resident) {
      out.push_back(std::move(part));
      split.resident.push_back(resident);
      return static_cast<int>(out.size()) - 1;
    };
    if (cut && forward >= 0) add(std::move(tail.front()), true);
    now_at[s] = add(std::move(segment), in_tail[s] > 0 && !cut);
    if (cut && forward < 0) tail_at[s] = add(std::move(tail.front()), true);
  }
  split.fates.resize(split.program.tensors.size());
  for (size_t id = 0; id < instance.own().size(); ++id) {
    const TensorId copy = instance.own()[id];
    if (copy != no_tensor) split.fates[index_of(copy)] = split.fates[id];
  }
  return split;
}

}  // namespace spillway
