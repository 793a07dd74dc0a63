// Work is atomic here: a copy that begins too early or ends too late shows as one that ran before or
// after its time.
#include "tests/cuda/support_fake_gpu.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <new>
#include <utility>

#include "harness/error.h"
#include "harness/thread_pool.h"

namespace spillway {
namespace {

constexpr std::align_val_t device_alignment{256};
constexpr double seconds_per_tick = 1e-5;

FakeStream* fake(CUstream_st* stream) { return reinterpret_cast<FakeStream*>(stream); }
FakeEvent* fake(CUevent_st* event) { return reinterpret_cast<FakeEvent*>(event); }
FakeGraph* fake(CUgraphExec_st* graph) { return reinterpret_cast<FakeGraph*>(graph); }

// Whether the last work of the first queue comes after all other work of the graph.
class Joined {
 public:
  explicit Joined(const FakeGraph& graph) : graph_(graph), reached_(graph.queues.size(), 0) {
    for (size_t q = 0; q < graph.queues.size(); ++q)
      for (size_t i = 0; i < graph.queues[q].work.size(); ++i)
        if (const int64_t record = graph.queues[q].work[i].record) place_[record] = {q, i};
    reach(0, graph.queues[0].work.size());
  }
  bool all() const {
    for (size_t q = 0; q < reached_.size(); ++q)
      if (reached_[q] < graph_.queues[q].work.size()) return false;
    return true;
  }

 private:
  void reach(size_t queue, size_t count) {
    while (reached_[queue] < count) {
      const FakeWork& work = graph_.queues[queue].work[reached_[queue]++];
      if (work.wait == 0) continue;
      const auto [other, index] = place_.at(work.wait);
      reach(other, index + 1);
    }
  }

