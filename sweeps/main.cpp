// The program `spillway`: reads the command line into one subcommand and turns errors into exit
// codes. 0 done; 1 a run or point failed; 2 wrong usage or bad input.
#include <algorithm>
#include <functional>
#include <iostream>
#include <memory>
#include <string_view>

#include <CLI/CLI.hpp>

#include "harness/error.h"
#include "offload/policy.h"
#include "sweeps/capacity.h"
#include "sweeps/cli.h"
#include "sweeps/parse.h"

namespace {

using namespace spillway;

using Action = std::function<int()>;  // the chosen subcommand; returns the exit code

// A subcommand that fills a Command value and, when chosen, becomes the action.
template <class Command>
std::pair<CLI::App*, std::shared_ptr<Command>> add_command(CLI::App& app, Action& action,
                                                           const char* name, const char* help,
                                                           const char* example) {
  CLI::App* added = app.add_subcommand(name, help);
  const auto command = std::make_shared<Command>();
  added->footer(std::string("Example:\n  ") + example);
  added->callback([command, &action] { action = [command] { return execute(*command); }; });
  return {added, command};
}

// Adds one option to a subcommand; it parses into `point`.
void add_point_option(CLI::App& command, Point& point, const Field& field) {
  // InputError passes through CLI11 untouched, so the message is the same as in a sweep file.
  const auto parse = [&field, &point](const CLI::results_t& values) {
    field.parse(point, values.front());
    return true;
  };
  CLI::Option* added = command.add_option(std::string("--") + field.name, parse, field.help);
  added->type_name(field.value)->expected(1);
  const std::string value = field.print(point);
  if (field.is_flag)
    added->expected(0, 1)->default_str("on");
  else if (!value.empty())
    added->default_str(value);
  if (std::string_view(field.name) == "model") added->required();
}

// The options `names`, or all of fields() when there are none.
void add_point_options(CLI::App& command, Point& point,
                       const std::vector<std::string>& names = {}) {
  for (const Field& field : fields())
    if (names.empty() || std::find(names.begin(), names.end(), field.name) != names.end())
      add_point_option(command, point, field);
}

// --json of a subcommand that writes it to stdout alone: by itself, or followed by "-".
void add_json_to_stdout(CLI::App& command, std::string& json) {
  const auto parse = [&json](const CLI::results_t& values) {
    if (values.front() != "-") bad_value("--json", values.front(), "nothing, or - for stdout");
    json = "-";
    return true;
  };
  command.add_option("--json", parse, "print one JSON object on stdout")
      ->type_name("-")
      ->expected(0, 1)
      ->default_str("-");
}

void add_list(CLI::App& app, Action& action) {
  const auto [added, command] = add_command<ListCommand>(
      app, action, "list", "What is compiled in: models, policies, machines, ...",
      "spillway list machines --json");
  added
      ->add_option("kind", command->kind,
                   "models, policies, lhs-rules, machines, sweeps or published")
      ->required()
      ->type_name("KIND");
  added->add_flag("--json", command->json, "print one JSON array, with every field");
}

void add_describe(CLI::App& app, Action& action) {
  const auto [added, command] = add_command<DescribeCommand>(
      app, action, "describe", "Parameters, bytes and FLOPs of a model; runs nothing",
      "spillway describe --model llama3.1-405b --micro-batch 2 --seq 8192");
  add_point_options(*added, command->point,
                    {"model", "micro-batch", "seq", "layers", "devices", "policy"});
  add_json_to_stdout(*added, command->json);
  added->add_flag("--program", command->program, "print the training step as a program");
}

void add_run(CLI::App& app, Action& action) {
  const auto [added, command] = add_command<RunCommand>(
      app, action, "run", "Run one point: for real (cpu) or predicted (sim)",
      "spillway run --model llama3.1-405b --executor sim --devices 128 --micro-batch 2 --seq 8192 "
      "\\\n"
      "    --precision nvfp4 --policy qkv_proj_offloaded --pipeline-collectives on");
  add_point_options(*added, command->point);
  const auto parse_json = [command = command](const CLI::results_t& values) {
    if (values.front().empty()) bad_value("--json", "", "a file, or - for stdout");
    command->json = values.front();
    return true;
  };
  added->add_option("--json", parse_json, "write the result as one JSON object; - for stdout")
      ->type_name("FILE|-")
      ->expected(1);
}

// Every option but those that say how a point runs rather than what it needs.
void add_capacity(CLI::App& app, Action& action) {
  const auto [added, command] = add_command<CapacityCommand>(
      app, action, "capacity",
      "The largest micro batch that fits, for each policy, by its memory plan",
      "spillway capacity --model llama3.1-405b --devices 128 --seq 8192 --precision nvfp4 "
      "\\\n"
      "    --policy full --policy qkv_proj_offloaded --pipeline on");
  for (const Field& field : fields())
    if (shapes_plan(field)) add_point_option(*added, command->point, field);
  const auto parse = [command = command](const CLI::results_t& values) {
    for (const std::string& value : values)
      parse_policy(value);
    command->policies = values;
    return true;
  };
  added
      ->add_option("--policy", parse,
                   "may be given several times [every preset that decides differently here]")
      ->type_name("PRESET|name=fate,...")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  add_json_to_stdout(*added, command->json);
}

void add_sweep(CLI::App& app, Action& action) {
  const auto [added, command] = add_command<SweepCommand>(
      app, action, "sweep", "Run the points of a sweep file; continues what DIR holds",
      "spillway sweep llama3.1-405b-published.json --out results/published");
  added->add_option("file", command->file, "a sweep file, or the name of a shipped sweep")
      ->type_name("FILE.json")
      ->required();
  const auto parse = [command = command](const CLI::results_t& values) {
    // Nothing would read as "not given" and fall back to results/NAME.
    if (values.front().empty())
      throw InputError("sweep: --out: found an empty text, expected a directory");
    command->out = values.front();
    return true;
  };
  added->add_option("--out", parse, "directory of the results [results/NAME]")
      ->type_name("DIR")
      ->expected(1);
  const auto parse_jobs = [command = command](const CLI::results_t& values) {
    constexpr int64_t most_jobs = 1024;
    command->jobs = parse_count("--jobs", values.front(), most_jobs);
    return true;
  };
  added->add_option("--jobs", parse_jobs, "simulated points at a time [all usable cores]")
      ->type_name("N")
      ->expected(1);
}

void add_report(CLI::App& app, Action& action) {
  const auto [added, command] = add_command<ReportCommand>(
      app, action, "report", "Tables and pictures over results, published beside them",
      "spillway report results/quickstart --format html --out report.html");
  added
      ->add_option("results", command->paths,
                   "directories of sweeps, or files of results, a JSON object a line")
      ->required()
      ->type_name("DIR|results.jsonl");
  added->add_option("--format", command->format, "of the report")
      ->type_name("md|html|csv|json")
      ->capture_default_str();
  added->add_option("--out", command->out, "where to write it; - for stdout")
      ->type_name("FILE")
      ->capture_default_str();
}

// Options of a subcommand that are spelled as a point's: the same text is refused the same way.
void add_executor(CLI::App& command, ExecutorKind& executor) {
  const auto parse = [&executor](const CLI::results_t& values) {
    Point point;
    set_field(point, "executor", values.front(), "command line");
    executor = point.executor;
    return true;
  };
  command.add_option("--executor", parse, "what is measured")
      ->type_name("cpu|cuda")
      ->expected(1)
      ->default_str("cpu");
}

void add_seconds(CLI::App& command, double& seconds) {
  const auto parse = [&seconds](const CLI::results_t& values) {
    seconds = parse_positive_real("--seconds", values.front());
    return true;
  };
  command.add_option("--seconds", parse, "time to aim at")
      ->type_name("N")
      ->expected(1)
      ->default_str(text(seconds));
}

void add_models(CLI::App& command, std::vector<std::string>& models) {
  const auto parse = [&models](const CLI::results_t& values) {
    models = values;
    return true;
  };
  command.add_option("--model", parse, "whose steps are run; may be given several times")
      ->type_name("NAME|config.json")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->default_str("both proxies");
}

void add_calibrate(CLI::App& app, Action& action) {
  const auto [added, command] = add_command<CalibrateCommand>(
      app, action, "calibrate", "Measure this machine into a machine file for simulations",
      "spillway calibrate --out host.json && spillway run --executor sim --machine host.json \\\n"
      "    --model llama3.1-405b-proxy");
  add_executor(*added, command->executor);
  add_models(*added, command->models);
  add_seconds(*added, command->seconds);
  added->add_option("--out", command->out, "the machine file; - for stdout")
      ->type_name("FILE")
      ->required();
}

void add_validate(CLI::App& app, Action& action) {
  const auto [added, command] = add_command<ValidateCommand>(
      app, action, "validate", "Run points for real and compare their simulation on a machine file",
      "spillway validate --machine host.json --out results/validate");
  added->add_option("--machine", command->machine, "a file of `spillway calibrate`")
      ->type_name("FILE")
      ->required();
  add_models(*added, command->models);
  add_seconds(*added, command->seconds);
  added->add_option("--out", command->out, "directory of what was run; continues what it holds")
      ->type_name("DIR")
      ->capture_default_str();
  add_json_to_stdout(*added, command->json);
}

void add_explain(CLI::App& app, Action& action) {
  const auto [added, command] = add_command<ExplainCommand>(
      app, action, "explain", "Why one simulated variant of a point is slower than another",
      "spillway explain 'QKV offload + LHS' 'QKV offload + LHS + pipelined' \\\n"
      "    --sweep llama3.1-405b-published");
  const char* const variant = "SWEEP:LABEL|LABEL|options.json";
  added->add_option("a", command->a, "the variant to begin from")->required()->type_name(variant);
  added->add_option("b", command->b, "the variant to end at")->required()->type_name(variant);
  added->add_option("--sweep", command->sweep, "the sweep whose rows LABELs are")
      ->type_name("NAME|FILE.json");
  added->add_option("--format", command->format, "of the explanation")
      ->type_name("md|html|json")
      ->capture_default_str();
  added->add_option("--out", command->out, "where to write it; - for stdout")
      ->type_name("FILE")
      ->capture_default_str();
}

void add_sensitivity(CLI::App& app, Action& action) {
  const auto [added, command] = add_command<SensitivityCommand>(
      app, action, "sensitivity",
      "What each hypothesis of a sweep and each assumed constant decides",
      "spillway sensitivity llama3.1-405b-published deepseek-v3-published");
  added->add_option("sweeps", command->sweeps, "sweep files or names; several are set side by side")
      ->required()
      ->type_name("SWEEP");
  added->add_option("--format", command->format, "of the tables")
      ->type_name("md|json|csv")
      ->capture_default_str();
  added->add_option("--out", command->out, "where to write them; - for stdout")
      ->type_name("FILE")
      ->capture_default_str();
}

void add_doctor(CLI::App& app, Action& action) {
  const auto [added, command] = add_command<DoctorCommand>(
      app, action, "doctor", "What this machine has, and what each executor still misses here",
      "spillway doctor --json");
  add_json_to_stdout(*added, command->json);
}

std::string names_of(const CLI::App& command) {
  std::string names;
  for (const CLI::App* subcommand : command.get_subcommands([](const CLI::App*) { return true; }))
    names += " " + subcommand->get_name();
  if (!names.empty()) return "one of the subcommands" + names;
  for (const CLI::Option* option : command.get_options())
    if (option->nonpositional()) names += " " + option->get_name();
  return "one of the options" + names;
}

// "twice ('8', '16')"
std::string times_given(const std::vector<std::string>& values) {
  std::string said = values.size() == 2 ? "twice" : text(values.size(), " times");
  for (size_t i = 0; i < values.size(); ++i)
    said += text(i == 0 ? " ('" : ", '", values[i], "'");
  return said + ")";
}

// CLI11 says what is wrong; a user also wants to read what was expected there.
std::string usage_error(CLI::App& app, const CLI::ParseError& error) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  const CLI::App& command = chosen.empty() ? app : *chosen.front();
  const std::string name = chosen.empty() ? "command line" : command.get_name();
  const std::vector<std::string> unknown = app.remaining(true);
  if (!unknown.empty())
    return name + ": found '" + unknown.front() + "', expected " + names_of(command);
  const std::string said = error.what();
  for (const CLI::Option* option : command.get_options()) {
    if (!said.starts_with(option->get_name())) continue;
    if (option->count() > 1)
      return name + ": " + option->get_name() + ": given " + times_given(option->results()) +
             ", expected once";
    return name + ": " + option->get_name() + ": found no value, expected " +
           option->get_type_name() + ": " + option->get_description();
  }
  return name + ": " + said;
}

int run(int argc, char** argv) {
  CLI::App app(
      "Spillway: should an activation stay in HBM, go to host memory, or be computed again,"
      " and what does each cost on this machine?",
      "spillway");
  app.set_version_flag("--version", SPILLWAY_VERSION);
  app.require_subcommand(0, 1);  // with none, an unknown word is named before a missing one
  Action action;
  add_list(app, action);
  add_describe(app, action);
  add_run(app, action);
  add_capacity(app, action);
  add_sweep(app, action);
  add_report(app, action);
  add_calibrate(app, action);
  add_validate(app, action);
  add_explain(app, action);
  add_sensitivity(app, action);
  add_doctor(app, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    throw InputError(usage_error(app, error));
  }
  if (!action)
    throw InputError(
        "found no subcommand, expected list, describe, run, capacity, sweep, report, calibrate, "
        "validate, explain, sensitivity or doctor");
  return action();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const int code = run(argc, argv);
    spillway::flush_stdout();
    return code;
  } catch (const spillway::InputError& error) {
    std::cerr << "spillway: " << error.what() << "\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "spillway: " << error.what() << "\n";
    return 1;
  }
}
