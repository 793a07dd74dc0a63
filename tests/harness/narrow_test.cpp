// Narrow formats: codes and places against tables made by hand from their specifications, and what
// quantise makes of values chosen so that every step is exact.
#include "harness/narrow.h"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "harness/ops/small_float.h"
#include "tests/support/op_narrow.h"

namespace spillway {
namespace {

struct Row {
  unsigned code;
  double value;
};

// OCP 8-bit Floating Point v1.0, table 2: zeros, smallest and largest subnormal and normal values, 1.
TEST(SmallFloat, DecodesTheCornersOfEachFormat) {
  for (const auto& [code, value] : {Row{0x00, 0},
                                    {0x01, 0x1p-9},
                                    {0x07, 0.875 * 0x1p-6},
                                    {0x08, 0x1p-6},
                                    {0x38, 1},
                                    {0x7e, 448},
                                    {0xfe, -448}})
    EXPECT_EQ(decode(float_e4m3, code), value) << code;
  for (const auto& [code, value] : {Row{0x00, 0},
                                    {0x01, 0x1p-16},
                                    {0x03, 0.75 * 0x1p-14},
                                    {0x04, 0x1p-14},
                                    {0x3c, 1},
                                    {0x7b, 57344},
                                    {0xfb, -57344}})
    EXPECT_EQ(decode(float_e5m2, code), value) << code;
  // OCP Microscaling Formats v1.0, FP4 E2M1: all of them.
  const double fp4[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (unsigned code = 0; code < 8; ++code) {
    EXPECT_EQ(decode(float_e2m1, code), fp4[code]) << code;
    EXPECT_EQ(decode(float_e2m1, code | 8), -fp4[code]) << code;
  }
  EXPECT_TRUE(std::isnan(decode(float_e4m3, 0x7f)));
  EXPECT_TRUE(std::isnan(decode(float_e5m2, 0x7f)));
}

struct Format {
  SmallFloat format;
  double (*value)(unsigned);
  unsigned largest;
};

// Nearest of all codes, the even one of two as near.
unsigned nearest(const Format& f, double x) {
  unsigned best = 0;
  for (unsigned code = 0; code <= f.largest; ++code) {
    const double here = std::abs(f.value(code) - x), there = std::abs(f.value(best) - x);
    if (here < there || (here == there && code % 2 == 0)) best = code;
  }
  return best;
}

TEST(SmallFloat, EncodesToTheNearestWithTiesToEven) {
  std::mt19937 random(1);
  for (const Format& f : {Format{float_e4m3, e4m3_value, 0x7e},
                          {float_e5m2, e5m2_value, 0x7b},
                          {float_e2m1, e2m1_value, 7}}) {
    for (unsigned code = 0; code < f.largest; ++code) {  // every value, and half way to the next
      const double half = (f.value(code) + f.value(code + 1)) / 2;
      EXPECT_EQ(encode(f.format, static_cast<float>(f.value(code))), code);
      EXPECT_EQ(encode(f.format, static_cast<float>(half)), nearest(f, half)) << half;
      EXPECT_EQ(encode(f.format, static_cast<float>(-half)), nearest(f, half) | f.format.sign);
    }
    std::uniform_real_distribution<float> exponent(-20, 20);
    for (int i = 0; i < 5000; ++i) {
      const float x = std::exp2(exponent(random));
      EXPECT_EQ(encode(f.format, x), nearest(f, x)) << x;
    }
    EXPECT_EQ(encode(f.format, INFINITY), f.largest) << "saturates";
    EXPECT_EQ(encode(f.format, NAN), f.format.nan);
  }
}

// cuBLAS documentation, block scaling factors: tiles of 128 x 4, offset in a tile
// (row % 32) * 16 + (row / 32) * 4 + column; tiles of the same rows follow each other.
TEST(Narrow, BlockScalesLieInTiles) {
  const NarrowLayout layout = narrow_layout(DType::nvfp4, {200, 128});  // 8 scales a row
  EXPECT_EQ(layout.scale_rows, 256);
  EXPECT_EQ(layout.scale_columns, 8);
  EXPECT_EQ(block_scale_at(layout, 0, 3), 3);
  EXPECT_EQ(block_scale_at(layout, 1, 0), 16);
  EXPECT_EQ(block_scale_at(layout, 32, 0), 4);
  EXPECT_EQ(block_scale_at(layout, 127, 3), 511);
  EXPECT_EQ(block_scale_at(layout, 0, 4), 512);
  EXPECT_EQ(block_scale_at(layout, 128, 0), 1024);
}

TEST(Narrow, BytesByHand) {
  EXPECT_EQ(packed_bytes(DType::e4m3, {6, 8}), 48 + 16);
  EXPECT_EQ(packed_bytes(DType::e5m2, {7}), 16 + 16);  // codes padded to 16
  // 200 rows of 8 blocks of 8 bytes, 256 x 8 scales, the tensor's.
  EXPECT_EQ(packed_bytes(DType::nvfp4, {200, 128}), 12800 + 2048 + 16);
  // As 128 rows of 200 values: 13 blocks, 16 with padding of scales.
  EXPECT_EQ(packed_bytes(DType::nvfp4_rows, {200, 128}), 128 * 13 * 8 + 128 * 16 + 16);
  // Two matrices, each with tiles of its own.
  EXPECT_EQ(packed_bytes(DType::nvfp4, {2, 3, 16}), 48 + 2 * 512 + 16);
  // More than 2^31 bytes: a layer's expert matrices, 256 x 2048 x 7168.
  EXPECT_EQ(packed_bytes(DType::e4m3, {256, 2048, 7168}), 3758096384 + 16);
}

std::vector<std::byte> quantised(const Values& values, const Item& to) {
  OpCase c =
      op_case("q", OpKind::quantise, {{to.shape, DType::f32, Item::Fill::given, 0, values}}, {to});
  return run_kernel(c, {values}, 2)[0];
}

float scale_of(const std::vector<std::byte>& bits) {
  float scale;
  std::memcpy(&scale, &bits[bits.size() - 16], sizeof scale);
  return scale;
}

// Largest value 896 = 2 x 448: scale 2.
TEST(Quantise, Fp8DividesByTheLargestValue) {
  const auto bits = quantised({896, -448, 2, 0}, {{4}, DType::e4m3});
  EXPECT_EQ(scale_of(bits), 2);
  EXPECT_EQ(bits[0], std::byte{0x7e});
  EXPECT_EQ(bits[1], std::byte{0xf6});  // -224 = -1.75 x 2^7
  EXPECT_EQ(bits[2], std::byte{0x38});
  EXPECT_EQ(bits[3], std::byte{0});
  const auto gradient = quantised({57344, -1, 0x1p-16, 0x1p-18}, {{4}, DType::e5m2});
  EXPECT_EQ(scale_of(gradient), 1);
  EXPECT_EQ(gradient[0], std::byte{0x7b});
  EXPECT_EQ(gradient[1], std::byte{0xbc});
  EXPECT_EQ(gradient[2], std::byte{0x01});
  EXPECT_EQ(gradient[3], std::byte{0});
  EXPECT_EQ(scale_of(quantised({0, 0}, {{2}, DType::e4m3})), 1);
}

// Largest value 2688 = 6 x 448: scale 1. First row, first block: largest 6, block scale 1; second
// block: largest 2688, block scale 448. A row of zeros has block scale 0.
TEST(Quantise, Nvfp4ScalesBlocksOfSixteen) {
  Values values(3 * 32, 0.0);
  values[0] = 6;
  values[1] = -1.5;
  values[2] = 2.4;  // rounds to 2
  values[3] = 2.5;  // half way between 2 and 3: to the even code, that of 2
  values[16] = 2688;
  values[31] = -448;
  values[32] = 24;  // second row: block scale 4
  values[33] = 6;
  const auto bits = quantised(values, {{3, 32}, DType::nvfp4});
  EXPECT_EQ(scale_of(bits), 1);
  EXPECT_EQ(bits[0], std::byte{0xb7});  // 6 low, -1.5 high
  EXPECT_EQ(bits[1], std::byte{0x44});
  EXPECT_EQ(bits[8], std::byte{0x07});   // 2688 / 448 = 6
  EXPECT_EQ(bits[15], std::byte{0xa0});  // -448 / 448 = -1
  EXPECT_EQ(bits[16], std::byte{0x37});  // 6 and 1.5
  const size_t scales = 3 * 16;
  EXPECT_EQ(bits[scales], std::byte{0x38});       // 1
  EXPECT_EQ(bits[scales + 1], std::byte{0x7e});   // 448
  EXPECT_EQ(bits[scales + 16], std::byte{0x48});  // 4, of the second row
  EXPECT_EQ(bits[scales + 32], std::byte{0});
}

// The same values transposed, blocks along their rows: the same bytes.
TEST(Quantise, BlocksAlongRowsAreThoseOfTheTransposed) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  constexpr int64_t rows = 21, columns = 40;
  Values values(rows * columns), transposed(rows * columns);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      transposed[static_cast<size_t>(j * rows + i)] = values[static_cast<size_t>(i * columns + j)] =
          normal(random);
  EXPECT_EQ(quantised(values, {{rows, columns}, DType::nvfp4}),
            quantised(transposed, {{columns, rows}, DType::nvfp4_rows}));
}

}  // namespace
}  // namespace spillway
