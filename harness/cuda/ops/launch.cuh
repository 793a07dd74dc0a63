// Groups of threads on the device, and the launch of a phase (call.cuh). The only part of a kernel
// of ours that cannot run without a GPU.
#pragma once

#include <algorithm>
#include <climits>
#include <cstdint>

#include <cuda_runtime.h>

#include "harness/cuda/check.h"
#include "harness/cuda/kernel.h"
#include "harness/cuda/ops/call.cuh"
#include "harness/error.h"

namespace spillway {

inline constexpr int warp_threads = 32;
inline constexpr unsigned whole_warp = 0xffffffffu;

__device__ inline float warp_sum(float x) {
  for (int distance = warp_threads / 2; distance > 0; distance /= 2)
    x += __shfl_xor_sync(whole_warp, x, distance);
  return x;
}
__device__ inline float warp_max(float x) {
  for (int distance = warp_threads / 2; distance > 0; distance /= 2)
    x = fmaxf(x, __shfl_xor_sync(whole_warp, x, distance));
  return x;
}

struct WarpGroup {
  std::byte* memory;

  __device__ int rank() const { return static_cast<int>(threadIdx.x) % warp_threads; }
  __device__ static constexpr int size() { return warp_threads; }
  __device__ void sync() const { __syncwarp(); }
  __device__ float sum(float x) const { return warp_sum(x); }
  __device__ float max(float x) const { return warp_max(x); }
  __device__ int largest(float x, int index) const {
    float best = isnan(x) ? -INFINITY : x;
    for (int distance = warp_threads / 2; distance > 0; distance /= 2) {
      const float other = __shfl_xor_sync(whole_warp, best, distance);
      const int other_index = __shfl_xor_sync(whole_warp, index, distance);
      if (other > best || (other == best && other_index < index)) {
        best = other;
        index = other_index;
      }
    }
    return index;
  }
  __device__ std::byte* scratch() const { return memory; }
};

template <int threads>
struct BlockGroup {
  static constexpr int warps = threads / warp_threads;
  static_assert(threads % warp_threads == 0 && warps <= warp_threads);
  std::byte* memory;
  float* partial;  // one float a warp

  __device__ int rank() const { return static_cast<int>(threadIdx.x); }
  __device__ static constexpr int size() { return threads; }
  __device__ void sync() const { __syncthreads(); }
  __device__ float sum(float x) const { return warp_sum(shared_among_warps(warp_sum(x), 0.f)); }
  __device__ float max(float x) const {
    return warp_max(shared_among_warps(warp_max(x), -INFINITY));
  }
  __device__ std::byte* scratch() const { return memory; }

  // In lane i what warp i gave, `none` in the lanes beyond.
  __device__ float shared_among_warps(float of_warp, float none) const {
    const int lane = rank() % warp_threads;
    if (lane == 0) partial[rank() / warp_threads] = of_warp;
    __syncthreads();
    const float x = lane < warps ? partial[lane] : none;
    __syncthreads();
    return x;
  }
};

// Groups in a block: a warp alone would leave half of a processor's thread slots empty.
template <class Body>
constexpr int most_groups = Body::threads == warp_threads ? 8 : 1;

// Blocks that registers must leave room for on one processor.
template <class Body>
constexpr int least_blocks() {
  if constexpr (requires { Body::blocks_at_once; }) return Body::blocks_at_once;
  return 1;
}

template <class Body>
__global__ void __launch_bounds__(Body::threads* most_groups<Body>, least_blocks<Body>())
    run_tiles(const Body body, int64_t tiles, int scratch_bytes) {
  extern __shared__ uint4 shared[];
  std::byte* const memory = reinterpret_cast<std::byte*>(shared);
  if constexpr (Body::threads == warp_threads) {
    const int warp = static_cast<int>(threadIdx.x) / warp_threads,
              warps = static_cast<int>(blockDim.x) / warp_threads;
    const WarpGroup group{memory + warp * scratch_bytes};
    for (int64_t tile = int64_t{blockIdx.x} * warps + warp; tile < tiles;
         tile += int64_t{gridDim.x} * warps) {
      body(group, tile);
      group.sync();
    }
  } else {
    __shared__ float partial[warp_threads];
    const BlockGroup<Body::threads> group{memory, partial};
    for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
      body(group, tile);
      group.sync();
    }
  }
}

// What every device gives without being asked: 48 KiB, of which BlockGroup's own memory is a part.
inline constexpr int64_t unasked_scratch = (48 << 10) - warp_threads * 4;

// Puts phases on a stream; the caller asks for the error of launches. `name` is the op's, for
// messages.
class Launch {
 public:
  Launch(cudaStream_t stream, const char* name) : stream_(stream), name_(name) {}

  template <class Body>
  void operator()(const Body& body, int64_t tiles) const {
    const int64_t scratch = parts_of(body.scratch_bytes(), 16) * 16;
    check(scratch <= most_scratch, name_, " needs ", scratch, " bytes of shared memory");
    if (tiles == 0) return;
    const int64_t groups = std::min<int64_t>(
        most_groups<Body>,
        scratch == 0 ? most_groups<Body> : std::max<int64_t>(1, unasked_scratch / scratch));
    if (groups * scratch > unasked_scratch)
      cuda_check(cudaFuncSetAttribute(run_tiles<Body>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      static_cast<int>(groups * scratch)),
                 "cudaFuncSetAttribute", text(groups * scratch, " bytes of shared memory"), name_);
    const auto blocks = static_cast<unsigned>(std::min<int64_t>(parts_of(tiles, groups), INT_MAX));
    run_tiles<<<blocks, static_cast<unsigned>(groups * Body::threads),
                static_cast<size_t>(groups * scratch), stream_>>>(body, tiles,
                                                                  static_cast<int>(scratch));
  }

 private:
  cudaStream_t stream_;
  const char* name_;
};

template <class Kernel>
void run_on_device(const CudaCall& call) {
  Kernel::run({call.call, call.step, call.workspace.data()},
              Launch(call.stream, info(Kernel::kind).name));
}

// The table line of a kernel written as call.cuh says.
template <class Kernel>
constexpr CudaKernel kernel_line() {
  if constexpr (requires { &Kernel::workspace_bytes; }) {
    return {Kernel::kind, &run_on_device<Kernel>, &Kernel::workspace_bytes};
  } else {
    return {Kernel::kind, &run_on_device<Kernel>, nullptr};
  }
}

}  // namespace spillway
