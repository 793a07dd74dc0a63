// Runs a schedule for real: the calling thread and a pool compute, one thread per copy direction
// moves bytes. What a lane does is in lanes.cpp.
#include <algorithm>
#include <array>
#include <cstring>

#include "harness/digest.h"
#include "harness/init.h"
#include "harness/cpu/lanes.h"
#include "harness/error.h"
#include "harness/executor.h"
#include "harness/ops/quantised.h"

namespace spillway {
namespace {

// Throws InputError for what one process on CPUs cannot run.
void check_runnable(const Program& program, const CpuOptions& options) {
  if (options.slow_copy < 1) {
    throw InputError(
        text("slow copies: found a factor of ", options.slow_copy, ", expected at least 1"));
  }
  if (options.link_bytes_per_second < 0) {
    throw InputError(text("link rate: found ", options.link_bytes_per_second,
                          " bytes/s, expected a positive rate, or 0 for as fast as memory goes"));
  }
  for (const Segment& segment : program.segments) {
    for (const Op& op : segment.ops) {
      if (program.devices > 1 || lane_of(op) == Lane::collective) {
        throw InputError(
            text("several devices need several processes: the CPU executor runs 1 "
                 "device, found ",
                 std::max<int64_t>(program.devices, op.attributes.devices)));
      }
      check(!runs_narrow(op) || is_narrow(program.at(op.inputs[0].tensor).dtype), "op ", op.name,
            " of segment ", segment.name, " runs in ", name_of(op.attributes.precision),
            ", but its operands are not quantised");
    }
  }
}

// One pool a process, kept between executors that want the same number of threads, and with it what
// its workers keep warm. Executors of one process take turns.
std::shared_ptr<ThreadPool> process_pool(int threads) {
  static std::shared_ptr<ThreadPool> pool;
  const int wanted = threads > 0 ? threads : usable_cpus();
  if (!pool || pool->threads() != wanted) pool = std::make_shared<ThreadPool>(wanted);
  return pool;
}

Arenas map_arenas(const Schedule& schedule, const Plan& plan, CpuMemory& memory) {
  memory.reserve(plan.device_bytes, plan.host_arena_bytes);
  return {&schedule.program, &plan, memory.device(), memory.host()};
}

std::array<bool, lane_count> lanes_used(const Schedule& schedule) {
  std::array<bool, lane_count> used{};
  for (const SegmentSchedule& segment : schedule.segments) {
    for (size_t lane = 0; lane < lane_count; ++lane) {
      if (!segment.lanes[lane].empty()) used[lane] = true;
    }
  }
  return used;
}

}  // namespace

struct CpuExecutor::State {
  State(const Schedule& run_schedule, const Plan& plan, const CpuOptions& run_options,
        std::shared_ptr<CpuMemory> run_memory);
  Trace collect(int64_t end_ns) const;
  std::span<std::byte> persistent(TensorId id) const;
  // Device bytes outside persistent tensors, in order, to the end of the mapping.
  std::vector<std::span<std::byte>> transient_bytes() const;

