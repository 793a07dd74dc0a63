// Which collectives of a body are joined, and the order of ops that this asks for.
#include "offload/combine.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "harness/ops.h"
#include "harness/schedule.h"

namespace spillway {

namespace {

using Edges = std::vector<std::vector<int>>;

bool joins(const Op& op) {
  return op.kind == OpKind::all_gather || op.kind == OpKind::reduce_scatter;
}

bool is_joined(const Op& op) { return op.inputs.size() > 1; }

int64_t full_bytes(const Program& program, const Op& op) {
  return static_cast<int64_t>(info(op.kind).cost(program, op).group_bytes);
}

// The group that begins with op `first`, itself included.
std::vector<int> group_of(const Program& program, const Segment& segment, const Edges& before,
                          int first, int64_t threshold) {
  const Op& leader = segment.ops[index_of(first)];
  std::vector<int> group{first};
  int64_t bytes = full_bytes(program, leader);
  if (bytes > threshold) return group;
  std::vector<bool> behind(segment.ops.size(), false);  // in the group, or waits for a member
  behind[index_of(first)] = true;
  for (int i = first + 1; i < static_cast<int>(segment.ops.size()); ++i) {
    const std::vector<int>& needs = before[index_of(i)];
    behind[index_of(i)] =
        std::any_of(needs.begin(), needs.end(), [&](int from) { return behind[index_of(from)]; });
    const Op& op = segment.ops[index_of(i)];
    if (op.kind != leader.kind || op.attributes.devices != leader.attributes.devices) continue;
    if (is_joined(op) || behind[index_of(i)]) continue;
    if (bytes + full_bytes(program, op) > threshold) continue;
    group.push_back(i);
    behind[index_of(i)] = true;
    bytes += full_bytes(program, op);
  }
  return group;
}

Op joined(const Segment& segment, const std::vector<int>& group) {
  Op all = segment.ops[index_of(group.front())];
  all.name += "+" + std::to_string(group.size() - 1);
  for (size_t i = 1; i < group.size(); ++i) {
    const Op& op = segment.ops[index_of(group[i])];
    all.inputs.insert(all.inputs.end(), op.inputs.begin(), op.inputs.end());
    all.outputs.insert(all.outputs.end(), op.outputs.begin(), op.outputs.end());
  }
  return all;
}

// A body's ops in a new order. Every op that comes is put at the end, or kept back while something
// it needs is.
class NewOrder {
 public:
  NewOrder(Segment& segment, const Edges& before)
      : segment_(segment), before_(before), placed_(segment.ops.size(), false) {}

  void place(int op) {
    if (placed_[index_of(op)]) return;
    const std::vector<int>& needs = before_[index_of(op)];
    if (!std::all_of(needs.begin(), needs.end(), [&](int from) { return placed_[index_of(from)]; }))
      return late_.push_back(op);
    placed_[index_of(op)] = true;
    ops_.push_back(std::move(segment_.ops[index_of(op)]));
  }

  // In place of the group; what was kept back because of it follows.
  void place_joined(const std::vector<int>& group, Op op) {
    for (const int member : group)
      placed_[index_of(member)] = true;
    ops_.push_back(std::move(op));
    for (const int late : std::exchange(late_, {}))
      place(late);
  }

  std::vector<Op> take() { return std::move(ops_); }

 private:
  Segment& segment_;
  const Edges& before_;
  std::vector<bool> placed_;
  std::vector<int> late_;
  std::vector<Op> ops_;
};

// What a member of the group waits for, directly or through others.
std::vector<bool> needed_by(const Edges& before, const std::vector<int>& group) {
  std::vector<bool> needed(before.size(), false);
  for (const int member : group)
    needed[index_of(member)] = true;
  for (size_t op = before.size(); op-- > 0;) {
    if (!needed[op]) continue;
    for (const int from : before[op])
      needed[index_of(from)] = true;
  }
  return needed;
}

// Replaces a group by one op and keeps the order of the others as far as it can. Gathers stand
// where the first of them stood, the shards of the others cut just before; reduce-scatters where
// the last stood, what reads the others' shards just after.
void join(Segment& segment, const Edges& before, const std::vector<int>& group) {
  const bool gathers = segment.ops[index_of(group.front())].kind == OpKind::all_gather;
  const int anchor = gathers ? group.front() : group.back();
  const std::vector<bool> needed = needed_by(before, group);
  std::vector<bool> member(before.size(), false);
  for (const int op : group)
    member[index_of(op)] = true;
  NewOrder order(segment, before);
  for (int op = 0; op < static_cast<int>(segment.ops.size()); ++op) {
    if (op == anchor) {
      for (int from = op + 1; gathers && from < group.back(); ++from)
        if (needed[index_of(from)] && !member[index_of(from)]) order.place(from);
      order.place_joined(group, joined(segment, group));
    } else if (!member[index_of(op)]) {
      order.place(op);
    }
  }
  segment.ops = order.take();
}

// The first group of several; empty if there is none.
std::vector<int> next_group(const Program& program, const Segment& segment, const Edges& before,
                            int64_t threshold) {
  for (size_t i = 0; i < segment.ops.size(); ++i) {
    if (!joins(segment.ops[i]) || is_joined(segment.ops[i])) continue;
    std::vector<int> group = group_of(program, segment, before, static_cast<int>(i), threshold);
    if (group.size() > 1) return group;
  }
  return {};
}

void combine_in(const Program& program, Segment& segment, int64_t threshold) {
  for (;;) {
    const Edges before = dependencies(program, segment);
    const std::vector<int> group = next_group(program, segment, before, threshold);
    if (group.empty()) return;
    join(segment, before, group);
  }
}

}  // namespace

Program combine_collectives(Program program, int64_t threshold) {
  if (threshold <= 0) return program;
  for (size_t s = 0; s < program.segments.size(); ++s)
    combine_in(program, program.segments[s], threshold);
  verify(program, Stage::complete);
  return program;
}

}  // namespace spillway
