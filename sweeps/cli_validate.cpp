// spillway validate: how well a calibrated machine predicts steps executed here.
#include "harness/error.h"
#include "sweeps/cli.h"
#include "sweeps/validate.h"
#include "sweeps/validate_report.h"
#include "workloads/config.h"

namespace spillway {

int execute(const ValidateCommand& command) {
  if (command.machine.empty())
    throw InputError("--machine: found nothing, expected a file that `spillway calibrate` wrote");
  ValidateOptions options;
  options.machine = command.machine;
  if (!command.models.empty()) options.models = command.models;
  for (const std::string& model : options.models)
    load_model(model);
  options.seconds = command.seconds;
  options.progress = progress_on_stderr();
  Store store(command.out, "validate");
  const nlohmann::json result = validation_json(validate(options, store));
  if (command.json.empty())
    write_text("-", validation_text(result));
  else
    write_json("-", result);
  return result["passed"].get<bool>() ? 0 : 1;
}

}  // namespace spillway
