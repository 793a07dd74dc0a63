// quantise: the largest magnitude in parts, then codes; every group works out the tensor's scale from
// the parts again, which saves a launch. Blocks of NVFP4 that lie along rows pass through shared
// memory, so that both sides are read and written along memory.
#pragma once

#include <algorithm>
#include <initializer_list>

#include "harness/cuda/ops/call.cuh"
#include "harness/cuda/ops/narrow.cuh"

namespace spillway {

inline constexpr int quantise_threads = 256;
inline constexpr int64_t quantise_parts = 1024;  // of the tensor, at most

// A maximum in which a NaN wins, over all threads of a group.
template <class Group>
SPILLWAY_DEVICE float group_largest(const Group& group, float most, bool nan) {
  const float any = group.max(nan ? 1.f : 0.f), largest = group.max(most);
  return any > 0 ? float_of_bits(0x7fc00000u) : largest;
}

// partial[i] = the largest magnitude of part i.
struct LargestOfParts : NoScratch {
  static constexpr int threads = quantise_threads;
  View x;
  int64_t elements, part, parts;
  float* partial;

  LargestOfParts(const KernelCall& call)
      : x(view_of(call.input(0))),
        elements(call.input(0).elements()),
        part(parts_of(parts_of(elements, quantise_parts), pack_width) * pack_width),
        parts(parts_of(elements, part)),
        partial(reinterpret_cast<float*>(call.workspace)) {}

  template <class Group>
  SPILLWAY_DEVICE void operator()(const Group& group, int64_t tile) const {
    const int64_t begin = tile * part, end = begin + part < elements ? begin + part : elements;
    float most = 0;
    bool nan = false;
    for (int64_t at = begin + group.rank() * pack_width; at < end; at += threads * pack_width) {
      Pack values;
      load_pack(x, at, elements - at, values);
      SPILLWAY_UNROLL
      for (int i = 0; i < pack_width; ++i) {
        most = fmaxf(most, fabsf(values[i]));
        nan = nan || values[i] != values[i];
      }
    }
    most = group_largest(group, most, nan);
    if (group.rank() == 0) partial[tile] = most;
  }
};

// What every kernel that writes codes shares.
struct Codes {
  View x;
  uint8_t* q;
  DType dtype;
  bool aligned;  // q begins at a multiple of 16 bytes
  NarrowPlaces places;
  const float* partial;
  int64_t parts;

  Codes(const KernelCall& call, const LargestOfParts& from, std::initializer_list<int64_t> steps)
      : x(view_of(call.input(0), steps)),
        q(call.output(0).as<uint8_t>()),
        dtype(call.output(0).dtype),
        aligned(reinterpret_cast<uintptr_t>(q) % 16 == 0),
        places(narrow_layout(dtype, call.output(0).shape)),
        partial(from.partial),
        parts(from.parts) {}

  // Of the tensor; tile 0 stores it, and zeros in what is left between the parts of the layout.
  template <class Group>
  SPILLWAY_DEVICE float scale(const Group& group, int64_t tile, float largest) const {
    float most = 0;
    bool nan = false;
    for (int64_t p = group.rank(); p < parts; p += group.size()) {
      most = fmaxf(most, partial[p]);
      nan = nan || partial[p] != partial[p];
    }
    most = group_largest(group, most, nan);
    const float scale = most == 0 ? 1.f : most / largest;
    if (tile == 0 && group.rank() == 0) {
      for (int64_t i = places.code_bytes; i < places.scales_at; ++i)
        q[i] = 0;
      const uint32_t bits = bits_of_float(scale);
      for (int i = 0; i < 16; ++i)
        q[places.scale_at + i] = i < 4 ? static_cast<uint8_t>(bits >> (8 * i)) : uint8_t{0};
    }
    return scale;
  }

