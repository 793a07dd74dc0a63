// Graphs of cuDNN's front end for attention, and their plans. This file alone includes it.
#include "harness/cuda/cudnn.h"

#if SPILLWAY_HAVE_CUDNN

#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include <cuda_runtime_api.h>
#include <cudnn_frontend.h>
#include <dlfcn.h>
#include <stdlib.h>

#include "harness/cuda/check.h"
#include "harness/error.h"

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;  // the front end takes cuDNN's functions from here
}

namespace spillway {
namespace {

namespace fe = cudnn_frontend;
using TensorPtr = std::shared_ptr<fe::graph::Tensor_attributes>;

// Names of tensors in a graph, by which addresses are given.
enum Uid : int64_t {
  uid_q = 1,
  uid_k,
  uid_v,
  uid_out,
  uid_stats,
  uid_dout,
  uid_dq,
  uid_dk,
  uid_dv
};

CudnnState open_cudnn() {
  fe::cudnn_dlhandle = dlopen("libcudnn.so.9", RTLD_NOW);
  if (fe::cudnn_dlhandle == nullptr) return {"no cuDNN", 0};
  // Where several CUDA runtimes are installed: the one this program is linked with.
  setenv("CUDNN_FRONTEND_CUDART_LIB_NAME", text("libcudart.so.", CUDART_VERSION / 1000).c_str(), 0);
  const auto version = static_cast<int>(fe::detail::get_backend_version());
  // Deterministic gradients of grouped heads, and 192/128 columns.
  constexpr int oldest = 91100;
  if (version < oldest)
    return {
        text("cuDNN ", cudnn_version_text(version), " is older than ", cudnn_version_text(oldest)),
        version};
  return {"", version};
}

// What the two directions share: tensors lie as activations do, rows of all heads.
class GraphBuilder {
 public:
  // capability: of the GPU (90: 9.0), which need not be here.
  GraphBuilder(const AttentionShape4d& shape, int capability) : s_(shape) {
    graph_->set_sm_version(capability);
    graph_->set_io_data_type(fe::DataType_t::BFLOAT16)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    q_ = input("q", uid_q, s_.heads, s_.head_dim);
    k_ = input("k", uid_k, s_.kv_heads, s_.head_dim);
    v_ = input("v", uid_v, s_.kv_heads, s_.value_dim);
    s_.backward ? add_backward() : add_forward();
  }
  std::shared_ptr<fe::graph::Graph> graph() const { return graph_; }

 private:
  using Sizes = std::vector<int64_t>;
  Sizes dims(int64_t heads, int64_t columns) const { return {s_.batch, heads, s_.seq, columns}; }
  Sizes strides(int64_t heads, int64_t columns) const {
    return {s_.seq * heads * columns, columns, heads * columns, 1};
  }
  Sizes stats_strides() const { return {s_.heads * s_.seq, s_.seq, 1, 1}; }

  TensorPtr input(const char* name, Uid uid, int64_t heads, int64_t columns) {
    return graph_->tensor(fe::graph::Tensor_attributes()
                              .set_name(name)
                              .set_uid(uid)
                              .set_dim(dims(heads, columns))
                              .set_stride(strides(heads, columns)));
  }
  void output(const TensorPtr& tensor, Uid uid, int64_t heads, int64_t columns) {
    tensor->set_output(true)
        .set_uid(uid)
        .set_dim(dims(heads, columns))
        .set_stride(strides(heads, columns));
  }

  void add_forward() {
    auto how = fe::graph::SDPA_attributes();
    how.set_name("attention")
        .set_generate_stats(true)
        .set_attn_scale(s_.scale)
        .set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT)
        .set_diagonal_band_right_bound(0);
    auto [out, stats] = graph_->sdpa(q_, k_, v_, how);
    output(out, uid_out, s_.heads, s_.value_dim);
    stats->set_output(true)
        .set_uid(uid_stats)
        .set_data_type(fe::DataType_t::FLOAT)
        .set_dim(dims(s_.heads, 1))
        .set_stride(stats_strides());
  }

  void add_backward() {
    const TensorPtr out = input("o", uid_out, s_.heads, s_.value_dim),
                    dout = input("do", uid_dout, s_.heads, s_.value_dim);
    const TensorPtr stats = graph_->tensor(fe::graph::Tensor_attributes()
                                               .set_name("stats")
                                               .set_uid(uid_stats)
                                               .set_data_type(fe::DataType_t::FLOAT)
                                               .set_dim(dims(s_.heads, 1))
                                               .set_stride(stats_strides()));
    auto how = fe::graph::SDPA_backward_attributes();
    how.set_name("attention_backward")
        .set_attn_scale(s_.scale)
        .set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT)
        .set_diagonal_band_right_bound(0)
        .set_deterministic_algorithm(true);
    auto [dq, dk, dv] = graph_->sdpa_backward(q_, k_, v_, out, dout, stats, how);
    output(dq, uid_dq, s_.heads, s_.head_dim);
    output(dk, uid_dk, s_.kv_heads, s_.head_dim);
    output(dv, uid_dv, s_.kv_heads, s_.value_dim);
  }

  AttentionShape4d s_;
  std::shared_ptr<fe::graph::Graph> graph_ = std::make_shared<fe::graph::Graph>();
  TensorPtr q_, k_, v_;
};

int capability_of(int device) {
  int major = 0, minor = 0;
  cuda_check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
             "cudaDeviceGetAttribute");
  cuda_check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device),
             "cudaDeviceGetAttribute");
  return 10 * major + minor;
}

