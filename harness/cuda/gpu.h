// What the executor asks of one GPU, without a CUDA type in it: the CUDA runtime implements it
// (runtime.cpp), and in tests a stand-in that runs streams on the CPU in the worst order allowed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "harness/cuda/cuda_executor.h"

// CUDA's own handles, declared and not included.
struct CUstream_st;
struct CUevent_st;
struct CUgraphExec_st;

namespace spillway {

enum class EventUse : uint8_t { order, time };

// One device, used by one thread at a time. Every call that CUDA refuses throws RunError with the
// call, the error's name and its text; destroy and free are silent, since they end failed runs too.
class Gpu {
 public:
  virtual ~Gpu() = default;
  virtual const CudaDevice& device() const = 0;

  // ---- before the first step
  virtual CUstream_st* create_stream() = 0;  // does not wait for the default stream
  virtual CUevent_st* create_event(EventUse use) = 0;
  virtual std::byte* allocate_device(int64_t bytes) = 0;
  virtual std::byte* allocate_host(int64_t bytes) = 0;  // page-locked
  virtual void destroy(CUstream_st* stream) noexcept = 0;
  virtual void destroy(CUevent_st* event) noexcept = 0;
  virtual void destroy(CUgraphExec_st* graph) noexcept = 0;
  virtual void free_device(std::byte* memory) noexcept = 0;
  virtual void free_host(std::byte* memory) noexcept = 0;
  virtual int64_t available_bytes() = 0;  // of device memory, to anyone

  // ---- in a step: none blocks the host, allocates, or waits for the device
  virtual void record(CUevent_st* event, CUstream_st* stream) = 0;
  // While a graph is captured: a node of it, recorded anew at every launch.
  virtual void record_time(CUevent_st* event, CUstream_st* stream) = 0;
  // What is issued to `stream` from now on waits for the last record() of `event` so far.
  virtual void wait(CUstream_st* stream, CUevent_st* event) = 0;
  virtual void copy(std::byte* to, const std::byte* from, int64_t bytes, CUstream_st* stream) = 0;
  virtual void fill(std::byte* at, std::byte value, int64_t bytes, CUstream_st* stream) = 0;
  virtual void launch(CUgraphExec_st* graph, CUstream_st* stream) = 0;
  virtual void check_launch() = 0;  // of the kernel launched last

  // ---- between steps
  // What is issued to `stream`, and to streams that wait for it, becomes a graph instead of running,
  // until end_capture(); by then `stream` must wait for all of those.
  virtual void begin_capture(CUstream_st* stream) = 0;
  virtual CUgraphExec_st* end_capture(CUstream_st* stream) = 0;  // ready to launch
  virtual void abandon_capture(CUstream_st* stream) noexcept = 0;
  virtual void synchronize(CUstream_st* stream) = 0;
  virtual void drain(CUstream_st* stream) noexcept = 0;  // synchronize, whatever went wrong
  // Both recorded and passed.
  virtual double seconds_between(CUevent_st* from, CUevent_st* to) = 0;
};

// Throws RunError where this build has no CUDA, there is no driver, or no such device.
std::unique_ptr<Gpu> open_gpu(int device);

}  // namespace spillway
