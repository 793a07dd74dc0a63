#include <chrono>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/charts.h"
#include "reports/formats.h"
#include "reports/html_style.h"
#include "reports/palette.h"
#include "reports/story.h"
#include "tests/reports/support.h"

namespace spillway {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// What is not closed in order, "" for a well-formed document. Void elements need no end.
std::string unbalanced(const std::string& html) {
  static const std::set<std::string> empty = {"meta", "br", "!DOCTYPE"};
  std::vector<std::string> open;
  size_t at = html.find('<');
  for (; at != std::string::npos; at = html.find('<', at + 1)) {
    const size_t end = html.find('>', at);
    if (end == std::string::npos) return "a tag without end";
    const bool closing = html[at + 1] == '/';
    const size_t begin = at + (closing ? 2 : 1);
    const std::string name = html.substr(begin, html.find_first_of(" />\n", begin) - begin);
    if (closing) {
      if (open.empty() || open.back() != name) return "</" + name + "> unexpected";
      open.pop_back();
    } else if (html[end - 1] != '/' && !empty.contains(name)) {
      open.push_back(name);
    }
  }
  return open.empty() ? "" : "<" + open.back() + "> not closed";
}

TEST(Html, IsOneWellFormedFileThatLoadsNothing) {
  const std::string html = render_html(testing::sample_rows());
  EXPECT_EQ(unbalanced(html), "");
  for (const char* outside : {"<script", "<link", "<img", "url(", "@import", "src=", "href="})
    EXPECT_THAT(html, Not(HasSubstr(outside)));
}

TEST(Html, EscapesEveryTextThatComesFromRows) {
  std::vector<Row> rows = testing::sample_rows();
  const std::string attack = "</title><script>alert(\"1\" & '2')</script>";
  for (Row& row : rows) {
    row.label = attack + row.label;
    row.result["label"] = row.label;
    row.result["reason"] = attack;
    row.result["config"]["model"] = attack;
    row.result["config"]["machine"] = attack;
    row.result["environment"] = {{attack, attack}};
    row.result["fitted"] = {{"figure", attack}, {"value", 0.5}, {"on", attack}};
    row.result["policy_summary"] = {{"text", attack},
                                    {"rows", {{{"name", attack}, {"fate", attack}}}}};
    for (auto& layer : row.result["timeline"]) {
      layer["segment"] = attack;
      for (auto& span : layer["spans"])
        span["name"] = attack;
    }
    for (auto& point : row.result["memory_curve"])
      point["segment"] = attack;
    row.result["sweep"] = {
        {"hypotheses", {{{"id", attack}, {"setting", attack}, {"text", attack}}}}};
    if (row.published) row.published->note = row.published->source = row.published->id = attack;
  }
  const std::string html = render_html(rows);
  EXPECT_EQ(unbalanced(html), "");
  EXPECT_THAT(html, Not(HasSubstr("<script")));
  EXPECT_THAT(html, HasSubstr("&lt;script&gt;alert(&quot;1&quot; &amp; &#39;2&#39;)"));
}

TEST(Html, ShowsEverySection) {
  const std::string html = render_html(testing::sample_rows());
  for (const char* heading :
       {"Rate, ours against published", "Gain over the first row", "Differences of step times",
        "Step time against remat", "One layer on all lanes", "Where a step goes",
        "Peak HBM by role", "Memory over the step", "Hypotheses of the sweep", "Environment",
        "How to repeat a row", "Method", "Published rows"})
    EXPECT_THAT(html, HasSubstr(heading));
}

TEST(Html, NoPictureWithoutItsFigures) {
  std::vector<Row> rows = testing::measured_rows();
  for (Row& row : rows)
    for (const char* key : {"timeline", "memory_curve", "op_seconds", "compute_lane",
                            "peak_hbm_by_role", "step_seconds", "tflops_per_s_per_device"})
      row.result[key] = nullptr;
  const std::vector<Group> groups = groups_of(rows);
  EXPECT_EQ(rate_chart(groups[0]) + gain_chart(groups[0]) + ratio_chart(groups[0]), "");
  EXPECT_EQ(peak_chart(groups[0]) + memory_curves(groups[0]), "");
  EXPECT_EQ(time_chart(groups[0]) + timelines(groups[0]), "");
  EXPECT_EQ(unbalanced(render_html(rows)), "");
}

// Widths of the rectangles of a class, in order.
std::vector<double> widths(const std::string& svg, const std::string& style_class) {
  const std::regex shape("<rect[^>]* width=\"([0-9.e-]+)\"[^>]*class=\"" + style_class +
                         "\"><title");
  std::vector<double> found;
  for (std::sregex_iterator i(svg.begin(), svg.end(), shape), end; i != end; ++i)
    found.push_back(std::stod((*i)[1]));
  return found;
}

TEST(Html, BarsAreAsLongAsTheirFiguresFromZero) {
  const std::vector<Row> rows = testing::simulated_rows();
  const std::string svg = rate_chart(groups_of(rows)[0]);
  const auto ours = widths(svg, "f-ours"), published = widths(svg, "f-published");
  ASSERT_EQ(ours.size(), 4u);
  ASSERT_EQ(published.size(), 4u);
  const double unit = ours[0] / 2669;
  const double rates[] = {2669, 2754, 2606, 2736}, printed[] = {2669, 2746, 2569, 2718};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(ours[i], rates[i] * unit, 0.02);
    EXPECT_NEAR(published[i], printed[i] * unit, 0.02);
  }
}

