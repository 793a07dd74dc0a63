// Every rule of a well-formed Program is broken once, and the message names what and where.
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/error.h"
#include "tests/support/tiny_program.h"

namespace spillway {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string complaint(const Program& program, Stage stage = Stage::complete) {
  try {
    verify(program, stage);
  } catch (const std::logic_error& error) {
    return error.what();
  }
  return "";
}

Op& op_named(Program& program, const std::string& segment, const std::string& op) {
  for (Segment& s : program.segments) {
    if (s.name != segment) continue;
    for (Op& o : s.ops) {
      if (o.name == op) return o;
    }
  }
  throw std::logic_error("no op " + op + " in " + segment);
}

Tensor& tensor_named(Program& program, const std::string& name) {
  for (Tensor& tensor : program.tensors) {
    if (tensor.name == name) return tensor;
  }
  throw std::logic_error("no tensor " + name);
}

TensorId id_of(const Program& program, const std::string& name) {
  for (size_t id = 0; id < program.tensors.size(); ++id) {
    if (program.tensors[id].name == name) return static_cast<TensorId>(id);
  }
  return no_tensor;
}

TEST(Verify, AcceptsTheTinyPrograms) {
  for (const auto& [name, program] : tiny_programs(5))
    EXPECT_EQ(complaint(program), "") << name;
}

struct Breakage {
  const char* what;
  std::function<void(Program&)> apply;
  std::vector<const char*> message;
};

// Damage to offloaded_stack(5).
const std::vector<Breakage>& breakages() {
  static const std::vector<Breakage> list = {
      {"empty tensor name", [](Program& p) { tensor_named(p, "q").name = ""; }, {"has a name"}},
      {"zero size", [](Program& p) { tensor_named(p, "q").shape = {0}; }, {"\"q\"", "positive"}},
      {"no slices", [](Program& p) { tensor_named(p, "weight").slices = 0; }, {"\"weight\""}},
      {"local ring", [](Program& p) { tensor_named(p, "q").ring = true; }, {"\"q\"", "ring"}},
      {"local on the host",
       [](Program& p) { tensor_named(p, "q").space = Space::host; },
       {"\"q\"", "device"}},
      {"filled but not persistent",
       [](Program& p) { tensor_named(p, "d_hidden").init = Init::zero; },
       {"\"d_hidden\"", "persistent"}},
      {"converted from nothing",
       [](Program& p) { tensor_named(p, "weight").init_from = 99; },
       {"\"weight\"", "converted"}},
      {"two tensors of one name",
       [](Program& p) { tensor_named(p, "q").name = "k"; },
       {"\"k\"", "twice"}},
      {"loss of many elements",
       [](Program& p) { p.loss = id_of(p, "x"); },
       {"loss", "\"x\"", "one f32 element"}},
      {"no trips", [](Program& p) { p.segments[1].trips = 0; }, {"\"forward\"", "trip"}},
      {"two segments of one name",
       [](Program& p) { p.segments[1].name = "head"; },
       {"\"head\"", "twice"}},
      {"forward segment after it",
       [](Program& p) { p.segments[1].forward_segment = 3; },
       {"\"forward\"", "before"}},
      {"forward segment of other length",
       [](Program& p) { p.segments[3].forward_segment = 0; },
       {"\"backward\"", "\"embed\"", "5", "1"}},
      {"two ops of one name",
       [](Program& p) { op_named(p, "forward", "to.q").name = "to.k"; },
       {"\"forward\"", "\"to.k\"", "twice"}},
      {"op without a name",
       [](Program& p) { op_named(p, "forward", "to.q").name = ""; },
       {"\"forward\"", "has a name"}},
      {"op without outputs",
       [](Program& p) { op_named(p, "forward", "to.q").outputs.clear(); },
       {"\"to.q\"", "writes something"}},
      {"operand without tensor",
       [](Program& p) { op_named(p, "forward", "to.q").inputs[1].tensor = no_tensor; },
       {"\"to.q\"", "input 1", "names a tensor"}},
      {"slice past the end in the last iteration",
       [](Program& p) { op_named(p, "forward", "to.q").inputs[1].index = Index::at(1, 1); },
       {"\"forward\"", "\"to.q\"", "input 1", "weight", "every iteration"}},
      {"slice before the beginning",
       [](Program& p) { op_named(p, "backward", "dw").outputs[0].index = Index::at(-1, 3); },
       {"\"dw\"", "output 0", "gradient"}},
      {"compute reads host memory",
       [](Program& p) {
         op_named(p, "backward", "to.qk").inputs[0] = slice(id_of(p, "q.host"), -1, 4);
       },
       {"\"to.qk\"", "q.host", "memory"}},
      {"reload from the device",
       [](Program& p) { op_named(p, "backward", "to.q.reload").inputs[0] = slice(0, 0, 0); },
       {"\"to.q.reload\"", "memory"}},
      {"same output twice",
       [](Program& p) {
         Op& op = op_named(p, "forward", "to.q");
         op.outputs.push_back(op.outputs[0]);
       },
       {"\"to.q\"", "share no slice"}},
      {"read and written slices cross",
       [](Program& p) {
         Op& op = op_named(p, "backward", "dw");
         op.inputs[1] = all(id_of(p, "gradient"));
       },
       {"\"dw\"", "in place"}},
      {"operands the op refuses",
       [](Program& p) { op_named(p, "forward", "to.q").inputs.pop_back(); },
       {"\"forward\"", "\"to.q\"", "(add)"}},
      {"read before it is written",
       [](Program& p) { std::swap(p.segments[1].ops[0], p.segments[1].ops[1]); },
       {"\"forward\"", "\"q\"", "before it is written"}},
      {"second producer",
       [](Program& p) {
         Op& op = op_named(p, "forward", "to.k");
         op.inputs[1] = op.inputs[0];
         op.outputs[0] = all(id_of(p, "q"));
       },
       {"\"to.k\"", "\"q\"", "second producer"}},
      {"local of another segment",
       [](Program& p) { op_named(p, "backward", "to.qk").inputs[0] = all(id_of(p, "q")); },
       {"\"backward\"", "\"q\"", "another segment"}},
      {"carried slice never written",
       [](Program& p) {
         op_named(p, "embed", "to.hidden").outputs[0] = slice(id_of(p, "hidden"), 0, 1);
       },
       {"iteration 0", "slice 0", "\"hidden\"", "before it is written"}},
      {"host slot never written",
       [](Program& p) { op_named(p, "forward", "to.q.host").outputs[0].index = Index::at(0, 2); },
       {"\"backward\"", "slice 4", "\"q.host\""}},
  };
  return list;
}

TEST(Verify, RefusesEveryBreakage) {
  for (const Breakage& breakage : breakages()) {
    Program program = offloaded_stack(5);
    breakage.apply(program);
    const std::string found = complaint(program);
    EXPECT_NE(found, "") << breakage.what;
    for (const char* part : breakage.message) {
      EXPECT_THAT(found, HasSubstr(part)) << breakage.what;
    }
  }
}

// A backward body may read what its own forward layer computed, until a policy says how it gets
// there.
TEST(Verify, BuiltBackwardReadsLocalsOfItsForwardSegment) {
  Program program = kept_stack(5);
  op_named(program, "backward", "to.t").inputs[1] = all(id_of(program, "a"));
  EXPECT_THAT(complaint(program, Stage::built), HasSubstr("another segment"));
  program.segments[3].forward_segment = 1;
  EXPECT_EQ(complaint(program, Stage::built), "");
  EXPECT_THAT(complaint(program, Stage::complete),
              AllOf(HasSubstr("\"backward\""), HasSubstr("\"a\"")));
}

}  // namespace
}  // namespace spillway
