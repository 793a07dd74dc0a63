// Memory-minimising orders, as XLA's memory scheduler tries them: program order, depth-first, list.
#include <algorithm>
#include <numeric>

#include "harness/error.h"
#include "offload/order.h"

namespace spillway {

namespace {

bool moves_data_only(const Op& op) {
  switch (op.kind) {
    case OpKind::slice_cast:
    case OpKind::all_gather:
    case OpKind::reduce_scatter:
    case OpKind::all_to_all:
    case OpKind::write_slice:
    case OpKind::copy_d2h:
    case OpKind::copy_h2d:
    case OpKind::copy_d2d:
      return true;
    default:
      return false;
  }
}

// Ops that no compute op of this body depends on or feeds: rotated copies and collectives. They
// keep their place at the top or the end of the body, whatever happens between.
std::vector<bool> detached_ops(const BodyGraph& graph) {
  std::vector<bool> attached(index_of(graph.size()), false);
  std::vector<int> open;
  const auto attach = [&](int op) {
    if (attached[index_of(op)]) return;
    attached[index_of(op)] = true;
    open.push_back(op);
  };
  for (int i = 0; i < graph.size(); ++i) {
    if (!moves_data_only(graph.op(i))) attach(i);
  }
  while (!open.empty()) {
    const int op = open.back();
    open.pop_back();
    for (int other : graph.before[index_of(op)])
      attach(other);
    for (int other : graph.after[index_of(op)])
      attach(other);
  }
  attached.flip();
  return attached;
}

// XLA's DFS memory scheduler: operands with more extra users first, then those with larger inputs.
class DepthFirst {
 public:
  explicit DepthFirst(const BodyGraph& graph)
      : graph_(graph),
        extra_users_(index_of(graph.size())),
        bytes_(index_of(graph.size())),
        seen_(index_of(graph.size())) {
    for (int i = 0; i < graph.size(); ++i)
      measure(i);
  }

  std::vector<int> order() {
    for (int i = 0; i < graph_.size(); ++i) {
      if (graph_.after[index_of(i)].empty()) visit(i);
    }
    return std::move(order_);
  }

 private:
  void measure(int i) {  // ops come in program order: predecessors are measured already
    const auto users = static_cast<int64_t>(graph_.after[index_of(i)].size());
    extra_users_[index_of(i)] = std::max<int64_t>(users - 1, 0);
    for (const LocalTensor& local : graph_.touches[index_of(i)])
      bytes_[index_of(i)] += local.bytes;
    for (int from : graph_.before[index_of(i)]) {
      extra_users_[index_of(i)] += extra_users_[index_of(from)];
      bytes_[index_of(i)] += bytes_[index_of(from)];
      // Sums over paths grow exponentially in a deep body; beyond this they only rank.
      bytes_[index_of(i)] = std::min(bytes_[index_of(i)], int64_t{1} << 60);
      extra_users_[index_of(i)] = std::min(extra_users_[index_of(i)], int64_t{1} << 60);
    }
  }

  void visit(int i) {
    if (seen_[index_of(i)]) return;
    seen_[index_of(i)] = true;
    std::vector<int> operands = graph_.before[index_of(i)];
    std::stable_sort(operands.begin(), operands.end(), [&](int a, int b) {
      if (extra_users_[index_of(a)] != extra_users_[index_of(b)])
        return extra_users_[index_of(a)] > extra_users_[index_of(b)];
      return bytes_[index_of(a)] > bytes_[index_of(b)];
    });
    for (int from : operands)
      visit(from);
    order_.push_back(i);
  }

  const BodyGraph& graph_;
  std::vector<int64_t> extra_users_, bytes_;
  std::vector<bool> seen_;
  std::vector<int> order_;
};

// XLA's list memory scheduler: of the ready ops the one that frees most (frees less allocates).
class Greedy {
 public:
  explicit Greedy(const BodyGraph& graph)
      : graph_(graph), uses_(graph.program.tensors.size()), total_(uses_.size()) {
    for (int i = 0; i < graph.size(); ++i) {
      waiting_.push_back(graph.before[index_of(i)].size());
      if (waiting_.back() == 0) ready_.push_back(i);
      for (const LocalTensor& local : graph.touches[index_of(i)])
        ++uses_[index_of(local.id)];
    }
    total_ = uses_;
  }

  std::vector<int> order() {
    std::vector<int> order;
    order.reserve(waiting_.size());
    while (!ready_.empty()) {
      const size_t place = best();
      const int op = ready_[place];
      ready_.erase(ready_.begin() + static_cast<std::ptrdiff_t>(place));
      for (const LocalTensor& local : graph_.touches[index_of(op)])
        --uses_[index_of(local.id)];
      for (const int next : graph_.after[index_of(op)])
        if (--waiting_[index_of(next)] == 0)
          ready_.insert(std::lower_bound(ready_.begin(), ready_.end(), next), next);
      order.push_back(op);
    }
    return order;
  }

 private:
  // Of equals the first in program order.
  size_t best() const {
    size_t found = 0;
    int64_t most = gain(ready_[0]);
    for (size_t k = 1; k < ready_.size(); ++k) {
      const int64_t here = gain(ready_[k]);
      if (here > most) found = k;
      most = std::max(most, here);
    }
    return found;
  }

  int64_t gain(int i) const {
    int64_t bytes = 0;
    for (const LocalTensor& local : graph_.touches[index_of(i)]) {
      const int uses = uses_[index_of(local.id)];
      if (uses == 1) bytes += local.bytes;
      if (uses == total_[index_of(local.id)]) bytes -= local.bytes;
    }
    return bytes;
  }

