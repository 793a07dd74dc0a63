// Attention by cuDNN: whether the library is here, and plans for the shapes it takes. A plain header:
// it answers in builds without cuDNN, and on machines without the library or a driver.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "harness/ops.h"

struct CUstream_st;

namespace spillway {

// The library is opened at run time: a program built with its headers starts without it.
struct CudnnState {
  std::string problem;  // empty where it can be used, else what is missing: "no cuDNN"
  int version = 0;      // 91900 for 9.19.0; 0: none
};
const CudnnState& cudnn_state();
std::string cudnn_version_text(int version);  // "9.19.0"

// One direction of causal attention in bf16; sizes as in harness/ops/attention.cpp.
struct AttentionShape4d {
  int64_t batch = 0, seq = 0, heads = 0, kv_heads = 0, head_dim = 0, value_dim = 0;
  float scale = 0;
  bool backward = false;
  auto operator<=>(const AttentionShape4d&) const = default;

  int64_t stats_bytes() const { return batch * heads * seq * 4; }
};
// Nothing where a library has no say: another op, f32, or a plain kernel asked for.
std::optional<AttentionShape4d> library_attention(const Op& op, DType dtype);

// Device addresses, each a multiple of 16. `stats` is the log-sum-exp packed as [batch, heads, seq]:
// before 9.26 cuDNN's backward takes no other order.
struct AttentionAddresses {
  const std::byte *q = nullptr, *k = nullptr, *v = nullptr, *dout = nullptr;  // dout: backward
  std::byte *out = nullptr, *stats = nullptr;                                 // backward: inputs
  std::byte *dq = nullptr, *dk = nullptr, *dv = nullptr;                      // backward
};

class CudnnAttention {
 public:
  virtual ~CudnnAttention() = default;
  virtual int64_t workspace_bytes() const = 0;
  // Issues it to the stream. Throws RunError where cuDNN refuses.
  virtual void run(const AttentionAddresses& at, std::byte* workspace,
                   CUstream_st* stream) const = 0;
};

// The plan for the current device, made once a process and kept; where `plan` is null, why.
struct AttentionPlan {
  const CudnnAttention* plan = nullptr;
  std::string reason;
};
const AttentionPlan& cudnn_attention(const AttentionShape4d& shape);

// What cuDNN's front end says against this shape on a GPU of such a compute capability (90: 9.0);
// empty: nothing. Needs the library, and no device.
std::string cudnn_objection(const AttentionShape4d& shape, int capability);

// From then on its attention runs by kernels of ours.
void choose_plain_attention(Program& program);

// By what a program's attention ops run: "cuDNN 9.19.0", "plain (no cuDNN)", ...; empty without any.
std::string attention_kernels(const Program& program);

}  // namespace spillway
