// Loop rotation: one body with stages becomes a prologue, a shorter loop and an epilogue.
// Which ops get which stage is rotation.cpp.
#include "offload/pipeline.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "harness/error.h"
#include "offload/rotation.h"

namespace spillway {

namespace {

// A body whose ops have stages 0..last. At time t the instance of stage s works on iteration t - s.
struct Staged {
  Segment body;
  std::vector<int> stages;
  int last = 0;

  int64_t times() const { return body.trips + last; }
  bool steady(int64_t t) const { return t >= last && t < body.trips; }
};

// Every stage at once: loop iteration j is time j + last.
Segment steady_loop(const Staged& staged) {
  Segment loop = staged.body;
  loop.trips = staged.body.trips - staged.last;
  for (size_t i = 0; i < loop.ops.size(); ++i) {
    const int64_t ahead = staged.last - staged.stages[i];
    const auto shift = [&](Operand& operand) {
      if (!operand.index.whole) operand.index.offset += operand.index.stride * ahead;
    };
    std::for_each(loop.ops[i].inputs.begin(), loop.ops[i].inputs.end(), shift);
    std::for_each(loop.ops[i].outputs.begin(), loop.ops[i].outputs.end(), shift);
  }
  return loop;
}

// What stays of time t when only some stages have an iteration to work on. Runs once; locals are
// its own, since a local tensor belongs to one segment.
Segment peeled(Program& program, const Staged& staged, int64_t t, const std::string& name) {
  Segment once{
      .name = name, .pass = staged.body.pass, .trips = 1, .forward_segment = -1, .ops = {}};
  std::map<TensorId, TensorId> own;
  const auto place = [&](Operand& operand, int64_t iteration) {
    if (!operand.index.whole) {
      operand.index = Index::at(0, operand.index.stride * iteration + operand.index.offset);
    }
    if (program.at(operand.tensor).extent != Extent::local) return;
    if (own.count(operand.tensor) == 0) {
      Tensor copy = program.at(operand.tensor);
      copy.name += "@" + name;
      own[operand.tensor] = program.add(std::move(copy));
    }
    operand.tensor = own[operand.tensor];
  };
  for (size_t i = 0; i < staged.body.ops.size(); ++i) {
    const int64_t iteration = t - staged.stages[i];
    if (iteration < 0 || iteration >= staged.body.trips) continue;
    Op op = staged.body.ops[i];
    op.name += "@" + name;
    for (Operand& input : op.inputs)
      place(input, iteration);
    for (Operand& output : op.outputs)
      place(output, iteration);
    once.ops.push_back(std::move(op));
  }
  return once;
}

std::string numbered(const std::string& name, int64_t n) {
  return n == 0 ? name : name + std::to_string(n + 1);  // prologue, prologue2, ...
}

std::vector<Segment> unroll_ends(Program& program, const Staged& staged) {
  std::vector<Segment> out;
  const int64_t trips = staged.body.trips;
  for (int64_t t = 0; t < staged.times(); ++t) {
    if (staged.steady(t)) {
      if (t == staged.last) out.push_back(steady_loop(staged));
      continue;
    }
    // A loop shorter than its stages has no steady part: what is not yet filled is prologue.
    const bool filling = t < std::min<int64_t>(staged.last, trips);
    const std::string part = filling ? numbered(".prologue", t) : numbered(".epilogue", t - trips);
    out.push_back(peeled(program, staged, t, staged.body.name + part));
  }
  return out;
}

}  // namespace

Program pipeline(const Program& program, const PipelineOptions& options) {
  Program out = program;
  out.segments.clear();
  bool rotated = false;
  for (const Segment& segment : program.segments) {
    Staged staged{segment, choose_stages(program, segment, options)};
    const auto [low, high] = std::minmax_element(staged.stages.begin(), staged.stages.end());
    if (segment.trips == 1 || staged.stages.empty() || *low == *high) {
      out.segments.push_back(segment);
      continue;
    }
    carry_across_stages(out, staged.body, staged.stages, options);
    const int first = *std::min_element(staged.stages.begin(), staged.stages.end());
    for (int& stage : staged.stages)
      stage -= first;
    staged.last = *std::max_element(staged.stages.begin(), staged.stages.end());
    for (Segment& part : unroll_ends(out, staged))
      out.segments.push_back(std::move(part));
    rotated = true;
  }
  // After a policy nothing reads across segments by layer any more, and loops no longer match.
  if (rotated) {
    for (Segment& segment : out.segments)
      segment.forward_segment = -1;
  }
  verify(out, Stage::complete);
  return out;
}

}  // namespace spillway
