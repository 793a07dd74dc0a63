// Names, presets and parsing of policies. What a policy does to a Program is policy_apply.cpp.
#include "offload/policy.h"

#include <algorithm>

#include "harness/error.h"
#include "offload/policy_names.h"

namespace spillway {

namespace {

// The projections whose outputs MaxText's `minimal` saves.
constexpr const char* projections =
    "query_proj,key_proj,value_proj,kv_proj,qkv_proj,out_proj,mlpwi_0,mlpwi_1,mlpwi,mlpwo";
constexpr const char* projections_and_context =
    "query_proj,key_proj,value_proj,kv_proj,qkv_proj,out_proj,mlpwi_0,mlpwi_1,mlpwi,mlpwo,context";
constexpr const char* qkv = "query_proj,key_proj,value_proj,kv_proj,qkv_proj";
// What NVIDIA's DeepSeek-V3 program moves to the host (mechanisms.md 1.6), and by both names: w1 of
// MaxText's dropless path answers to moe_mlpwi_1 only.
constexpr const char* latents_and_mlp_inputs =
    "query_wa_proj,kv_wa_proj,mlpwi_0,mlpwi_1,moe_mlpwi_0,moe_mlpwi_1";

std::string join(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words)
    out += (out.empty() ? "" : ", ") + word;
  return out;
}

std::string trimmed(const std::string& word) {
  const size_t begin = word.find_first_not_of(" \t");
  if (begin == std::string::npos) return "";
  return word.substr(begin, word.find_last_not_of(" \t") - begin + 1);
}

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> words;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    words.push_back(trimmed(list.substr(begin, end - begin)));
    begin = end + 1;
  }
  return words;
}

Fate parse_fate(const std::string& word, const std::string& pair) {
  for (Fate fate : {Fate::device, Fate::offload, Fate::remat}) {
    if (word == name_of(fate)) return fate;
  }
  throw InputError(text("--policy: '", pair, "' gives the fate '", word,
                        "', expected device, offload or remat"));
}

Policy from_preset(const std::string& name) {
  std::vector<std::string> known;
  for (const PolicyPreset& preset : policy_presets()) {
    known.push_back(preset.name);
    if (name != preset.name) continue;
    Policy policy{.text = name, .preset = true, .fates = {}};
    for (const std::string& word : split(preset.device))
      policy.fates[word] = Fate::device;
    for (const std::string& word : split(preset.offload))
      policy.fates[word] = Fate::offload;
    policy.fates.erase("");
    return policy;
  }
  throw InputError(text("--policy: unknown preset '", name, "', expected name=fate,... or one of ",
                        join(known)));
}

void add_pair(Policy& policy, const std::string& pair) {
  const size_t equals = pair.find('=');
  const std::string name = trimmed(pair.substr(0, equals));
  if (equals == std::string::npos || name.empty()) {
    throw InputError(
        text("--policy: found '", pair, "' in '", policy.text, "', expected name=fate"));
  }
  const Fate fate = parse_fate(trimmed(pair.substr(equals + 1)), pair);
  const auto [entry, added] = policy.fates.emplace(name, fate);
  if (!added && entry->second != fate) {
    throw InputError(text("--policy: '", name, "' is given two fates, ", name_of(entry->second),
                          " and ", name_of(fate), ", expected one"));
  }
}

}  // namespace

const char* name_of(Fate fate) {
  switch (fate) {
    case Fate::device:
      return "device";
    case Fate::offload:
      return "offload";
    case Fate::remat:
      return "remat";
  }
  return "?";
}

// MaxText's get_save_and_offload_names and minimal_policy. Its `..._with_quantization` variants
// also save the outputs of quantised casts, which are not tensors of these programs.
const std::vector<PolicyPreset>& policy_presets() {
  static const std::vector<PolicyPreset> presets = {
      {"full", "", "", "only the layer input survives"},
      {"minimal", projections, "", "all projections"},
      {"minimal_with_context", projections_and_context, "", "minimal and the attention kernel"},
      {"minimal_flash", projections_and_context, "", "alias of minimal_with_context"},
      {"save_dot_with_context_except_mlp",
       "query_proj,key_proj,value_proj,kv_proj,qkv_proj,context,out_proj", "", "no MLP projection"},
      {"save_dot_except_mlpwi", "query_proj,key_proj,value_proj,kv_proj,qkv_proj,out_proj,mlpwo",
       "", "no MLP input"},
      {"save_dot_except_mlp", "query_proj,key_proj,value_proj,kv_proj,qkv_proj,out_proj", "",
       "no MLP projection"},
      {"save_qkv_proj", qkv, "", ""},
      {"save_out_proj", "out_proj", "", ""},
      {"qkv_proj_offloaded", "", "query_proj,key_proj,value_proj,kv_proj",
       "not qkv_proj: a fused projection offloads its split parts"},
      {"minimal_offloaded", "", projections, "the names of minimal"},
      {"deepseek_v3_offload", "decoder_layer_input,out_proj", latents_and_mlp_inputs,
       "NVIDIA's DeepSeek-V3 program, not MaxText's name"},
      {"deepseek_v3_device",
       "decoder_layer_input,out_proj,query_wa_proj,kv_wa_proj,mlpwi_0,mlpwi_1,moe_mlpwi_0,"
       "moe_mlpwi_1",
       "", "the names of deepseek_v3_offload"},
  };
  return presets;
}

const std::vector<std::string>& activation_names() {
  static const std::vector<std::string> names = {
      "decoder_layer_input",
      "query_proj",
      "key_proj",
      "value_proj",
      "kv_proj",
      "qkv_proj",
      "context",
      "attention_out",
      "out_proj",
      "mlpwi_0",
      "mlpwi_1",
      "mlpwi",
      "mlpwo",
      "query_wa_proj",
      "kv_wa_proj",
      "mla_q",
      "mla_kv",
      "moe_mlpwi_0",
      "moe_mlpwi_1",
      "moe_mlpwo",
  };
  return names;
}

Policy parse_policy(const std::string& given) {
  const std::string whole = trimmed(given);
  if (whole.empty())
    throw InputError("--policy: found nothing, expected a preset or name=fate,...");
  if (whole.find_first_of("=,") == std::string::npos) return from_preset(whole);
  Policy policy{.text = whole, .preset = false, .fates = {}};
  for (const std::string& pair : split(whole))
    add_pair(policy, pair);
  return policy;
}

}  // namespace spillway
