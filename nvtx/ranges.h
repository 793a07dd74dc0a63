// NVTX ranges: named spans that NVIDIA's tools show on the thread that opened them. Knows no
// programs.
//
// Domain "spillway", one category per kind of range. Compiled in when the build found the NVTX3
// headers; otherwise, and where no tool is attached, a range costs nothing worth counting.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace spillway {

enum class RangeCategory : uint32_t { step = 1, segment, op, copy };
const char* name_of(RangeCategory category);

// The one place where names are formed, for NVTX and for trace files alike:
//   step: "step"   segment: "SEGMENT"   op: "SEGMENT/OP"   copy: "copy SEGMENT/OP"
// What varies from range to range (the step's number, the iteration) is the payload, so that names
// can be registered.
std::string range_name(RangeCategory category, std::string_view segment = {},
                       std::string_view op = {});

// A name known to the tool by handle. Cheap to copy, lives as long as the process.
struct RegisteredRange {
  RangeCategory category = RangeCategory::op;
  void* handle = nullptr;
};

#if SPILLWAY_HAVE_NVTX

// Registering takes a lock in the tool: do it before the first step.
RegisteredRange register_range(RangeCategory category, const std::string& name);

// Open from construction to destruction; nests per thread.
class NvtxRange {
 public:
  NvtxRange(RegisteredRange range, int64_t payload);
  ~NvtxRange();
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;
};

#else

inline RegisteredRange register_range(RangeCategory category, const std::string&) {
  return {category, nullptr};
}

class NvtxRange {
 public:
  NvtxRange(RegisteredRange, int64_t) {}
  ~NvtxRange() {}  // not trivial, so that a range of no effect is no unused variable
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;
};

#endif

}  // namespace spillway
