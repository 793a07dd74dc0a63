// Trace Event Format: one metadata event names the process, one each lane, then one complete event
// a span.
#include "nvtx/trace_file.h"

#include <algorithm>
#include <ostream>
#include <vector>

#include <nlohmann/json.hpp>

namespace spillway {
namespace {

std::string json_string(std::string_view text) {
  using nlohmann::json;
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

// The lane's row, new lanes at the end.
size_t row_of(std::vector<std::string>& lanes, const std::string& lane) {
  const auto found = std::find(lanes.begin(), lanes.end(), lane);
  if (found != lanes.end()) return static_cast<size_t>(found - lanes.begin());
  lanes.push_back(lane);
  return lanes.size() - 1;
}

void write_title(std::ostream& out, const char* kind, size_t row, std::string_view title) {
  out << "{\"ph\":\"M\",\"pid\":1,\"tid\":" << row << ",\"name\":\"" << kind
      << "\",\"args\":{\"name\":" << json_string(title) << "}}";
}

}  // namespace

void write_trace_file(std::ostream& out, std::string_view process,
                      std::span<const TraceFileSpan> spans) {
  // Three decimals of a microsecond: the clock's own nanoseconds, whatever the length of the run.
  const auto flags = out.setf(std::ios::fixed, std::ios::floatfield);
  const auto precision = out.precision(3);
  out << "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  write_title(out, "process_name", 0, process);
  std::vector<std::string> lanes;
  for (const TraceFileSpan& span : spans) {
    const size_t known = lanes.size();
    const size_t row = row_of(lanes, span.lane);
    if (lanes.size() != known) {
      out << ",\n";
      write_title(out, "thread_name", row, span.lane);
    }
    out << ",\n{\"ph\":\"X\",\"pid\":1,\"tid\":" << row << ",\"name\":" << json_string(span.name)
        << ",\"ts\":" << span.begin * 1e6 << ",\"dur\":" << (span.end - span.begin) * 1e6 << "}";
  }
  out << "\n]}\n";
  out.flags(flags);
  out.precision(precision);
}

}  // namespace spillway
