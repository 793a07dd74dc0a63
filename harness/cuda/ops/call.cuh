// How an op is written for the device, so that all of it but the launch runs on the host too.
//
// A kernel is a struct with
//   static constexpr OpKind kind;
//   template <class Launch> static void run(const KernelCall&, const Launch&);
//   static int64_t workspace_bytes(const Program&, const Op&);   (where it needs any)
// run() splits the op into phases, each launch(body, tiles): `body(group, tile)` for every tile in
// [0, tiles), in any order and at once; phases follow one another. A body is a plain struct passed
// by value, with
//   static constexpr int threads;     of a group: 32 (a warp) or a multiple of it (a block)
//   static constexpr int blocks_at_once;  (where it matters) of them on one processor
//   int64_t scratch_bytes() const;    memory shared by a group, uninitialised, at most most_scratch
//   template <class Group> SPILLWAY_DEVICE void operator()(const Group&, int64_t tile) const;
// Every thread of a group calls it. A Group has
//   rank(), size()    the thread, and how many there are
//   sync()            every thread waits for all, and sees what they wrote
//   sum(x), max(x)    of a float over all threads, in a fixed order, the same for each
//   largest(x, i)     warps only: the index i that goes with the largest x, the lowest of equal
//                     ones; NaN counts as -infinity
//   scratch()         the shared memory, aligned to 16 bytes
// Only sync() makes what a thread wrote visible to others; sums and maxima do not.
// All threads of a group must reach each of these together.
#pragma once

#include <cstddef>

#include "harness/cuda/ops/values.cuh"

namespace spillway {

// The least that a block may have on any GPU from 8.0 on is 99 KiB, on 12.0; some is the launch's own.
inline constexpr int64_t most_scratch = 96 << 10;

struct KernelCall {
  const OpCall& op;      // buffers at device addresses; its `step` is not used
  const int64_t* step;   // in device memory
  std::byte* workspace;  // in device memory, as many bytes as the kernel asked for

  const Attributes& attributes() const { return op.op->attributes; }
  const Buffer& input(size_t i) const { return op.inputs[i]; }
  const Buffer& output(size_t i) const { return op.outputs[i]; }
  bool has_input(size_t i) const { return op.inputs.size() > i; }
};

// A body without shared memory.
struct NoScratch {
  static constexpr int64_t scratch_bytes() { return 0; }
};

// Rows of `width` elements, cut into packs: unit u is one of a row's packs.
struct RowPacks {
  int64_t rows, width, in_row;

  RowPacks(int64_t row_count, int64_t row_width)
      : rows(row_count), width(row_width), in_row(parts_of(row_width, pack_width)) {}
  int64_t tiles(int threads) const { return parts_of(rows * in_row, threads); }

  struct Unit {
    bool inside;
    int64_t row, column, count;  // elements
    int64_t first;               // element in the whole: row * width + column
  };
  SPILLWAY_DEVICE Unit unit(int64_t index) const {
    const int64_t row = quotient(index, in_row), column = (index - row * in_row) * pack_width;
    const int64_t left = width - column;
    return {row < rows, row, column, left < pack_width ? left : pack_width, row * width + column};
  }

  // A 64-bit division takes the device some 70 instructions, one of 32 bits about 10.
  SPILLWAY_DEVICE static int64_t quotient(int64_t a, int64_t b) {
    if (((a | b) >> 32) == 0) return static_cast<uint32_t>(a) / static_cast<uint32_t>(b);
    return a / b;
  }
};

}  // namespace spillway
