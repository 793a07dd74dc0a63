// Figures of a machine, changed and checked as in a file.
#include "sweeps/changed_machine.h"

#include <nlohmann/json.hpp>

#include "harness/error.h"
#include "sweeps/machines.h"

namespace spillway {

namespace {

// A machine file of this one figure: refuses what a whole file would be refused for.
void parse_figure_alone(const std::string& key, double value) {
  const nlohmann::json file = {{"name", "changed"},
                               {"figures", {{key, {{"value", value}, {"source", "a change"}}}}}};
  parse_machine(file.dump(), "machine_figures");
}

}  // namespace

Machine change_figures(Machine machine, const std::map<std::string, double>& figures) {
  for (const auto& [key, value] : figures) {
    parse_figure_alone(key, value);
    const auto figure = machine.figures.find(key);
    if (figure == machine.figures.end())
      throw InputError(text("machine_figures: ", key, ": machine '", machine.name,
                            "' does not state it, expected one of its figures"));
    figure->second.value = value;
  }
  return machine;
}

bool is_legal_figure(const std::string& key, double value) {
  try {
    parse_figure_alone(key, value);
  } catch (const InputError&) {
    return false;
  }
  return true;
}

std::string machine_of(const Point& point) {
  return point.machine.empty() ? default_machine : point.machine;
}

}  // namespace spillway