// Three micro batches of one policy, one of another: marks lie where their figures are.
TEST(Html, TheScatterSetsRateAgainstPeak) {
  std::vector<Row> rows;
  const auto row = [&](const char* policy, int batch, double rate, double peak_gib) {
    nlohmann::json result = testing::empty_result(policy + std::to_string(batch), "simulated");
    result["status"] = "ok";
    result["config"] = {{"model", "m"}, {"policy", policy}, {"micro_batch", batch}, {"lhs", "on"}};
    result["tflops_per_s_per_device"] = rate;
    result["peak_hbm_bytes"] = peak_gib * 1024 * 1024 * 1024;
    rows.push_back({result["label"], result, {}});
  };
  row("full", 1, 1000, 10);
  row("full", 2, 1500, 20);
  row("full", 4, 2000, 40);
  EXPECT_THAT(scatter_charts({rows[0]}), ::testing::IsEmpty()) << "one micro batch has its group";
  row("minimal", 1, 1200, 40);
  rows.push_back({"none", testing::empty_result("none", "simulated"), {}});
  rows.back().result["status"] = "oom";
  rows.back().result["config"] = {{"model", "m"}, {"policy", "minimal"}, {"micro_batch", 8}};
  const std::string html = scatter_charts(rows);
  EXPECT_EQ(unbalanced(html), "");
  EXPECT_THAT(html, HasSubstr("1 more without a rate"));
  EXPECT_THAT(html, HasSubstr("full4: 2000 TFLOPs/s/device at 40.0 GiB"));
  const std::regex mark("<rect x=\"([0-9.]+)\" y=\"([0-9.]+)\"[^>]*class=\"f-[a-z]+\"><title");
  std::vector<std::pair<double, double>> at;
  for (std::sregex_iterator i(html.begin(), html.end(), mark), end; i != end; ++i)
    at.emplace_back(std::stod((*i)[1]), std::stod((*i)[2]));
  ASSERT_EQ(at.size(), 4U) << "in order of their peaks";
  EXPECT_NEAR(at[2].first - at[0].first, 3 * (at[1].first - at[0].first), 0.05);
  EXPECT_NEAR(at[0].second - at[2].second, 2 * (at[0].second - at[1].second), 0.05);
  EXPECT_EQ(at[2].first, at[3].first);
  EXPECT_GT(at[3].second, at[1].second) << "1200 lies below 1500";
  EXPECT_EQ(widths(html, "f-matmul").size(), 3U) << "a colour a policy";
  EXPECT_EQ(widths(html, "f-kept").size(), 1U);
}

TEST(Html, PeakBarsAddUpToThePeak) {
  std::vector<Row> rows{testing::measured_rows()[0]};
  const std::string svg = peak_chart(groups_of(rows)[0]);
  double sum = 0;
  for (const Swatch& role : role_swatches())
    for (const double width : widths(svg, role.style_class))
      sum += width;
  const auto parameters = widths(svg, "f-parameters");
  ASSERT_EQ(parameters.size(), 1u);
  EXPECT_NEAR(parameters[0] / sum,
              rows[0].result["peak_hbm_by_role"]["parameters"].get<double>() /
                  rows[0].result["peak_hbm_bytes"].get<double>(),
              1e-3);
}

