// Three fates for each named activation, as a rewrite of the Program.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/program.h"

namespace spillway {

enum class Fate : uint8_t { device, offload, remat };
const char* name_of(Fate fate);

// MaxText activation name -> fate. Names absent are recomputed, except decoder_layer_input, which
// stays on the device unless it is offloaded.
struct Policy {
  std::string text;  // as given: a preset or name=fate,...
  bool preset =
      false;  // a preset skips names the program does not have; a hand-written one may not
  std::map<std::string, Fate> fates;
};

struct PolicyPreset {
  const char* name;
  const char* device;  // comma-separated names
  const char* offload;
  const char* note;
};
// MaxText's presets (mechanisms.md 1.2), in its order, then those of published runs (1.6).
const std::vector<PolicyPreset>& policy_presets();

// "full", "minimal", ... or "query_proj=offload,out_proj=device". Throws InputError: unknown preset
// (lists those that exist), unknown fate, malformed pair, one name with two fates.
Policy parse_policy(const std::string& text);

struct PolicySummary {
  struct Row {
    std::string name;  // activation name
    Fate fate = Fate::remat;
    int64_t tensors = 0;
    int64_t bytes = 0;  // over all layers, one direction
  };
  std::vector<Row> rows;             // names the program has
  std::vector<std::string> skipped;  // preset names it does not have
  int64_t recomputed_ops = 0;        // per step
  double recomputed_flops = 0;       // matmul and attention, per step
  int64_t kept_bytes = 0, offloaded_bytes = 0;
  std::string text() const;  // what is logged; says so when a policy moves 0 bytes
};

struct PolicyResult {
  Program program;  // Stage::complete
  PolicySummary summary;
};

// Resolves every value the backward reads from its forward layer: kept values are written to and
// read from a stacked residual [L, ...]; offloaded values are copied to a stacked host tensor right
// after their producer and back at the start of the backward body; the rest is recomputed from what
// survives (closure of what the backward reads, nothing more). Throws InputError: a hand-written
// name that matches nothing (lists those that exist; names qkv_proj's parts), two names of one
// tensor with different fates, decoder_layer_input=remat.
PolicyResult apply_policy(const Program& built, const Policy& policy);

}  // namespace spillway
