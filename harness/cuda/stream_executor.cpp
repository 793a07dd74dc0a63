// Steps, and values in and out. What a step issues is the walk's (walk.cpp).
#include "harness/cuda/stream_executor.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "harness/cuda/contents.h"
#include "harness/cuda/nvml.h"
#include "harness/digest.h"
#include "harness/error.h"
#include "harness/init.h"

namespace spillway {
namespace {

// What products are timed on: 0.011 in bf16 and in fp32, neither NaN nor the zeros that would spare
// the device its power.
constexpr std::byte timed_byte{0x3c};
constexpr int64_t l2_flushes = 2;  // times its size: what is written last fills it

class StreamExecutor : public CudaExecutor {
 public:
  StreamExecutor(const Schedule& schedule, const Plan& plan, const CudaOptions& options,
                 std::shared_ptr<CudaMemory> memory, KernelOf kernels);
  ~StreamExecutor() override;

  Trace step() override;
  std::string gradient_digest() const override;
  std::vector<std::byte> read(TensorId tensor) const override { return contents_.read(tensor); }
  void write(TensorId tensor, const std::vector<std::byte>& bytes) override {
    contents_.write(tensor, bytes);
  }
  int64_t host_bytes_reserved() const override {
    return CudaMemory::host_bytes_of(plan_.host_arena_bytes);
  }
  int64_t stale_slots() const override { return stale_slots_; }
  CudaUse use() const override;
  const CudaMatmuls& matmuls() const override {
    return products_ ? products_->report() : no_products_;
  }

 private:
  Gpu& gpu() const { return memory_->gpu(); }
  CUstream_st* compute() const { return walk_.stream(Lane::compute); }
  std::vector<Lane> lanes() const;  // that have a stream of their own at work
  void prepare_step();
  void issue_step();
  void synchronize(Lane lane);
  Trace finish_step();
  void capture();

