// Experts, their router, and which layers have them, for each family's keys.
#include <algorithm>
#include <set>

#include "harness/error.h"
#include "workloads/checked.h"
#include "workloads/config_parts.h"

namespace spillway {
namespace {

// One number under several names: transformers writes the name of its attribute_map as well.
int64_t read_expert_count(const JsonKeys& keys, const char* usual) {
  std::optional<int64_t> experts;
  for (const char* key : {"n_routed_experts", "num_experts", "num_local_experts"}) {
    const auto found = keys.optional_size(key);
    if (found && experts && *found != *experts)
      keys.refuse(key, text("the same as the other count of experts, ", *experts));
    if (found) experts = found;
  }
  return experts ? *experts : keys.size(usual);
}

void check_choice(const JsonKeys& keys, const MoeConfig& moe) {
  if (moe.top_k > moe.experts)
    keys.refuse("num_experts_per_tok", text("at most the number of experts, ", moe.experts));
  if (moe.experts % moe.groups != 0)
    keys.refuse("n_group", text("a divisor of the number of experts, ", moe.experts));
  if (moe.top_groups > moe.groups) keys.refuse("topk_group", text("at most n_group, ", moe.groups));
  const int64_t group = moe.experts / moe.groups;
  if (moe.top_k > moe.top_groups * group)
    keys.refuse("topk_group", text("enough groups of ", group, " for ", moe.top_k, " experts"));
  if (moe.groups > 1 && moe.group_score == MoeConfig::GroupScore::top2_sum && group < 2)
    keys.refuse("n_group", "groups of at least 2 experts: their two best scores are summed");
}

// ---- DeepSeek -----------------------------------------------------------------------------------

void read_groups(const JsonKeys& keys, MoeConfig& moe) {
  moe.groups = keys.size("n_group");
  moe.top_groups = keys.size("topk_group");
}

// Softmax scores, groups by their best one, weights times the scale as they are.
void read_v2_router(const JsonKeys& keys, MoeConfig& moe) {
  const std::string method = keys.optional_word("topk_method").value_or("greedy");
  if (method != "greedy" && method != "group_limited_greedy")
    keys.refuse("topk_method", "\"greedy\" or \"group_limited_greedy\"");
  if (keys.optional_word("scoring_func").value_or("softmax") != "softmax")
    keys.refuse("scoring_func", "\"softmax\"");
  // DeepSeek's own code drops the scale then, transformers ignores the key.
  if (keys.flag("norm_topk_prob", false))
    keys.refuse("norm_topk_prob", "false: implementations of DeepSeek-V2 disagree on the other");
  moe.normalise = false;
  if (method == "group_limited_greedy") read_groups(keys, moe);
}

// Sigmoid scores; a bias per expert and the sum of a group's two best only choose.
void read_v3_router(const JsonKeys& keys, MoeConfig& moe) {
  if (keys.optional_word("topk_method").value_or("noaux_tc") != "noaux_tc")
    keys.refuse("topk_method", "\"noaux_tc\"");
  if (keys.optional_word("scoring_func").value_or("sigmoid") != "sigmoid")
    keys.refuse("scoring_func", "\"sigmoid\"");
  moe.score = MoeConfig::Score::sigmoid;
  moe.group_score = MoeConfig::GroupScore::top2_sum;
  moe.correction_bias = true;
  moe.normalise = keys.flag("norm_topk_prob", true);
  read_groups(keys, moe);
}

MoeConfig read_deepseek(const JsonKeys& keys, Experts experts) {
  MoeConfig moe;
  moe.experts = read_expert_count(keys, "n_routed_experts");
  moe.top_k = keys.size("num_experts_per_tok");
  moe.expert_ffn = keys.size("moe_intermediate_size");
  if (!keys.is_written("n_shared_experts"))
    keys.refuse("n_shared_experts", "an integer from 0, or null for none");
  moe.shared_experts = keys.optional_count("n_shared_experts").value_or(0);
  moe.shared_ffn = checked_product("n_shared_experts * moe_intermediate_size",
                                   {moe.shared_experts, moe.expert_ffn});
  moe.scale = keys.positive("routed_scaling_factor");
  if (experts == Experts::deepseek_v2)
    read_v2_router(keys, moe);
  else
    read_v3_router(keys, moe);
  return moe;
}

// ---- which layers -------------------------------------------------------------------------------

// `first` is the first layer with experts; the others follow it without a gap, or are interleaved.
void set_layout(ModelConfig& config, int64_t moe_layers, int64_t first) {
  config.moe_layers = moe_layers;
  config.dense_layers = config.layers - moe_layers;
  config.interleaved_layers = moe_layers != 0 && first + moe_layers != config.layers;
}

// A 0 or 1 for each layer.
void read_layer_list(const JsonKeys& keys, int64_t first_allowed, ModelConfig& config) {
  const std::vector<int64_t> list = *keys.optional_counts("moe_layer_freq");
  if (static_cast<int64_t>(list.size()) != config.layers)
    throw InputError(text(keys.path("moe_layer_freq"), ": found a list of ", list.size(),
                          ", expected one entry for each of ", config.layers, " layers"));
  if (std::any_of(list.begin(), list.end(), [](int64_t entry) { return entry > 1; }))
    keys.refuse("moe_layer_freq", "a list of 0 (dense) and 1 (experts)");
  const int64_t first = std::find(list.begin(), list.end(), 1) - list.begin();
  if (first < std::min(first_allowed, config.layers))
    keys.refuse("moe_layer_freq",
                text("0 for the first ", first_allowed, " layers, as first_k_dense_replace says"));
  set_layout(config, std::count(list.begin(), list.end(), 1), first);
}

// Layer i has experts where i >= first_k_dense_replace and moe_layer_freq divides i.
void read_deepseek_layers(const JsonKeys& keys, ModelConfig& config) {
  const int64_t allowed = keys.count("first_k_dense_replace");
  if (allowed > config.layers)
    keys.refuse("first_k_dense_replace", text("at most num_hidden_layers, ", config.layers));
  if (keys.is_list("moe_layer_freq")) return read_layer_list(keys, allowed, config);
  const int64_t step = keys.optional_size("moe_layer_freq").value_or(1);
  const auto multiples_below = [&](int64_t end) { return (end + step - 1) / step; };
  const int64_t skipped = multiples_below(allowed);
  set_layout(config, multiples_below(config.layers) - skipped, skipped * step);
}

// Layer i has experts where decoder_sparse_step divides i + 1 and mlp_only_layers does not hold i.
void read_qwen_layers(const JsonKeys& keys, ModelConfig& config) {
  const int64_t step = keys.optional_size("decoder_sparse_step").value_or(1);
  std::set<int64_t> dense;
  for (const int64_t layer :
       keys.optional_counts("mlp_only_layers").value_or(std::vector<int64_t>{})) {
    if (layer >= config.layers)
      keys.refuse("mlp_only_layers", text("layers from 0 to ", config.layers - 1));
    if ((layer + 1) % step == 0) dense.insert(layer);
  }
  int64_t first = step - 1;
  while (dense.contains(first))
    first += step;
  set_layout(config, config.layers / step - static_cast<int64_t>(dense.size()), first);
}

}  // namespace

void read_moe(const JsonKeys& keys, const Family& family, ModelConfig& config) {
  MoeConfig moe;
  switch (family.experts) {
    case Experts::none:
      return;
    case Experts::mixtral:  // sized by intermediate_size, in every layer
      moe.experts = read_expert_count(keys, "num_local_experts");
      moe.top_k = keys.size("num_experts_per_tok");
      moe.expert_ffn = config.intermediate_size;
      set_layout(config, config.layers, 0);
      break;
    case Experts::qwen:
      moe.experts = read_expert_count(keys, "num_experts");
      moe.top_k = keys.size("num_experts_per_tok");
      moe.expert_ffn = keys.size("moe_intermediate_size");
      moe.normalise = keys.flag("norm_topk_prob", false);
      read_qwen_layers(keys, config);
      break;
    case Experts::deepseek_v2:
    case Experts::deepseek_v3:
      moe = read_deepseek(keys, family.experts);
      read_deepseek_layers(keys, config);
      break;
  }
  check_choice(keys, moe);
  config.moe = moe;
}

}  // namespace spillway
