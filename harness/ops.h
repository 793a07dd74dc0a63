// The op table: for each kind its lane, its legal operands, what it costs and its CPU kernel.
// The meaning of an op is its CPU kernel; every other executor is compared with it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "harness/program.h"

namespace spillway {

class ThreadPool;

// Independent in-order queues. compute runs on the device's cores, the others beside it.
enum class Lane : uint8_t { compute, d2h, h2d, collective };
inline constexpr int lane_count = 4;
const char* name_of(Lane lane);
constexpr size_t index_of(Lane lane) { return static_cast<size_t>(lane); }

// Work of one execution on one device. Attention counts causal-halved FLOPs.
struct OpCost {
  double matmul_flops = 0;           // 2 m n k
  double attention_flops = 0;        // causal-halved; a backward counts twice its forward
  double attention_extra_flops = 0;  // the tiled backward's second QK^T
  double bytes = 0;                  // device memory read + written
  double link_bytes = 0;             // host copies: bytes over the link
  double group_bytes = 0;            // collectives: bytes of the full (gathered) buffer
};

// An operand resolved to memory. Shape has `slices` prepended where a stacked tensor is whole.
struct Buffer {
  void* data = nullptr;
  Shape shape;
  DType dtype = DType::f32;

  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
  int64_t elements() const { return elements_of(shape); }
};

struct OpCall {
  const Op* op = nullptr;
  std::span<const Buffer> inputs, outputs;
  int64_t step = 0;  // 0-based optimizer step (adamw's bias correction)
};

struct OpInfo {
  OpKind kind;
  const char* name;  // as in dumps and traces
  Lane lane;
  const char* meaning;  // one line
  // Empty when the operands are legal, else what is wrong.
  std::string (*check)(const Program&, const Op&);
  OpCost (*cost)(const Program&, const Op&);
  void (*run)(const OpCall&, ThreadPool&);  // null for collectives, which one process cannot run
};

const OpInfo& info(OpKind kind);
inline Lane lane_of(const Op& op) { return info(op.kind).lane; }
inline bool is_host_copy(const Op& op) {
  return op.kind == OpKind::copy_d2h || op.kind == OpKind::copy_h2d;
}

}  // namespace spillway
