#include "reports/published.h"

#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/error.h"

namespace spillway {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* header =
    "id,workload,label,tflops_per_s_per_device,peak_hbm_gib,outcome,source,note\n";

std::vector<Published> parse_case(const std::string& name) {
  std::ifstream in(std::string(SPILLWAY_SOURCE_DIR) + "/tests/reports/cases/" + name,
                   std::ios::binary);
  EXPECT_TRUE(in) << name;
  return parse_published(name, std::string(std::istreambuf_iterator<char>(in), {}));
}

std::string refusal(const std::string& csv) {
  try {
    parse_published("p.csv", csv);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Published, ByteOrderMarkAndCarriageReturns) {
  const std::vector<Published> rows = parse_case("bom_crlf.csv");
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0].id, "a/none");
  EXPECT_EQ(rows[1].tflops_per_s_per_device, 2746);
  EXPECT_FALSE(rows[1].peak_hbm_gib.has_value());
  EXPECT_EQ(rows[3].note, "last field");
}

TEST(Published, QuotedFieldsKeepCommasQuotesAndLineBreaks) {
  const std::vector<Published> rows = parse_case("quoted.csv");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].tflops_per_s_per_device, 2669);
  EXPECT_EQ(rows[0].note, "baseline, no offload");
  EXPECT_EQ(rows[1].tflops_per_s_per_device, 2746);
  EXPECT_EQ(rows[1].note, "says \"best\", LHS\nalone");
}

TEST(Published, OutOfMemoryIsARowAndNonFiniteIsInvalid) {
  const std::vector<Published> rows = parse_case("oom_and_nonfinite.csv");
  ASSERT_EQ(rows.size(), 6u);
  EXPECT_EQ(rows[1].outcome, "oom");
  EXPECT_FALSE(rows[1].tflops_per_s_per_device.has_value());
  EXPECT_EQ(rows[2].peak_hbm_gib, 165.2);
  for (const size_t i : {3u, 4u, 5u})
    EXPECT_FALSE(rows[i].tflops_per_s_per_device.has_value()) << rows[i].id;
  EXPECT_EQ(rows[3].outcome, "invalid");
  EXPECT_EQ(rows[3].peak_hbm_gib, 145.6);
  EXPECT_EQ(rows[4].outcome, "failed");
  EXPECT_EQ(rows[5].outcome, "invalid");
}

TEST(Published, ColumnsMayStandInAnyOrder) {
  const auto rows = parse_published("p.csv",
                                    "note,id,outcome,tflops_per_s_per_device,workload,label,source,"
                                    "peak_hbm_gib\nn,i,ok,1.5,w,l,s,2");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].id, "i");
  EXPECT_EQ(rows[0].tflops_per_s_per_device, 1.5);
  EXPECT_EQ(rows[0].peak_hbm_gib, 2);
}

TEST(Published, NumbersAreExactAndGroupedOnlyByThrees) {
  const auto rate = [](const std::string& field) {
    return parse_published("p.csv", header + std::string("i,w,l,") + field + ",,ok,s,n\n")[0]
        .tflops_per_s_per_device;
  };
  EXPECT_EQ(rate("0.1"), 0.1);
  EXPECT_EQ(rate("1e3"), 1000);
  EXPECT_EQ(rate("\"1,234,567.25\""), 1234567.25);
  EXPECT_EQ(rate("\"-2,669\""), -2669);
  for (const char* bad : {"\"2,66\"", "\"2,6690\"", "\",669\"", "\"2669,\"", "\"1.2,345\"", "26 69",
                          "2669x", "--1", "0x10"})
    EXPECT_THAT(refusal(header + std::string("i,w,l,") + bad + ",,ok,s,n\n"),
                AllOf(HasSubstr("p.csv:2"), HasSubstr("tflops_per_s_per_device"),
                      HasSubstr("expected a number")))
        << bad;
}

TEST(Published, RefusesWhatItCannotReadAndSaysWhere) {
  const std::string h = header;
  const std::vector<std::pair<std::string, std::vector<std::string>>> cases = {
      {"", {"p.csv:1", "Header missing", "id,workload"}},
      {"id,label\n", {"p.csv:1", "workload"}},
      {"id,id" + h.substr(2) + "i,i,w,l,1,,ok,s,n\n", {"p.csv:1", "id"}},
      {"colour," + h, {"p.csv:1", "colour"}},
      {h + "i,w,l,1,,ok,s,n\ni2,w,l,1,,ok,s\n", {"p.csv:3", "few columns"}},
      {h + "i,w,l,1,,ok,s,n,more\n", {"p.csv:2", "many columns"}},
      {h + "i,w,\"l,1,,ok,s,n\ni2,w,l,1,,ok,s,n\n", {"p.csv:2", "never closed"}},
      {h + "i,w,l,1,,ok,s,n \"x\"\n", {"p.csv:2", "whole field in quotes"}},
      {h + "i,w,\"l\"x,1,,ok,s,n\n", {"p.csv:2", "after a closing quote"}},
      {h + "i,w,\"l\nm\",1,,ok,s,n\nj,w,l,one,,ok,s,n\n", {"p.csv:4", "'one'"}},
      {h + ",w,l,1,,ok,s,n\n", {"p.csv:2", "id"}},
      {h + "i,w,l,1,,fine,s,n\n", {"p.csv:2", "'fine'", "oom"}},
      {h + "i,w,l,1,,ok,s,n\ni,w,l,1,,ok,s,n\n", {"p.csv", "'i'", "twice"}},
      {h + "i,w,l\x1f,1,,ok,s,n\n", {"p.csv:2", "control character"}},
  };
  for (const auto& [csv, mentions] : cases)
    for (const std::string& mention : mentions)
      EXPECT_THAT(refusal(csv), HasSubstr(mention)) << csv;
}

TEST(Published, BlankLinesAreNotRows) {
  const std::string line = "i,w,l,1,,ok,s,n\n";
  EXPECT_EQ(parse_published("p.csv", header + std::string("\n") + line + "\n").size(), 1u);
}

// The article prints 2669, 2746, 2569, 2718; 908.2; 145.6 and 165.2 GiB.
TEST(Published, CompiledInResultsAreTheArticles) {
  EXPECT_EQ(find_published("llama3.1-405b/no-offload").tflops_per_s_per_device, 2669);
  EXPECT_EQ(find_published("llama3.1-405b/qkv-offload-lhs").tflops_per_s_per_device, 2746);
  EXPECT_EQ(find_published("llama3.1-405b/qkv-offload-lhs-off").tflops_per_s_per_device, 2569);
  EXPECT_EQ(find_published("llama3.1-405b/qkv-offload-lhs-pipelined").tflops_per_s_per_device,
            2718);
  EXPECT_EQ(find_published("deepseek-v3/offload-lhs-pipelined").tflops_per_s_per_device, 908.2);
  EXPECT_EQ(find_published("deepseek-v3/offload-lhs-pipelined").peak_hbm_gib, 165.2);
  EXPECT_EQ(find_published("deepseek-v3/offload-lhs-off").peak_hbm_gib, 145.6);
  EXPECT_EQ(find_published("deepseek-v3/device-mb8").outcome, "oom");
  for (const Published& row : published_results())
    EXPECT_THAT(row.source, HasSubstr("https://"));
}

TEST(Published, UnknownIdListsThoseThatExist) {
  try {
    find_published("llama3.1-405b/qkv");
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("llama3.1-405b/qkv'"), HasSubstr("llama3.1-405b/no-offload")));
  }
}

}  // namespace
}  // namespace spillway