  // Codes of a whole block and its scale; `matrix`, `row` and `block` as stored.
  SPILLWAY_DEVICE void block(const float (&values)[16], float tensor_scale, int64_t matrix,
                             int64_t row, int64_t block) const {
    float most = 0;
    bool nan = false;
    SPILLWAY_UNROLL
    for (int i = 0; i < 16; ++i) {
      most = fmaxf(most, fabsf(values[i]));
      nan = nan || values[i] != values[i];
    }
    if (nan) most = float_of_bits(0x7fc00000u);
    const uint32_t code = encode_pair(DType::e4m3, most / largest_e2m1 / tensor_scale, 0.f) & 0xff;
    const float unit = decode_narrow(device_float(DType::e4m3), code) * tensor_scale;
    uint32_t words[2] = {0, 0};
    SPILLWAY_UNROLL
    for (int i = 0; i < 16; i += 2) {
      const uint32_t pair =
          unit == 0 ? 0u : encode_pair(DType::nvfp4, values[i] / unit, values[i + 1] / unit) & 0xff;
      words[i / 8] |= pair << (i % 8 * 4);
    }
    q[places.block_scale(matrix, row, block)] = static_cast<uint8_t>(code);
    uint8_t* to = q + ((matrix * places.rows + row) * places.pitch + block * 16) / 2;
    if (aligned) {  // a row's codes are whole blocks of eight bytes
      uint2_store(to, words[0], words[1]);
    } else {
      for (int i = 0; i < 8; ++i)
        to[i] = static_cast<uint8_t>(words[i / 4] >> (8 * (i % 4)));
    }
  }

  SPILLWAY_DEVICE static void uint2_store(void* to, uint32_t low, uint32_t high) {
#ifdef __CUDA_ARCH__
    *static_cast<uint2*>(to) = make_uint2(low, high);
#else
    const uint32_t words[2] = {low, high};
    std::memcpy(to, words, sizeof words);
#endif
  }
};

// FP8: 16 codes a thread at a time.
struct ByteCodes : NoScratch {
  static constexpr int threads = quantise_threads;
  static constexpr int64_t tile_elements = int64_t{threads} * 64;
  Codes codes;
  int64_t elements;

  ByteCodes(const KernelCall& call, const LargestOfParts& from)
      : codes(call, from, {}), elements(from.elements) {}
  int64_t tiles() const { return std::max<int64_t>(1, parts_of(elements, tile_elements)); }

  SPILLWAY_DEVICE void sixteen(int64_t at, float scale) const {
    Words words = {{0, 0, 0, 0}};
    SPILLWAY_UNROLL
    for (int half = 0; half < 2; ++half) {
      Pack values;
      load_pack(codes.x, at + half * pack_width, elements - at - half * pack_width, values);
      SPILLWAY_UNROLL
      for (int i = 0; i < pack_width; i += 2)
        words.word[half * 2 + i / 4] |=
            (encode_pair(codes.dtype, values[i] / scale, values[i + 1] / scale) & 0xffff)
            << (i % 4 * 8);
    }
    if (codes.aligned && elements - at >= 16) return store_words(codes.q + at, words);
    for (int i = 0; i < 16 && at + i < elements; ++i)
      codes.q[at + i] = static_cast<uint8_t>(words.word[i / 4] >> (8 * (i % 4)));
  }

  template <class Group>
  SPILLWAY_DEVICE void operator()(const Group& group, int64_t tile) const {
    const float largest = codes.dtype == DType::e4m3 ? largest_e4m3 : largest_e5m2;
    const float scale = codes.scale(group, tile, largest);
    const int64_t begin = tile * tile_elements;
    for (int64_t at = begin + group.rank() * 16; at < begin + tile_elements && at < elements;
         at += threads * 16)
      sixteen(at, scale);
  }
};

// NVFP4 along columns: a thread takes a block. Units go over the padded scales too, which are zeros.
struct BlockCodes : NoScratch {
  static constexpr int threads = quantise_threads;
  static constexpr int64_t tile_blocks = int64_t{threads} * 4;
  Codes codes;
  int64_t units;

  BlockCodes(const KernelCall& call, const LargestOfParts& from)
      : codes(call, from, {call.input(0).shape.back()}),
        units(codes.places.matrices * codes.places.scale_rows * codes.places.scale_columns) {}
  int64_t tiles() const { return std::max<int64_t>(1, parts_of(units, tile_blocks)); }

