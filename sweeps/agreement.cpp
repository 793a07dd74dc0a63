// Whether executed points that must compute the same values did.
#include "sweeps/agreement.h"

#include <algorithm>

#include "harness/error.h"

namespace spillway {

namespace {

using nlohmann::json;

// What decides the values of a run; how they are kept, moved or recomputed must not.
bool same_values_expected(const Point& a, const Point& b) {
  return a.executor == b.executor && a.model == b.model && a.layers == b.layers &&
         a.micro_batch == b.micro_batch && a.seq == b.seq && a.seed == b.seed &&
         a.precision == b.precision && a.matmul == b.matmul && a.state_bytes == b.state_bytes &&
         a.moe.routing == b.moe.routing && a.moe.capacity_path == b.moe.capacity_path &&
         a.moe.capacity_factor == b.moe.capacity_factor;
}

// Empty when two visits agree as far as both went.
std::string difference(const json& a, const json& b) {
  const json& mine = a["result"]["loss"];
  const json& theirs = b["result"]["loss"];
  const size_t steps = std::min(mine.size(), theirs.size());
  for (size_t step = 0; step < steps; ++step)
    if (mine[step] != theirs[step])
      return text("loss of step ", step, " ", mine[step].dump(), " against ", theirs[step].dump());
  const json& digest = a["result"]["gradient_digest"];
  const json& other = b["result"]["gradient_digest"];
  if (mine.size() == theirs.size() && digest != other)
    return text("gradient digest after ", steps, " steps ", digest.dump(), " against ",
                other.dump());
  return "";
}

}  // namespace

Agreement agreement_of(const SweepPoint& point, const Sweep& sweep, const Store& store) {
  Agreement agreement;
  for (const SweepPoint& other : sweep.points) {
    if (!same_values_expected(point.point, other.point)) continue;
    const bool itself = key_of(other) == key_of(point);
    for (const json& mine : store.visits(key_of(point)))
      for (const json& theirs : store.visits(key_of(other))) {
        agreement.compared |= !itself;
        const std::string differs = difference(mine, theirs);
        if (!differs.empty() && agreement.mismatch.empty())
          agreement.mismatch = text("values differ from '", other.label, "': ", differs);
      }
  }
  return agreement;
}

}  // namespace spillway
