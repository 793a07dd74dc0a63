// rms_norm and its gradients. A group of threads takes a row (or, where w is narrower than a row, a
// group of it as wide as w); what fits into registers is read once.
#pragma once

#include "harness/cuda/ops/column_sums.cuh"

namespace spillway {

// A row, or a group as wide as w: [T, G * D] and [T * G, D] are the same memory.
struct NormSize {
  int64_t rows, width;
  float epsilon;

  explicit NormSize(const KernelCall& call)
      : rows(call.input(0).elements() / call.input(1).shape[0]),
        width(call.input(1).shape[0]),
        epsilon(static_cast<float>(call.attributes().epsilon)) {}

  SPILLWAY_DEVICE float inverse_root(float sum_of_squares) const {
    return 1.f / sqrtf(sum_of_squares / static_cast<float>(width) + epsilon);
  }
};

// Packs of a row that a thread keeps in registers.
inline constexpr int norm_kept = 4;
// The most elements of a row that groups of this many threads keep.
constexpr int64_t norm_width_kept(int threads) { return int64_t{threads} * pack_width * norm_kept; }

SPILLWAY_DEVICE inline float dot_packs(const Pack& a, const Pack& b) {
  float sum = 0;
  SPILLWAY_UNROLL
  for (int i = 0; i < pack_width; ++i)
    sum += a[i] * b[i];
  return sum;
}

template <int Threads>
struct NormRow : NoScratch {
  static constexpr int threads = Threads;
  NormSize size;
  View x, w, y;

  explicit NormRow(const KernelCall& call)
      : size(call),
        x(view_of(call.input(0), {size.width})),
        w(view_of(call.input(1))),
        y(view_of(call.output(0), {size.width})) {}

  SPILLWAY_DEVICE void finish(int64_t row, int64_t column, float r, const Pack& values) const {
    Pack weight, out;
    load_pack(w, column, size.width - column, weight);
    SPILLWAY_UNROLL
    for (int i = 0; i < pack_width; ++i)
      out[i] = values[i] * r * weight[i];
    store_pack(y, row * size.width + column, size.width - column, out);
  }

  template <class Group>
  SPILLWAY_DEVICE void operator()(const Group& group, int64_t row) const {
    const int64_t step = int64_t{group.size()} * pack_width, first = group.rank() * pack_width,
                  beyond = first + norm_kept * step;
    Pack kept[norm_kept], more;
    float squares = 0;
    SPILLWAY_UNROLL
    for (int k = 0; k < norm_kept; ++k)
      load_pack(x, row * size.width + first + k * step, size.width - first - k * step, kept[k]);
    SPILLWAY_UNROLL
    for (int k = 0; k < norm_kept; ++k)
      squares += dot_packs(kept[k], kept[k]);
    for (int64_t c = beyond; c < size.width; c += step) {
      load_pack(x, row * size.width + c, size.width - c, more);
      squares += dot_packs(more, more);
    }
    const float r = size.inverse_root(group.sum(squares));
    SPILLWAY_UNROLL
    for (int k = 0; k < norm_kept; ++k)
      if (first + k * step < size.width) finish(row, first + k * step, r, kept[k]);
    for (int64_t c = beyond; c < size.width; c += step) {
      load_pack(x, row * size.width + c, size.width - c, more);
      finish(row, c, r, more);
    }
  }
};

struct RmsNormKernel {
  static constexpr OpKind kind = OpKind::rms_norm;

  template <class Launch>
  static void run(const KernelCall& call, const Launch& launch) {
    const NormSize size(call);
    if (size.width <= norm_width_kept(32)) {
      launch(NormRow<32>(call), size.rows);
    } else if (size.width <= norm_width_kept(256)) {
      launch(NormRow<256>(call), size.rows);
    } else {
      launch(NormRow<512>(call), size.rows);
    }
  }
};

// With r the inverse root and g = dy w: dx = residual + r (g - x r^2 mean(g x)); dw is the sum over
// rows of dy x r. A group takes the rows of one part in turn. x and the columns of dw stay in
// registers; dy is read twice, the second time from cache; dw beyond the registers is in `partial`.
template <int Threads, int KeptPacks>
struct NormBackwardPart : NoScratch {
  static constexpr int threads = Threads, kept_packs = KeptPacks;
  static constexpr int64_t width_kept = int64_t{Threads} * KeptPacks * pack_width;
  NormSize size;
  int64_t part_rows;
  View x, w, dy, residual, dx;
  bool onto;
  float* partial;

  NormBackwardPart(const KernelCall& call, const RowParts& cut)
      : size(call),
        part_rows(cut.part_rows),
        x(view_of(call.input(0), {size.width})),
        w(view_of(call.input(1))),
        dy(view_of(call.input(2), {size.width})),
        residual(call.has_input(3) ? view_of(call.input(3), {size.width}) : View{}),
        dx(view_of(call.output(0), {size.width})),
        onto(call.has_input(3)),
        partial(reinterpret_cast<float*>(call.workspace)) {}