  const BodyGraph& graph_;
  std::vector<size_t> waiting_;
  std::vector<int> ready_;         // ascending
  std::vector<int> uses_, total_;  // per tensor: ops still to touch it, ops in all
};

// Where an op holds memory for the shortest time: a D2H right after its producer; an H2D, and a
// slice, whose stack stays whatever it does, right before the first reader.
std::vector<int> settle(const BodyGraph& graph, std::vector<int> ops) {
  for (int op = 0; op < graph.size(); ++op) {
    const OpKind kind = graph.op(op).kind;
    const bool out = kind == OpKind::copy_d2h;
    const bool in = kind == OpKind::copy_h2d || kind == OpKind::slice_cast;
    const std::vector<int>& anchors = out ? graph.before[index_of(op)] : graph.after[index_of(op)];
    if (!(out || in) || anchors.empty()) continue;
    ops.erase(std::find(ops.begin(), ops.end(), op));
    const auto is_anchor = [&](int other) {
      return std::find(anchors.begin(), anchors.end(), other) != anchors.end();
    };
    const auto place = out ? std::find_if(ops.rbegin(), ops.rend(), is_anchor).base()
                           : std::find_if(ops.begin(), ops.end(), is_anchor);
    ops.insert(place, op);
  }
  return ops;
}

// Detached ops around an order of the others: those before the first compute op of the program stay
// on top, the rest goes to the end.
std::vector<int> with_detached(const BodyGraph& graph, const std::vector<bool>& detached,
                               const std::vector<int>& ops) {
  std::vector<int> top, middle, end;
  bool computes = false;
  for (int op = 0; op < graph.size(); ++op) {
    computes = computes || !moves_data_only(graph.op(op));
    if (detached[index_of(op)]) (computes ? end : top).push_back(op);
  }
  for (int op : ops) {
    if (!detached[index_of(op)]) middle.push_back(op);
  }
  top.insert(top.end(), middle.begin(), middle.end());
  top.insert(top.end(), end.begin(), end.end());
  return top;
}

}  // namespace

BodyGraph graph_of(const Program& program, const Segment& segment) {
  BodyGraph graph{program, segment, dependencies(program, segment), {}, {}, 0};
  graph.after.resize(graph.before.size());
  graph.touches.resize(graph.before.size());
  std::vector<size_t> readers(graph.before.size());
  for (const std::vector<int>& before : graph.before)
    for (const int from : before)
      ++readers[index_of(from)];
  for (int i = 0; i < graph.size(); ++i) {
    graph.after[index_of(i)].reserve(readers[index_of(i)]);
    for (const int from : graph.before[index_of(i)])
      graph.after[index_of(from)].push_back(i);
    std::vector<LocalTensor>& locals = graph.touches[index_of(i)];
    locals.reserve(graph.op(i).inputs.size() + graph.op(i).outputs.size());
    const auto note = [&](const Operand& operand, bool writes) {
      const Tensor& tensor = program.at(operand.tensor);
      if (tensor.extent != Extent::local) return;
      const auto found = std::find_if(locals.begin(), locals.end(), [&](const LocalTensor& local) {
        return local.id == operand.tensor;
      });
      if (found == locals.end()) locals.push_back({operand.tensor, tensor.bytes(), writes});
    };
    for (const Operand& operand : graph.op(i).inputs)
      note(operand, false);
    for (const Operand& operand : graph.op(i).outputs)
      note(operand, true);
  }
  return graph;
}

std::vector<int64_t> bytes_around_segments(const Program& program) {
  const std::vector<StepLife> lives = step_lives(program);
  std::vector<int64_t> bytes(program.segments.size(), 0);
  for (size_t id = 0; id < lives.size(); ++id) {
    const Tensor& tensor = program.tensors[id];
    if (lives[id].first < 0 || tensor.space != Space::device) continue;
    for (int s = lives[id].first; s <= lives[id].last; ++s)
      bytes[index_of(s)] += tensor.bytes();
  }
  return bytes;
}

int64_t peak_bytes(const BodyGraph& graph, const std::vector<int>& ops) {
  std::vector<size_t> last(graph.program.tensors.size());
  std::vector<bool> seen(last.size());
  for (size_t k = 0; k < ops.size(); ++k)
    for (const LocalTensor& local : graph.touches[index_of(ops[k])])
      last[index_of(local.id)] = k;
  int64_t live = 0, peak = 0;
  for (size_t k = 0; k < ops.size(); ++k) {
    for (const LocalTensor& local : graph.touches[index_of(ops[k])]) {
      if (!seen[index_of(local.id)]) live += local.bytes;
      seen[index_of(local.id)] = true;
    }
    peak = std::max(peak, live);
    for (const LocalTensor& local : graph.touches[index_of(ops[k])])
      if (last[index_of(local.id)] == k) live -= local.bytes;
  }
  return peak;
}

std::vector<int> memory_order(const BodyGraph& graph) {
  std::vector<int> program_order(index_of(graph.size()));
  std::iota(program_order.begin(), program_order.end(), 0);
  const std::vector<bool> detached = detached_ops(graph);
  std::vector<int> best;
  int64_t lowest = 0;
  for (const std::vector<int>& candidate :
       {program_order, DepthFirst(graph).order(), Greedy(graph).order()}) {
    std::vector<int> ops = settle(graph, with_detached(graph, detached, candidate));
    const int64_t peak = peak_bytes(graph, ops);
    if (!best.empty() && peak >= lowest) continue;
    best = std::move(ops);
    lowest = peak;
  }
  return best;
}

}  // namespace spillway
