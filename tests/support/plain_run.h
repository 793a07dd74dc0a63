// Runs a program at Stage::built with the CPU kernels and nothing else: no policy, no schedule, no
// plan. Every value of every layer stays in memory of its own, so what comes out is what the
// program means.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "harness/ops.h"
#include "harness/program.h"
#include "harness/thread_pool.h"

namespace spillway {

class PlainRun {
 public:
  explicit PlainRun(const Program& program, int threads = 2);

  void step();
  // All slices (of a local tensor: all iterations); f32 or bf16 as floats, i32 as they are.
  std::vector<float> read(const std::string& name) const;
  std::vector<int32_t> read_integers(const std::string& name) const;
  void write(const std::string& name, const std::vector<float>& values);
  void set_tokens(const std::string& name, const std::vector<int32_t>& tokens);
  float loss() const;
  bool has(const std::string& name) const { return find(name) != no_tensor; }

 private:
  TensorId find(const std::string& name) const;
  Buffer buffer(const Segment& segment, const Operand& operand, int64_t iteration);
  int64_t slice_of(const Segment& segment, const Operand& operand, int64_t iteration) const;

  const Program& program_;
  ThreadPool pool_;
  std::vector<int> home_;                     // segment that writes a local tensor
  std::vector<std::vector<std::byte>> data_;  // locals: a slice for each iteration of their segment
  int64_t steps_ = 0;
};

}  // namespace spillway
