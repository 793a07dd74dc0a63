// One more instance of a body's ops, for passes that peel, unroll or split loops. Private to
// offload/.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "harness/program.h"

namespace spillway {

// Copies ops under names of their own. Locals are copied with them: a local tensor belongs to one
// segment and has one producer.
class Instance {
 public:
  Instance(Program& program, std::string suffix)
      : program_(program), suffix_(std::move(suffix)), own_(program.tensors.size(), no_tensor) {}

  // `map_index` says which slice the copy means where the original means one slice.
  template <class MapIndex>
  Op copy(const Op& op, const MapIndex& map_index) {
    Op made = op;
    made.name += suffix_;
    const auto place = [&](Operand& operand) {
      if (!operand.index.whole) operand.index = map_index(operand.index);
      if (program_.at(operand.tensor).extent == Extent::local)
        operand.tensor = own_of(operand.tensor);
    };
    std::for_each(made.inputs.begin(), made.inputs.end(), place);
    std::for_each(made.outputs.begin(), made.outputs.end(), place);
    return made;
  }

  // Per tensor of the program it was made for: the copy, or no_tensor.
  const std::vector<TensorId>& own() const { return own_; }

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

}  // namespace spillway
