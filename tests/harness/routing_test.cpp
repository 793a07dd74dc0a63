// Rows of experts against hand arithmetic and against the router op itself.
#include "harness/routing.h"

#include <numeric>

#include <gmock/gmock.h>

#include "tests/support/op_case.h"

namespace spillway {
namespace {

using testing::ElementsAre;
using testing::Optional;

Routing routing_by(Routing::Choice choice, int64_t experts, int64_t top_k) {
  Routing routing;
  routing.experts = experts;
  routing.top_k = top_k;
  routing.choice = choice;
  return routing;
}

// 16 tokens x 2 over 8 experts; tokens 1 and 2 have slots 2 to 5.
TEST(RowsOfExperts, UniformGoesInTurn) {
  const Routing routing = routing_by(Routing::Choice::uniform, 8, 2);
  EXPECT_THAT(rows_of_experts(routing, 0, 16), Optional(ElementsAre(4, 4, 4, 4, 4, 4, 4, 4)));
  EXPECT_THAT(rows_of_experts(routing, 1, 2), Optional(ElementsAre(0, 0, 1, 1, 1, 1, 0, 0)));
}

TEST(RowsOfExperts, OneTakesTheFirstForEveryToken) {
  EXPECT_THAT(rows_of_experts(routing_by(Routing::Choice::one, 6, 3), 7, 5),
              Optional(ElementsAre(5, 5, 5, 0, 0, 0)));
}

TEST(RowsOfExperts, TheRoutersOwnChoiceIsUnknown) {
  EXPECT_EQ(rows_of_experts(routing_by(Routing::Choice::model, 8, 2), 0, 16), std::nullopt);
}

TEST(RowsOfExperts, AreWhatTheOpChooses) {
  constexpr int64_t tokens = 100, experts = 12;
  OpCase c = op_case("router", OpKind::router, {{{tokens, experts}, DType::f32}},
                     {{{tokens, 3}, DType::i32}, {{tokens, 3}, DType::f32}});
  for (const auto choice : {Routing::Choice::uniform, Routing::Choice::zipf, Routing::Choice::one})
    for (const uint64_t seed : {0, 9}) {
      Routing& routing = c.attributes.routing = routing_by(choice, experts, 3);
      routing.zipf = choice == Routing::Choice::zipf ? 1.2 : 0;
      routing.seed = seed;
      const auto bits = run_kernel(c, random_inputs(c, 5), 2);
      std::vector<int64_t> first(experts), rest(experts);
      const Values chosen = decode(bits[0], DType::i32);
      for (size_t i = 0; i < chosen.size(); ++i)
        ++(i < 31 * 3 ? first : rest)[static_cast<size_t>(chosen[i])];
      EXPECT_EQ(rows_of_experts(routing, 0, 31), first);
      EXPECT_EQ(rows_of_experts(routing, 31, tokens - 31), rest);
    }
}

// DeepSeek-V3 at micro batch 8, sequence 4096: 262,144 rows, none of them lost.
TEST(RowsOfExperts, CountEveryRowAtFullSize) {
  Routing routing = routing_by(Routing::Choice::zipf, 256, 8);
  routing.zipf = 1.2;
  const auto rows = rows_of_experts(routing, 0, 32768);
  ASSERT_TRUE(rows);
  EXPECT_EQ(std::accumulate(rows->begin(), rows->end(), int64_t{0}), 262144);
  EXPECT_GT(rows->front(), rows->back());
}

}  // namespace
}  // namespace spillway