  CpuOptions options;
  std::shared_ptr<CpuMemory> memory;
  std::shared_ptr<ThreadPool> pool;
  LaneShare share;
  std::unique_ptr<Poison> poison;
  std::unique_ptr<ComputeLane> compute;
  std::vector<std::unique_ptr<CopyLane>> copies;
  std::vector<Lane> copy_lanes;  // of `copies`
  int64_t host_bytes_reserved = 0;
};

CpuExecutor::State::State(const Schedule& schedule, const Plan& plan, const CpuOptions& run_options,
                          std::shared_ptr<CpuMemory> run_memory)
    : options(run_options),
      memory(run_memory ? std::move(run_memory) : std::make_shared<CpuMemory>()),
      pool(process_pool(run_options.threads)),
      share(schedule, map_arenas(schedule, plan, *memory)),
      host_bytes_reserved(CpuMemory::mapped_bytes(plan.host_arena_bytes)) {
  if (options.poison) poison = std::make_unique<Poison>(share.arenas, memory->device_reserved());
  init_persistent(share.arenas, options.seed, *pool);
  compute = std::make_unique<ComputeLane>(share, *pool, poison.get());
  const auto used = lanes_used(schedule);
  for (const Lane lane : {Lane::d2h, Lane::h2d}) {
    if (!used[index_of(lane)]) continue;
    copies.push_back(std::make_unique<CopyLane>(share, lane, options));
    copy_lanes.push_back(lane);
  }
}

CpuExecutor::CpuExecutor(const Schedule& schedule, const Plan& plan, const CpuOptions& options,
                         std::shared_ptr<CpuMemory> memory) {
  check_runnable(schedule.program, options);
  state_ = std::make_unique<State>(schedule, plan, options, std::move(memory));
}

CpuExecutor::~CpuExecutor() = default;

Trace CpuExecutor::step() {
  LaneShare& share = state_->share;
  share.rethrow_failure();
  check(state_->memory->device() == share.arenas.device &&
            state_->memory->host() == share.arenas.host,
        "a step after another executor has moved the arenas");
  share.begin_ns = now_ns();
  share.started.advance_to(share.step + 1);
  try {
    state_->compute->run_training_step();
    for (const Lane lane : state_->copy_lanes) {
      const auto index = index_of(lane);
      share.progress[index].wait_for((share.step + 1) * share.bound.steps[index], Lane::compute);
    }
  } catch (...) {
    share.fail(std::current_exception());
    share.rethrow_failure();
  }
  Trace trace = state_->collect(now_ns());
  ++share.step;
  if (state_->poison) {
    state_->poison->verify("at the end of the step");  // copies that nobody waited for included
    if (state_->poison->violation()) throw RunError(*state_->poison->violation());
  }
  return trace;
}

Trace CpuExecutor::State::collect(int64_t end_ns) const {
  Trace trace;
  trace.seconds = static_cast<double>(end_ns - share.begin_ns) * 1e-9;
  trace.loss = compute->loss();
  trace.spans = compute->spans;
  for (size_t i = 0; i < copies.size(); ++i) {
    const auto& spans = copies[i]->spans;
    trace.spans.insert(trace.spans.end(), spans.begin(), spans.end());
    trace.bytes_moved[static_cast<size_t>(copy_lanes[i])] = copies[i]->bytes_moved;
  }
  return trace;
}

std::span<std::byte> CpuExecutor::State::persistent(TensorId id) const {
  const Tensor& tensor = share.arenas.program->at(id);
  check(tensor.extent == Extent::persistent, "tensor ", tensor.name, " is not persistent");
  return {share.arenas.address(id), static_cast<size_t>(tensor.bytes())};
}

std::vector<std::span<std::byte>> CpuExecutor::State::transient_bytes() const {
  const Arenas& arenas = share.arenas;
  const auto& tensors = arenas.program->tensors;
  std::vector<std::span<std::byte>> taken;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto id = static_cast<TensorId>(i);
    const bool here = tensors[i].space == Space::device && arenas.placed(id);
    if (here && tensors[i].extent == Extent::persistent) taken.push_back(persistent(id));
  }
  std::sort(taken.begin(), taken.end(), [](auto a, auto b) { return a.data() < b.data(); });
  taken.push_back({arenas.device + memory->device_reserved(), size_t{0}});
  std::vector<std::span<std::byte>> gaps;
  std::byte* at = arenas.device;
  for (const auto& tensor : taken) {
    gaps.push_back({at, tensor.data()});
    at = tensor.data() + tensor.size();
  }
  return gaps;
}

std::string CpuExecutor::gradient_digest() const {
  const Program& program = *state_->share.arenas.program;
  std::vector<std::span<const std::byte>> pieces;
  for (size_t i = 0; i < program.tensors.size(); ++i) {
    const Tensor& tensor = program.tensors[i];
    const bool gradient = tensor.role == Role::gradient && tensor.extent == Extent::persistent;
    if (gradient) pieces.push_back(state_->persistent(static_cast<TensorId>(i)));
  }
  return hex(digest_of(pieces, *state_->pool));
}

std::vector<std::byte> CpuExecutor::read(TensorId tensor) const {
  const auto bytes = state_->persistent(tensor);
  return {bytes.begin(), bytes.end()};
}

void CpuExecutor::write(TensorId tensor, const std::vector<std::byte>& bytes) {
  const auto target = state_->persistent(tensor);
  check(bytes.size() == target.size(), "tensor ", state_->share.arenas.program->at(tensor).name,
        " has ", target.size(), " bytes, found ", bytes.size());
  std::memcpy(target.data(), bytes.data(), bytes.size());
}

int64_t CpuExecutor::host_bytes_reserved() const { return state_->host_bytes_reserved; }

int64_t CpuExecutor::stale_slots() const { return state_->share.stale_slots; }

void CpuExecutor::fill_arena(std::byte pattern) {
  check(!state_->poison || pattern == poison_byte, "a poisoned arena keeps its own pattern");
  for (const auto& gap : state_->transient_bytes()) {
    std::memset(gap.data(), std::to_integer<int>(pattern), gap.size());
  }
}

int64_t CpuExecutor::highest_changed_byte(std::byte pattern) const {
  const std::byte* device = state_->share.arenas.device;
  int64_t last = state_->memory->device_reserved() - 1;
  while (last >= 0 && device[last] == pattern)
    --last;
  return last;
}

}  // namespace spillway