  struct Sums {
    float squares = 0, products = 0;  // of x x and of g x
  };
  SPILLWAY_DEVICE void add(int64_t row, int64_t c, const Pack& value, Sums& sums) const {
    Pack gradient, weight;
    load_pack(dy, row * size.width + c, size.width - c, gradient);
    load_pack(w, c, size.width - c, weight);
    sums.squares += dot_packs(value, value);
    SPILLWAY_UNROLL
    for (int i = 0; i < pack_width; ++i)
      sums.products += gradient[i] * weight[i] * value[i];
  }

  struct Factors {
    float r, along_x;
  };
  // Stores a pack of dx and adds to dw.
  SPILLWAY_DEVICE void finish(int64_t row, int64_t c, const Factors& f, const Pack& value,
                              Pack& dw) const {
    const int64_t at = row * size.width + c, count = size.width - c;
    Pack gradient, weight, before = {};
    load_pack(dy, at, count, gradient);
    load_pack(w, c, count, weight);
    if (onto) load_pack(residual, at, count, before);
    SPILLWAY_UNROLL
    for (int i = 0; i < pack_width; ++i) {
      dw[i] += gradient[i] * value[i] * f.r;
      const float change = f.r * (gradient[i] * weight[i]) - f.along_x * value[i];
      before[i] = onto ? before[i] + change : change;
    }
    store_pack(dx, at, count, before);
  }

  template <class Group>
  SPILLWAY_DEVICE void one_row(const Group& group, int64_t row, Pack (&dw)[kept_packs],
                               float* part) const {
    const int64_t step = int64_t{group.size()} * pack_width, first = group.rank() * pack_width,
                  beyond = first + kept_packs * step;
    Pack value[kept_packs], more;
    Sums sums;
    SPILLWAY_UNROLL
    for (int k = 0; k < kept_packs; ++k)
      load_pack(x, row * size.width + first + k * step, size.width - first - k * step, value[k]);
    SPILLWAY_UNROLL
    for (int k = 0; k < kept_packs; ++k)
      add(row, first + k * step, value[k], sums);
    for (int64_t c = beyond; c < size.width; c += step) {
      load_pack(x, row * size.width + c, size.width - c, more);
      add(row, c, more, sums);
    }
    const float r = size.inverse_root(group.sum(sums.squares)),
                mean = group.sum(sums.products) / static_cast<float>(size.width);
    const Factors factors{r, r * r * r * mean};
    SPILLWAY_UNROLL
    for (int k = 0; k < kept_packs; ++k)
      if (first + k * step < size.width) finish(row, first + k * step, factors, value[k], dw[k]);
    for (int64_t c = beyond; c < size.width; c += step) {
      Pack more_dw = {};
      load_pack(x, row * size.width + c, size.width - c, more);
      finish(row, c, factors, more, more_dw);
      for (int i = 0; i < pack_width; ++i)
        if (c + i < size.width) part[c + i] += more_dw[i];
    }
  }

  template <class Group>
  SPILLWAY_DEVICE void operator()(const Group& group, int64_t part_index) const {
    const int64_t step = int64_t{group.size()} * pack_width, first = group.rank() * pack_width,
                  begin = part_index * part_rows,
                  end = begin + part_rows < size.rows ? begin + part_rows : size.rows;
    float* part = partial + part_index * size.width;
    for (int64_t c = first + kept_packs * step; c < size.width; c += step) {
      for (int i = 0; i < pack_width; ++i)
        if (c + i < size.width) part[c + i] = 0;
    }
    Pack dw[kept_packs] = {};
    for (int64_t row = begin; row < end; ++row)
      one_row(group, row, dw, part);
    SPILLWAY_UNROLL
    for (int k = 0; k < kept_packs; ++k) {
      SPILLWAY_UNROLL
      for (int i = 0; i < pack_width; ++i) {
        const int64_t c = first + k * step + i;
        if (c < size.width) part[c] = dw[k][i];
      }
    }
  }
};

struct RmsNormBackwardKernel {
  static constexpr OpKind kind = OpKind::rms_norm_backward;

  // Narrow rows go by warps, which are small, so there must be more of them.
  static RowParts cut(int64_t elements, int64_t width) {
    return {elements / width, width, std::max<int64_t>(512, (1 << 20) / width)};
  }
  static int64_t workspace_bytes(const Program& program, const Op& op) {
    const int64_t width = program.at(op.inputs[1].tensor).shape[0];
    return cut(program.at(op.inputs[0].tensor).slice_elements(), width).workspace_bytes();
  }

  template <class Launch>
  static void run(const KernelCall& call, const Launch& launch) {
    const NormSize size(call);
    const RowParts parts = cut(call.input(0).elements(), size.width);
    using Narrow = NormBackwardPart<32, 2>;
    using Middle = NormBackwardPart<256, 2>;
    using Wide = NormBackwardPart<512, 4>;
    if (size.width <= Narrow::width_kept) {
      launch(Narrow(call, parts), parts.parts);
    } else if (size.width <= Middle::width_kept) {
      launch(Middle(call, parts), parts.parts);
    } else {
      launch(Wide(call, parts), parts.parts);
    }
    const AddParts sum(reinterpret_cast<const float*>(call.workspace), parts, call.output(1));
    launch(sum, sum.tiles());
  }
};

}  // namespace spillway
