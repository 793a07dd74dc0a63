// Test mode: bytes that hold no value are NaN, and nobody may write them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "harness/arenas.h"

namespace spillway {

inline constexpr std::byte poison_byte{0xff};  // 0xffff and 0xffffffff: NaN in bf16 and in f32

// Keeps every byte outside live tensors poisoned, in both arenas: gaps of alignment and tensors
// that are not allocated now. Releasing poisons; allocating and verify() look whether the poison is
// untouched, so a write outside live tensors is found at the latest at the next segment's end.
// Used by the compute lane only, which is the lane that allocates.
class Poison {
 public:
  // Fills both arenas. Persistent tensors are live from now on; device_reserved is the mapping's
  // size: a little of what lies behind the plan's last byte is watched too.
  Poison(const Arenas& arenas, int64_t device_reserved);

  void allocate(TensorId id);
  void release(TensorId id);
  // Looks at every byte outside live tensors. `where` is for the message.
  void verify(const std::string& where);

  // The first write outside live tensors: arena, offset, nearest tensor. The run goes on (poisoned
  // anew) so that its values can be looked at as well; step() throws this at its end.
  const std::optional<std::string>& violation() const { return violation_; }

 private:
  struct Zone {  // one arena
    Space space;
    std::byte* data;
    int64_t bytes;
  };
  void examine(const Zone& zone, int64_t begin, int64_t end, const std::string& where);
  std::string nearest_live(Space space, int64_t offset) const;
  const Zone& zone_of(TensorId id) const {
    return zones_[arenas_.program->at(id).space == Space::host];
  }

  Arenas arenas_;
  Zone zones_[2];
  std::vector<bool> live_;
  std::optional<std::string> violation_;
};

}  // namespace spillway
