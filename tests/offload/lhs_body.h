// A body written op by op and the order latency hiding gives it, as words.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "offload/scheduler.h"
#include "tests/support/tiny_program.h"

namespace spillway {

// A body of ops that touch nothing in common but what they hand on. Runs last a second each unless
// told otherwise; values are persistent, and so outside of LHS's memory, unless made local.
class LhsBody {
 public:
  LhsBody() : builder_("body") {
    input_ = builder_.persistent("input", 1);
    builder_.segment("body", 1);
  }

  TensorId run(const std::string& name, std::vector<TensorId> reads = {}, double seconds = 1) {
    return op(OpKind::add, name, reads, builder_.persistent(name + ".out", 1), seconds);
  }
  // Its value is local memory of 64 bytes a slice.
  TensorId make(const std::string& name, int64_t slices = 1) {
    Tensor tensor;
    tensor.name = name + ".out";
    tensor.shape = {16};
    tensor.slices = slices;
    return op(OpKind::add, name, {}, builder_.add_tensor(tensor), 1);
  }
  TensorId product(const std::string& name) {
    Tensor tensor;
    tensor.name = name + ".matrix";
    tensor.shape = {4, 4};
    tensor.extent = Extent::persistent;
    const TensorId in = builder_.add_tensor(tensor);
    tensor.name = name + ".out";
    return op(OpKind::matmul, name, {in}, builder_.add_tensor(tensor), 1);
  }
  TensorId gather(const std::string& name, double seconds, std::vector<TensorId> reads = {}) {
    const TensorId out = builder_.persistent(name + ".out", 1);
    return op(OpKind::all_gather, name, reads, out, seconds);
  }
  TensorId write(const std::string& name, double seconds, std::vector<TensorId> reads = {}) {
    return op(OpKind::copy_d2h, name, reads, builder_.host(name + ".out", 1), seconds);
  }
  TensorId reload(const std::string& name, double seconds) {
    const TensorId slot = builder_.host(name + ".in", 1);
    const TensorId out = builder_.persistent(name + ".out", 1);
    return op(OpKind::copy_h2d, name, {slot}, out, seconds);
  }

  OpHint& hint(const std::string& name) { return options.hints[name]; }

  // "a", "<g" for g's start, "g>" for its done; from the top.
  std::string order(LhsRules rules) {
    options.rules = std::move(rules);
    options.seconds = [this](const Program&, const Op& asked) { return seconds_.at(asked.name); };
    const OrderedProgram ordered = order_bodies(builder_.program(), options);
    lay_out(ordered.program, ordered.orders);  // throws where a dependency is broken
    std::string words;
    for (const OrderItem& item : ordered.orders.front()) {
      const std::string& name = ordered.program.segments[0].ops[index_of(item.op)].name;
      const std::string word = item.kind == StepKind::start  ? "<" + name
                               : item.kind == StepKind::done ? name + ">"
                                                             : name;
      words += (words.empty() ? "" : " ") + word;
    }
    return words;
  }

  SchedulerOptions options;

 private:
  TensorId op(OpKind kind, const std::string& name, std::vector<TensorId> reads, TensorId out,
              double seconds) {
    if (reads.empty()) reads = {input_};
    reads.resize(kind == OpKind::add || kind == OpKind::matmul ? 2 : 1, reads.front());
    std::vector<Operand> operands;
    for (const TensorId id : reads)
      operands.push_back(all(id));
    builder_.op(kind, operands, {all(out)}, name);
    seconds_[name] = seconds;
    return out;
  }

  TinyBuilder builder_;
  TensorId input_ = no_tensor;
  std::map<std::string, double> seconds_;
};

}  // namespace spillway