// The highest corner of all areas is the row with most live bytes, thinned or not; y grows
// downward.
TEST(Html, MemoryCurveKeepsThePeakWhenThinned) {
  Row row = testing::measured_rows()[0];
  nlohmann::json curve = nlohmann::json::array();
  for (int i = 0; i < 2000; ++i)
    curve.push_back({{"segment", "body"},
                     {"step", i},
                     {"seconds", nullptr},
                     {"bytes", {{"parameters", 1000}, {"activations", i == 777 ? 1000 : i % 5}}}});
  row.result["memory_curve"] = curve;
  const std::vector<Row> rows{row};
  const std::string svg = memory_curves(groups_of(rows)[0]);
  const std::regex shape("<polygon points=\"([^\"]*)\" class=\"f-(parameters|activations)\"");
  std::map<std::string, double> highest;
  for (std::sregex_iterator i(svg.begin(), svg.end(), shape), end; i != end; ++i) {
    std::istringstream points((*i)[1]);
    double x = 0, y = 0, best = 1e9;
    for (char comma = 0; points >> x >> comma >> y;)
      best = std::min(best, y);
    highest[(*i)[2]] = best;
  }
  const double top = 14, height = 170;  // the peak touches the top of the frame
  EXPECT_NEAR(highest["activations"], top, 0.01);
  EXPECT_NEAR(highest["parameters"], top + height / 2, 0.01);
  EXPECT_THAT(svg, HasSubstr("live at most 1.95 KiB"));  // 2,000 bytes
}

TEST(Html, TimelineShowsEverySpanOfTheComputeLane) {
  std::vector<Row> rows{testing::measured_rows()[2]};  // LHS off: waits
  const std::string svg = timelines(groups_of(rows)[0]);
  for (const auto& layer : rows[0].result["timeline"])
    for (const auto& span : layer["spans"])
      EXPECT_THAT(svg, HasSubstr(span["name"].get<std::string>() + ": "));
  EXPECT_EQ(widths(svg, "span f-wait").size(), 2u);
  EXPECT_THAT(svg, HasSubstr("waiting on h2d for query_proj.read"));
}

// Every fill that a picture uses has a rule; every rule's colour is a variable that exists.
TEST(Html, EveryFillHasAColour) {
  const std::string css = html_style;
  for (const auto& swatches : {role_swatches(), time_swatches()})
    for (const Swatch& swatch : swatches)
      EXPECT_THAT(css, HasSubstr("." + std::string(swatch.style_class))) << swatch.key;
  const std::regex use("var\\((--[a-z0-9-]+)\\)");
  for (std::sregex_iterator i(css.begin(), css.end(), use), end; i != end; ++i)
    EXPECT_THAT(css, HasSubstr((*i)[1].str() + ":"));
}

TEST(Html, CommandRepeatsTheConfig) {
  nlohmann::json result = testing::empty_result("a", "measured");
  result["config"] = {{"model", "my model.json"},
                      {"executor", "cpu"},
                      {"micro_batch", 2},
                      {"hbm", "1024"},
                      {"state_bytes", {4, 4, 4, 4}},
                      {"poison", true},
                      {"lhs", false},
                      {"host", nullptr},
                      {"link", ""},
                      {"policy", "it's=device"}};
  EXPECT_EQ(command_of({"a", result, {}}),
            "spillway run --model 'my model.json' --executor cpu --hbm 1024 --lhs off "
            "--micro-batch 2 --poison --policy 'it'\\''s=device' --state-bytes 4,4,4,4");
}

TEST(Html, AHundredRowsTakeWellUnderASecondEach) {
  std::vector<Row> rows;
  while (rows.size() < 100)
    for (Row& row : testing::sample_rows())
      rows.push_back(std::move(row));
  const auto begin = std::chrono::steady_clock::now();
  const std::string html = render_html(rows);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(seconds.count(), 20);  // a quadratic renderer takes minutes; generous for sanitizers
  EXPECT_LT(html.size(), size_t{20} << 20);
}

}  // namespace
}  // namespace spillway
