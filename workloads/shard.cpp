// FSDP as a rewrite. Weights are found through the optimizer's ops, so any workload that ends in
// them is sharded by the same rule.
#include "workloads/shard.h"

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "harness/error.h"
#include "workloads/expert_parallel.h"

namespace spillway {
namespace {

// One weight before the rewrite: the ids of an adamw op's operands.
struct ShardedWeight {
  std::string name;  // of the tensor that ops read
  Shape shape;       // of one slice, whole
  DType dtype;       // in which ops read it
  TensorId read, master, gradient;
  int64_t devices;  // over which its shards are spread

  int64_t shard_elements() const { return (elements_of(shape) + devices - 1) / devices; }
};

// {w, m, v, g} -> {w, m, v, (copy)}: with one device ops read the copy where there is one.
// Weights of experts are whole on `ranks` devices together.
std::vector<ShardedWeight> find_weights(const Program& program, int64_t devices, int64_t ranks) {
  const std::set<TensorId> of_experts = expert_weights(program);
  std::vector<ShardedWeight> weights;
  for (const Segment& segment : program.segments) {
    for (const Op& op : segment.ops) {
      if (op.kind != OpKind::adamw) continue;
      const TensorId read = op.outputs[op.outputs.size() > 3 ? 3 : 0].tensor;
      const Tensor& tensor = program.at(read);
      weights.push_back({tensor.name, tensor.shape, tensor.dtype, read, op.inputs[0].tensor,
                         op.inputs[3].tensor,
                         of_experts.contains(read) ? devices / ranks : devices});
    }
  }
  return weights;
}

class Sharding {
 public:
  Sharding(Program program, int64_t devices, int64_t ranks)
      : program_(std::move(program)),
        devices_(devices),
        weights_(find_weights(program_, devices, ranks)) {
    for (size_t w = 0; w < weights_.size(); ++w) {
      by_read_[weights_[w].read] = w;
      by_gradient_[weights_[w].gradient] = w;
    }
    find_gradient_segments();
  }

  Program run();

 private:
  void find_gradient_segments();
  void shard_state();
  void rewrite(size_t segment);
  void rewrite_optimizer(Op& op);
  void gather_inputs(Op& op);
  void redirect_gradients(Op& op, size_t segment);
  void scatter_gradients(const std::vector<Operand>& written, size_t segment, size_t position);
  Operand gathered(const ShardedWeight& weight, const Index& index);
  TensorId full_gradient(const ShardedWeight& weight, size_t segment);
  TensorId add_local(const std::string& what, const ShardedWeight& weight, Shape shape,
                     DType dtype);
  void append(OpKind kind, const std::string& name, int64_t devices, Operand input, Operand output);

  // Where a gradient is written: reduced after the last place. More than one segment (a tied
  // embedding) means that the whole gradient lives between them.
  struct Writers {
    size_t first_segment, last_segment, last_op;
  };

  Program program_;
  int64_t devices_;
  std::vector<ShardedWeight> weights_;
  std::map<TensorId, size_t> by_read_, by_gradient_;  // -> weights_
  std::map<TensorId, Writers> writers_;               // by gradient
  std::map<TensorId, TensorId> full_;                 // gradient -> whole gradient of this device