  const Schedule& schedule_;
  const Plan& plan_;
  CudaOptions options_;
  std::shared_ptr<CudaMemory> memory_;
  Arenas arenas_;
  CudaMatmuls no_products_;
  std::unique_ptr<Communicators> collectives_;  // null: there are kernels for them
  std::unique_ptr<ChosenProducts>
      products_;  // null: there is no library of them, or none is wanted
  StreamWalk walk_;
  std::unique_ptr<ThreadPool> pool_;
  Contents contents_;
  SlotStamps stamps_;
  GpuEvent origin_;
  std::array<GpuEvent, lane_count> over_;  // of a step, per lane
  std::vector<GpuGraph> graphs_;           // one a segment, from the second step on
  GpuDeviceMemory flushed_;                // null: the L2 cache is left alone
  RegisteredRange range_;
  Nvml nvml_;
  int64_t step_ = 0, stale_slots_ = 0;
  std::string failure_;  // of an earlier step
};

Arenas reserve_arenas(const Schedule& schedule, const Plan& plan, CudaMemory& memory) {
  memory.reserve(plan.device_bytes, plan.host_arena_bytes);
  return {&schedule.program, &plan, memory.device(), memory.host()};
}

std::unique_ptr<ChosenProducts> open_products(CudaMemory& memory, const CudaOptions& options) {
  if (memory.products() == nullptr || options.matmul == MatmulBy::plain) return nullptr;
  const CudaDevice& device = memory.gpu().device();
  std::string driver = Nvml(device.pci_address).driver_version();
  if (driver.empty()) driver = version_text(cuda_state().driver_version);
  const std::filesystem::path file =
      options.algorithms.empty() ? default_algorithm_file().string() : options.algorithms;
  return std::make_unique<ChosenProducts>(
      *memory.products(), memory.gpu(), file,
      text(device.name, ", driver ", driver, ", ", memory.products()->name()));
}

// A table without kernels for collectives leaves them to NCCL.
std::unique_ptr<Communicators> open_collectives(const Program& program, KernelOf kernels) {
  if (kernels(OpKind::all_gather) != nullptr) return nullptr;
  return std::make_unique<Communicators>(program, open_nccl);
}

WalkOptions walk_options(const CudaOptions& options, KernelOf kernels, ChosenProducts* products,
                         const Communicators* collectives) {
  return {.kernels = kernels,
          .products = products,
          .collectives = collectives,
          .copies_made = static_cast<int64_t>(std::ceil(options.slow_copy)),
          .poison = options.poison,
          .timestamps = options.timestamps};
}

StreamExecutor::StreamExecutor(const Schedule& schedule, const Plan& plan,
                               const CudaOptions& options, std::shared_ptr<CudaMemory> memory,
                               KernelOf kernels)
    : schedule_(schedule),
      plan_(plan),
      options_(options),
      memory_(std::move(memory)),
      arenas_(reserve_arenas(schedule, plan, *memory_)),
      collectives_(open_collectives(schedule.program, kernels)),
      products_(open_products(*memory_, options)),
      walk_(gpu(), schedule, arenas_, memory_->device_words(),
            walk_options(options, kernels, products_.get(), collectives_.get())),
      pool_(std::make_unique<ThreadPool>(options.threads > 0 ? options.threads : usable_cpus())),
      contents_(*memory_, arenas_, compute()),
      stamps_(schedule.program),
      range_(register_range(RangeCategory::step, range_name(RangeCategory::step))),
      nvml_(gpu().device().pci_address) {
  origin_ = make_event(gpu(), EventUse::time);
  for (const Lane lane : lanes())
    over_[index_of(lane)] = make_event(gpu(), EventUse::time);
  const int64_t flushed_bytes = l2_flushes * gpu().device().l2_bytes;
  if (options.flush_l2 && flushed_bytes > 0)
    flushed_ = {gpu(), gpu().allocate_device(flushed_bytes)};
  no_products_.library =
      options.matmul == MatmulBy::plain ? "as asked" : memory_->why_no_products();
  if (products_) {
    gpu().fill(arenas_.device, timed_byte, plan.device_bytes, compute());
    walk_.prepare_products();
  }
  if (options.poison) contents_.poison_all();
  contents_.fill_persistent(options.seed, *pool_);
}

// Streams may still run after a failed step, over arenas that others will use.
StreamExecutor::~StreamExecutor() {
  for (const Lane lane : lanes())
    gpu().drain(walk_.stream(lane));
}

std::vector<Lane> StreamExecutor::lanes() const {
  std::vector<Lane> lanes = {Lane::compute};
  for (const Lane lane : {Lane::d2h, Lane::h2d, Lane::collective})
    if (walk_.uses(lane) && graphs_.empty()) lanes.push_back(lane);
  return lanes;
}

Trace StreamExecutor::step() {
  if (!failure_.empty()) throw RunError("an earlier step failed: " + failure_);
  check(memory_->device() == arenas_.device && memory_->host() == arenas_.host,
        "a step after another executor has moved the arenas");
  try {
    const NvtxRange range(range_, step_);
    prepare_step();
    issue_step();
    Trace trace = finish_step();
    if (options_.poison) contents_.verify_poison();
    if (options_.graphs && graphs_.empty()) capture();
    ++step_;
    return trace;
  } catch (const RunError& error) {
    failure_ = error.what();
    for (const Lane lane : lanes())
      gpu().drain(walk_.stream(lane));
    throw RunError(text("step ", step_, ", ", error.what()));
  }
}

void StreamExecutor::prepare_step() {
  if (options_.poison) contents_.poison_host();
  StepWords& words = *memory_->host_words();
  words = {step_, std::numeric_limits<float>::quiet_NaN()};
  auto* device = reinterpret_cast<std::byte*>(memory_->device_words());
  gpu().copy(device, reinterpret_cast<const std::byte*>(&words), sizeof words, compute());
  if (flushed_)
    gpu().fill(flushed_.get(), std::byte{0}, l2_flushes * gpu().device().l2_bytes, compute());
  gpu().synchronize(compute());
}

void StreamExecutor::issue_step() {
  gpu().record_time(origin_.get(), compute());
  for (size_t s = 0; s < schedule_.segments.size(); ++s) {
    if (graphs_.empty())
      walk_.issue_segment(s);
    else
      gpu().launch(graphs_[s].get(), compute());
  }
  for (const Lane lane : lanes())
    gpu().record_time(over_[index_of(lane)].get(), walk_.stream(lane));
}

Trace StreamExecutor::finish_step() {
  const TensorId loss = schedule_.program.loss;
  const bool kept = loss != no_tensor && schedule_.program.at(loss).extent == Extent::persistent;
  const std::byte* from =
      kept ? arenas_.address(loss) : reinterpret_cast<std::byte*>(&memory_->device_words()->loss);
  float& lost = memory_->host_words()->loss;
  gpu().copy(reinterpret_cast<std::byte*>(&lost), from, sizeof lost, compute());
  Trace trace;
  for (const Lane lane : lanes()) {
    synchronize(lane);
    const double over = gpu().seconds_between(origin_.get(), over_[index_of(lane)].get());
    trace.seconds = std::max(trace.seconds, over);
  }
  if (nvml_.found()) trace.clocks = nvml_.clocks();
  trace.loss = lost;
  for (size_t s = 0; s < schedule_.segments.size(); ++s)
    for (const Lane lane : {Lane::d2h, Lane::h2d})
      trace.bytes_moved[index_of(lane)] += walk_.bytes_moved(s, lane);
  if (const Timestamps* times = walk_.times()) {
    TimedStep timed = times->read(gpu(), origin_.get(), step_, stamps_);
    trace.spans = std::move(timed.spans);
    stale_slots_ += timed.stale_slots;
  }
  return trace;
}

// What an op did wrong on the device comes to light here.
void StreamExecutor::synchronize(Lane lane) {
  try {
    gpu().synchronize(walk_.stream(lane));
  } catch (const RunError& error) {
    throw RunError(text("lane ", name_of(lane), ": ", error.what(),
                        " (with CUDA_LAUNCH_BLOCKING=1 the message names the op)"));
  }
}

// After a step without graphs: libraries have loaded their kernels and made what they keep.
void StreamExecutor::capture() {
  for (size_t s = 0; s < schedule_.segments.size(); ++s)
    graphs_.push_back(walk_.capture_segment(s));
  gpu().synchronize(compute());
}

std::string StreamExecutor::gradient_digest() const {
  const std::vector<Tensor>& tensors = schedule_.program.tensors;
  Digest digest;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].role != Role::gradient || tensors[i].extent != Extent::persistent) continue;
    contents_.visit(static_cast<TensorId>(i),
                    [&](std::span<const std::byte> bytes) { digest.add(bytes, *pool_); });
    digest.end_piece();
  }
  return hex(digest.value());
}

