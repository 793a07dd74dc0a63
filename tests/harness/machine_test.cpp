// Parsing machine files: what is accepted, and what each mistake is told.

#include "harness/machine.h"

#include <gmock/gmock.h>

#include "harness/error.h"
#include "tests/harness/sim_support.h"

namespace spillway {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string message_of(const std::string& json_text) {
  try {
    parse_machine(json_text, "box.json");
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

std::string with_figures(const std::string& figures) {
  return R"({"name": "box", "figures": {)" + figures + "}}";
}

TEST(Machine, KeepsValueSourceAndAssumption) {
  const Machine machine =
      parse_machine(with_figures(R"("hbm_bytes": {"value": 1024, "source": "label"},
                      "launch_seconds": {"value": 2e-6, "source": "a guess", "assumed": true})"),
                    "box.json");
  EXPECT_EQ(machine.name, "box");
  EXPECT_EQ(machine.file, "box.json");
  EXPECT_EQ(machine.figure("hbm_bytes"), 1024);
  EXPECT_EQ(machine.figure("launch_seconds"), 2e-6);
  EXPECT_EQ(machine.figures.at("hbm_bytes").source, "label");
  EXPECT_FALSE(machine.figures.at("hbm_bytes").assumed);
  EXPECT_TRUE(machine.figures.at("launch_seconds").assumed);
}

TEST(Machine, AMissingFigureIsNamedWhenItIsNeeded) {
  const Machine machine = parse_machine(with_figures(""), "box.json");
  try {
    machine.figure("link_h2d");
    FAIL() << "expected an InputError";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("box.json"), HasSubstr("link_h2d"),
                                    HasSubstr("missing"), HasSubstr("bytes/s")));
  }
  EXPECT_THROW(machine.figure("no such figure"), std::logic_error);
}

TEST(Machine, AnUnknownFigureListsThoseThereAre) {
  EXPECT_THAT(message_of(with_figures(R"("hbm_size": {"value": 1, "source": "x"})")),
              AllOf(HasSubstr("box.json"), HasSubstr("hbm_size"), HasSubstr("hbm_bytes"),
                    HasSubstr("collective_sm_share")));
}

struct Mistake {
  const char* json;
  std::vector<const char*> told;
};

TEST(Machine, EveryMistakeNamesFileKeyFoundAndExpected) {
  const std::vector<Mistake> mistakes = {
      {"{", {"malformed", "line 1"}},
      {"[]", {"array", "object"}},
      {"{}", {"\"name\"", "missing"}},
      {R"({"name": 7, "figures": {}})", {"\"name\"", "7", "a text"}},
      {R"({"name": "", "figures": {}})", {"name", "empty"}},
      {R"({"name": "a"})", {"\"figures\"", "missing"}},
      {R"({"name": "a", "figures": []})", {"\"figures\"", "[]", "an object"}},
      {R"({"name": "a", "figures": {}, "notes": 1})", {"notes", "name, figures"}},
      {R"({"name": "a", "name": "b", "figures": {}})", {"\"name\"", "twice"}},
      {R"({"name": "a", "figures": {"hbm_bytes": 5}})", {"hbm_bytes", "5", "value"}},
      {R"({"name": "a", "figures": {"hbm_bytes": {"source": "x"}}})", {"hbm_bytes", "value"}},
      {R"({"name": "a", "figures": {"hbm_bytes": {"value": 1}}})", {"hbm_bytes", "source"}},
      {R"({"name": "a", "figures": {"hbm_bytes": {"value": 1, "source": ""}}})",
       {"hbm_bytes", "source is empty"}},
      {R"({"name": "a", "figures": {"hbm_bytes": {"value": "1", "source": "x"}}})",
       {"hbm_bytes", "\"1\"", "a number"}},
      {R"({"name": "a", "figures": {"hbm_bytes": {"value": 1, "source": "x", "assumed": 1}}})",
       {"hbm_bytes", "assumed", "true or false"}},
      {R"({"name": "a", "figures": {"hbm_bytes": {"value": 1, "source": "x", "unit": "B"}}})",
       {"hbm_bytes", "unit", "value, source, assumed, date"}},
      {R"({"name": "a", "figures": {"hbm_bytes": {"value": 1, "source": "x", "date": "Nov 2026"}}})",
       {"hbm_bytes", "Nov 2026", "2026-11"}},
      {R"({"name": "a", "figures": {"hbm_bytes": {"value": 1, "source": "x", "date": 2026}}})",
       {"hbm_bytes", "date", "a text"}},
      {R"({"name": "a", "figures": {"hbm_bytes": {"value": 0, "source": "x"}}})",
       {"hbm_bytes", "0", "> 0", "bytes"}},
      {R"({"name": "a", "figures": {"hbm_bytes": {"value": 1e999, "source": "x"}}})", {"1e999"}},
      {R"({"name": "a", "figures": {"launch_seconds": {"value": -1, "source": "x"}}})",
       {"launch_seconds", "-1", ">= 0"}},
      {R"({"name": "a", "figures": {"hbm_usable": {"value": 1.5, "source": "x"}}})",
       {"hbm_usable", "1.5", "<= 1"}},
  };
  for (const Mistake& mistake : mistakes) {
    const std::string message = message_of(mistake.json);
    EXPECT_THAT(message, HasSubstr("box.json")) << mistake.json;
    for (const char* part : mistake.told)
      EXPECT_THAT(message, HasSubstr(part)) << mistake.json;
  }
}

// Values: NVIDIA's peak table (dgxc-benchmarking), MLPerf v5.1 system file, nvbandwidth.
TEST(Machine, Gb200HoldsThePublishedFigures) {
  const Machine machine = shipped_machine("gb200-nvl72.json");
  EXPECT_EQ(machine.figure("matmul_peak_bf16"), 2450e12);
  EXPECT_EQ(machine.figure("matmul_peak_fp8"), 4900e12);
  EXPECT_EQ(machine.figure("matmul_peak_nvfp4"), 9800e12);
  EXPECT_EQ(machine.figure("hbm_bytes"), 189471.0 * 1024 * 1024);
  EXPECT_EQ(machine.figure("link_h2d"), 201e9);
  EXPECT_EQ(machine.figure("link_d2h"), 193e9);
  EXPECT_NEAR(machine.figure("matmul_efficiency"), 2695e12 / (4900e12 * 0.85), 1e-16);
  for (const auto& [key, figure] : machine.figures) {
    if (key.starts_with("link")) {
      EXPECT_LT(figure.value, 225e9) << key;
    }
  }
}

TEST(Machine, TheCpuIsAssumedThroughout) {
  const Machine machine = shipped_machine("cpu-2core.json");
  for (const auto& [key, figure] : machine.figures)
    EXPECT_EQ(figure.assumed, key != "matmul_ratio_bf16") << key;  // that one is 1 by definition
}

}  // namespace
}  // namespace spillway
