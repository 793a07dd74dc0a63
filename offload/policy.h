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
    int64_t bytes = 0;           // over all layers, one direction
    int64_t resident_bytes = 0;  // of the resident tail: offloaded by name, yet kept
  };
  std::vector<Row> rows;             // names the program has
  std::vector<std::string> skipped;  // preset names it does not have
  int64_t recomputed_ops = 0;        // per step
  double recomputed_flops = 0;       // matmul and attention, per step
  int64_t kept_bytes = 0, offloaded_bytes = 0;
  int64_t resident_tail = 0;  // layers asked for; what they keep is part of kept_bytes
  bool all_resident = false;  // the tail is the whole model
  std::string text() const;   // what is logged; says so when a policy moves 0 bytes
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
//
// Of the last `resident_tail` layers of the model what is offloaded by name stays on the device, in
// a residual of their own: their backward comes first, so nothing would hide its round trip. Their
// loop is cut off the stack's (resident_tail.h). As many layers as the model has: `device`.
PolicyResult apply_policy(Program built, const Policy& policy, int64_t resident_tail = 0);

}  // namespace spillway
