// From names to tensors: which fate each tensor gets, and what is wrong with a policy for a
// program.
#include "offload/policy_fates.h"

#include <algorithm>
#include <optional>
#include <set>

#include "harness/error.h"
#include "offload/policy_names.h"

namespace spillway {

namespace {

constexpr const char* layer_input = "decoder_layer_input";

std::string listed(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words)
    out += (out.empty() ? "" : ", ") + word;
  return out.empty() ? "none" : out;
}

std::string hint_for(const std::string& name) {
  if (name == "qkv_proj")
    return "; the projection is not fused here: name its parts query_proj, key_proj, value_proj";
  if (name == "kv_proj") return "; keys and values are apart here: name key_proj, value_proj";
  if (name == "mlpwi") return "; the projection is not fused here: name its parts mlpwi_0, mlpwi_1";
  return "";
}

void check_names(const std::vector<std::string>& present, const Policy& policy) {
  for (const auto& [name, fate] : policy.fates) {
    if (name == layer_input && fate == Fate::remat) {
      throw InputError(text("--policy: ", layer_input, "=remat, expected device or offload: ",
                            "recomputation starts from it"));
    }
    if (policy.preset || std::find(present.begin(), present.end(), name) != present.end()) continue;
    throw InputError(text("--policy: no tensor is named '", name, "', expected one of ",
                          listed(present), hint_for(name)));
  }
}

TensorFate fate_of(const Tensor& tensor, const Policy& policy) {
  const bool is_input = std::find(tensor.activations.begin(), tensor.activations.end(),
                                  layer_input) != tensor.activations.end();
  TensorFate chosen{is_input ? Fate::device : Fate::remat,
                    tensor.activations.empty() ? "" : tensor.activations.front()};
  std::optional<std::string> given;
  for (const std::string& name : tensor.activations) {
    const auto found = policy.fates.find(name);
    if (found == policy.fates.end()) continue;
    if (given && found->second != chosen.fate) {
      throw InputError(text("--policy: ", *given, '=', name_of(chosen.fate), " and ", name, '=',
                            name_of(found->second), " name the same tensor '", tensor.name,
                            "', expected one fate"));
    }
    if (!given) chosen = {found->second, name};
    if (!given) given = name;
  }
  return chosen;
}

}  // namespace

std::vector<std::string> names_in(const Program& program) {
  std::set<std::string> present;
  for (const Tensor& tensor : program.tensors) {
    present.insert(tensor.activations.begin(), tensor.activations.end());
  }
  std::vector<std::string> ordered;
  for (const std::string& name : activation_names()) {
    if (present.erase(name) > 0) ordered.push_back(name);
  }
  ordered.insert(ordered.end(), present.begin(), present.end());
  return ordered;
}

std::vector<TensorFate> fates_of(const Program& program, const Policy& policy) {
  check_names(names_in(program), policy);
  std::vector<TensorFate> fates;
  for (const Tensor& tensor : program.tensors)
    fates.push_back(fate_of(tensor, policy));
  return fates;
}

}  // namespace spillway
