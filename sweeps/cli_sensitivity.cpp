// spillway sensitivity: what hangs on each hypothesis and each assumed constant of sweeps.

#include "harness/error.h"
#include "sweeps/cli.h"
#include "sweeps/sensitivity.h"

namespace spillway {

int execute(const SensitivityCommand& command) {
  const Format format = parse_format(command.format);
  require_writable(command.out);
  std::vector<Sweep> sweeps;
  for (const std::string& name : command.sweeps)
    sweeps.push_back(load_sweep(name));
  write_text(command.out, render_sensitivity(sensitivity_of(sweeps), format));
  return 0;
}

}  // namespace spillway
