#include "tests/gpu/timing.h"

#include <algorithm>

#include "harness/error.h"
#include "harness/measurement.h"
#include "tests/support/op_case.h"

namespace spillway {

double seconds_of_issued(Gpu& gpu, const std::vector<CUstream_st*>& streams, int times,
                         const std::function<void()>& issue) {
  const GpuEvent begin = make_event(gpu, EventUse::time), fork = make_event(gpu, EventUse::order);
  std::vector<GpuEvent> ends;
  for (size_t i = 0; i < streams.size(); ++i)
    ends.push_back(make_event(gpu, EventUse::time));
  std::vector<double> seconds;
  for (int time = 0; time <= times; ++time) {
    gpu.record_time(begin.get(), streams.front());
    gpu.record(fork.get(), streams.front());
    for (size_t i = 1; i < streams.size(); ++i)
      gpu.wait(streams[i], fork.get());
    issue();
    for (size_t i = 0; i < streams.size(); ++i)
      gpu.record_time(ends[i].get(), streams[i]);
    double longest = 0;
    for (size_t i = 0; i < streams.size(); ++i) {
      gpu.synchronize(streams[i]);
      longest = std::max(longest, gpu.seconds_between(begin.get(), ends[i].get()));
    }
    if (time > 0) seconds.push_back(longest);
  }
  return statistics_of(seconds).median;
}

double copy_ceiling(const Subject& subject, int64_t bytes) {
  Gpu& gpu = subject.memory->gpu();
  subject.memory->reserve(2 * bytes, 0);
  const GpuStream stream = make_stream(gpu);
  std::byte* from = subject.memory->device();
  constexpr int copies = 4;
  const double seconds = seconds_of_issued(gpu, {stream.get()}, 5, [&] {
    for (int i = 0; i < copies; ++i)
      gpu.copy(from + bytes, from, bytes, stream.get());
  });
  return 2.0 * copies * static_cast<double>(bytes) / seconds;
}

std::unique_ptr<ChosenProducts> library_products(const Subject& subject) {
  if (subject.memory->products() == nullptr) return nullptr;
  ProductLibrary& library = *subject.memory->products();
  return std::make_unique<ChosenProducts>(
      library, subject.memory->gpu(), default_algorithm_file(),
      text(device_of(*subject.memory).name, ", checked, ", library.name()));
}

double product_rate(const Subject& subject, const Program& program, const Op& op) {
  Gpu& gpu = subject.memory->gpu();
  int64_t at = 0;
  const auto next = [&](int64_t bytes) {
    const int64_t begin = at;
    at += (bytes + workspace_alignment - 1) / workspace_alignment * workspace_alignment;
    return begin;
  };
  std::vector<int64_t> begins;
  for (const auto* operands : {&op.inputs, &op.outputs})
    for (const Operand& operand : *operands)
      begins.push_back(next(program.at(operand.tensor).slice_bytes()));
  const int64_t scratch = subject.workspace_bytes(program, op), scratch_at = next(scratch);
  subject.memory->reserve(at, 0);
  std::byte* arena = subject.memory->device();
  std::vector<Buffer> inputs, outputs;
  size_t operand_index = 0;
  for (const auto* operands : {&op.inputs, &op.outputs})
    for (const Operand& operand : *operands) {
      const Tensor& tensor = program.at(operand.tensor);
      auto& buffers = operands == &op.inputs ? inputs : outputs;
      buffers.push_back({arena + begins[operand_index++], tensor.shape, tensor.dtype});
    }
  const GpuStream stream = make_stream(gpu);
  const CudaCall call{{&op, inputs, outputs, -1},
                      &subject.memory->device_words()->step,
                      {arena + scratch_at, static_cast<size_t>(scratch)},
                      stream.get()};
  const CudaKernel* kernel = subject.kernels(op.kind);
  const std::unique_ptr<ChosenProducts> products = library_products(subject);
  if (products) products->prepare({{call.call, call.workspace}}, stream.get());
  const double seconds = seconds_of_issued(gpu, {stream.get()}, 5, [&] {
    if (!products || !products->run(call.call, call.workspace, stream.get())) kernel->run(call);
    gpu.check_launch();
  });
  return info(op.kind).cost(program, op).matmul_flops / seconds;
}

double square_product_rate(const Subject& subject, int64_t width) {
  const Item square{{width, width}, DType::bf16};
  const OneOp one = program_of(op_case("product", OpKind::matmul, {square, square}, {square}));
  return product_rate(subject, one.program, one.op);
}

}  // namespace spillway