struct HandleDeleter {
  void operator()(cudnnHandle_t handle) const { fe::detail::destroy_handle(handle); }
};
using Handle = std::unique_ptr<std::remove_pointer_t<cudnnHandle_t>, HandleDeleter>;

// First line of what the front end says; the others name engines.
std::string said(fe::error_t error) {
  const std::string all = error.get_message();
  return all.substr(0, all.find('\n'));
}

class PlannedAttention : public CudnnAttention {
 public:
  PlannedAttention(std::shared_ptr<fe::graph::Graph> graph, cudnnHandle_t handle, bool backward)
      : graph_(std::move(graph)), handle_(handle), backward_(backward) {
    fe::error_t error = graph_->get_workspace_size(workspace_bytes_);
    check(error.is_good(), "cuDNN does not say how much workspace it needs: ", said(error));
  }
  int64_t workspace_bytes() const override { return workspace_bytes_; }

  void run(const AttentionAddresses& at, std::byte* workspace, CUstream_st* stream) const override {
    std::unordered_map<int64_t, void*> addresses = {
        {uid_q, mutable_of(at.q)}, {uid_k, mutable_of(at.k)}, {uid_v, mutable_of(at.v)},
        {uid_out, at.out},         {uid_stats, at.stats},
    };
    if (backward_) {
      addresses[uid_dout] = mutable_of(at.dout);
      addresses[uid_dq] = at.dq;
      addresses[uid_dk] = at.dk;
      addresses[uid_dv] = at.dv;
    }
    for (const auto& [uid, address] : addresses)
      check(reinterpret_cast<uintptr_t>(address) % 16 == 0, "cuDNN's tensor ", uid,
            " begins at an address that is no multiple of 16");
    const cudnnStatus_t status = fe::detail::set_stream(handle_, stream);
    if (status != CUDNN_STATUS_SUCCESS)
      throw RunError(text("cudnnSetStream: ", fe::detail::get_error_string(status)));
    fe::error_t error = graph_->execute(handle_, addresses, workspace);
    if (error.is_bad()) throw RunError(text("cuDNN's attention: ", said(error)));
  }

 private:
  static void* mutable_of(const std::byte* address) { return const_cast<std::byte*>(address); }

  std::shared_ptr<fe::graph::Graph> graph_;
  cudnnHandle_t handle_;
  bool backward_;
  int64_t workspace_bytes_ = 0;
};

// Handles and plans of a process, by device. Never destroyed: a context may be gone at exit.
class Plans {
 public:
  const AttentionPlan& at(const AttentionShape4d& shape) {
    const std::lock_guard lock(mutex_);
    int device = no_device;
    if (cudaGetDevice(&device) != cudaSuccess) {
      cudaGetLastError();
      device = no_device;
    }
    const auto [place, is_new] = plans_.try_emplace({device, shape});
    if (is_new) place->second = make(device, shape);
    return place->second;
  }

 private:
  static constexpr int no_device = -1;

  AttentionPlan make(int device, const AttentionShape4d& shape) {
    if (!cudnn_state().problem.empty()) return {nullptr, cudnn_state().problem};
    if (device == no_device) return {nullptr, "no CUDA device"};
    try {
      // In a step it clears workspace by a CUDA runtime that it opens; better found missing now.
      int found = no_device;
      if (fe::detail::cuda_get_device(&found) != cudaSuccess || found != device)
        return {nullptr, "cuDNN's front end does not find the device"};
      Handle& handle = handles_[device];
      if (!handle) {
        cudnnHandle_t made = nullptr;
        const cudnnStatus_t status = fe::detail::create_handle(&made);
        if (status != CUDNN_STATUS_SUCCESS)
          return {nullptr, text("cudnnCreate: ", fe::detail::get_error_string(status))};
        handle.reset(made);
      }
      const auto graph = GraphBuilder(shape, capability_of(device)).graph();
      fe::error_t error = graph->build(handle.get(), {fe::HeurMode_t::A});
      if (error.is_bad()) return {nullptr, text("cuDNN refuses: ", said(error))};
      kept_.push_back(std::make_unique<PlannedAttention>(graph, handle.get(), shape.backward));
      return {kept_.back().get(), ""};
    } catch (const std::exception& error) {  // the front end's own, of libraries it cannot open
      return {nullptr, text("cuDNN refuses: ", error.what())};
    }
  }

  std::mutex mutex_;
  std::map<int, Handle> handles_;
  std::map<std::pair<int, AttentionShape4d>, AttentionPlan> plans_;
  std::vector<std::unique_ptr<CudnnAttention>> kept_;
};

}  // namespace

const CudnnState& cudnn_state() {
  static const CudnnState state = open_cudnn();
  return state;
}

const AttentionPlan& cudnn_attention(const AttentionShape4d& shape) {
  static Plans* const plans = new Plans;
  return plans->at(shape);
}

std::string cudnn_objection(const AttentionShape4d& shape, int capability) {
  if (!cudnn_state().problem.empty()) return cudnn_state().problem;
  const auto graph = GraphBuilder(shape, capability).graph();
  fe::error_t error = graph->validate();
  return error.is_good() ? "" : said(error);
}

}  // namespace spillway

#else

namespace spillway {

const CudnnState& cudnn_state() {
  static const CudnnState state{"built without cuDNN", 0};
  return state;
}

const AttentionPlan& cudnn_attention(const AttentionShape4d&) {
  static const AttentionPlan none{nullptr, cudnn_state().problem};
  return none;
}

std::string cudnn_objection(const AttentionShape4d&, int) { return cudnn_state().problem; }

}  // namespace spillway

#endif
