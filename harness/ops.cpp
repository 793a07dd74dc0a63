// The op table, in the order of OpKind.
#include "harness/ops.h"

#include <array>

#include "harness/error.h"
#include "harness/ops/all.h"

namespace spillway {
namespace {

constexpr std::array<const OpInfo*, op_kind_count> table = {
    &embed_info,
    &embed_backward_info,
    &rms_norm_info,
    &rms_norm_backward_info,
    &matmul_info,
    &rope_info,
    &rope_backward_info,
    &attention_info,
    &attention_backward_info,
    &add_info,
    &swiglu_info,
    &swiglu_backward_info,
    &cross_entropy_info,
    &adamw_info,
    &slice_cast_info,
    &all_gather_info,
    &reduce_scatter_info,
    &write_slice_info,
    &copy_d2h_info,
    &copy_h2d_info,
    &copy_d2d_info,
    &add_bias_info,
    &bias_backward_info,
    &columns_info,
    &concat_columns_info,
    &mla_key_value_info,
    &mla_key_value_backward_info,
    &router_info,
    &router_backward_info,
    &route_sort_info,
    &permute_info,
    &permute_backward_info,
    &grouped_matmul_info,
    &combine_info,
    &combine_backward_info,
    &capacity_mask_info,
    &capacity_mask_backward_info,
    &dispatch_einsum_info,
    &combine_einsum_info,
    &mask_gradient_info,
    &all_to_all_info,
    &quantise_info,
};

}  // namespace

const OpInfo& info(OpKind kind) {
  const OpInfo& row = *table.at(static_cast<size_t>(kind));
  check(row.kind == kind, "the op table is out of order at ", row.name);
  return row;
}

const char* name_of(Lane lane) {
  constexpr std::array<const char*, lane_count> names = {"compute", "d2h", "h2d", "collective"};
  return names.at(index_of(lane));
}

}  // namespace spillway
