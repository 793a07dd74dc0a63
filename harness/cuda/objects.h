// Owners of what a Gpu hands out. The Gpu must outlive them.
#pragma once

#include <utility>

#include "harness/cuda/gpu.h"

namespace spillway {

// One handle, given back by `give_back`. Moves, does not copy.
template <class Handle, void (*give_back)(Gpu&, Handle)>
class GpuObject {
 public:
  GpuObject() = default;
  GpuObject(Gpu& gpu, Handle handle) : gpu_(&gpu), handle_(handle) {}
  ~GpuObject() { reset(); }
  GpuObject(GpuObject&& other) noexcept
      : gpu_(other.gpu_), handle_(std::exchange(other.handle_, nullptr)) {}
  GpuObject& operator=(GpuObject&& other) noexcept {
    if (this != &other) {
      reset();
      gpu_ = other.gpu_;
      handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
  }
  GpuObject(const GpuObject&) = delete;
  GpuObject& operator=(const GpuObject&) = delete;

  Handle get() const { return handle_; }
  explicit operator bool() const { return handle_ != nullptr; }
  void reset() {
    if (handle_ != nullptr) give_back(*gpu_, std::exchange(handle_, nullptr));
  }

 private:
  Gpu* gpu_ = nullptr;
  Handle handle_ = nullptr;
};

inline void give_back_stream(Gpu& gpu, CUstream_st* stream) { gpu.destroy(stream); }
inline void give_back_event(Gpu& gpu, CUevent_st* event) { gpu.destroy(event); }
inline void give_back_graph(Gpu& gpu, CUgraphExec_st* graph) { gpu.destroy(graph); }
inline void give_back_device(Gpu& gpu, std::byte* memory) { gpu.free_device(memory); }
inline void give_back_host(Gpu& gpu, std::byte* memory) { gpu.free_host(memory); }

using GpuStream = GpuObject<CUstream_st*, give_back_stream>;
using GpuEvent = GpuObject<CUevent_st*, give_back_event>;
using GpuGraph = GpuObject<CUgraphExec_st*, give_back_graph>;
using GpuDeviceMemory = GpuObject<std::byte*, give_back_device>;
using GpuHostMemory = GpuObject<std::byte*, give_back_host>;

inline GpuStream make_stream(Gpu& gpu) { return {gpu, gpu.create_stream()}; }
inline GpuEvent make_event(Gpu& gpu, EventUse use) { return {gpu, gpu.create_event(use)}; }

}  // namespace spillway
