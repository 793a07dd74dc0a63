// One interface to run a schedule: real CPU, or a virtual clock. The GPU's is in cuda/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/machine.h"
#include "harness/plan.h"
#include "harness/schedule.h"
#include "harness/trace.h"

namespace spillway {

class Executor {
 public:
  virtual ~Executor() = default;
  // Runs the next training step. Throws RunError when a check of values fails.
  virtual Trace step() = 0;
};

// One that computes real values, in one device arena and one host arena of a plan.
class ValueExecutor : public Executor {
 public:
  // Digest over the bits of all gradients (role gradient, in tensor order) as they are now: 16 hex
  // digits of a 64-bit hash.
  virtual std::string gradient_digest() const = 0;
  // Raw access to a persistent tensor, for tests and goldens. Size must be exact.
  virtual std::vector<std::byte> read(TensorId tensor) const = 0;
  virtual void write(TensorId tensor, const std::vector<std::byte>& bytes) = 0;
  // What this plan's host arena takes when mapped; shared arenas may be larger for others' sake.
  virtual int64_t host_bytes_reserved() const = 0;
  // Host slots whose generation stamp did not match when they were reloaded, or when compute passed
  // the done of their write (0 in an intact run).
  virtual int64_t stale_slots() const = 0;
};

// The two arenas of CPU runs: anonymous mappings, faulted in before the first step and reused (and
// grown) by the runs that follow, so that variants of a sweep meet the same warm pages.
class CpuMemory {
 public:
  CpuMemory();
  ~CpuMemory();
  // Maps and faults in at least so many bytes each. Throws RunError naming the bytes refused.
  void reserve(int64_t device_bytes, int64_t host_bytes);
  std::byte* device() const;
  std::byte* host() const;
  int64_t device_reserved() const;
  int64_t host_reserved() const;
  // Bytes mapped for an arena of so many bytes: whole huge pages.
  static int64_t mapped_bytes(int64_t bytes);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// What one arena may take on this machine without --hbm or --host: the smaller of the cgroup's and
// /proc/meminfo's available memory, less 2 GiB.
int64_t available_memory_bytes();

struct CpuOptions {
  int threads = 0;                   // 0: usable_cpus()
  double link_bytes_per_second = 0;  // pacing of each copy lane; 0 = as fast as memcpy goes
  double slow_copy = 1;              // every copy takes this many times as long (tests)
  uint64_t seed = 0;
  // Fill allocated and released tensors with NaN, and watch redzones: bytes outside live tensors.
  bool poison = false;
};

// Executes for real. Values live in one device arena and one host arena of the plan's sizes,
// allocated and faulted in before the first step. The schedule and plan must outlive it.
class CpuExecutor : public ValueExecutor {
 public:
  // `memory` may be shared with executors that ran before; null makes its own. Persistent tensors
  // are filled anew (Tensor::init, seed), so every executor starts from the same step 0.
  CpuExecutor(const Schedule& schedule, const Plan& plan, const CpuOptions& options,
              std::shared_ptr<CpuMemory> memory = nullptr);
  ~CpuExecutor() override;
  Trace step() override;

  std::string gradient_digest() const override;
  std::vector<std::byte> read(TensorId tensor) const override;
  void write(TensorId tensor, const std::vector<std::byte>& bytes) override;
  int64_t host_bytes_reserved() const override;
  int64_t stale_slots() const override;
  // Fills the whole device arena with a byte pattern; highest byte that differs from it afterwards.
  void fill_arena(std::byte pattern);
  int64_t highest_changed_byte(std::byte pattern) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Ranks that run the same schedule and differ in the time of their compute ops. Collectives begin
// when the last rank has arrived; from then on each rank runs its part by itself. Copies, the
// collectives' own rates and the ranks' order are the same everywhere; ranks beyond `count` are
// taken to be no slower than the slowest of these.
struct SimRanks {
  int64_t count = 1;
  double rank_sigma = 0;  // log-normal factor of all ops of a rank, mean 1
  double op_sigma = 0;    // of each op by itself, mean 1
  double straggler = 1;   // the last rank takes so many times as long
  uint64_t seed = 0;

  bool differ() const { return rank_sigma > 0 || op_sigma > 0 || straggler != 1; }
};

struct SimOptions {
  double matmul_efficiency = 0;      // of peak; 0: the machine's own figure
  bool free_transfers = false;       // host copies take no time (for --link match)
  double link_bytes_per_second = 0;  // both directions; 0: the machine's figures
  bool every_iteration = false;      // of a loop, not only until its state repeats
  SimRanks ranks = {};               // where they differ, every iteration is run
};

// Computes nothing: advances a virtual clock by the machine's figures. Contention between lanes is
// modelled (docs/model.md).
std::unique_ptr<Executor> make_sim_executor(const Schedule& schedule, const Machine& machine,
                                            const SimOptions& options);

// Seconds one op takes alone on this machine; the same model gives schedulers their latencies.
double op_seconds(const Program& program, const Op& op, const Machine& machine,
                  const SimOptions& options);

}  // namespace spillway
