// Generation stamps: beside every slot of host memory, which write it holds. They are not in the
// arena, so nothing that overwrites data can repair them.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "harness/schedule.h"

namespace spillway {

// A slot is one slice of a host tensor. A write-back stamps the slots it wrote with its step and
// its own number within the step; a reload knows from the program's order which number it must
// find. Stamps are atomic because a schedule that lacks a wait lets lanes meet here.
class SlotStamps {
 public:
  explicit SlotStamps(const Program& program);

  // `op` is a copy to host, finished in iteration `iteration` of `segment`, in step `step`.
  void written(int segment, int op, int64_t iteration, int64_t step);
  // Whether every slot that this copy touches on the host holds what the program means to be there:
  // before a copy from host what it is to read, after a copy to host what it wrote.
  bool fresh(int segment, int op, int64_t iteration, int64_t step) const;

 private:
  struct Slots {
    size_t first = 0, count = 0;
  };
  struct Copy {
    Operand host;
    int64_t first_number = 0;       // copies to host: number of iteration 0, the others follow
    std::vector<int64_t> expected;  // copies from host: one a slot, iteration after iteration
  };
  void number_writes();
  void follow_program_order();
  Slots slots_of(const Operand& operand, int64_t iteration) const;
  int64_t stamp(int64_t step, int64_t number) const { return step * writes_per_step_ + number; }

  const Program& program_;
  std::map<std::pair<int, int>, Copy> copies_;  // by segment and op
  std::map<TensorId, size_t> first_slot_;
  std::vector<std::atomic<int64_t>> stamps_;
  int64_t writes_per_step_ = 0;
};

}  // namespace spillway
