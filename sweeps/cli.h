// The subcommands as plain values: what was asked for, and how each is carried out. Reading the
// command line into them is main.cpp's.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "sweeps/point.h"

namespace spillway {

struct ListCommand {
  std::string kind;  // models, policies, lhs-rules, machines, sweeps, published
  bool json = false;
};
struct DescribeCommand {
  Point point;
  std::string json;  // "-" or nothing
  bool program = false;
};
struct RunCommand {
  Point point;
  std::string json;  // file, "-" for stdout, or nothing
};
struct CapacityCommand {
  Point point;                        // what is simulated; its micro batch is what is asked
  std::vector<std::string> policies;  // none: every preset that decides differently for the model
  std::string json;                   // "-" or nothing
};
struct SweepCommand {
  std::string file, out;
  int64_t jobs = 0;  // threads of simulated points; 0: all usable cores
};
struct CalibrateCommand {
  ExecutorKind executor = ExecutorKind::cpu;
  std::vector<std::string> models;  // none: both proxies
  double seconds = 180;
  std::string out;  // file, or "-" for stdout
};
struct ValidateCommand {
  std::string machine;
  std::vector<std::string> models;  // none: both proxies
  double seconds = 900;
  std::string out = "results/validate";
  std::string json;  // "-" or nothing
};
struct ReportCommand {
  std::vector<std::string> paths;
  std::string format = "md", out = "-";
};

struct ExplainCommand {
  std::string a, b;   // SWEEP:LABEL, the label of a row of `sweep`, or a file of options
  std::string sweep;  // or nothing
  std::string format = "md", out = "-";
};
struct SensitivityCommand {
  std::vector<std::string> sweeps;
  std::string format = "md", out = "-";
};

struct DoctorCommand {
  std::string json;  // "-" or nothing
};

// Each returns the exit code and throws as the parts it calls do.
int execute(const ListCommand& command);
int execute(const DescribeCommand& command);
int execute(const RunCommand& command);
int execute(const CapacityCommand& command);
int execute(const SweepCommand& command);
int execute(const ReportCommand& command);
int execute(const CalibrateCommand& command);
int execute(const ValidateCommand& command);
int execute(const ExplainCommand& command);
int execute(const SensitivityCommand& command);
int execute(const DoctorCommand& command);  // always 0

// Writes to a file, or to stdout when `path` is "-". Throws InputError when the file can't be
// written.
void write_text(const std::string& path, const std::string& text);
// After the last of what was printed. Throws InputError when some of it could not be written.
void flush_stdout();
// Before long work whose result goes there. Throws InputError when the file cannot be written.
void require_writable(const std::string& path);
// JSON on one line, which `report` reads too. What a run could not have is null in it, never NaN.
void write_json(const std::string& path, const nlohmann::json& object);

// Says on stderr what begins, with the whole seconds since this was called before it.
std::function<void(const std::string&)> progress_on_stderr();

// 12345678 -> "11.77 MiB".
std::string bytes_text(double bytes);

}  // namespace spillway
