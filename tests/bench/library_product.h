// A product by oneDNN alone, to compare ours with: the library with its own threads, b in its best
// layout, one reorder of b counted.
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include <oneapi/dnnl/dnnl.hpp>

#include "harness/thread_pool.h"

extern "C" void omp_set_num_threads(int);

namespace spillway {

// Which operand is transposed: b (a layer's forward), none (its gradient for the input), a (that
// for the weight, in f32).
enum class Form { forward, dgrad, wgrad };

struct Shape3 {
  int64_t m, n, k;
};

class Library {
 public:
  using Type = dnnl::memory::data_type;

  Library(const Shape3& s, Form form, Type type) {
    const auto ab = Tag::ab, ba = Tag::ba;
    a_ = memory({s.m, s.k}, type, form == Form::wgrad ? ba : ab);
    b_ = memory({s.k, s.n}, type, form == Form::forward ? ba : ab);
    c_ = memory({s.m, s.n}, form == Form::wgrad ? Type::f32 : type, ab);
    const dnnl::memory::desc best({s.k, s.n}, type, form == Form::wgrad ? ab : Tag::any);
    const dnnl::matmul::primitive_desc chosen({a_.get_desc(), best, c_.get_desc()}, engine_);
    matmul_ = dnnl::matmul(chosen);
    packed_ = dnnl::memory(chosen.weights_desc(), engine_);
    reorders_ = chosen.weights_desc() != b_.get_desc();
    if (reorders_) reorder_ = dnnl::reorder(b_, packed_);
  }

  void run() {
    if (reorders_) reorder_.execute(stream_, b_, packed_);
    matmul_.execute(
        stream_,
        {{DNNL_ARG_SRC, a_}, {DNNL_ARG_WEIGHTS, reorders_ ? packed_ : b_}, {DNNL_ARG_DST, c_}});
    stream_.wait();
  }

 private:
  using Tag = dnnl::memory::format_tag;

  dnnl::memory memory(dnnl::memory::dims dims, Type type, Tag tag) const {
    dnnl::memory made({dims, type, tag}, engine_);
    std::fill_n(static_cast<std::byte*>(made.get_data_handle()), made.get_desc().get_size(),
                std::byte{0x3f});
    return made;
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  dnnl::memory a_, b_, c_, packed_;
  dnnl::matmul matmul_;
  dnnl::reorder reorder_;
  bool reorders_ = false;
};

inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

using Products = std::vector<std::unique_ptr<Library>>;

inline double seconds_of(const Products& products) {
  omp_set_num_threads(usable_cpus());
  const double begin = seconds_now();
  for (const auto& product : products)
    product->run();
  return seconds_now() - begin;
}

}  // namespace spillway
