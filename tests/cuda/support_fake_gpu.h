// A GPU made of the CPU, to watch the CUDA executor at work. Streams are queues of work that runs
// when somebody waits for it, in the worst order that the events allow; kernels are the CPU ops.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "harness/cuda/kernel.h"
#include "harness/cuda/memory.h"

namespace spillway {

// Which of several streams that could go on does so: the first of these that can, by the number of
// their making (compute 0, copies to host 1, from host 2); none given: any.
using Haste = std::vector<int>;
inline const Haste any_haste = {};
inline const Haste compute_first = {0, 1, 2};
inline const Haste copies_first = {2, 1, 0};
inline const std::vector<Haste> every_haste = {compute_first, {0, 2, 1},    {1, 0, 2}, {1, 2, 0},
                                               {2, 0, 1},     copies_first, any_haste};

struct FakeEvent {
  int number = 0;
  EventUse use = EventUse::order;
  int64_t record = 0;  // the last one issued; 0: none
  int64_t ticks = -1;  // when it was last passed
};

struct FakeWork {
  std::function<void()> run;  // null: none
  FakeEvent* passes = nullptr;
  int64_t record = 0;  // that this is, if not 0
  int64_t wait = 0;    // for this record, if not 0
};

struct FakeQueue {
  int number = 0;  // of the stream
  std::deque<FakeWork> work;
};

struct FakeGraph {
  int number = 0;
  std::vector<FakeQueue> queues;  // the first was captured from
};

struct FakeStream {
  class FakeGpu* gpu = nullptr;
  FakeQueue queue;
  FakeGraph* capture = nullptr;  // null: work is queued to run
  size_t captured_as = 0;        // queue of the graph
};

class FakeGpu : public Gpu {
 public:
  explicit FakeGpu(Haste haste);
  ~FakeGpu() override;

  const CudaDevice& device() const override { return device_; }
  CUstream_st* create_stream() override;
  CUevent_st* create_event(EventUse use) override;
  std::byte* allocate_device(int64_t bytes) override { return allocate(bytes); }
  std::byte* allocate_host(int64_t bytes) override { return allocate(bytes); }
  void destroy(CUstream_st* stream) noexcept override;
  void destroy(CUevent_st* event) noexcept override;
  void destroy(CUgraphExec_st* graph) noexcept override;
  void free_device(std::byte* memory) noexcept override { free(memory); }
  void free_host(std::byte* memory) noexcept override { free(memory); }
  int64_t available_bytes() override { return int64_t{1} << 40; }
  void record(CUevent_st* event, CUstream_st* stream) override;
  void record_time(CUevent_st* event, CUstream_st* stream) override;
  void wait(CUstream_st* stream, CUevent_st* event) override;
  void copy(std::byte* to, const std::byte* from, int64_t bytes, CUstream_st* stream) override;
  void fill(std::byte* at, std::byte value, int64_t bytes, CUstream_st* stream) override;
  void launch(CUgraphExec_st* graph, CUstream_st* stream) override;
  void check_launch() override;
  void begin_capture(CUstream_st* stream) override;
  CUgraphExec_st* end_capture(CUstream_st* stream) override;
  void abandon_capture(CUstream_st* stream) noexcept override;
  void synchronize(CUstream_st* stream) override;
  void drain(CUstream_st* stream) noexcept override;
  double seconds_between(CUevent_st* from, CUevent_st* to) override;

  // Of a kernel: `name` for the log.
  void run_kernel(CUstream_st* stream, const std::string& name, std::function<void()> work);

  // "s0 run layer", "s1 wait e3", "s0 record e3", "s0 launch g1": as issued, without times and fills.
  std::vector<std::string> log;
  int64_t made = 0, alive = 0;  // streams, events, graphs and allocations
  std::string fail_on;          // a kernel of this name cannot be launched
  std::string fail_later_on;    // one of this name fails on the device
  bool fail_capture = false;    // at its end

 private:
  std::byte* allocate(int64_t bytes);
  void free(std::byte* memory) noexcept;
  void push(CUstream_st* stream, FakeWork work);
  // Runs work of the queues until the chosen one is empty.
  void run(const std::vector<FakeQueue*>& queues, const FakeQueue& until,
           std::set<int64_t>& passed);
  size_t choose(const std::vector<FakeQueue*>& ready);

  Haste haste_;
  std::mt19937 random_{3};
  CudaDevice device_;
  std::vector<FakeStream*> streams_;
  std::set<int64_t> passed_;
  int64_t records_ = 0, ticks_ = 0, events_ = 0, graphs_ = 0;
  std::unique_ptr<FakeGraph> capturing_;
  bool launch_failed_ = false;
};

// A table of kernels that run the CPU's op on the fake's stream, having overwritten their scratch
// memory.
const CudaKernel* fake_kernel(OpKind kind);
// Bytes of scratch memory that it asks for: some kinds none, others an odd number.
int64_t fake_workspace_bytes(const Program& program, const Op& op);

}  // namespace spillway
