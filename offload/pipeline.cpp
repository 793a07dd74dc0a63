// Loop rotation: one body with stages becomes a prologue, a shorter loop and an epilogue.
// Which ops get which stage is rotation.cpp.
#include "offload/pipeline.h"

#include <algorithm>
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

// One more instance of a body's ops: locals are its own, since a local tensor belongs to one
// segment and has one producer.
class Instance {
 public:
  Instance(Program& program, std::string suffix)
      : program_(program), suffix_(std::move(suffix)), own_(program.tensors.size(), no_tensor) {}

  // `index` maps an Index that is not whole.
  template <class MapIndex>
  Op copy(const Op& op, const MapIndex& index) {
    Op made = op;
    made.name += suffix_;
    const auto place = [&](Operand& operand) {
      if (!operand.index.whole) operand.index = index(operand.index);
      if (program_.at(operand.tensor).extent == Extent::local)
        operand.tensor = own_of(operand.tensor);
    };
    std::for_each(made.inputs.begin(), made.inputs.end(), place);
    std::for_each(made.outputs.begin(), made.outputs.end(), place);
    return made;
  }

 private:
  TensorId own_of(TensorId id) {
    TensorId& own = own_[index_of(id)];
    if (own == no_tensor) {
      Tensor tensor = program_.at(id);
      tensor.name += suffix_;
      own = program_.add(std::move(tensor));
    }
    return own;
  }

  Program& program_;
  std::string suffix_;
  std::vector<TensorId> own_;
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
  }
  return once;
}

// Every stage at once: loop iteration j is time j + first.
Segment steady_loop(const Staged& staged, int64_t first) {
  Segment loop = staged.body;
  loop.trips = staged.body.trips - first;
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
  int64_t first = staged.last;
  if (unroll == 2 && (staged.body.trips - first) % 2 == 1)
    parts.push_back(peeled(program, staged, first++, staged.body.name + ".odd"));
  if (first == staged.body.trips) return;
  parts.push_back(steady_loop(staged, first));
  if (unroll == 2) unroll_twice(program, parts.back());
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

}  // namespace

Program pipeline(Program program, const PipelineOptions& options) {
  std::vector<Segment> segments = std::move(program.segments);
  program.segments.clear();
  bool rotated = false;
  for (Segment& segment : segments) {
    std::vector<int> stages;
    if (segment.trips > 1) stages = choose_stages(program, segment, options);
    const auto [low, high] = std::minmax_element(stages.begin(), stages.end());
    if (stages.empty() || *low == *high) {
      program.segments.push_back(std::move(segment));
      continue;
    }
    const int first = *low, last = *high - first;
    Staged staged{std::move(segment), std::move(stages), last};
    carry_across_stages(program, staged.body, staged.stages, options);
    for (int& stage : staged.stages)
      stage -= first;
    for (Segment& part : unroll_ends(program, staged, options.unroll))
      program.segments.push_back(std::move(part));
    rotated = true;
  }
  // After a policy nothing reads across segments by layer any more, and loops no longer match.
  if (rotated) {
    for (Segment& segment : program.segments)
      segment.forward_segment = -1;
  }
  verify(program, Stage::complete);
  return program;
}

}  // namespace spillway
