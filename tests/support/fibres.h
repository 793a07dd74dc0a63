// The threads of a CUDA group as fibres on one thread of the host: between two points where the
// group waits each runs undisturbed, in an order that the caller chooses, so that results are
// reproducible and a missing wait shows as a difference between two orders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace spillway {

enum class ThreadOrder : uint8_t { rising, falling };

class Fibres;

// What a kernel's body sees (harness/cuda/ops/call.cuh).
class FibreGroup {
 public:
  FibreGroup(Fibres& fibres, int rank) : fibres_(fibres), rank_(rank) {}
  int rank() const { return rank_; }
  int size() const;
  void sync() const;
  float sum(float x) const;
  float max(float x) const;
  int largest(float x, int index) const;
  std::byte* scratch() const;

 private:
  Fibres& fibres_;
  int rank_;
};

class Fibres {
 public:
  Fibres();
  ~Fibres();
  Fibres(const Fibres&) = delete;
  Fibres& operator=(const Fibres&) = delete;

  using Body = std::function<void(const FibreGroup&)>;

  // Calls body once for each of `threads` ranks. The scratch memory is all ones, as bits, before.
  // Throws std::logic_error where some threads wait and others end or wait for something else, and
  // what a body throws.
  void run(int threads, int64_t scratch_bytes, ThreadOrder order, const Body& body);

 private:
  friend class FibreGroup;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace spillway