  template <class Group>
  SPILLWAY_DEVICE void operator()(const Group& group, int64_t tile) const {
    const NarrowPlaces& p = codes.places;
    const float scale = codes.scale(group, tile, largest_e2m1 * largest_e4m3);
    for (int64_t i = group.rank(); i < tile_blocks; i += threads) {
      const int64_t unit = tile * tile_blocks + i;
      if (unit >= units) break;
      const int64_t all_rows = RowPacks::quotient(unit, p.scale_columns),
                    block = unit - all_rows * p.scale_columns,
                    matrix = RowPacks::quotient(all_rows, p.scale_rows),
                    row = all_rows - matrix * p.scale_rows;
      const int64_t left = p.columns - block * 16;
      if (row >= p.rows || left <= 0) {
        codes.q[p.block_scale(matrix, row, block)] = 0;
        continue;
      }
      const int64_t first = (matrix * p.rows + row) * p.columns + block * 16;
      Pack low, high;
      load_pack(codes.x, first, left, low);
      load_pack(codes.x, first + pack_width, left - pack_width, high);
      float values[16];
      SPILLWAY_UNROLL
      for (int k = 0; k < pack_width; ++k) {
        values[k] = low[k];
        values[pack_width + k] = high[k];
      }
      codes.block(values, scale, matrix, row, block);
    }
  }
};

// NVFP4 along rows: tiles of 64 rows x 64 columns of x, stored transposed, four blocks a column.
struct TurnedBlockCodes {
  static constexpr int threads = quantise_threads, side = 64, stride = side + 1;
  Codes codes;
  int64_t row_tiles, column_tiles;  // of stored rows and columns of one matrix

  TurnedBlockCodes(const KernelCall& call, const LargestOfParts& from)
      : codes(call, from, {call.input(0).shape.back()}),
        row_tiles(codes.places.scale_rows / side),
        column_tiles(codes.places.scale_columns / 4) {}
  int64_t tiles() const {
    return std::max<int64_t>(1, codes.places.matrices * row_tiles * column_tiles);
  }
  static int64_t scratch_bytes() { return int64_t{side} * stride * 4; }

  // tile[i][j] = x at row first_row + i, column first_column + j, zero beyond.
  template <class Group>
  SPILLWAY_DEVICE void fill(const Group& group, float* tile, int64_t matrix, int64_t first_row,
                            int64_t first_column) const {
    const int64_t rows = codes.places.columns, columns = codes.places.rows;  // of x
    for (int e = group.rank(); e < side * side / pack_width; e += threads) {
      const int i = e / (side / pack_width), j = e % (side / pack_width) * pack_width;
      const int64_t row = first_row + i, column = first_column + j;
      const int64_t left = row < rows && column < columns ? columns - column : 0;
      Pack values;
      load_pack(codes.x, (matrix * rows + row) * columns + column, left, values);
      SPILLWAY_UNROLL
      for (int k = 0; k < pack_width; ++k)
        tile[i * stride + j + k] = values[k];
    }
  }

  template <class Group>
  SPILLWAY_DEVICE void operator()(const Group& group, int64_t index) const {
    const NarrowPlaces& p = codes.places;
    const float scale = codes.scale(group, index, largest_e2m1 * largest_e4m3);
    if (row_tiles * column_tiles == 0) return;
    const int64_t of_matrix = row_tiles * column_tiles,
                  matrix = RowPacks::quotient(index, of_matrix),
                  in_matrix = index - matrix * of_matrix,
                  row_tile = RowPacks::quotient(in_matrix, column_tiles),
                  column_tile = in_matrix - row_tile * column_tiles;
    float* tile = reinterpret_cast<float*>(group.scratch());
    fill(group, tile, matrix, column_tile * side, row_tile * side);
    group.sync();
    const int own = group.rank() / 4, quarter = group.rank() % 4;
    const int64_t row = row_tile * side + own, block = column_tile * 4 + quarter;
    if (row >= p.rows || block * 16 >= p.columns) {
      codes.q[p.block_scale(matrix, row, block)] = 0;
      return;
    }
    float values[16];
    SPILLWAY_UNROLL
    for (int k = 0; k < 16; ++k)
      values[k] = tile[(quarter * 16 + k) * stride + own];
    codes.block(values, scale, matrix, row, block);
  }
};

struct QuantiseKernel {
  static constexpr OpKind kind = OpKind::quantise;
  static int64_t workspace_bytes(const Program&, const Op&) { return quantise_parts * 4; }

  template <class Launch>
  static void run(const KernelCall& call, const Launch& launch) {
    const LargestOfParts largest(call);
    launch(largest, largest.parts);
    const DType dtype = call.output(0).dtype;
    if (is_fp8(dtype)) {
      const ByteCodes body(call, largest);
      launch(body, body.tiles());
    } else if (dtype == DType::nvfp4) {
      const BlockCodes body(call, largest);
      launch(body, body.tiles());
    } else {
      const TurnedBlockCodes body(call, largest);
      launch(body, body.tiles());
    }
  }
};

}  // namespace spillway
