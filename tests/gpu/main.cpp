// Runs one part of the check of a GPU and prints its line. Called by scripts/gpu_check.sh.
//   spillway_gpu_check --list                           name and seconds of every part
//   spillway_gpu_check PART [--seconds N] [--small]
// Exit code 0 passed or skipped, 1 failed, 2 no GPU to run on, or wrong usage.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>

#include "harness/error.h"
#include "tests/gpu/part.h"

namespace spillway {
namespace {

using Clock = std::chrono::steady_clock;

struct Arguments {
  const Part* part = nullptr;
  bool list = false, small = false;
  double seconds = 0;
};

[[noreturn]] void refuse_usage(const std::string& found) {
  std::string known;
  for (const Part& part : parts())
    known += text(" ", part.name);
  throw InputError(text("spillway_gpu_check: found '", found,
                        "', expected --list or PART [--seconds N] [--small], PART one of", known));
}

Arguments read_arguments(int count, char** words) {
  Arguments arguments;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word == "--list") {
      arguments.list = true;
    } else if (word == "--small") {
      arguments.small = true;
    } else if (word == "--seconds" && i + 1 < count) {
      arguments.seconds = std::atof(words[++i]);
    } else {
      for (const Part& part : parts())
        if (word == part.name && arguments.part == nullptr) arguments.part = &part;
      if (arguments.part == nullptr || word != arguments.part->name) refuse_usage(word);
    }
  }
  if (!arguments.list && arguments.part == nullptr) refuse_usage("nothing");
  return arguments;
}

Finding run_part(const Arguments& arguments) {
  const double seconds = arguments.seconds > 0 ? arguments.seconds : arguments.part->seconds;
  // Some of the time is for what is under way when it is over.
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(0.8 * seconds));
  try {
    const std::shared_ptr<CudaMemory> memory = open_cuda();
    const Subject subject{memory, cuda_kernel, cuda_workspaces(*memory, MatmulBy::automatic)};
    return arguments.part->run(subject, {end, arguments.small});
  } catch (const std::exception& error) {
    Finding finding;
    finding.fail(error.what());
    return finding;
  }
}

int run(int count, char** words) {
  const Arguments arguments = read_arguments(count, words);
  if (arguments.list) {
    for (const Part& part : parts())
      std::printf("%s %d\n", part.name, part.seconds);
    return 0;
  }
  const CudaState state = cuda_state();
  if (!state.problem.empty()) throw InputError(text(state.problem, ": ", state.advice));
  const Clock::time_point begin = Clock::now();
  const Finding finding = run_part(arguments);
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  std::cout << line_of(arguments.part->name, finding, seconds).dump() << std::endl;
  return finding.verdict == Verdict::fail ? 1 : 0;
}

}  // namespace
}  // namespace spillway

int main(int count, char** words) {
  try {
    return spillway::run(count, words);
  } catch (const spillway::InputError& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
}
