// Tables of colours.
#include "reports/palette.h"

#include <array>

#include "harness/error.h"
#include "reports/text.h"

namespace spillway {

namespace {

constexpr std::array roles = std::to_array<Swatch>({
    {"parameters", "f-parameters", "parameters"},
    {"optimizer", "f-optimizer", "optimizer state"},
    {"gradients", "f-gradients", "gradients"},
    {"kept", "f-kept", "kept activations"},
    {"in_flight", "f-flight", "in flight to or from the host"},
    {"gathered_weights", "f-gathered", "gathered weights"},
    {"logits", "f-logits", "logits"},
    {"activations", "f-activations", "other activations"},
    {"workspace", "f-workspace", "workspace"},
    {"holes", "f-holes", "holes of the plan"},
});

constexpr std::array times = std::to_array<Swatch>({
    {"matmul", "f-matmul", "matmul"},
    {"attention", "f-attention", "attention"},
    {"elementwise", "f-elementwise", "norm, rope, SwiGLU, add"},
    {"routing", "f-routing", "router, permutation, combine"},
    {"head", "f-head", "embedding, loss"},
    {"adamw", "f-adamw", "optimizer"},
    {"cast", "f-cast", "cast, slice, on-device copy"},
    {"other", "f-other", "other op"},
    {"wait", "f-wait", "waiting for another lane"},
    {"idle", "f-idle", "neither in an op nor waiting"},
    {"d2h", "f-d2h", "write to host (D2H)"},
    {"h2d", "f-h2d", "read from host (H2D)"},
    {"collective", "f-collective", "collective"},
});

struct OpCategory {
  std::string_view op, category;
};

constexpr std::array categories = std::to_array<OpCategory>({
    {"embed", "head"},
    {"embed_backward", "head"},
    {"cross_entropy", "head"},
    {"rms_norm", "elementwise"},
    {"rms_norm_backward", "elementwise"},
    {"rope", "elementwise"},
    {"rope_backward", "elementwise"},
    {"add", "elementwise"},
    {"swiglu", "elementwise"},
    {"swiglu_backward", "elementwise"},
    {"matmul", "matmul"},
    {"grouped_matmul", "matmul"},
    {"dispatch_einsum", "matmul"},
    {"combine_einsum", "matmul"},
    {"mask_gradient", "matmul"},
    {"attention", "attention"},
    {"attention_backward", "attention"},
    {"add_bias", "elementwise"},
    {"bias_backward", "elementwise"},
    {"mla_key_value", "elementwise"},
    {"mla_key_value_backward", "elementwise"},
    {"router", "routing"},
    {"router_backward", "routing"},
    {"route_sort", "routing"},
    {"permute", "routing"},
    {"permute_backward", "routing"},
    {"combine", "routing"},
    {"combine_backward", "routing"},
    {"capacity_mask", "routing"},
    {"capacity_mask_backward", "routing"},
    {"adamw", "adamw"},
    {"columns", "cast"},
    {"concat_columns", "cast"},
    {"slice_cast", "cast"},
    {"write_slice", "cast"},
    {"copy_d2d", "cast"},
    {"copy_d2h", "d2h"},
    {"copy_h2d", "h2d"},
    {"all_gather", "collective"},
    {"reduce_scatter", "collective"},
    {"all_to_all", "collective"},
});

}  // namespace

std::span<const Swatch> role_swatches() { return roles; }
std::span<const Swatch> time_swatches() { return times; }

const Swatch& time_swatch(std::string_view key) {
  for (const Swatch& swatch : times)
    if (swatch.key == key) return swatch;
  check(false, "no colour for '", key, "'");
  return times.front();
}

const Swatch& time_swatch_of_op(std::string_view op_kind) {
  for (const OpCategory& entry : categories)
    if (entry.op == op_kind) return time_swatch(entry.category);
  return time_swatch("other");
}

std::vector<const Swatch*> comparison_swatches() {
  static constexpr Swatch ours{"ours", "f-ours", "ours"};
  static constexpr Swatch published{"published", "f-published", "published"};
  return {&ours, &published};
}

std::string legend(const std::vector<const Swatch*>& swatches) {
  std::string out = "<ul class=\"legend\">";
  for (const Swatch* swatch : swatches)
    out +=
        "<li><svg viewBox=\"0 0 12 12\" aria-hidden=\"true\"><rect width=\"12\" height=\"12\" "
        "class=\"" +
        std::string(swatch->style_class) + "\"/></svg>" + html_escape(swatch->label) + "</li>";
  return out + "</ul>\n";
}

}  // namespace spillway
