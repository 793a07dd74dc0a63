// A stable sort of positions by small integer keys: counting, a scan, scattering; digit by digit
// where keys are many. No atomics: a thread owns a digit and walks through its group's positions in
// order. route_sort is one such pass; embed_backward sorts tokens.
#pragma once

#include "harness/cuda/ops/call.cuh"
#include "harness/error.h"

namespace spillway {

// Keys are 0 .. keys - 1; anything else counts as `keys` and goes to the end.
struct SortCut {
  static constexpr int64_t chunk = 1024;     // positions a group walks through
  static constexpr int64_t one_pass = 4096;  // keys, with that of the rest
  static constexpr int64_t digit = 512;      // where one pass is not enough

  int64_t count, keys, bins, chunks;
  int passes = 1;

  SortCut(int64_t positions, int64_t key_count)
      : count(positions),
        keys(key_count),
        bins(key_count < one_pass ? key_count + 1 : digit),
        chunks(parts_of(positions, chunk)) {
    for (int64_t reach = bins; reach <= keys; reach *= bins)
      ++passes;
  }
  int64_t counts() const { return bins * chunks + 1; }
  // Counts, then positions twice.
  int64_t workspace_bytes() const { return (counts() + 2 * count) * 4; }
};

// One pass by digit key / divisor mod bins, over positions as `from` has them (null: as they come).
struct SortPass {
  static constexpr int threads = 512;
  int64_t count, keys, bins, chunks, divisor;
  const int32_t *key, *from;
  int32_t* counts;  // [bins, chunks] and the total

  SortPass(const SortCut& cut, int64_t digit_divisor, const int32_t* key_of, const int32_t* order,
           int32_t* counted)
      : count(cut.count),
        keys(cut.keys),
        bins(cut.bins),
        chunks(cut.chunks),
        divisor(digit_divisor),
        key(key_of),
        from(order),
        counts(counted) {}
  static int64_t scratch_bytes() { return 2 * SortCut::chunk * 4; }

  // Digits and positions of a chunk into scratch; returns how many there are.
  template <class Group>
  SPILLWAY_DEVICE int load(const Group& group, int64_t chunk, int32_t* digits,
                           int32_t* positions) const {
    const int64_t first = chunk * SortCut::chunk, left = count - first,
                  here = left < SortCut::chunk ? left : SortCut::chunk;
    for (int64_t i = group.rank(); i < here; i += group.size()) {
      const int32_t position = from == nullptr ? static_cast<int32_t>(first + i) : from[first + i];
      const int64_t found = key[position], valid = found >= 0 && found < keys ? found : keys;
      digits[i] = static_cast<int32_t>(valid / divisor % bins);
      positions[i] = position;
    }
    group.sync();
    return static_cast<int>(here);
  }
};

struct SortCount : SortPass {
  explicit SortCount(const SortPass& pass) : SortPass(pass) {}

  template <class Group>
  SPILLWAY_DEVICE void operator()(const Group& group, int64_t chunk) const {
    auto* digits = reinterpret_cast<int32_t*>(group.scratch());
    const int here = load(group, chunk, digits, digits + SortCut::chunk);
    for (int64_t bin = group.rank(); bin < bins; bin += group.size()) {
      int32_t found = 0;
      for (int i = 0; i < here; ++i)
        found += digits[i] == bin ? 1 : 0;
      counts[bin * chunks + chunk] = found;
    }
  }
};

// values[0 .. n) become the sums of those before them, values[n] the sum of all; one group.
struct ExclusiveScan {
  static constexpr int threads = 1024;
  int32_t* values;
  int64_t n;

  static int64_t scratch_bytes() { return 2 * threads * 4; }

  template <class Group>
  SPILLWAY_DEVICE void operator()(const Group& group, int64_t) const {
    auto* sums = reinterpret_cast<int32_t*>(group.scratch());
    const int rank = group.rank(), size = group.size();
    const int64_t part = (n + size - 1) / size, begin = rank * part < n ? rank * part : n,
                  end = begin + part < n ? begin + part : n;
    int32_t own = 0;
    for (int64_t i = begin; i < end; ++i)
      own += values[i];
    sums[rank] = own;
    group.sync();
    int32_t* from = sums;
    int32_t* to = sums + threads;
    for (int distance = 1; distance < size; distance *= 2) {
      to[rank] = from[rank] + (rank >= distance ? from[rank - distance] : 0);
      group.sync();
      int32_t* const other = from;
      from = to;
      to = other;
    }
    int32_t before = from[rank] - own;
    if (rank == size - 1) values[n] = from[rank];
    for (int64_t i = begin; i < end; ++i) {
      const int32_t value = values[i];
      values[i] = before;
      before += value;
    }
  }
};

// Where a pass puts what it finds; those that are null are not wanted. offsets[b] is where bin b
// begins.
struct SortOutputs {
  int32_t *order = nullptr, *position = nullptr, *offsets = nullptr;
};

struct SortScatter : SortPass {
  SortOutputs out;

  SortScatter(const SortPass& pass, const SortOutputs& to) : SortPass(pass), out(to) {}

  template <class Group>
  SPILLWAY_DEVICE void operator()(const Group& group, int64_t chunk) const {
    auto* digits = reinterpret_cast<int32_t*>(group.scratch());
    int32_t* positions = digits + SortCut::chunk;
    const int here = load(group, chunk, digits, positions);
    for (int64_t bin = group.rank(); bin < bins; bin += group.size()) {
      int32_t next = counts[bin * chunks + chunk];
      if (chunk == 0 && out.offsets != nullptr) out.offsets[bin] = next;
      for (int i = 0; i < here; ++i) {
        if (digits[i] != bin) continue;
        out.order[next] = positions[i];
        if (out.position != nullptr) out.position[positions[i]] = next;
        ++next;
      }
    }
  }
};

template <class Launch>
void sort_once(const Launch& launch, const SortCut& cut, const SortPass& pass,
               const SortOutputs& to) {
  launch(SortCount(pass), cut.chunks);
  launch(ExclusiveScan{pass.counts, cut.bins * cut.chunks}, 1);
  launch(SortScatter(pass, to), cut.chunks);
}

// The positions 0 .. count - 1 by key[position], equal ones in rising order: in `workspace`, of
// cut.workspace_bytes().
template <class Launch>
const int32_t* sort_by_key(const Launch& launch, const SortCut& cut, const int32_t* key,
                           std::byte* workspace) {
  auto* counts = reinterpret_cast<int32_t*>(workspace);
  int32_t* buffers[2] = {counts + cut.counts(), counts + cut.counts() + cut.count};
  const int32_t* order = nullptr;
  int64_t divisor = 1;
  for (int pass = 0; pass < cut.passes; ++pass, divisor *= cut.bins) {
    int32_t* to = buffers[pass % 2];
    sort_once(launch, cut, SortPass(cut, divisor, key, order, counts), {to});
    order = to;
  }
  return order;
}

}  // namespace spillway