  const FakeGraph& graph_;
  std::vector<size_t> reached_;
  std::map<int64_t, std::pair<size_t, size_t>> place_;
};

}  // namespace

FakeGpu::FakeGpu(Haste haste) : haste_(std::move(haste)) {
  device_.name = "fake";
  device_.major = 10;
  device_.l2_bytes = int64_t{1} << 20;
  device_.memory_bytes = int64_t{1} << 41;
}

FakeGpu::~FakeGpu() = default;

std::byte* FakeGpu::allocate(int64_t bytes) {
  ++made;
  ++alive;
  auto* memory =
      static_cast<std::byte*>(::operator new[](static_cast<size_t>(bytes), device_alignment));
  std::memset(memory, 0x5a, static_cast<size_t>(bytes));  // what nobody wrote is no zero
  return memory;
}

void FakeGpu::free(std::byte* memory) noexcept {
  --alive;
  ::operator delete[](memory, device_alignment);
}

CUstream_st* FakeGpu::create_stream() {
  ++made;
  ++alive;
  auto* stream = new FakeStream{this, {static_cast<int>(streams_.size()), {}}, nullptr, 0};
  streams_.push_back(stream);
  return reinterpret_cast<CUstream_st*>(stream);
}

CUevent_st* FakeGpu::create_event(EventUse use) {
  ++made;
  ++alive;
  const auto number = static_cast<int>(events_++);
  return reinterpret_cast<CUevent_st*>(new FakeEvent{number, use, 0, -1});
}

void FakeGpu::destroy(CUstream_st* stream) noexcept {
  --alive;
  std::erase(streams_, fake(stream));
  delete fake(stream);
}

void FakeGpu::destroy(CUevent_st* event) noexcept {
  --alive;
  delete fake(event);
}

void FakeGpu::destroy(CUgraphExec_st* graph) noexcept {
  --alive;
  delete fake(graph);
}

void FakeGpu::push(CUstream_st* on, FakeWork work) {
  FakeStream& stream = *fake(on);
  auto& queue =
      stream.capture != nullptr ? stream.capture->queues[stream.captured_as] : stream.queue;
  queue.work.push_back(std::move(work));
}

void FakeGpu::record(CUevent_st* event, CUstream_st* stream) {
  check(fake(event)->use == EventUse::order, "a time taken where an order is meant");
  log.push_back(text("s", fake(stream)->queue.number, " record e", fake(event)->number));
  fake(event)->record = ++records_;
  push(stream, {nullptr, nullptr, records_, 0});
}

void FakeGpu::record_time(CUevent_st* event, CUstream_st* stream) {
  check(fake(event)->use == EventUse::time, "an event without times is to take one");
  push(stream, {nullptr, fake(event), 0, 0});
}

void FakeGpu::wait(CUstream_st* on, CUevent_st* event) {
  FakeStream& stream = *fake(on);
  log.push_back(text("s", stream.queue.number, " wait e", fake(event)->number));
  check(fake(event)->record != 0, "e", fake(event)->number, " is waited for before its record");
  if (capturing_ && stream.capture == nullptr) {  // joins the capture
    stream.capture = capturing_.get();
    stream.captured_as = capturing_->queues.size();
    capturing_->queues.push_back({stream.queue.number, {}});
  }
  push(on, {nullptr, nullptr, 0, fake(event)->record});
}

void FakeGpu::copy(std::byte* to, const std::byte* from, int64_t bytes, CUstream_st* stream) {
  const auto size = static_cast<size_t>(bytes);
  push(stream, {[=] { std::memcpy(to, from, size); }, nullptr, 0, 0});
}

void FakeGpu::fill(std::byte* at, std::byte value, int64_t bytes, CUstream_st* stream) {
  const auto size = static_cast<size_t>(bytes);
  push(stream, {[=] { std::memset(at, std::to_integer<int>(value), size); }, nullptr, 0, 0});
}

void FakeGpu::run_kernel(CUstream_st* stream, const std::string& name, std::function<void()> work) {
  log.push_back(text("s", fake(stream)->queue.number, " run ", name));
  launch_failed_ = name == fail_on;
  if (name == fail_later_on)
    work = [] { throw RunError("cudaStreamSynchronize: cudaErrorMisalignedAddress"); };
  if (!launch_failed_) push(stream, {std::move(work), nullptr, 0, 0});
}

void FakeGpu::check_launch() {
  if (std::exchange(launch_failed_, false))
    throw RunError(
        "launching the kernel: cudaErrorInvalidConfiguration (invalid configuration "
        "argument)");
}

void FakeGpu::begin_capture(CUstream_st* stream) {
  check(fake(stream)->queue.work.empty(), "a capture begins on a stream with work");
  capturing_ = std::make_unique<FakeGraph>();
  capturing_->number = static_cast<int>(graphs_++);
  capturing_->queues.push_back({fake(stream)->queue.number, {}});
  fake(stream)->capture = capturing_.get();
  fake(stream)->captured_as = 0;
}

CUgraphExec_st* FakeGpu::end_capture(CUstream_st*) {
  for (FakeStream* stream : streams_)
    stream->capture = nullptr;
  if (fail_capture)
    throw RunError("cudaGraphInstantiate: cudaErrorMemoryAllocation (out of memory)");
  if (!Joined(*capturing_).all())
    throw RunError("cudaStreamEndCapture: cudaErrorStreamCaptureUnjoined");
  ++made;
  ++alive;
  return reinterpret_cast<CUgraphExec_st*>(capturing_.release());
}

void FakeGpu::abandon_capture(CUstream_st*) noexcept {
  for (FakeStream* stream : streams_)
    stream->capture = nullptr;
  capturing_.reset();
}

void FakeGpu::launch(CUgraphExec_st* graph, CUstream_st* stream) {
  log.push_back(text("s", fake(stream)->queue.number, " launch g", fake(graph)->number));
  push(stream, {[this, graph] {
                  std::vector<FakeQueue> queues = fake(graph)->queues;
                  std::vector<FakeQueue*> all;
                  for (FakeQueue& queue : queues)
                    all.push_back(&queue);
                  std::set<int64_t> passed;
                  run(all, queues[0], passed);
                },
                nullptr, 0, 0});
}

size_t FakeGpu::choose(const std::vector<FakeQueue*>& ready) {
  if (haste_.empty()) return random_() % ready.size();
  const auto rank = [&](const FakeQueue* queue) {
    return std::find(haste_.begin(), haste_.end(), queue->number);
  };
  const auto chosen = std::min_element(ready.begin(), ready.end(),
                                       [&](auto* a, auto* b) { return rank(a) < rank(b); });
  return static_cast<size_t>(chosen - ready.begin());
}

void FakeGpu::run(const std::vector<FakeQueue*>& queues, const FakeQueue& until,
                  std::set<int64_t>& passed) {
  while (!until.work.empty()) {
    std::vector<FakeQueue*> ready;
    for (FakeQueue* queue : queues) {
      if (queue->work.empty()) continue;
      const int64_t wait = queue->work.front().wait;
      if (wait == 0 || passed.contains(wait)) ready.push_back(queue);
    }
    check(!ready.empty(), "streams wait for each other");
    FakeQueue& chosen = *ready[choose(ready)];
    const FakeWork work = std::move(chosen.work.front());
    chosen.work.pop_front();
    if (work.run) {
      ++ticks_;
      work.run();
    }
    if (work.passes != nullptr) work.passes->ticks = ticks_;
    if (work.record != 0) passed.insert(work.record);
  }
}

void FakeGpu::synchronize(CUstream_st* stream) {
  std::vector<FakeQueue*> queues;
  for (FakeStream* other : streams_)
    queues.push_back(&other->queue);
  run(queues, fake(stream)->queue, passed_);
}

void FakeGpu::drain(CUstream_st* stream) noexcept {
  try {
    synchronize(stream);
  } catch (...) {
    fake(stream)->queue.work.clear();
  }
}

double FakeGpu::seconds_between(CUevent_st* from, CUevent_st* to) {
  check(fake(from)->ticks >= 0 && fake(to)->ticks >= 0, "a time that was never taken");
  return seconds_per_tick * static_cast<double>(fake(to)->ticks - fake(from)->ticks);
}

// ---- kernels

namespace {

ThreadPool& one_thread() {
  static ThreadPool pool(1);
  return pool;
}

void run_on_cpu(const CudaCall& call) {
  const Op* op = call.call.op;
  std::vector<Buffer> inputs(call.call.inputs.begin(), call.call.inputs.end());
  std::vector<Buffer> outputs(call.call.outputs.begin(), call.call.outputs.end());
  const auto work = [=, step = call.step, workspace = call.workspace] {
    std::fill(workspace.begin(), workspace.end(), std::byte{0xa5});
    info(op->kind).run({op, inputs, outputs, *step}, one_thread());
  };
  fake(call.stream)->gpu->run_kernel(call.stream, op->name, work);
}

constexpr auto fake_table() {
  std::array<CudaKernel, op_kind_count> table{};
  for (size_t kind = 0; kind < table.size(); ++kind)
    table[kind] = {static_cast<OpKind>(kind), run_on_cpu, fake_workspace_bytes};
  return table;
}

}  // namespace

int64_t fake_workspace_bytes(const Program&, const Op& op) {
  const auto kind = static_cast<int64_t>(op.kind);
  const bool wants = lane_of(op) == Lane::compute && kind % 3 != 0;
  return wants ? 1001 * kind : 0;
}

const CudaKernel* fake_kernel(OpKind kind) {
  static constexpr std::array<CudaKernel, op_kind_count> table = fake_table();
  return &table[static_cast<size_t>(kind)];
}

}  // namespace spillway
