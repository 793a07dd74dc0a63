// spillway report: one report over the rows of finished sweeps and runs.

#include "harness/error.h"
#include "reports/report.h"
#include "sweeps/cli.h"

namespace spillway {

int execute(const ReportCommand& command) {
  const Format format = parse_format(command.format);  // before any file is read
  const std::vector<Row> rows = read_rows(command.paths);
  if (rows.empty())
    throw InputError(command.paths.front() + ": found no result, expected at least one");
  write_text(command.out, render_report(rows, format));
  return 0;
}

}  // namespace spillway
