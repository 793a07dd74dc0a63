#include "tests/support/brute_force.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

namespace spillway {
namespace {

using Bits = std::vector<uint64_t>;
// Program order: step, segment, iteration, op, and 1 for the op's done.
using Key = std::tuple<int, size_t, int64_t, size_t, int>;

// One slice touched by one node of the graph.
struct Touch {
  size_t node = 0;
  int phase = 0;  // within the node: 0 allocate, 1 op, 2 release
  bool writes = false, lifetime = false;
  TensorId tensor = no_tensor;
  int64_t slice = 0;
  Key key;
};

class Graph {
 public:
  explicit Graph(const Schedule& schedule) : schedule_(schedule) {
    for (int step = 0; step < 2; ++step) {
      for (size_t s = 0; s < schedule.segments.size(); ++s) {
        const Program& program = schedule.program;
        append_pseudo(schedule.segments[s].enter_allocate, 0);
        for (int64_t i = 0; i < program.segments[s].trips; ++i)
          append_body(step, s, i);
        append_pseudo(schedule.segments[s].exit_release, 2);
      }
    }
    close();
  }

  bool cyclic() const {
    for (size_t n = 0; n < reach_.size(); ++n) {
      if (reaches(n, n)) return true;
    }
    return false;
  }

  // Whether a is over before b begins.
  bool before(const Touch& a, const Touch& b) const {
    return a.node == b.node ? a.phase < b.phase : reaches(a.node, b.node);
  }

  std::vector<Touch> touches;

 private:
  size_t add_node(int lane) {
    const size_t node = next_.size();
    next_.emplace_back();
    if (last_[lane] >= 0) next_[static_cast<size_t>(last_[lane])].push_back(node);
    last_[lane] = static_cast<int64_t>(node);
    return node;
  }

  void append_pseudo(const std::vector<TensorId>& tensors, int phase) {
    const size_t node = add_node(0);
    for (const TensorId id : tensors)
      touch_all(node, phase, id);
  }

  void touch_all(size_t node, int phase, TensorId id) {
    for (int64_t k = 0; k < schedule_.program.at(id).slices; ++k) {
      touches.push_back({node, phase, true, true, id, k, {}});
    }
  }

  void append_body(int step, size_t s, int64_t i) {
    std::map<std::pair<int, int>, size_t> node_of;  // lane, position
    const auto& lanes = schedule_.segments[s].lanes;
    for (int lane = 0; lane < lane_count; ++lane) {
      for (size_t k = 0; k < lanes[lane].size(); ++k) {
        const size_t node = node_of[{lane, static_cast<int>(k)}] = add_node(lane);
        const LaneStep& lane_step = lanes[lane][k];
        for (const TensorId id : lane_step.allocate)
          touch_all(node, 0, id);
        const size_t op = static_cast<size_t>(lane_step.op);
        if (lane_step.kind == StepKind::run) {
          touch_operands(node, {step, s, i, op, 0}, false, false);
          touch_operands(node, {step, s, i, op, 0}, true, true);
        }
        // The last of neighbouring dones reads what the ops of all of them wrote.
        size_t dones = 0;
        while (dones <= k && lanes[lane][k - dones].kind == StepKind::done)
          ++dones;
        if (k + 1 < lanes[lane].size() && lanes[lane][k + 1].kind == StepKind::done) dones = 0;
        for (size_t d = 0; d < dones; ++d)
          touch_operands(node, {step, s, i, static_cast<size_t>(lanes[lane][k - d].op), 1}, true,
                         false);
        for (const TensorId id : lane_step.release)
          touch_all(node, 2, id);
      }
    }
    for (int lane = 0; lane < lane_count; ++lane) {
      for (size_t k = 0; k < lanes[lane].size(); ++k) {
        for (const Wait& wait : lanes[lane][k].waits) {
          next_[node_of.at({static_cast<int>(wait.on), wait.step})].push_back(
              node_of.at({lane, static_cast<int>(k)}));
        }
      }
    }
  }

  void touch_operands(size_t node, const Key& key, bool outputs, bool writes) {
    const size_t s = std::get<1>(key), op_index = std::get<3>(key);
    const int64_t i = std::get<2>(key);
    const Op& op = schedule_.program.segments[s].ops[op_index];
    for (const Operand& operand : outputs ? op.outputs : op.inputs) {
      const Tensor& tensor = schedule_.program.at(operand.tensor);
      int64_t first = 0, end = tensor.slices;
      if (!operand.index.whole) {
        first = operand.index.stride * i + operand.index.offset;
        while (tensor.ring && first < 0)
          first += tensor.slices;
        if (tensor.ring) first %= tensor.slices;
        end = first + 1;
      }
      for (int64_t k = first; k < end; ++k) {
        touches.push_back({node, 1, writes, false, operand.tensor, k, key});
      }
    }
  }

