// Recomputation as late as its readers allow: depth-first emission of what each op reads.
#include "offload/clone_order.h"

#include <algorithm>
#include <map>
#include <set>

namespace spillway {

namespace {

class Placement {
 public:
  Placement(const Program& program, const std::vector<BodyOp>& ops)
      : ops_(ops), emitted_(ops.size(), false) {
    for (size_t i = 0; i < ops.size(); ++i) {
      for (const Operand& output : ops[i].op.outputs) {
        if (program.at(output.tensor).extent != Extent::local) continue;
        made_by_.emplace(output.tensor, i);  // of a tensor updated in place: the first op
      }
    }
  }

  std::vector<BodyOp> run() {
    for (size_t i = 0; i < ops_.size(); ++i) {
      if (!ops_[i].clone) emit(i);
    }
    return std::move(out_);
  }

 private:
  // Clones still to be emitted that op i needs, directly or through others.
  void collect(size_t i, std::set<size_t>& found) const {
    for (const Operand& input : ops_[i].op.inputs) {
      const auto made = made_by_.find(input.tensor);
      if (made == made_by_.end() || emitted_[made->second] || made->second == i) continue;
      if (ops_[made->second].clone && !found.insert(made->second).second) continue;
      collect(made->second, found);
    }
  }

  void emit(size_t i) {
    if (emitted_[i]) return;
    emitted_[i] = true;
    std::set<size_t> clones;
    collect(i, clones);
    std::vector<size_t> ordered(clones.begin(), clones.end());
    std::sort(ordered.begin(), ordered.end(), [&](size_t a, size_t b) {
      return ops_[a].forward_position < ops_[b].forward_position;
    });
    for (size_t before : ordered)
      emit(before);
    for (const Operand& input : ops_[i].op.inputs) {
      const auto made = made_by_.find(input.tensor);
      if (made != made_by_.end()) emit(made->second);
    }
    out_.push_back(ops_[i]);
  }

  const std::vector<BodyOp>& ops_;
  std::vector<bool> emitted_;
  std::map<TensorId, size_t> made_by_;
  std::vector<BodyOp> out_;
};

}  // namespace

std::vector<BodyOp> place_clones(const Program& program, const std::vector<BodyOp>& ops) {
  return Placement(program, ops).run();
}

}  // namespace spillway
