// Recomputation as late as its readers allow: depth-first emission of what each op reads.
#include "offload/clone_order.h"

#include <algorithm>
#include <utility>

namespace spillway {

namespace {

class Placement {
 public:
  Placement(const Program& program, std::vector<BodyOp> ops)
      : ops_(std::move(ops)),
        emitted_(ops_.size()),
        seen_by_(ops_.size(), -1),
        made_by_(program.tensors.size(), -1) {
    for (size_t i = 0; i < ops_.size(); ++i) {
      for (const Operand& output : ops_[i].op.outputs) {
        if (program.at(output.tensor).extent != Extent::local) continue;
        int& maker = made_by_[index_of(output.tensor)];
        if (maker < 0) maker = static_cast<int>(i);
      }
    }
  }

  std::vector<BodyOp> run() {
    out_.reserve(ops_.size());
    for (size_t i = 0; i < ops_.size(); ++i) {
      if (!ops_[i].clone) emit(i);
    }
    return std::move(out_);
  }

 private:
  // Clones still to be emitted that op i needs, directly or through others, for op `reader`.
  void collect(size_t i, int reader, std::vector<size_t>& found) {
    for (const Operand& input : ops_[i].op.inputs) {
      const int made = made_by_[index_of(input.tensor)];
      if (made < 0 || emitted_[index_of(made)] || seen_by_[index_of(made)] == reader) continue;
      seen_by_[index_of(made)] = reader;
      if (ops_[index_of(made)].clone) found.push_back(index_of(made));
      collect(index_of(made), reader, found);
    }
  }

  void emit(size_t i) {
    if (emitted_[i]) return;
    emitted_[i] = true;
    std::vector<size_t> clones;
    collect(i, static_cast<int>(i), clones);
    std::sort(clones.begin(), clones.end(), [&](size_t a, size_t b) {
      return ops_[a].forward_position < ops_[b].forward_position;
    });
    for (size_t before : clones)
      emit(before);
    for (const Operand& input : ops_[i].op.inputs) {
      const int made = made_by_[index_of(input.tensor)];
      if (made >= 0) emit(index_of(made));
    }
    out_.push_back(std::move(ops_[i]));  // nobody asks what an op reads once it is emitted
  }

  std::vector<BodyOp> ops_;
  std::vector<bool> emitted_;
  std::vector<int> seen_by_;  // the last op that collect() came here for
  std::vector<int> made_by_;  // per tensor, local: of one updated in place the first op; -1: none
  std::vector<BodyOp> out_;
};

}  // namespace

std::vector<BodyOp> place_clones(const Program& program, std::vector<BodyOp> ops) {
  return Placement(program, std::move(ops)).run();
}

}  // namespace spillway
