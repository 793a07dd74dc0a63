// Moves bytes at the pace of a link. What is moved, and when, is the lanes' business.
#pragma once

#include <cstddef>
#include <cstdint>

namespace spillway {

// Nanoseconds of CLOCK_MONOTONIC.
int64_t now_ns();

// Lets this thread's sleeps end within a microsecond or two of what was asked (Linux rounds to 50
// by default, which is a tenth of a 1 MiB chunk at 2 GB/s).
void use_precise_sleep();

// One direction of a link. A copy of n bytes takes n / bytes_per_second seconds, times `slow`: the
// bytes are really moved, in chunks, each followed by a sleep until it is due. A memcpy that is
// slower than the link sets its own pace.
class Pacer {
 public:
  // bytes_per_second 0: as fast as memcpy goes. slow >= 1.
  Pacer(double bytes_per_second, double slow) : rate_(bytes_per_second), slow_(slow) {}

  // `after_wait`: the lane stood idle before this copy. If not, the copy is due from the moment the
  // last one was due, so that late wake-ups do not add up over a busy period.
  void copy(void* to, const void* from, int64_t bytes, bool after_wait);

 private:
  int64_t start_time(bool after_wait) const;
  void copy_paced(std::byte* to, const std::byte* from, int64_t bytes);
  void copy_slowly(std::byte* to, const std::byte* from, int64_t bytes);

  double rate_;
  double slow_;
  int64_t due_ = 0;  // when the last chunk was to be finished
};

}  // namespace spillway
