// Trace files that Perfetto (ui.perfetto.dev) and chrome://tracing open. Knows no programs: plain
// spans in, JSON out.
#pragma once

#include <iosfwd>
#include <span>
#include <string>
#include <string_view>

namespace spillway {

// One bar on one lane.
struct TraceFileSpan {
  std::string lane;
  std::string name;
  double begin = 0, end = 0;  // seconds
};

// Writes the JSON object of the Trace Event Format ("Trace Event Format", Google, 2016: complete
// events, ph "X"; times in microseconds). Lanes are rows in the order of their first span;
// `process` is the title above them. A name that is no valid UTF-8 is written with replacement
// characters. Nothing is thrown: look at the stream afterwards.
void write_trace_file(std::ostream& out, std::string_view process,
                      std::span<const TraceFileSpan> spans);

}  // namespace spillway
