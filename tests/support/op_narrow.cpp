#include "tests/support/op_narrow.h"

#include <cmath>
#include <cstring>
#include <stdexcept>

namespace spillway {
namespace {

constexpr double tensor_scale = 0.25;
constexpr unsigned scale_codes[] = {0x30, 0x38, 0x40, 0x44};  // E4M3 codes of 1/2, 1, 2, 3

double small_float(unsigned code, int exponent_bits, int mantissa_bits, int bias) {
  const unsigned mantissa = code & ((1u << mantissa_bits) - 1);
  const int exponent = static_cast<int>((code >> mantissa_bits) & ((1u << exponent_bits) - 1));
  const double sign = (code >> (exponent_bits + mantissa_bits)) & 1 ? -1 : 1;
  const double fraction = mantissa / std::ldexp(1, mantissa_bits);
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias);
  return sign * std::ldexp(1 + fraction, exponent - bias);
}

bool blocks(DType dtype) { return dtype == DType::nvfp4 || dtype == DType::nvfp4_rows; }

// Stored as `matrices` matrices of `rows` x `columns`; nvfp4_rows stores each one transposed.
struct Stored {
  int64_t matrices = 1, rows = 1, columns = 1, row_blocks = 0, codes = 0, scale_tiles = 0;
  bool transposed;

  explicit Stored(const Item& item) : transposed(item.dtype == DType::nvfp4_rows) {
    const Shape& shape = item.shape;
    columns = shape.back();
    if (shape.size() > 1) rows = shape[shape.size() - 2];
    for (size_t i = 0; i + 2 < shape.size(); ++i)
      matrices *= shape[i];
    if (transposed) std::swap(rows, columns);
    row_blocks = (columns + 15) / 16;
    codes = blocks(item.dtype) ? matrices * rows * row_blocks * 8 : matrices * rows * columns;
    if (blocks(item.dtype)) scale_tiles = matrices * ((rows + 127) / 128) * ((row_blocks + 3) / 4);
  }
  int64_t scales_at() const { return (codes + 15) / 16 * 16; }
  int64_t scale_at() const { return scales_at() + scale_tiles * 512; }
  // Of the logical element.
  int64_t element(int64_t matrix, int64_t row, int64_t column) const {
    return matrix * rows * columns + (transposed ? column * rows + row : row * columns + column);
  }
  // cuBLAS documentation: a tile of 128 rows x 4 scales is 512 bytes; row r, scale s of it at
  // (r % 32) * 16 + (r / 32) * 4 + s. Tiles go along a row first.
  size_t block_scale(int64_t matrix, int64_t row, int64_t block) const {
    const int64_t tiles_in_row = (row_blocks + 3) / 4, tile_rows = (rows + 127) / 128;
    const int64_t tile = (matrix * tile_rows + row / 128) * tiles_in_row + block / 4;
    const int64_t r = row % 128;
    return static_cast<size_t>(scales_at() + tile * 512 + (r % 32) * 16 + (r / 32) * 4 + block % 4);
  }
};

unsigned block_code(int64_t row, int64_t block) { return scale_codes[(row + block) % 4]; }

// Calls body(logical element, place of its byte, shift in it, place of its block scale, row, block).
template <class Body>
void for_elements(const Stored& stored, bool with_blocks, const Body& body) {
  for (int64_t m = 0; m < stored.matrices; ++m)
    for (int64_t r = 0; r < stored.rows; ++r)
      for (int64_t c = 0; c < stored.columns; ++c) {
        const auto element = static_cast<size_t>(stored.element(m, r, c));
        const int64_t row = m * stored.rows + r;
        if (with_blocks)
          body(element, static_cast<size_t>(row * stored.row_blocks * 8 + c / 2), c % 2 * 4,
               stored.block_scale(m, r, c / 16), r, c / 16);
        else
          body(element, element, int64_t{0}, size_t{0}, r, int64_t{0});
      }
}

double value_of(DType dtype, unsigned code) {
  if (dtype == DType::e4m3) return e4m3_value(code);
  return dtype == DType::e5m2 ? e5m2_value(code) : e2m1_value(code & 15);
}

unsigned code_of(DType dtype, double value) {
  if (std::isnan(value)) return dtype == DType::e4m3 ? 0x7f : 0x7e;
  for (unsigned code = 0; code < (blocks(dtype) ? 16u : 256u); ++code)
    if (value_of(dtype, code) == value) return code;
  throw std::logic_error("no code has this value");
}

}  // namespace