  // Of the segment being rewritten.
  std::vector<Op> ops_;
  std::string segment_name_;
  std::map<TensorId, std::pair<Index, TensorId>> gathered_;  // by tensor read
};

void Sharding::find_gradient_segments() {
  for (size_t s = 0; s < program_.segments.size(); ++s) {
    const std::vector<Op>& ops = program_.segments[s].ops;
    for (size_t k = 0; k < ops.size(); ++k) {
      for (const Operand& output : ops[k].outputs) {
        if (!by_gradient_.contains(output.tensor)) continue;
        const auto [entry, is_new] = writers_.try_emplace(output.tensor, Writers{s, s, k});
        if (!is_new) entry->second = {entry->second.first_segment, s, k};
      }
    }
  }
}

Program Sharding::run() {
  shard_state();
  for (size_t s = 0; s < program_.segments.size(); ++s)
    rewrite(s);
  program_.devices = devices_;
  return std::move(program_);
}

// Weight, m, v and gradient: one flat shard a slice.
void Sharding::shard_state() {
  for (const Segment& segment : program_.segments) {
    for (const Op& op : segment.ops) {
      if (op.kind != OpKind::adamw) continue;
      const TensorId read = op.outputs[op.outputs.size() > 3 ? 3 : 0].tensor;
      for (const Operand& operand : op.inputs)
        program_.at(operand.tensor).shape = {weights_[by_read_.at(read)].shard_elements()};
    }
  }
}

void Sharding::rewrite(size_t segment) {
  segment_name_ = program_.segments[segment].name;
  gathered_.clear();
  ops_.clear();
  std::vector<Op> originals = std::move(program_.segments[segment].ops);
  for (size_t k = 0; k < originals.size(); ++k) {
    Op& op = originals[k];
    if (op.kind == OpKind::adamw) {
      rewrite_optimizer(op);
      ops_.push_back(std::move(op));
      continue;
    }
    const std::vector<Operand> written = op.outputs;
    gather_inputs(op);
    redirect_gradients(op, segment);
    ops_.push_back(std::move(op));
    scatter_gradients(written, segment, k);
  }
  program_.segments[segment].ops = std::move(ops_);
}

// Ops read gathered weights now, so there is no copy to keep up to date.
void Sharding::rewrite_optimizer(Op& op) { op.outputs.resize(3); }

void Sharding::gather_inputs(Op& op) {
  for (Operand& input : op.inputs)
    if (const auto found = by_read_.find(input.tensor); found != by_read_.end())
      input = gathered(weights_[found->second], input.index);
}

// Before the first use in this body: {stacked shard} -> {shard in the compute dtype} -> {whole}.
Operand Sharding::gathered(const ShardedWeight& weight, const Index& index) {
  const auto [entry, is_new] = gathered_.try_emplace(weight.read, index, no_tensor);
  check(entry->second.first == index, "segment ", segment_name_, ": reads two slices of ",
        weight.name, ", expected one");
  if (is_new) {
    const TensorId shard = add_local("shard", weight, {weight.shard_elements()}, weight.dtype);
    append(OpKind::slice_cast, "slice." + weight.name, weight.devices, {weight.master, index},
           {shard, Index::all()});
    entry->second.second = add_local("gathered", weight, weight.shape, weight.dtype);
    append(OpKind::all_gather, "gather." + weight.name, weight.devices, {shard, Index::all()},
           {entry->second.second, Index::all()});
  }
  return {entry->second.second, Index::all()};
}

void Sharding::redirect_gradients(Op& op, size_t segment) {
  for (std::vector<Operand>* operands : {&op.inputs, &op.outputs})
    for (Operand& operand : *operands)
      if (const auto found = by_gradient_.find(operand.tensor); found != by_gradient_.end())
        operand = {full_gradient(weights_[found->second], segment), Index::all()};
}

// This device's own gradient, in the dtype in which it is reduced.
TensorId Sharding::full_gradient(const ShardedWeight& weight, size_t segment) {
  const auto [entry, is_new] = full_.try_emplace(weight.gradient, no_tensor);
  if (!is_new) return entry->second;
  entry->second = add_local("full_gradient", weight, weight.shape, weight.dtype);
  const Writers& writers = writers_.at(weight.gradient);
  if (writers.first_segment != writers.last_segment) {
    check(program_.segments[segment].trips == 1, "gradient of ", weight.name,
          ": is written in two segments, one of them scanned");
    program_.at(entry->second).extent = Extent::step;
  }
  return entry->second;
}

void Sharding::scatter_gradients(const std::vector<Operand>& written, size_t segment,
                                 size_t position) {
  for (const Operand& output : written) {
    const auto found = by_gradient_.find(output.tensor);
    if (found == by_gradient_.end()) continue;
    const Writers& writers = writers_.at(output.tensor);
    if (writers.last_segment != segment || writers.last_op != position) continue;
    const ShardedWeight& weight = weights_[found->second];
    const TensorId shard =
        add_local("gradient_shard", weight, {weight.shard_elements()}, DType::f32);
    append(OpKind::reduce_scatter, "scatter." + weight.name, weight.devices,
           {full_.at(weight.gradient), Index::all()}, {shard, Index::all()});
    append(OpKind::write_slice, "write." + weight.name, weight.devices, {shard, Index::all()},
           output);
  }
}

TensorId Sharding::add_local(const std::string& what, const ShardedWeight& weight, Shape shape,
                             DType dtype) {
  Tensor tensor;
  tensor.name = segment_name_ + "." + what + "." + weight.name;
  tensor.shape = std::move(shape);
  tensor.dtype = dtype;
  tensor.role = Role::gathered_weight;
  return program_.add(std::move(tensor));
}

void Sharding::append(OpKind kind, const std::string& name, int64_t devices, Operand input,
                      Operand output) {
  Op op;
  op.kind = kind;
  op.name = name;
  op.inputs = {input};
  op.outputs = {output};
  op.attributes.devices = devices;
  ops_.push_back(std::move(op));
}

// Tensors no op touches any more (compute copies) leave the program; the others keep their order.
Program without_unused(Program program) {
  std::vector<bool> used(program.tensors.size());
  const auto for_operands = [&program](const auto& visit) {
    for (Segment& segment : program.segments)
      for (Op& op : segment.ops)
        for (std::vector<Operand>* operands : {&op.inputs, &op.outputs})
          for (Operand& operand : *operands)
            visit(operand);
  };
  for_operands([&used](const Operand& o) { used[static_cast<size_t>(o.tensor)] = true; });
  std::vector<TensorId> renamed(program.tensors.size(), no_tensor);
  std::vector<Tensor> kept;
  for (size_t id = 0; id < used.size(); ++id) {
    if (!used[id]) continue;
    renamed[id] = static_cast<TensorId>(kept.size());
    kept.push_back(std::move(program.tensors[id]));
  }
  const auto rename = [&renamed](TensorId& id) {
    if (id != no_tensor) id = renamed[static_cast<size_t>(id)];
  };
  for (Tensor& tensor : kept)
    rename(tensor.init_from);
  for_operands([&rename](Operand& operand) { rename(operand.tensor); });
  rename(program.loss);
  program.tensors = std::move(kept);
  return program;
}

}  // namespace

Program shard(Program program, int64_t devices, const ExpertParallel& experts) {
  if (devices < 1) throw InputError(text("devices: found ", devices, ", expected at least 1"));
  if (experts.ranks < 1 || devices % experts.ranks != 0)
    throw InputError(text("--expert-parallel: found ", experts.ranks, ", expected a divisor of ",
                          devices, ", the number of devices"));
  const auto all_rows = static_cast<double>(experts.ranks);  // what all ranks send, over one's
  if (!(experts.ragged_buffer_factor > 0) ||
      (experts.ranks > 1 && experts.ragged_buffer_factor > all_rows))
    throw InputError(text("--ragged-buffer-factor: found ", experts.ragged_buffer_factor,
                          ", expected a number above 0 and at most ", experts.ranks,
                          ", the ranks that experts are spread over"));
  check(program.devices == 1, "program ", program.name, " is sharded already, over ",
        program.devices, " devices");
  if (devices == 1) return program;
  if (experts.ranks > 1) program = spread_experts(std::move(program), experts);
  return without_unused(Sharding(std::move(program), devices, experts.ranks).run());
}

}  // namespace spillway
