// Products of narrow operands by our plain kernels: their values in bf16, which holds a code times its
// block scale exactly, the product in fp32, then both tensors' scales. As the CPU does it
// (harness/ops/quantised.h); where no library multiplies the codes themselves.
#pragma once

#include <array>

#include "harness/cuda/ops/elementwise.cuh"
#include "harness/cuda/ops/narrow.cuh"
#include "harness/error.h"
#include "harness/ops/operands.h"
#include "harness/ops/quantised.h"
#include "harness/workspaces.h"

namespace spillway {

// values = codes times block scales.
struct UnpackNarrow : NoScratch {
  static constexpr int threads = 256;
  const uint8_t* q;
  DType dtype;
  NarrowPlaces places;
  View values;
  int64_t elements;

  UnpackNarrow(const Buffer& packed, const Buffer& to)
      : q(packed.as<uint8_t>()),
        dtype(packed.dtype),
        places(narrow_layout(packed.dtype, packed.shape)),
        values(view_of(to)),
        elements(packed.elements()) {}
  int64_t tiles() const { return parts_of(elements, threads * pack_width); }

  SPILLWAY_DEVICE float value(int64_t i) const {
    if (is_byte()) return decode_narrow(device_float(dtype), q[i]);
    const bool turned = dtype == DType::nvfp4_rows;
    const int64_t width = turned ? places.rows : places.columns,
                  height = turned ? places.columns : places.rows;
    const int64_t all_rows = RowPacks::quotient(i, width), c = i - all_rows * width,
                  matrix = RowPacks::quotient(all_rows, height), r = all_rows - matrix * height;
    const int64_t row = turned ? c : r, column = turned ? r : c;
    const uint32_t both = q[((matrix * places.rows + row) * places.pitch + column) / 2];
    const uint32_t code = column % 2 == 0 ? both & 15u : both >> 4;
    return decode_narrow(device_float(DType::nvfp4), code) *
           decode_narrow(device_float(DType::e4m3),
                         q[places.block_scale(matrix, row, column / 16)]);
  }
  SPILLWAY_DEVICE bool is_byte() const { return dtype == DType::e4m3 || dtype == DType::e5m2; }

  template <class Group>
  SPILLWAY_DEVICE void operator()(const Group& group, int64_t tile) const {
    const int64_t first = (tile * group.size() + group.rank()) * pack_width,
                  count = elements - first;
    if (count <= 0) return;
    Pack x;
    SPILLWAY_UNROLL
    for (int i = 0; i < pack_width; ++i)
      x[i] = i < count ? value(first + i) : 0.f;
    store_pack(values, first, count, x);
  }
};

// out = sums times the scales of two tensors.
struct ScaleSums : NoScratch {
  static constexpr int threads = 256;
  View sums, out;
  const float *a_scale, *b_scale;
  int64_t elements;

  int64_t tiles() const { return parts_of(elements, threads * pack_width); }

  template <class Group>
  SPILLWAY_DEVICE void operator()(const Group& group, int64_t tile) const {
    const int64_t first = (tile * group.size() + group.rank()) * pack_width,
                  count = elements - first;
    if (count <= 0) return;
    const float scale = *a_scale * *b_scale;
    Pack x;
    load_pack(sums, first, count, x);
    SPILLWAY_UNROLL
    for (int i = 0; i < pack_width; ++i)
      x[i] *= scale;
    store_pack(out, first, count, x);
  }
};

// The kernel of a product, for narrow operands too.
template <class Product>
struct EmulatedProduct {
  static constexpr OpKind kind = Product::kind;

  static int64_t whole(int64_t bytes) {
    return parts_of(bytes, workspace_alignment) * workspace_alignment;
  }

  static int64_t workspace_bytes(const Program& program, const Op& op) {
    int64_t bytes = 0;
    if constexpr (requires { &Product::workspace_bytes; })
      bytes = whole(Product::workspace_bytes(program, op));
    if (!is_narrow(program.at(op.inputs[0].tensor).dtype)) return bytes;
    for (size_t i = 0; i < 2; ++i)
      bytes += whole(2 * elements_of(shape_of(program, op.inputs[i])));
    return bytes + whole(4 * elements_of(shape_of(program, op.outputs[0])));
  }

  static const float* scale_of(const Buffer& packed) {
    const NarrowLayout layout = narrow_layout(packed.dtype, packed.shape);
    return reinterpret_cast<const float*>(packed.as<std::byte>() + layout.scale_at);
  }

  template <class Launch>
  static void run(const KernelCall& call, const Launch& launch) {
    if (!is_narrow(call.input(0).dtype)) return Product::run(call, launch);
    std::array<Buffer, 4> inputs;
    const size_t count = call.op.inputs.size();
    check(count <= inputs.size(), "a product of ", count, " operands");
    std::copy(call.op.inputs.begin(), call.op.inputs.end(), inputs.begin());
    std::byte* at = call.workspace;
    for (size_t i = 0; i < 2; ++i) {
      inputs[i].data = at;
      inputs[i].dtype = DType::bf16;
      at += whole(2 * inputs[i].elements());
      const UnpackNarrow unpack(call.input(i), inputs[i]);
      launch(unpack, unpack.tiles());
    }
    const Buffer sums{at, call.output(0).shape, DType::f32};
    at += whole(4 * sums.elements());
    const OpCall on_values{call.op.op, std::span(inputs.data(), count), std::span(&sums, 1),
                           call.op.step};
    Product::run({on_values, call.step, at}, launch);
    ScaleSums scale;
    scale.sums = view_of(sums);
    scale.out = view_of(call.output(0));
    scale.a_scale = scale_of(call.input(0));
    scale.b_scale = scale_of(call.input(1));
    scale.elements = sums.elements();
    launch(scale, scale.tiles());
  }
};

}  // namespace spillway
