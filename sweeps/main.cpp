// The program `spillway`: chooses a subcommand and turns errors into exit codes.
// 0 done; 1 a run or point failed; 2 wrong usage or bad input.
#include <CLI/CLI.hpp>
#include <iostream>

#include "harness/error.h"
#include "sweeps/cli.h"

namespace {

int run(int argc, char** argv) {
  CLI::App app("Spillway: should an activation stay in HBM, go to host memory, or be computed again,"
               " and what does each cost on this machine?",
               "spillway");
  app.set_version_flag("--version", SPILLWAY_VERSION);
  app.require_subcommand(0, 1);  // with none, an unknown word is named before a missing one
  spillway::Action action;
  spillway::add_list(app, action);
  spillway::add_describe(app, action);
  spillway::add_run(app, action);
  spillway::add_sweep(app, action);
  spillway::add_report(app, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (!action)
    throw spillway::InputError("found no subcommand, expected list, describe, run, sweep or report");
  return action();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const spillway::InputError& error) {
    std::cerr << "spillway: " << error.what() << "\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "spillway: " << error.what() << "\n";
    return 1;
  }
}
