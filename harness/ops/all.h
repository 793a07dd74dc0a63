// The row of every op, each defined in its own file; ops.cpp puts them in the order of OpKind.
#pragma once

#include "harness/ops.h"

namespace spillway {

extern const OpInfo embed_info, embed_backward_info;                        // embed.cpp
extern const OpInfo rms_norm_info, rms_norm_backward_info;                  // rms_norm.cpp
extern const OpInfo matmul_info;                                            // matmul.cpp
extern const OpInfo rope_info, rope_backward_info;                          // rope.cpp
extern const OpInfo attention_info, attention_backward_info;                // attention.cpp
extern const OpInfo add_info;                                               // add.cpp
extern const OpInfo swiglu_info, swiglu_backward_info;                      // swiglu.cpp
extern const OpInfo cross_entropy_info;                                     // cross_entropy.cpp
extern const OpInfo adamw_info;                                             // adamw.cpp
extern const OpInfo slice_cast_info, write_slice_info;                      // slice_cast.cpp
extern const OpInfo all_gather_info, reduce_scatter_info, all_to_all_info;  // collectives.cpp
extern const OpInfo copy_d2h_info, copy_h2d_info, copy_d2d_info;            // copy.cpp
extern const OpInfo add_bias_info, bias_backward_info;                      // bias.cpp
extern const OpInfo columns_info, concat_columns_info;                      // columns.cpp
extern const OpInfo mla_key_value_info, mla_key_value_backward_info;        // mla_key_value.cpp
extern const OpInfo router_info;                                            // router.cpp
extern const OpInfo router_backward_info;                                   // router_backward.cpp
extern const OpInfo route_sort_info, permute_info, permute_backward_info;   // permute.cpp
extern const OpInfo grouped_matmul_info;                                    // grouped_matmul.cpp
extern const OpInfo combine_info, combine_backward_info;                    // combine.cpp
extern const OpInfo capacity_mask_info, capacity_mask_backward_info;        // capacity_mask.cpp
// capacity_einsum.cpp
extern const OpInfo dispatch_einsum_info, combine_einsum_info, mask_gradient_info;
extern const OpInfo quantise_info;  // quantise.cpp

}  // namespace spillway
