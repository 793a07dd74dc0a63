// The trace file read back by a JSON parser.
#include "nvtx/trace_file.h"

#include <sstream>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace spillway {
namespace {

nlohmann::json written(const std::vector<TraceFileSpan>& spans) {
  std::ostringstream out;
  write_trace_file(out, "run", spans);
  return nlohmann::json::parse(out.str());
}

TEST(NvtxTraceFile, SpansBecomeCompleteEventsInMicroseconds) {
  const auto events =
      written({{"compute", "a", 0.5, 0.75}, {"d2h", "b", 0, 1e-9}, {"compute", "c", 3600, 3601}})
          .at("traceEvents");
  std::vector<std::string> titles;
  std::vector<nlohmann::json> bars;
  for (const auto& event : events) {
    if (event.at("ph") == "M") titles.push_back(event.at("args").at("name"));
    if (event.at("ph") == "X") bars.push_back(event);
  }
  EXPECT_EQ(titles, (std::vector<std::string>{"run", "compute", "d2h"}));
  ASSERT_EQ(bars.size(), 3U);
  EXPECT_EQ(bars[0].at("name"), "a");
  EXPECT_EQ(bars[0].at("ts"), 500000.0);
  EXPECT_EQ(bars[0].at("dur"), 250000.0);
  EXPECT_EQ(bars[1].at("dur"), 0.001);
  EXPECT_EQ(bars[2].at("ts"), 3.6e9);
  EXPECT_EQ(bars[0].at("tid"), bars[2].at("tid"));
  EXPECT_NE(bars[0].at("tid"), bars[1].at("tid"));
}

TEST(NvtxTraceFile, AnyNameIsWrittenAsValidJson) {
  const auto events = written({{"l\"ane", "tab\t\\ \xff\xfe", 0, 1}}).at("traceEvents");
  EXPECT_EQ(events.at(1).at("args").at("name"), "l\"ane");
  EXPECT_EQ(events.at(2).at("name").get<std::string>().substr(0, 6), "tab\t\\ ");
}

TEST(NvtxTraceFile, NoSpansIsStillATrace) {
  EXPECT_EQ(written({}).at("traceEvents").size(), 1U);  // the process's title
}

TEST(NvtxTraceFile, LeavesTheStreamAsItWas) {
  std::ostringstream out;
  write_trace_file(out, "run", std::vector<TraceFileSpan>{{"l", "n", 0, 1}});
  out.str("");
  out << 0.125;
  EXPECT_EQ(out.str(), "0.125");
}

}  // namespace
}  // namespace spillway
