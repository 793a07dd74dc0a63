// What an explanation says and prints.
#include "reports/explanation.h"

#include <gmock/gmock.h>

#include "harness/error.h"

namespace spillway {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

ExplainedItem item(const std::string& key, const std::string& name, double a, double b) {
  return {key, name, "meaning of " + name, a, b, {}};
}

Explanation example() {
  Explanation explanation;
  explanation.a = {.label = "plain <a>",
                   .status = "ok",
                   .reason = {},
                   .config = {{"pipeline", "off"}},
                   .fitted = {},
                   .step_seconds = 10,
                   .tflops_per_s_per_device = 100,
                   .published_step_seconds = 10};
  explanation.b = explanation.a;
  explanation.b.label = "rotated";
  explanation.b.config["pipeline"] = "on";
  explanation.b.step_seconds = 10.5;
  explanation.b.published_step_seconds = 11;
  explanation.items = {
      item("compute", "other compute", 9, 9), item("d2d", "rotation copies", 0, 0.7),
      item("exposed_h2d", "exposed reads", 1, 0.75), item("launches", "kernel launches", 0, 0.05)};
  explanation.peak_a = 1024.0 * 1024 * 1024;
  explanation.peak_b = 3 * explanation.peak_a;
  explanation.memory = {{"copy sets", explanation.peak_a, explanation.peak_b, ""}};
  explanation.traffic = {{"copied", "bytes", 0, 2048}};
  return explanation;
}

TEST(Explanation, SaysWhatDecidesAndWhatStandsAgainstIt) {
  const std::vector<std::string> sentences = sentences_of(example());
  ASSERT_FALSE(sentences.empty());
  EXPECT_THAT(
      sentences[0],
      AllOf(HasSubstr("0.500 s (5.00 %) more"), HasSubstr("by rotation copies (+0.700 s);"),
            HasSubstr("against it stand exposed reads (-0.250 s)"), Not(HasSubstr("launches"))));
  EXPECT_THAT(sentences, Contains(AllOf(HasSubstr("pipelining can win"), HasSubstr("1.000 s"))));
  EXPECT_THAT(sentences, Contains(HasSubstr("+1.000 s; here: +0.500 s, 50 % of it")));
}

TEST(Explanation, SaysWhatDoesNotFit) {
  Explanation explanation = example();
  explanation.b.status = "oom";
  explanation.b.reason = "device memory: 9 bytes wanted";
  EXPECT_THAT(sentences_of(explanation), Contains(AllOf(HasSubstr("oom"), HasSubstr("9 bytes"))));
}

TEST(Explanation, NothingToSayOfTwoAlike) {
  Explanation explanation = example();
  explanation.b = explanation.a;
  explanation.items = {item("compute", "other compute", 10, 10)};
  EXPECT_THAT(sentences_of(explanation)[0], HasSubstr("takes as long as"));
}

TEST(Explanation, EveryFormatNamesEveryCause) {
  const Explanation explanation = example();
  for (const Format format : {Format::md, Format::html, Format::json})
    for (const ExplainedItem& one : explanation.items)
      EXPECT_THAT(render_explanation(explanation, format), HasSubstr(one.name));
  EXPECT_THAT(render_explanation(explanation, Format::html),
              AllOf(HasSubstr("plain &lt;a&gt;"), Not(HasSubstr("plain <a>"))));
  EXPECT_THAT(render_explanation(explanation, Format::md), HasSubstr("2.00 GiB"));
  EXPECT_THROW(render_explanation(explanation, Format::csv), InputError);
}

TEST(Explanation, BarsOfTheWaterfallLeadFromOneStepToTheOther) {
  const std::string chart = waterfall_chart(example());
  EXPECT_THAT(chart, AllOf(HasSubstr(">10.000 s<"), HasSubstr(">+0.700 s<"),
                           HasSubstr(">-0.250 s<"), HasSubstr(">10.500 s<")));
}

}  // namespace
}  // namespace spillway
