// Extents of a tensor's slice, outermost first: a short list that lives where it stands, because
// programs copy thousands of them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>

namespace spillway {

class Shape {
 public:
  static constexpr size_t most = 6;  // [layers, experts, out, in] is the longest a workload makes
  using value_type = int64_t;
  using iterator = int64_t*;
  using const_iterator = const int64_t*;
  using const_reference = const int64_t&;
  using size_type = size_t;
  using difference_type = std::ptrdiff_t;

  Shape() = default;
  Shape(std::initializer_list<int64_t> extents) : Shape(extents.begin(), extents.end()) {}
  template <class Iterator>
  Shape(Iterator begin, Iterator end) {
    for (; begin != end; ++begin)
      push_back(*begin);
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  int64_t& operator[](size_t i) { return extents_[i]; }
  const int64_t& operator[](size_t i) const { return extents_[i]; }
  const int64_t& front() const { return extents_[0]; }
  const int64_t& back() const { return extents_[size_ - 1]; }
  iterator begin() { return extents_.data(); }
  iterator end() { return extents_.data() + size_; }
  const_iterator begin() const { return extents_.data(); }
  const_iterator end() const { return extents_.data() + size_; }

  // Throws std::length_error beyond `most`, as insert() does.
  void push_back(int64_t extent) { insert(end(), extent); }
  void insert(iterator before, int64_t extent) {
    if (size_ == most) throw std::length_error("a shape of more than 6 extents");
    std::copy_backward(before, end(), end() + 1);
    *before = extent;
    ++size_;
  }

  friend bool operator==(const Shape& a, const Shape& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  std::array<int64_t, most> extents_{};
  uint32_t size_ = 0;
};

}  // namespace spillway
