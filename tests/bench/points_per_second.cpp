// How many points a second are planned, proved and simulated at full size: every point of a run
// differs from every other in micro batch, sequence or link, and nothing but parsed files is kept.
//   points_per_second [--seconds N] [--threads N]
// Prints points a second of wall and of processor time, the mean time by stage, what more threads
// bring (in turns within one run) and the peak of resident memory. Not a Google Benchmark: those
// repeat one piece of work.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <sys/resource.h>
#include <time.h>

#include "harness/error.h"
#include "sweeps/link.h"
#include "sweeps/parse.h"
#include "sweeps/run.h"
#include "sweeps/sweep_file.h"

namespace {

using namespace spillway;

double wall() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double processor() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// Plans, proves and simulates. Throws where the point does not run to its end.
void evaluate(const Point& point, StageSeconds* stages) {
  Settings settings;
  settings.stages = stages;
  if (!point.link.empty())
    settings.link_bytes_per_second = parse_link_option(point.link).bytes_per_second;
  const Prepared prepared = prepare(point, settings);
  if (prepared.status != Status::ok) throw RunError("a point does not fit: " + prepared.reason);
  const Outcome outcome = run_sim(prepared, stages);
  if (!(outcome.traces.front().seconds > 0)) throw RunError("a step of no time");
}

// The published rows that fit, and variants of them without end.
class Variants {
 public:
  explicit Variants(const char* sweep) {
    for (const SweepPoint& row : load_sweep(sweep).points)
      if (prepare(row.point, {}).status == Status::ok) rows_.push_back(row.point);
  }
  size_t rows() const { return rows_.size(); }

  // No two numbers give the same point: they are read as digits row, link, sequence, micro batch,
  // and what is left raises the link's rate.
  Point operator[](int64_t number) const {
    constexpr int64_t links = 4, sequences = 200, step = 16;  // tokens
    const auto digit = [&number](int64_t base) {
      const int64_t value = number % base;
      number /= base;
      return value;
    };
    Point point = rows_[static_cast<size_t>(digit(static_cast<int64_t>(rows_.size())))];
    const int64_t link = digit(links);
    *point.seq -= step * digit(sequences);
    *point.micro_batch -= digit(*point.micro_batch);
    if (link + number > 0) point.link = std::to_string(100 + 30 * link + number);  // GB/s
    return point;
  }

 private:
  std::vector<Point> rows_;
};

struct Slice {
  int64_t points = 0;
  double wall = 0, processor = 0;  // seconds; processor time of all threads together
};

Slice& operator+=(Slice& sum, const Slice& more) {
  sum.points += more.points;
  sum.wall += more.wall;
  sum.processor += more.processor;
  return sum;
}

// The variants from `next` on, taken in turn by `threads` threads until the time is over.
Slice run(const Variants& variants, std::atomic<int64_t>& next, int threads, double seconds,
          StageSeconds* stages) {
  const double begin = wall(), end = begin + seconds;
  std::vector<Slice> slices(static_cast<size_t>(threads));
  const auto work = [&](Slice& slice) {
    const double before = processor();
    for (; wall() < end; ++slice.points)
      evaluate(variants[next++], stages);
    slice.processor = processor() - before;
  };
  std::vector<std::thread> others;
  for (size_t i = 1; i < slices.size(); ++i)
    others.emplace_back(work, std::ref(slices[i]));
  work(slices[0]);
  for (std::thread& other : others)
    other.join();
  Slice sum;
  for (const Slice& slice : slices)
    sum += slice;
  sum.wall = wall() - begin;
  return sum;
}

void print_stages(StageSeconds& stages, const Slice& slice) {
  const double micro = 1e6 / static_cast<double>(slice.points);
  double named = 0;
  for (int i = 0; i < point_stage_count; ++i) {
    const auto stage = static_cast<PointStage>(i);
    named += stages[stage];
    std::printf("  %-20s %9.1f us %5.1f %%\n", name_of(stage), stages[stage] * micro,
                100 * stages[stage] / slice.processor);
  }
  std::printf("  %-20s %9.1f us %5.1f %%\n", "rest", (slice.processor - named) * micro,
              100 * (slice.processor - named) / slice.processor);
}

double rate(const Slice& slice) { return static_cast<double>(slice.points) / slice.wall; }

void measure(const char* name, const char* sweep, double seconds, int threads) {
  const Variants variants(sweep);
  std::atomic<int64_t> next = 0;
  for (size_t row = 0; row < variants.rows(); ++row)
    evaluate(variants[next++], nullptr);
  StageSeconds stages;
  const Slice alone = run(variants, next, 1, seconds, &stages);
  std::printf("%s: %zu published rows, %lld points\n", name, variants.rows(),
              static_cast<long long>(alone.points));
  std::printf("%s one thread: %.1f points/s (%.1f per processor second)\n", name, rate(alone),
              static_cast<double>(alone.points) / alone.processor);
  print_stages(stages, alone);
  constexpr int turns = 7;
  std::vector<double> ratios;
  Slice one, all;
  for (int turn = 0; turn < turns; ++turn) {
    const Slice first = run(variants, next, 1, seconds / turns, nullptr);
    const Slice second = run(variants, next, threads, seconds / turns, nullptr);
    ratios.push_back(rate(second) / rate(first));
    one += first, all += second;
  }
  std::sort(ratios.begin(), ratios.end());
  std::printf(
      "%s %d threads: %.1f points/s, one thread in turn: %.1f, ratio: %.3f (%.3f to %.3f)\n", name,
      threads, rate(all), rate(one), ratios[turns / 2], ratios.front(), ratios.back());
}

int run(int argc, char** argv) {
  double seconds = 10;
  int64_t threads = 2;
  for (int i = 1; i < argc; i += 2) {
    const std::string option = argv[i], value = i + 1 < argc ? argv[i + 1] : "";
    if (option == "--seconds")
      seconds = parse_positive_real("--seconds", value);
    else if (option == "--threads")
      threads = parse_positive("--threads", value);
    else
      throw InputError(text("found '", option, "', expected --seconds or --threads"));
  }
  measure("llama3.1-405b", "llama3.1-405b-published", seconds, static_cast<int>(threads));
  measure("deepseek-v3", "deepseek-v3-published", seconds, static_cast<int>(threads));
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("peak resident memory: %.1f MB\n", static_cast<double>(usage.ru_maxrss) * 1024 / 1e6);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "points_per_second: %s\n", error.what());
    return 1;
  }
}
