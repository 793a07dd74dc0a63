// Expert parallelism as a rewrite. Tensors are on the token side (rows of this rank's tokens) or on
// the expert side (rows of this rank's experts); wherever an op reads from the other side, an
// all_to_all comes before it.
#include "workloads/expert_parallel.h"

#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "harness/error.h"

namespace spillway {
namespace {

// How rows are split by expert, for an exchange: offsets of all experts in what this rank has, and
// of its own experts in what it receives. Empty where groups are equal.
using Splits = std::vector<Operand>;

class Spreading {
 public:
  Spreading(Program program, const ExpertParallel& parallel)
      : program_(std::move(program)), parallel_(parallel) {}

  Program run();

 private:
  std::set<TensorId> state_of_experts() const;
  void divide_weights();
  void visit(Op& op);
  void visit_grouped(Op& op);
  void visit_elementwise(const Op& op);
  void place_on_expert_side(TensorId id, const Splits& splits);
  Splits splits_of(const Op& grouped);
  TensorId received(TensorId rows, const Splits& splits);
  TensorId returned(TensorId rows);
  TensorId add(const std::string& name, TensorId like, Shape shape);
  void exchange(const std::string& name, std::vector<Operand> inputs, TensorId output);

  Program program_;
  ExpertParallel parallel_;
  std::vector<Op> ops_;                     // of the segment being rewritten
  std::map<TensorId, Splits> expert_side_;  // how its rows came
  std::map<TensorId, TensorId> received_;   // token side -> expert side, offsets included
  std::map<TensorId, TensorId> returned_;   // expert side -> token side
  std::map<TensorId, int64_t> token_rows_;  // expert side -> rows on the token side
};

// Position of the operand that a token-side op reads from the expert side, or -1.
int expert_operand(OpKind kind) {
  switch (kind) {
    case OpKind::combine:
    case OpKind::permute_backward:
      return 0;
    case OpKind::combine_backward:
    case OpKind::combine_einsum:
    case OpKind::mask_gradient:
      return 1;
    default:
      return -1;
  }
}

Program Spreading::run() {
  divide_weights();
  for (Segment& segment : program_.segments) {
    ops_.clear();
    std::vector<Op> originals = std::move(segment.ops);
    for (Op& op : originals) {
      visit(op);
      ops_.push_back(std::move(op));
    }
    segment.ops = std::move(ops_);
  }
  return std::move(program_);
}

// Weight, copy, m, v and gradient.
std::set<TensorId> Spreading::state_of_experts() const {
  const std::set<TensorId> weights = expert_weights(program_);
  std::set<TensorId> state;
  for (const Segment& segment : program_.segments)
    for (const Op& op : segment.ops) {
      if (op.kind != OpKind::adamw) continue;
      const TensorId read = op.outputs[op.outputs.size() > 3 ? 3 : 0].tensor;
      if (!weights.contains(read)) continue;
      state.insert(read);
      for (const Operand& operand : op.inputs)
        state.insert(operand.tensor);
    }
  return state;
}

// [E, ...] -> [E / ranks, ...].
void Spreading::divide_weights() {
  const std::set<TensorId> state = state_of_experts();
  check(!state.empty(), program_.name, " has no experts to spread");
  for (const TensorId id : state) {
    int64_t& experts = program_.at(id).shape[0];
    if (experts % parallel_.ranks != 0)
      throw InputError(text("--expert-parallel: found ", parallel_.ranks,
                            ", expected a divisor of ", experts, ", the number of experts"));
    experts /= parallel_.ranks;
  }
}

void Spreading::visit(Op& op) {
  if (op.kind == OpKind::grouped_matmul) return visit_grouped(op);
  const int place = expert_operand(op.kind);
  if (place < 0) return visit_elementwise(op);
  Operand& operand = op.inputs[static_cast<size_t>(place)];
  if (expert_side_.contains(operand.tensor)) operand.tensor = returned(operand.tensor);
}

// Rows of tokens are received first; offsets become those of this rank's experts.
void Spreading::visit_grouped(Op& op) {
  const bool gradient = op.attributes.transpose_a;
  const Splits splits = splits_of(op);
  op.inputs[0].tensor = received(op.inputs[0].tensor, splits);
  if (gradient) op.inputs[1].tensor = received(op.inputs[1].tensor, splits);
  if (!splits.empty()) op.inputs[2] = splits[1];
  if (!gradient) place_on_expert_side(op.outputs[0].tensor, splits);
}

// SwiGLU, its backward and sums: what reads rows of experts makes rows of experts.
void Spreading::visit_elementwise(const Op& op) {
  for (const Operand& input : op.inputs) {
    const auto found = expert_side_.find(input.tensor);
    if (found == expert_side_.end()) continue;
    const Splits splits = found->second;
    for (const Operand& output : op.outputs)
      place_on_expert_side(output.tensor, splits);
    return;
  }
}

// Rows of equal groups are exchanged one for one; else how many come is data.
void Spreading::place_on_expert_side(TensorId id, const Splits& splits) {
  if (!expert_side_.emplace(id, splits).second) return;
  Tensor& tensor = program_.at(id);
  int64_t& rows = tensor.shape[0];
  token_rows_[id] = rows;
  if (splits.empty()) return;
  tensor.ragged = true;
  rows =
      static_cast<int64_t>(std::ceil(static_cast<double>(rows) * parallel_.ragged_buffer_factor));
}

// The ranks tell each other their offsets before any rows go.
Splits Spreading::splits_of(const Op& grouped) {
  if (grouped.inputs.size() == 2) return {};
  const Operand all_experts = grouped.inputs[2];
  const auto [entry, is_new] = received_.try_emplace(all_experts.tensor, no_tensor);
  if (is_new) {
    const std::string name = program_.at(all_experts.tensor).name;
    const int64_t experts = program_.at(all_experts.tensor).shape[0] - 1;
    entry->second = add(name + ".received", all_experts.tensor, {experts / parallel_.ranks + 1});
    exchange("exchange." + name, {all_experts}, entry->second);
  }
  return {all_experts, {entry->second, Index::all()}};
}

TensorId Spreading::received(TensorId rows, const Splits& splits) {
  if (expert_side_.contains(rows)) return rows;
  const auto [entry, is_new] = received_.try_emplace(rows, no_tensor);
  if (!is_new) return entry->second;
  const std::string name = program_.at(rows).name;
  entry->second = add(name + ".received", rows, program_.at(rows).shape);
  place_on_expert_side(entry->second, splits);
  std::vector<Operand> inputs = {{rows, Index::all()}};
  inputs.insert(inputs.end(), splits.begin(), splits.end());
  exchange("send." + name, std::move(inputs), entry->second);
  return entry->second;
}

TensorId Spreading::returned(TensorId rows) {
  const auto [entry, is_new] = returned_.try_emplace(rows, no_tensor);
  if (!is_new) return entry->second;
  const std::string name = program_.at(rows).name;
  Shape shape = program_.at(rows).shape;
  shape[0] = token_rows_.at(rows);
  entry->second = add(name + ".returned", rows, std::move(shape));
  const Splits& splits = expert_side_.at(rows);
  std::vector<Operand> inputs = {{rows, Index::all()}};
  inputs.insert(inputs.end(), splits.rbegin(), splits.rend());
  exchange("return." + name, std::move(inputs), entry->second);
  return entry->second;
}

TensorId Spreading::add(const std::string& name, TensorId like, Shape shape) {
  Tensor tensor;
  tensor.name = name;
  tensor.shape = std::move(shape);
  tensor.dtype = program_.at(like).dtype;
  return program_.add(std::move(tensor));
}

void Spreading::exchange(const std::string& name, std::vector<Operand> inputs, TensorId output) {
  Op op;
  op.kind = OpKind::all_to_all;
  op.name = name;
  op.inputs = std::move(inputs);
  op.outputs = {{output, Index::all()}};
  op.attributes.devices = parallel_.ranks;
  ops_.push_back(std::move(op));
}

}  // namespace

std::set<TensorId> expert_weights(const Program& program) {
  std::set<TensorId> weights;
  for (const Segment& segment : program.segments)
    for (const Op& op : segment.ops)
      if (op.kind == OpKind::grouped_matmul && !op.attributes.transpose_a)
        weights.insert(op.inputs[1].tensor);
  return weights;
}

Program spread_experts(Program program, const ExpertParallel& parallel) {
  return Spreading(std::move(program), parallel).run();
}

}  // namespace spillway
