#include "harness/layout.h"

#include <algorithm>

#include "harness/error.h"

namespace spillway {

Layout::Layout(const Program& program, const Plan& plan) : slice_borders_(program.tensors.size()) {
  const auto base_of = [&](const Tensor& tensor) {
    return tensor.space == Space::host ? plan.device_bytes : int64_t{0};
  };
  for (size_t id = 0; id < program.tensors.size(); ++id) {
    const Tensor& tensor = program.tensors[id];
    const int64_t offset = plan.offset[id];
    if (offset == -1) continue;  // never live
    const bool host = tensor.space == Space::host;
    const int64_t capacity = host ? plan.host_arena_bytes : plan.device_bytes;
    if (offset < 0 || offset + tensor.bytes() > capacity) {
      violation_ =
          text("tensor \"", tensor.name, "\" at bytes [", offset, ", ", offset + tensor.bytes(),
               ") of a ", host ? "host" : "device", " arena of ", capacity);
      return;
    }
    for (int64_t slice = 0; slice <= tensor.slices; ++slice) {
      borders_.push_back(base_of(tensor) + offset + slice * tensor.slice_bytes());
    }
  }
  std::sort(borders_.begin(), borders_.end());
  borders_.erase(std::unique(borders_.begin(), borders_.end()), borders_.end());
  for (size_t id = 0; id < program.tensors.size(); ++id) {
    if (plan.offset[id] == -1) continue;
    const Tensor& tensor = program.tensors[id];
    for (int64_t slice = 0; slice <= tensor.slices; ++slice) {
      const int64_t border = base_of(tensor) + plan.offset[id] + slice * tensor.slice_bytes();
      const auto found = std::lower_bound(borders_.begin(), borders_.end(), border);
      slice_borders_[id].push_back(static_cast<int>(found - borders_.begin()));
    }
  }
}

Pieces Layout::pieces_of(TensorId tensor, int64_t first_slice, int64_t end_slice) const {
  const std::vector<int>& borders = slice_borders_[static_cast<size_t>(tensor)];
  return {borders[static_cast<size_t>(first_slice)], borders[static_cast<size_t>(end_slice)]};
}

}  // namespace spillway
