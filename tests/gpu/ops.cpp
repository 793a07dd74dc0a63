// Every kernel by itself over the shared op-test table: beside its op's definition in double
// precision, beside the CPU's kernel, and beside itself run again, elsewhere and not in place.
#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "harness/cuda/chosen_products.h"
#include "harness/cuda/products.h"
#include "harness/error.h"
#include "harness/thread_pool.h"
#include "tests/gpu/part.h"
#include "tests/gpu/timing.h"
#include "tests/support/closeness.h"
#include "tests/support/op_cases.h"

namespace spillway {
namespace {

using Bits = std::vector<std::vector<std::byte>>;

constexpr int64_t small_elements = 20'000;  // of all operands of a case, under slow tools

// The operands of one call in memory of the device, each an allocation of exactly its size, so that
// tools notice an access beyond it. Operands that share host memory share device memory.
class OnDevice {
 public:
  OnDevice(const Subject& subject, CUstream_st* stream) : subject_(subject), stream_(stream) {}

  // By `products` where they are given, which find out how before; else by the kernel.
  void run(const CudaKernel& kernel, ChosenProducts* products, const OneOp& one, const OpCall& call,
           int64_t offset) {
    std::vector<Buffer> inputs, outputs;
    for (size_t i = 0; i < call.inputs.size(); ++i)
      inputs.push_back(placed(call.inputs[i], one, one.op.inputs[i], offset));
    for (size_t i = 0; i < call.outputs.size(); ++i)
      outputs.push_back(placed(call.outputs[i], one, one.op.outputs[i], offset));
    StepWords* words = subject_.memory->device_words();
    copy(reinterpret_cast<std::byte*>(&words->step), reinterpret_cast<const std::byte*>(&call.step),
         sizeof call.step);
    const int64_t scratch = subject_.workspace_bytes(one.program, one.op);
    std::byte* workspace = nullptr;
    if (scratch > 0) {
      workspace = allocate(scratch);
      gpu().fill(workspace, unset_byte, scratch, stream_);
    }
    const OpCall placed_call{&one.op, inputs, outputs, -1};
    const std::span<std::byte> given{workspace, static_cast<size_t>(scratch)};
    if (products != nullptr) {
      products->prepare({{placed_call, given}}, stream_);
      for (const auto& [host, device] : moved_)
        copy(device.at, host, device.bytes);  // timing has overwritten them
    }
    if (products == nullptr || !products->run(placed_call, given, stream_))
      kernel.run({placed_call, &words->step, given, stream_});
    gpu().check_launch();
    for (const auto& [host, device] : moved_)
      copy(host, device.at, device.bytes);
    gpu().synchronize(stream_);
  }

 private:
  struct Placed {
    std::byte* at;
    int64_t bytes;
  };

  Gpu& gpu() { return subject_.memory->gpu(); }
  std::byte* allocate(int64_t bytes) {
    memory_.emplace_back(gpu(), gpu().allocate_device(std::max<int64_t>(1, bytes)));
    return memory_.back().get();
  }
  // From and to pageable memory: CUDA reads it before it returns.
  void copy(std::byte* to, const std::byte* from, int64_t bytes) {
    gpu().copy(to, from, bytes, stream_);
  }

  Buffer placed(Buffer buffer, const OneOp& one, const Operand& operand, int64_t offset) {
    if (one.program.at(operand.tensor).space == Space::host) return buffer;
    auto* host = buffer.as<std::byte>();
    const int64_t bytes = buffer.elements() * bytes_of(buffer.dtype);
    const auto known = moved_.find(host);
    if (known == moved_.end()) {
      const int64_t skipped = offset * bytes_of(buffer.dtype);
      std::byte* at = allocate(skipped + bytes) + skipped;
      copy(at, host, bytes);
      moved_[host] = {at, bytes};
    }
    buffer.data = moved_[host].at;
    return buffer;
  }

  const Subject& subject_;
  CUstream_st* stream_;
  std::vector<GpuDeviceMemory> memory_;
  std::map<std::byte*, Placed> moved_;  // by host address
};

Bits run_on_subject(const Subject& subject, ChosenProducts* products, const OpCase& c,
                    const std::vector<Values>& inputs, int64_t offset) {
  const CudaKernel* kernel = subject.kernels(c.kind);
  const OneOp one = program_of(c);
  const GpuStream stream = make_stream(subject.memory->gpu());
  return run_by(c, inputs, offset, [&](const OpCall& call) {
    OnDevice(subject, stream.get()).run(*kernel, products, one, call, offset);
  });
}

// Distance of one kind's values from those expected, the worst of all cases.
struct Worst {
  int64_t cases = 0;
  double of_allowed = 0;  // of the definition
  double from_cpu = 0;    // over the largest value of the CPU's output
  std::string in;
};

// Over the largest of `want`; infinite for what is no number where one is expected.
double distance(const Values& got, const Values& want) {
  double most = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double off = std::abs(got[i] - want[i]);
    most = off <= most ? most : off;
    if (off != off) return std::numeric_limits<double>::infinity();
  }
  const double largest = largest_of(want);
  return largest > 0 ? most / largest : most;
}

double share_of_allowed(const Values& got, const Values& want, DType dtype) {
  const double largest = largest_of(want);
  double most = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double share = std::abs(got[i] - want[i]) / allowed_difference(want[i], largest, dtype);
    if (!(share <= most)) most = share;
    if (share != share) return std::numeric_limits<double>::infinity();
  }
  return most;
}

