#include "harness/shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace spillway {
namespace {

using testing::ElementsAre;

TEST(ShapeTest, HoldsItsExtentsInOrder) {
  Shape shape = {4, 5};
  EXPECT_THAT(shape, ElementsAre(4, 5));
  shape.insert(shape.begin(), 3);
  shape.push_back(6);
  EXPECT_THAT(shape, ElementsAre(3, 4, 5, 6));
  EXPECT_EQ(shape.front(), 3);
  EXPECT_EQ(shape.back(), 6);
  EXPECT_TRUE(Shape().empty());
}

// What a longer shape held before does not count.
TEST(ShapeTest, IsEqualByItsExtentsAlone) {
  EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
  EXPECT_FALSE((Shape{2, 3}) == (Shape{2, 3, 1}));
  EXPECT_FALSE((Shape{2, 3}) == (Shape{3, 2}));
  Shape shape = {2, 3, 4};
  shape = {2, 3};
  EXPECT_EQ(shape, (Shape{2, 3}));
}

TEST(ShapeTest, RefusesMoreExtentsThanItHolds) {
  Shape shape = {1, 2, 3, 4, 5, 6};
  EXPECT_THROW(shape.push_back(7), std::length_error);
  EXPECT_THAT(shape, ElementsAre(1, 2, 3, 4, 5, 6));
}

}  // namespace
}  // namespace spillway
