// Full-size rows simulated until their loops repeat, and iteration by iteration.

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "harness/error.h"
#include "sweeps/run.h"
#include "sweeps/sweep_file.h"

namespace spillway {
namespace {

using nlohmann::json;

// Same keys, same texts, numbers to 1e-9 of themselves or of a step of a few seconds.
void expect_same(const json& a, const json& b, const std::string& where) {
  ASSERT_EQ(a.type_name(), std::string(b.type_name())) << where;
  if (a.is_number_float()) {
    EXPECT_NEAR(a.get<double>(), b.get<double>(), 1e-9 * std::max(1.0, std::abs(b.get<double>())))
        << where;
  } else if (a.is_structured()) {
    ASSERT_EQ(a.size(), b.size()) << where;
    if (a.is_array())
      for (size_t i = 0; i < a.size(); ++i)
        expect_same(a[i], b[i], where + "/" + std::to_string(i));
    else
      for (const auto& [key, value] : a.items()) {
        ASSERT_TRUE(b.contains(key)) << where << "/" << key;
        expect_same(value, b[key], where + "/" + key);
      }
  } else {
    EXPECT_EQ(a, b) << where;
  }
}

// The spans of a timeline in one order: of a folded loop they come in the order of its first
// iteration.
json ordered(json result) {
  result["config"].erase("every_iteration");
  if (!result["timeline"].is_array()) return result;
  for (json& layer : result["timeline"])
    std::stable_sort(layer["spans"].begin(), layer["spans"].end(),
                     [](const json& x, const json& y) {
                       return std::make_pair(x["lane"], x["end"].get<double>()) <
                              std::make_pair(y["lane"], y["end"].get<double>());
                     });
  return result;
}

void expect_rows_agree(const std::string& sweep) {
  for (const SweepPoint& row : load_sweep(sweep).points) {
    Prepared prepared = prepare(row.point, {});
    if (prepared.status != Status::ok) continue;
    const Outcome folded = run_sim(prepared);
    prepared.sim.every_iteration = true;
    const Outcome whole = run_sim(prepared);
    EXPECT_LT(folded.traces[0].spans.size() * 5, whole.traces[0].spans.size());
    expect_same(ordered(result_of(prepared, folded, {})), ordered(result_of(prepared, whole, {})),
                sweep + "/" + row.label);
  }
}

TEST(SimSteadyRows, LlamaPublished) { expect_rows_agree("llama3.1-405b-published"); }
TEST(SimSteadyRows, DeepSeekPublished) { expect_rows_agree("deepseek-v3-published"); }

// The option does what the test above does by hand.
TEST(SimSteadyRows, AnOptionOfAPoint) {
  Point point = load_sweep("llama3.1-405b-published").points.front().point;
  point.every_iteration = true;
  const Prepared prepared = prepare(point, {});
  const Outcome outcome = run_sim(prepared);
  for (const Span& span : outcome.traces[0].spans)
    ASSERT_EQ(span.repeats, 1);
  point.executor = ExecutorKind::cpu;
  EXPECT_THROW(verify_point(point), InputError);
}

}  // namespace
}  // namespace spillway