  // Transitive closure, by relaxation until nothing changes: nodes are nearly in order already.
  void close() {
    const size_t n = next_.size();
    reach_.assign(n, Bits((n + 63) / 64));
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t a = n; a-- > 0;) {
        Bits row = reach_[a];
        for (const size_t b : next_[a]) {
          row[b / 64] |= uint64_t{1} << (b % 64);
          for (size_t w = 0; w < row.size(); ++w)
            row[w] |= reach_[b][w];
        }
        if (row == reach_[a]) continue;
        reach_[a] = std::move(row);
        changed = true;
      }
    }
  }

  bool reaches(size_t a, size_t b) const { return reach_[a][b / 64] >> (b % 64) & 1; }

  const Schedule& schedule_;
  std::vector<std::vector<size_t>> next_;
  int64_t last_[lane_count] = {-1, -1, -1, -1};
  std::vector<Bits> reach_;
};

class Judge {
 public:
  Judge(const Schedule& schedule, const Plan& plan)
      : program_(schedule.program), plan_(plan), graph_(schedule) {}

  std::string verdict() const {
    const std::string place = misplaced();
    if (!place.empty()) return place;
    if (graph_.cyclic()) return "deadlock";
    const std::vector<std::vector<size_t>> meets = overlaps();
    for (size_t a = 0; a < meets.size(); ++a) {
      const Touch& x = graph_.touches[a];
      for (const size_t b : meets[a]) {
        const Touch& y = graph_.touches[b];
        if ((x.writes || y.writes) && !legal(x, y)) return "race of a pair";
      }
      if (!x.writes && !sees_its_value(x, meets[a])) return "wrong value read";
    }
    return {};
  }

 private:
  int64_t begin_of(const Touch& t) const {
    return plan_.offset[static_cast<size_t>(t.tensor)] +
           t.slice * program_.at(t.tensor).slice_bytes();
  }

  // Per touch, all others of common bytes: by a sweep over touches in the order of their addresses.
  std::vector<std::vector<size_t>> overlaps() const {
    const std::vector<Touch>& touches = graph_.touches;
    std::vector<std::tuple<Space, int64_t, int64_t, size_t>> ranges;
    for (size_t t = 0; t < touches.size(); ++t) {
      const Tensor& tensor = program_.at(touches[t].tensor);
      const int64_t begin = begin_of(touches[t]);
      ranges.emplace_back(tensor.space, begin, begin + tensor.slice_bytes(), t);
    }
    std::sort(ranges.begin(), ranges.end());
    std::vector<std::vector<size_t>> meets(touches.size());
    for (size_t a = 0; a < ranges.size(); ++a) {
      const auto& [space, begin, end, x] = ranges[a];
      for (size_t b = a + 1; b < ranges.size(); ++b) {
        const auto& [other_space, other_begin, other_end, y] = ranges[b];
        if (other_space != space || other_begin >= end) break;
        meets[x].push_back(y);
        meets[y].push_back(x);
      }
    }
    return meets;
  }

  bool legal(const Touch& x, const Touch& y) const {
    if (x.node == y.node && x.phase == y.phase) {
      return x.tensor == y.tensor || x.lifetime;  // an update in place; lists of one moment
    }
    if (!graph_.before(x, y) && !graph_.before(y, x)) return false;
    if (x.tensor != y.tensor || x.lifetime || y.lifetime) return true;
    return x.key < y.key ? graph_.before(x, y) : graph_.before(y, x);
  }

  bool sees_its_value(const Touch& read, const std::vector<size_t>& meets) const {
    const Touch* source = nullptr;
    for (const size_t k : meets) {
      const Touch& t = graph_.touches[k];
      if (t.writes && !t.lifetime && t.tensor == read.tensor && t.key < read.key &&
          (!source || source->key < t.key)) {
        source = &t;
      }
    }
    if (!source && program_.at(read.tensor).extent != Extent::persistent) return false;
    return std::none_of(meets.begin(), meets.end(), [&](size_t k) {
      const Touch& t = graph_.touches[k];
      const bool foreign = t.writes && (t.lifetime || t.tensor != read.tensor);
      return foreign && graph_.before(t, read) && (!source || graph_.before(*source, t));
    });
  }

  std::string misplaced() const {
    for (size_t a = 0; a < program_.tensors.size(); ++a) {
      const Tensor& x = program_.tensors[a];
      if (plan_.offset[a] == -1) continue;
      const int64_t end = plan_.offset[a] + x.bytes();
      const bool host = x.space == Space::host;
      if (plan_.offset[a] < 0 || end > (host ? plan_.host_arena_bytes : plan_.device_bytes)) {
        return "outside the arena";
      }
      for (size_t b = 0; b < a; ++b) {
        const Tensor& y = program_.tensors[b];
        const bool both = x.extent == Extent::persistent && y.extent == Extent::persistent;
        if (both && x.space == y.space && plan_.offset[a] < plan_.offset[b] + y.bytes() &&
            plan_.offset[b] < end) {
          return "two persistent tensors share bytes";
        }
      }
    }
    return {};
  }

  const Program& program_;
  const Plan& plan_;
  Graph graph_;
};

}  // namespace

std::string brute_force_race(const Schedule& schedule, const Plan& plan) {
  return Judge(schedule, plan).verdict();
}

}  // namespace spillway
