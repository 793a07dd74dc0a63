// spillway sweep: runs or continues a sweep.
#include <cstdio>
#include <iostream>

#include <unistd.h>

#include "harness/error.h"
#include "reports/report.h"
#include "sweeps/cli.h"
#include "sweeps/current.h"
#include "sweeps/runner.h"

namespace spillway {

namespace {

// One line that overwrites itself on a terminal; nothing elsewhere.
void show_progress(int64_t done, int64_t total, const std::string& next, double seconds_left) {
  if (isatty(STDERR_FILENO) == 0) return;
  std::fprintf(stderr, "\r\033[K[%lld/%lld] %s", static_cast<long long>(done + 1),
               static_cast<long long>(total), next.c_str());
  if (seconds_left >= 0) std::fprintf(stderr, ", about %.0f s left", seconds_left);
  std::fflush(stderr);
}

}  // namespace

int execute(const SweepCommand& command) {
  const Sweep sweep = load_sweep(command.file);
  const std::string& name = sweep.headers.front().name;
  const std::string out = command.out.empty() ? "results/" + name : command.out;
  Store store(out, name);
  const int64_t failed = run_sweep(sweep, store, show_progress, static_cast<int>(command.jobs));
  if (isatty(STDERR_FILENO) != 0) std::fprintf(stderr, "\r\033[K");
  const std::vector<Row> rows = read_rows({out}), current = current_rows(sweep, rows);
  write_text("-", render_report(current, Format::md));
  std::cerr << "results: " << out << "/results.jsonl\n";
  if (const size_t stale = rows.size() - current.size(); stale > 0)
    std::cerr << stale << " of " << rows.size()
              << " rows there left out: of points that the sweep no longer has\n";
  if (failed > 0) std::cerr << failed << " of " << sweep.points.size() << " points failed\n";
  return failed > 0 ? 1 : 0;
}

}  // namespace spillway
