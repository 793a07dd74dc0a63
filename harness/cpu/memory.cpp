// The two arenas of a CPU run as anonymous mappings. Nothing is placed inside them here: that is
// the plan's.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include <sys/mman.h>

#include "harness/error.h"
#include "harness/executor.h"

namespace spillway {
namespace {

constexpr int64_t huge_page = int64_t{2} << 20;
constexpr int64_t small_page = 4096;  // the smallest on any machine we run on: each is touched

int64_t round_up(int64_t bytes, int64_t unit) { return (bytes + unit - 1) / unit * unit; }

// Writes one byte a page, so that no page fault falls into a measured step. Two threads: zeroing
// pages is the kernel's work and one core does not saturate memory.
void fault_in(std::byte* begin, int64_t bytes) {
  const auto touch = [](std::byte* from, const std::byte* to) {
    for (; from < to; from += small_page) {
      *const_cast<volatile std::byte*>(from) = std::byte{0};
    }
  };
  const int64_t half = round_up(bytes / 2, huge_page);
  std::thread upper([&] { touch(begin + std::min(half, bytes), begin + bytes); });
  touch(begin, begin + std::min(half, bytes));
  upper.join();
}

// One mapping, aligned to huge pages. Growing maps anew: what it held is not kept, since every
// executor fills its arenas itself.
class Arena {
 public:
  explicit Arena(const char* name) : name_(name) {}
  ~Arena() { unmap(); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  void reserve(int64_t bytes) {
    const int64_t wanted = CpuMemory::mapped_bytes(std::max<int64_t>(bytes, 1));
    if (wanted <= bytes_) return;
    unmap();
    map(wanted);
  }
  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  void map(int64_t bytes) {
    const int64_t available = available_memory_bytes();
    if (bytes > available) refuse(bytes, available, "more than this process may take");
    const auto mapped = static_cast<size_t>(bytes + huge_page);  // one more, to align inside
    void* base = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) refuse(bytes, available, std::strerror(errno));
    mapping_ = base;
    mapped_ = mapped;
    bytes_ = bytes;
    data_ = static_cast<std::byte*>(base);
    data_ += (huge_page - reinterpret_cast<intptr_t>(base) % huge_page) % huge_page;
    // Advice only: a kernel without huge pages runs the same program a little slower.
    madvise(data_, static_cast<size_t>(bytes_), MADV_HUGEPAGE);
    fault_in(data_, bytes_);
  }

  void unmap() {
    if (mapping_ != nullptr) munmap(mapping_, mapped_);
    mapping_ = nullptr;
    data_ = nullptr;
    bytes_ = 0;
  }

  [[noreturn]] void refuse(int64_t bytes, int64_t available, const char* reason) const {
    throw RunError(text("no memory for the ", name_, " arena: ", bytes, " bytes wanted, ",
                        available, " available (", reason, ")"));
  }

  const char* name_;
  void* mapping_ = nullptr;
  size_t mapped_ = 0;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace

struct CpuMemory::State {
  Arena device{"device"};
  Arena host{"host"};
};

CpuMemory::CpuMemory() : state_(std::make_unique<State>()) {}
CpuMemory::~CpuMemory() = default;

void CpuMemory::reserve(int64_t device_bytes, int64_t host_bytes) {
  check(device_bytes >= 0 && host_bytes >= 0, "arena of ", device_bytes, " and ", host_bytes,
        " bytes");
  state_->device.reserve(device_bytes);
  if (host_bytes > 0) state_->host.reserve(host_bytes);
}

std::byte* CpuMemory::device() const { return state_->device.data(); }
std::byte* CpuMemory::host() const { return state_->host.data(); }
int64_t CpuMemory::device_reserved() const { return state_->device.bytes(); }
int64_t CpuMemory::host_reserved() const { return state_->host.bytes(); }
int64_t CpuMemory::mapped_bytes(int64_t bytes) { return round_up(bytes, huge_page); }

}  // namespace spillway
