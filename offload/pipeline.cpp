// Loop rotation: one body with stages becomes a prologue, a shorter loop and an epilogue.
// Which ops get which stage is rotation.cpp.
#include "offload/pipeline.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "offload/instance.h"
#include "offload/rotation.h"

namespace spillway {

namespace {

// A body whose ops have stages 0..last. At time t the instance of stage s works on iteration t - s.
struct Staged {
  Segment body;
  std::vector<int> stages;
  int last = 0;
  bool alone_first = false, alone_last = false;  // a steady iteration peeled beside a neighbour

  int64_t times() const { return body.trips + last; }
  bool steady(int64_t t) const { return t >= last && t < body.trips; }
};

// What stays of time t when only some stages have an iteration to work on. Runs once.
Segment peeled(Program& program, const Staged& staged, int64_t t, const std::string& name) {
  Segment once{
      .name = name, .pass = staged.body.pass, .trips = 1, .forward_segment = -1, .ops = {}};
  Instance instance(program, "@" + name);
  for (size_t i = 0; i < staged.body.ops.size(); ++i) {
    const int64_t iteration = t - staged.stages[i];
    if (iteration < 0 || iteration >= staged.body.trips) continue;
    once.ops.push_back(instance.copy(staged.body.ops[i], [&](const Index& index) {
      return Index::at(0, index.stride * iteration + index.offset);
    }));
    once.ops.back().peeled = true;
  }
  return once;
}

// Every stage at once: loop iteration j is time j + first.
Segment steady_loop(const Staged& staged, int64_t first, int64_t trips) {
  Segment loop = staged.body;
  loop.trips = trips;
  for (size_t i = 0; i < loop.ops.size(); ++i) {
    const int64_t ahead = first - staged.stages[i];
    const auto shift = [&](Operand& operand) {
      if (!operand.index.whole) operand.index.offset += operand.index.stride * ahead;
    };
    std::for_each(loop.ops[i].inputs.begin(), loop.ops[i].inputs.end(), shift);
    std::for_each(loop.ops[i].outputs.begin(), loop.ops[i].outputs.end(), shift);
  }
  return loop;
}

// Two iterations in one body, of a loop with an even trip count.
void unroll_twice(Program& program, Segment& loop) {
  Instance second(program, "#2");
  const size_t ops = loop.ops.size();
  loop.ops.reserve(2 * ops);
  for (size_t i = 0; i < ops; ++i) {
    loop.ops.push_back(second.copy(loop.ops[i], [](const Index& index) {
      return Index::at(2 * index.stride, index.stride + index.offset);
    }));
  }
  for (size_t i = 0; i < ops; ++i) {
    const auto twice = [](Operand& operand) { operand.index.stride *= 2; };
    std::for_each(loop.ops[i].inputs.begin(), loop.ops[i].inputs.end(), twice);
    std::for_each(loop.ops[i].outputs.begin(), loop.ops[i].outputs.end(), twice);
  }
  loop.trips /= 2;
}

void add_steady(Program& program, const Staged& staged, int64_t unroll,
                std::vector<Segment>& parts) {
  const std::string& name = staged.body.name;
  int64_t first = staged.last, end = staged.body.trips;
  if (staged.alone_last && first < end) --end;
  if (staged.alone_first && first < end)
    parts.push_back(peeled(program, staged, first++, name + ".first"));
  if (unroll == 2 && (end - first) % 2 == 1)
    parts.push_back(peeled(program, staged, first++, name + ".odd"));
  if (first < end) {
    parts.push_back(steady_loop(staged, first, end - first));
    if (unroll == 2) unroll_twice(program, parts.back());
  }
  if (end < staged.body.trips) parts.push_back(peeled(program, staged, end, name + ".last"));
}

std::string numbered(const std::string& name, int64_t n) {
  return n == 0 ? name : name + std::to_string(n + 1);  // prologue, prologue2, ...
}

std::vector<Segment> unroll_ends(Program& program, const Staged& staged, int64_t unroll) {
  std::vector<Segment> parts;
  const int64_t trips = staged.body.trips;
  for (int64_t t = 0; t < staged.times(); ++t) {
    if (staged.steady(t)) {
      if (t == staged.last) add_steady(program, staged, unroll, parts);
      continue;
    }
    // A loop shorter than its stages has no steady part: what is not yet filled is prologue.
    const bool filling = t < std::min<int64_t>(staged.last, trips);
    const std::string part = filling ? numbered(".prologue", t) : numbered(".epilogue", t - trips);
    parts.push_back(peeled(program, staged, t, staged.body.name + part));
  }
  return parts;
}

// What of a loop is rotated.
struct Rotated {
  bool writes = false, reads = false;  // host copies
  bool anything = false;
};

Rotated rotated_of(const Staged& loop) {
  Rotated found;
  for (size_t i = 0; i < loop.stages.size(); ++i) {
    if (loop.stages[i] == stage_body) continue;
    const OpKind kind = loop.body.ops[i].kind;
    found.writes |= kind == OpKind::copy_d2h;
    found.reads |= kind == OpKind::copy_h2d;
    found.anything = true;
  }
  return found;
}

// The last writes of a loop and the first reads of one stand between it and its neighbour. Where
// that is a loop without peeled ends of its own, one iteration of it is peeled to hide them.
void peel_beside_copies(std::vector<Staged>& loops) {
  std::vector<Rotated> rotated;
  for (const Staged& loop : loops)
    rotated.push_back(rotated_of(loop));
  for (size_t s = 0; s < loops.size(); ++s) {
    if (loops[s].stages.empty() || rotated[s].anything) continue;
    loops[s].alone_first = s > 0 && rotated[s - 1].writes;
    loops[s].alone_last = s + 1 < loops.size() && rotated[s + 1].reads;
  }
}

}  // namespace

Program pipeline(Program program, const PipelineOptions& options) {
  std::vector<Staged> loops;  // segments that run once have no stages
  for (Segment& segment : program.segments) {
    std::vector<int> stages;
    if (segment.trips > 1) stages = choose_stages(program, segment, options);
    loops.push_back({std::move(segment), std::move(stages)});
  }
  peel_beside_copies(loops);
  program.segments.clear();
  bool changed = false;
  for (Staged& loop : loops) {
    const auto [low, high] = std::minmax_element(loop.stages.begin(), loop.stages.end());
    const int first = loop.stages.empty() ? 0 : *low;
    loop.last = loop.stages.empty() ? 0 : *high - first;
    if (loop.last == 0 && !loop.alone_first && !loop.alone_last) {
      program.segments.push_back(std::move(loop.body));
      continue;
    }
    if (loop.last > 0) carry_across_stages(program, loop.body, loop.stages, options);
    for (int& stage : loop.stages)
      stage -= first;
    const int64_t unroll = loop.last > 0 ? options.unroll : 1;
    for (Segment& part : unroll_ends(program, loop, unroll))
      program.segments.push_back(std::move(part));
    changed = true;
  }
  // After a policy nothing reads across segments by layer any more, and loops no longer match.
  if (changed) {
    for (Segment& segment : program.segments)
      segment.forward_segment = -1;
  }
  verify(program, Stage::complete);
  return program;
}

}  // namespace spillway