CudaUse StreamExecutor::use() const {
  CudaUse use;
  use.arena = plan_.device_bytes;
  if (flushed_) use.l2_flush = l2_flushes * gpu().device().l2_bytes;
  const int64_t taken = gpu().device().memory_bytes - gpu().available_bytes();
  use.context = std::max<int64_t>(0, taken - memory_->device_reserved() - use.l2_flush);
  return use;
}

}  // namespace

std::unique_ptr<CudaExecutor> make_stream_executor(const Schedule& schedule, const Plan& plan,
                                                   const CudaOptions& options,
                                                   std::shared_ptr<CudaMemory> memory,
                                                   KernelOf kernels) {
  if (options.slow_copy < 1)
    throw InputError(
        text("slow copies: found a factor of ", options.slow_copy, ", expected at least 1"));
  return std::make_unique<StreamExecutor>(schedule, plan, options, std::move(memory), kernels);
}

std::unique_ptr<CudaExecutor> make_cuda_executor(const Schedule& schedule, const Plan& plan,
                                                 const CudaOptions& options,
                                                 std::shared_ptr<CudaMemory> memory) {
  refuse_for_cuda(schedule.program, device_of(*memory));
  return make_stream_executor(schedule, plan, options, std::move(memory), cuda_kernel);
}

}  // namespace spillway
