// Everything here waits for the device: between steps only.
#include "harness/cuda/contents.h"

#include <algorithm>
#include <cstring>

#include "harness/cuda/walk.h"
#include "harness/error.h"
#include "harness/init.h"

namespace spillway {
namespace {

// Calls part(at, bytes) for [0, total) in parts that fit the staging memory.
template <class Part>
void in_parts(int64_t total, const Part& part) {
  for (int64_t at = 0; at < total; at += CudaMemory::staging_bytes)
    part(at, std::min(CudaMemory::staging_bytes, total - at));
}

template <class Do>
void for_each_placed(const Arenas& arenas, const Do& visit) {
  for (TensorId id = 0; id < static_cast<TensorId>(arenas.program->tensors.size()); ++id)
    if (arenas.placed(id)) visit(id, arenas.program->at(id));
}

}  // namespace

void Contents::fill_persistent(uint64_t seed, ThreadPool& pool) {
  for_each_placed(arenas_, [&](TensorId id, const Tensor& tensor) {
    if (tensor.extent != Extent::persistent || !has_init(tensor)) return;
    if (tensor.init == Init::zero && tensor.init_from == no_tensor && tensor.space == Space::device)
      return memory_.gpu().fill(arenas_.address(id), std::byte{0}, tensor.bytes(), stream_);
    const int64_t size = bytes_of(tensor.dtype);
    in_parts(tensor.bytes(), [&](int64_t at, int64_t bytes) {
      const ElementRange range{at / size, bytes / size};
      init_elements(*arenas_.program, id, seed, range, memory_.staging(), pool);
      memory_.gpu().copy(arenas_.address(id) + at, memory_.staging(), bytes, stream_);
      memory_.gpu().synchronize(stream_);
    });
  });
  memory_.gpu().synchronize(stream_);
}

std::span<std::byte> Contents::persistent(TensorId id) const {
  const Tensor& tensor = arenas_.program->at(id);
  check(tensor.extent == Extent::persistent, "tensor ", tensor.name, " is not persistent");
  return {arenas_.address(id), static_cast<size_t>(tensor.bytes())};
}

void Contents::fetch(const std::byte* from, int64_t bytes) const {
  memory_.gpu().copy(memory_.staging(), from, bytes, stream_);
  memory_.gpu().synchronize(stream_);
}

void Contents::visit(TensorId id, const Visit& visit) const {
  const std::span<std::byte> tensor = persistent(id);
  in_parts(static_cast<int64_t>(tensor.size()), [&](int64_t at, int64_t bytes) {
    fetch(tensor.data() + at, bytes);
    visit({memory_.staging(), static_cast<size_t>(bytes)});
  });
}

std::vector<std::byte> Contents::read(TensorId id) const {
  std::vector<std::byte> all;
  visit(id,
        [&](std::span<const std::byte> part) { all.insert(all.end(), part.begin(), part.end()); });
  return all;
}

void Contents::write(TensorId id, const std::vector<std::byte>& bytes) {
  const std::span<std::byte> tensor = persistent(id);
  check(bytes.size() == tensor.size(), "tensor ", arenas_.program->at(id).name, " has ",
        tensor.size(), " bytes, found ", bytes.size());
  in_parts(static_cast<int64_t>(bytes.size()), [&](int64_t at, int64_t count) {
    std::memcpy(memory_.staging(), bytes.data() + at, static_cast<size_t>(count));
    memory_.gpu().copy(tensor.data() + at, memory_.staging(), count, stream_);
    memory_.gpu().synchronize(stream_);
  });
}

void Contents::poison_all() {
  memory_.gpu().fill(arenas_.device, unset_byte, memory_.device_reserved(), stream_);
  memory_.gpu().synchronize(stream_);
  std::fill_n(arenas_.host, arenas_.plan->host_arena_bytes, unset_byte);
}

void Contents::poison_host() {
  for_each_placed(arenas_, [&](TensorId id, const Tensor& tensor) {
    if (tensor.space == Space::host && tensor.extent != Extent::persistent)
      std::memset(arenas_.address(id), std::to_integer<int>(unset_byte),
                  static_cast<size_t>(tensor.bytes()));
  });
}

void Contents::verify_poison() const {
  std::vector<std::pair<int64_t, int64_t>> live;  // begin and end of persistent tensors
  for_each_placed(arenas_, [&](TensorId id, const Tensor& tensor) {
    if (tensor.space == Space::device && tensor.extent == Extent::persistent)
      live.emplace_back(arenas_.offset(id), arenas_.offset(id) + tensor.bytes());
  });
  std::sort(live.begin(), live.end());
  live.emplace_back(memory_.device_reserved(), memory_.device_reserved());
  int64_t at = 0;
  for (const auto& [begin, end] : live) {
    expect_poison(at, begin);
    at = std::max(at, end);
  }
}

void Contents::expect_poison(int64_t begin, int64_t end) const {
  in_parts(end - begin, [&](int64_t at, int64_t bytes) {
    fetch(arenas_.device + begin + at, bytes);
    const std::byte* part = memory_.staging();
    const std::byte* changed =
        std::find_if(part, part + bytes, [](std::byte value) { return value != unset_byte; });
    if (changed != part + bytes)
      throw RunError(text("redzone: byte ", begin + at + (changed - part),
                          " of the device arena is outside every tensor that lives between steps, "
                          "and was written after what was there was released"));
  });
}

}  // namespace spillway
