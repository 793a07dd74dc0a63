// Sizes and places; codes are harness/ops/small_float.h.
#include "harness/narrow.h"

#include "harness/error.h"

namespace spillway {
namespace {

constexpr int64_t tile_rows = 128, tile_columns = 4;

int64_t up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

}  // namespace

NarrowLayout narrow_layout(DType dtype, const Shape& shape) {
  check(is_narrow(dtype) && shape.size() > 0, name_of(dtype), " of ", shape.size(),
        " dimensions has no narrow layout");
  NarrowLayout layout;
  layout.columns = shape.back();
  layout.rows = shape.size() > 1 ? shape[shape.size() - 2] : 1;
  for (size_t i = 0; i + 2 < shape.size(); ++i)
    layout.matrices *= shape[i];
  if (dtype == DType::nvfp4_rows) std::swap(layout.rows, layout.columns);
  const bool blocks = dtype == DType::nvfp4 || dtype == DType::nvfp4_rows;
  layout.pitch = blocks ? up(layout.columns, NarrowLayout::block) : layout.columns;
  layout.code_bytes = layout.matrices * layout.rows * layout.pitch / (blocks ? 2 : 1);
  layout.scales_at = up(layout.code_bytes, NarrowLayout::alignment);
  if (blocks) {
    layout.scale_rows = up(layout.rows, tile_rows);
    layout.scale_columns = up(layout.pitch / NarrowLayout::block, tile_columns);
  }
  layout.scale_at = layout.scales_at + layout.matrices * layout.scale_rows * layout.scale_columns;
  layout.bytes = layout.scale_at + NarrowLayout::alignment;
  return layout;
}

int64_t packed_bytes(DType dtype, const Shape& shape) { return narrow_layout(dtype, shape).bytes; }

int64_t block_scale_at(const NarrowLayout& layout, int64_t row, int64_t column) {
  const int64_t tile =
      row / tile_rows * (layout.scale_columns / tile_columns) + column / tile_columns;
  const int64_t in_tile = row % tile_rows;
  return tile * tile_rows * tile_columns + in_tile % 32 * 16 + in_tile / 32 * 4 +
         column % tile_columns;
}

}  // namespace spillway
