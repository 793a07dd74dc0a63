// spillway report: one report over the rows of finished sweeps and runs.
#include <memory>

#include "harness/error.h"
#include "reports/report.h"
#include "sweeps/cli.h"

namespace spillway {

namespace {

struct ReportCommand {
  std::vector<std::string> paths;
  std::string format = "md", out = "-";
};

int execute(const ReportCommand& command) {
  const Format format = parse_format(command.format);  // before any file is read
  const std::vector<Row> rows = read_rows(command.paths);
  if (rows.empty())
    throw InputError(command.paths.front() + ": found no result, expected at least one");
  write_text(command.out, render_report(rows, format));
  return 0;
}

}  // namespace

void add_report(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("report", "Tables and pictures over results, published beside them");
  const auto state = std::make_shared<ReportCommand>();
  command
      ->add_option("results", state->paths,
                   "directories of sweeps, or files of results, a JSON object a line")
      ->required()
      ->type_name("DIR|results.jsonl");
  command->add_option("--format", state->format, "of the report")
      ->type_name("md|html|csv|json")
      ->capture_default_str();
  command->add_option("--out", state->out, "where to write it; - for stdout")
      ->type_name("FILE")
      ->capture_default_str();
  command->footer("Example:\n  spillway report results/quickstart --format html --out report.html");
  command->callback([state, &action] { action = [state] { return execute(*state); }; });
}

}  // namespace spillway