void compare(const Subject& subject, ChosenProducts* products, const OpCase& c, Finding& finding,
             Worst& worst) {
  const auto run = [&](const OpCase& of, const std::vector<Values>& inputs, int64_t offset) {
    return run_on_subject(subject, products, of, inputs, offset);
  };
  const auto inputs = random_inputs(c, 1);
  const Bits bits = run(c, inputs, 0);
  const auto want = reference(c, inputs);
  const Bits cpu = run_kernel(c, inputs, usable_cpus());
  ++worst.cases;
  for (size_t i = 0; i < want.size(); ++i) {
    const DType dtype = c.outputs[i].dtype;
    const Values got = decode(bits[i], dtype);
    const double share = share_of_allowed(got, want[i], dtype);
    if (!(share <= worst.of_allowed)) {
      worst.of_allowed = share;
      worst.in = c.name;
    }
    worst.from_cpu = std::max(worst.from_cpu, distance(got, decode(cpu[i], dtype)));
    if (!(share <= 1))
      finding.fail(text(c.name, ", output ", i, ": ", share, " times what is allowed off"));
  }
  if (run(c, inputs, 0) != bits) finding.fail(text(c.name, ": run again it gives other bits"));
  // A library may take another algorithm where addresses are less even.
  if (products == nullptr && run(c, inputs, 1) != bits)
    finding.fail(text(c.name, ": addresses one element off it gives other bits"));
  if (c.in_place.empty()) return;
  OpCase apart = c;
  apart.in_place.clear();
  if (run(apart, inputs, 0) != bits)
    finding.fail(text(c.name, ": not in place it gives other bits"));
}

// Why this device does not run a case; empty where it does.
std::string refusal(const Subject& subject, const OpCase& c) {
  if (subject.kernels(c.kind) == nullptr) return "no CUDA kernel";
  if (has_narrow(c)) return "no CUDA kernel for quantised operands";
  if (subject.kernels != cuda_kernel) return "";
  OneOp one = program_of(c);
  one.program.segments.push_back({"case", Pass::other, 1, -1, {one.op}});
  try {
    refuse_for_cuda(one.program, device_of(*subject.memory));
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

bool is_small(const OpCase& c) {
  int64_t elements = 0;
  for (const auto* items : {&c.inputs, &c.outputs})
    for (const Item& item : *items)
      elements += elements_of(item.shape);
  return elements <= small_elements;
}

nlohmann::json shown(const std::map<std::string, Worst>& worst) {
  nlohmann::json object = nlohmann::json::object();
  for (const auto& [name, found] : worst)
    object[name] = {{"cases", found.cases},
                    {"of_allowed", found.of_allowed},
                    {"from_cpu", found.from_cpu},
                    {"in", found.in}};
  return object;
}

}  // namespace

Finding check_ops(const Subject& subject, const Effort& effort) {
  Finding finding;
  std::map<std::string, Worst> worst;
  const std::unique_ptr<ChosenProducts> products = library_products(subject);
  std::map<std::string, std::string> refused;
  int64_t left_out = 0;
  for (const OpCase& c : op_cases()) {
    if (effort.small && !is_small(c)) continue;
    if (const std::string why = refusal(subject, c); !why.empty()) {
      refused[info(c.kind).name] = why;
    } else if (effort.over()) {
      ++left_out;
    } else {
      try {
        compare(subject, nullptr, c, finding, worst[info(c.kind).name]);
        if (products && is_dense_product(program_of(c).op))
          compare(subject, products.get(), c, finding,
                  worst[text(info(c.kind).name, " by ", subject.memory->products()->name())]);
      } catch (const RunError& error) {
        finding.fail(text(c.name, ": ", error.what()));
        break;  // the device may be lost
      }
    }
  }
  finding.figures = {
      {"worst", shown(worst)}, {"not_run", refused}, {"cases_left_out_for_time", left_out}};
  if (worst.empty()) finding.fail("no case was run");
  return finding;
}

}  // namespace spillway
