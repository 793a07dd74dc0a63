// What `calibrate` measured of a machine: seconds of ops at the sizes of a workload, rates of the
// copy lanes, and what the two cost each other. Values and look-ups only; nothing here measures.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/ops.h"

namespace spillway {

// What an op's time goes by, as far as its operands say (how routed rows spread is data).
struct OpSize {
  OpKind kind = OpKind::add;
  // Transposes, precision and dtypes: "nt bf16: bf16 bf16 -> f32".
  std::string variant;
  // Dimensions of every operand in order; attention has its sequence and heads behind them.
  std::vector<int64_t> shape;
  double work = 0;  // FLOPs of products and attention, bytes read + written of everything else
  friend bool operator==(const OpSize&, const OpSize&) = default;
};
OpSize size_of(const Program& program, const Op& op);

// Spread: interquartile range over the median.
struct OpRate {
  OpSize size;
  double seconds = 0, spread = 0;  // median
  int64_t samples = 0;
};

enum class CopyLanes : uint8_t { d2h, h2d, both };
const char* name_of(CopyLanes lanes);

// A lane as fast as it goes, at one size of copies; `both`: each of the two, moving together.
struct CopyRate {
  CopyLanes lanes = CopyLanes::d2h;
  int64_t bytes = 0;
  double bytes_per_second = 0, spread = 0;
};

// Compute beside copies. Slowdown: seconds with copies over seconds without.
struct Contention {
  CopyLanes lanes = CopyLanes::d2h;
  double paced = 0;                 // bytes/s asked of each lane; 0: as fast as it goes
  double moved = 0;                 // bytes/s that all lanes together moved meanwhile
  double products = 1, stream = 1;  // slowdown of matmuls and attention, of everything else
};

// Fixed times, seconds.
struct Overheads {
  double between_ops = 0;  // from the end of an op on the compute lane to the begin of the next
  double pool_start = 0;   // a thread pool's run() of nothing; inside the seconds of ops
  double copy_start = 0;   // from a start on the compute lane to the first byte, lane asleep
  double copy_end = 0;     // from the last byte to the compute lane that waited for it
};

// The matmul that tells how fast the machine is at the moment.
struct Reference {
  double seconds = 0, spread = 0;
};

// What a second of copying takes from compute, fitted to the rows of Contention.
struct CopyCost {
  double products = 0;  // part of the compute lane's speed lost per byte/s of copies: s/byte
  double stream = 0;    // the same, of ops that stream
};

struct Rates {
  std::string date;                                // YYYY-MM-DD
  std::map<std::string, std::string> environment;  // processor, compiler, ...
  int64_t threads = 1;                             // of the compute lane
  Reference reference;
  std::vector<OpRate> ops;
  std::vector<CopyRate> copies;
  std::vector<Contention> contention;
  CopyCost copy_cost;
  Overheads overheads;

  bool empty() const { return ops.empty(); }
};

// Seconds of an op of this size. Its own time where it was measured. Else, of the rows of its kind
// and variant, those that share most dimensions with it stand for it, by work: between two the
// logarithm of seconds is linear in that of work, outside of them time beyond `pool_start` grows in
// proportion to work. Empty where the kind was never measured.
std::optional<double> measured_seconds(const Rates& rates, const OpSize& size);

// Bytes/s of one lane alone, as fast as it goes, at this size of copies (in proportion between the
// sizes measured); empty where none was.
std::optional<double> unpaced_rate(const Rates& rates, CopyLanes lanes, double bytes);

// Least-squares lines through the origin over the paced rows: lost speed = cost x bytes/s moved.
CopyCost fit_copy_cost(const std::vector<Contention>& rows);

// The machine as it is when the reference takes `slowness` times as long: ops, overheads and
// copying as such take as much longer. A paced link does not.
Rates slowed(Rates rates, double slowness);

}  // namespace spillway