double e4m3_value(unsigned code) {
  return (code & 0x7f) == 0x7f ? std::nan("") : small_float(code, 4, 3, 7);
}
double e5m2_value(unsigned code) {
  const unsigned size = code & 0x7f;
  if (size > 0x7c) return std::nan("");
  return size == 0x7c ? (code & 0x80 ? -INFINITY : INFINITY) : small_float(code, 5, 2, 15);
}
double e2m1_value(unsigned code) { return small_float(code, 2, 1, 1); }

size_t narrow_bytes(const Item& item) { return static_cast<size_t>(Stored(item).scale_at() + 16); }

Values narrow_random(const Item& item, std::mt19937_64& random) {
  const Stored stored(item);
  const bool with_blocks = blocks(item.dtype);
  Values values(static_cast<size_t>(elements_of(item.shape)));
  for_elements(stored, with_blocks,
               [&](size_t element, size_t, int64_t, size_t, int64_t row, int64_t block) {
                 // Of order one: 1/16 to under 16, or nought.
                 const unsigned size = item.dtype == DType::e4m3   ? 0x18 + random() % 0x40
                                       : item.dtype == DType::e5m2 ? 0x2c + random() % 0x20
                                                                   : random() % 8;
                 const unsigned sign = random() % 2 ? (with_blocks ? 8 : 0x80) : 0;
                 const double unit = with_blocks ? e4m3_value(block_code(row, block)) : 1;
                 values[element] = value_of(item.dtype, size | sign) * unit * tensor_scale;
               });
  return values;
}

std::vector<std::byte> pack(const Values& values, const Item& item) {
  const Stored stored(item);
  const bool with_blocks = blocks(item.dtype);
  std::vector<std::byte> bits(narrow_bytes(item));
  for_elements(
      stored, with_blocks,
      [&](size_t element, size_t at, int64_t shift, size_t scale, int64_t row, int64_t block) {
        double unit = tensor_scale;
        if (with_blocks) {
          // The format has no NaN: the scale of its block has.
          const bool nan = std::isnan(values[element]);
          if (bits[scale] != std::byte{0x7f})
            bits[scale] = static_cast<std::byte>(nan ? 0x7f : block_code(row, block));
          if (nan) return;
          unit *= e4m3_value(block_code(row, block));
        }
        bits[at] |= static_cast<std::byte>(code_of(item.dtype, values[element] / unit) << shift);
      });
  const auto scale = static_cast<float>(tensor_scale);
  std::memcpy(&bits[static_cast<size_t>(stored.scale_at())], &scale, sizeof scale);
  return bits;
}

Values unpack(const std::vector<std::byte>& bits, const Item& item) {
  const Stored stored(item);
  const bool with_blocks = blocks(item.dtype);
  float scale;
  std::memcpy(&scale, &bits[static_cast<size_t>(stored.scale_at())], sizeof scale);
  Values values(static_cast<size_t>(elements_of(item.shape)));
  for_elements(stored, with_blocks,
               [&](size_t element, size_t at, int64_t shift, size_t block_scale, int64_t, int64_t) {
                 const auto code = std::to_integer<unsigned>(bits[at]) >> shift;
                 const double unit =
                     with_blocks ? e4m3_value(std::to_integer<unsigned>(bits[block_scale])) : 1;
                 values[element] = value_of(item.dtype, code) * unit * static_cast<double>(scale);
               });
  return values;
}

}  // namespace spillway
