// A machine as figures, each with its source, and what was measured of it. Read from JSON; SI
// units.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "harness/op_rates.h"

namespace spillway {

struct Figure {
  double value = 0;
  std::string source;
  bool assumed = false;   // no measurement or publication was found
  std::string date = {};  // when the source was published or read: 2026, 2026-11 or 2026-11-30
};

// Figures are looked up by name so that a machine is one JSON file and no code.
// `figure("hbm_bytes")` throws InputError naming file and key when it is absent.
struct Machine {
  std::string name;
  std::string file;  // for messages
  std::map<std::string, Figure, std::less<>> figures;
  Rates rates = {};  // empty where `calibrate` did not measure it

  double figure(std::string_view key) const;
};

// Parses {"name": ..., "figures": {"key": {"value": n, "source": "...", "assumed": true, "date":
// "2026-11"}}}, where `assumed` and `date` may be left out, and "rates" (rates_json.h) where it was
// calibrated. Throws InputError (file, key, found, expected) on anything else.
Machine parse_machine(const std::string& json_text, const std::string& file);

}  // namespace spillway
