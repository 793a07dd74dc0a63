// embed: rows of a table by token. embed_backward: sums of rows by token, the rows of one token in
// their order, which a stable sort of the positions gives; no atomics. A token outside the
// vocabulary makes a row of NaN, or is left out of the sums.
#pragma once

#include "harness/cuda/ops/sort.cuh"

namespace spillway {

struct EmbedRows : NoScratch {
  static constexpr int threads = 256;
  RowPacks packs;
  int64_t vocabulary;
  const int32_t* tokens;
  View table, x;

  explicit EmbedRows(const KernelCall& call)
      : packs(call.output(0).shape[0], call.output(0).shape[1]),
        vocabulary(call.input(1).shape[0]),
        tokens(call.input(0).as<int32_t>()),
        table(view_of(call.input(1), {packs.width})),
        x(view_of(call.output(0), {packs.width})) {}

  template <class Group>
  SPILLWAY_DEVICE void operator()(const Group& group, int64_t tile) const {
    const RowPacks::Unit unit = packs.unit(tile * group.size() + group.rank());
    if (!unit.inside) return;
    const int64_t token = tokens[unit.row];
    Pack row;
    for (float& value : row)
      value = NAN;
    if (token >= 0 && token < vocabulary)
      load_pack(table, token * packs.width + unit.column, unit.count, row);
    store_pack(x, unit.first, unit.count, row);
  }
};

struct EmbedKernel {
  static constexpr OpKind kind = OpKind::embed;
  template <class Launch>
  static void run(const KernelCall& call, const Launch& launch) {
    const EmbedRows body(call);
    launch(body, body.packs.tiles(EmbedRows::threads));
  }
};

// starts[v] = the first place in the sorted order whose token is v or more, for v in [0,
// vocabulary].
struct TokenStarts : NoScratch {
  static constexpr int threads = 256;
  const int32_t *tokens, *order;
  int64_t count, vocabulary;
  int32_t* starts;

  int64_t tiles() const { return parts_of(vocabulary + 1, threads); }

  template <class Group>
  SPILLWAY_DEVICE void operator()(const Group& group, int64_t tile) const {
    const int64_t v = tile * group.size() + group.rank();
    if (v > vocabulary) return;
    int64_t low = 0, high = count;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      const int64_t found = tokens[order[middle]];
      if (found >= 0 && found < v) {  // those outside the vocabulary are at the end
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    starts[v] = static_cast<int32_t>(low);
  }
};

struct EmbedGradient : NoScratch {
  static constexpr int threads = 256;
  RowPacks packs;  // of the table
  const int32_t *order, *starts;
  View dx, before, table;
  bool accumulate, in_place;

  EmbedGradient(const KernelCall& call, const int32_t* sorted, const int32_t* first_of)
      : packs(call.output(0).shape[0], call.output(0).shape[1]),
        order(sorted),
        starts(first_of),
        dx(view_of(call.input(1), {packs.width})),
        before(call.has_input(2) ? view_of(call.input(2), {packs.width}) : View{}),
        table(view_of(call.output(0), {packs.width})),
        accumulate(call.has_input(2)),
        in_place(accumulate && call.input(2).data == call.output(0).data) {}

  template <class Group>
  SPILLWAY_DEVICE void operator()(const Group& group, int64_t tile) const {
    const RowPacks::Unit unit = packs.unit(tile * group.size() + group.rank());
    if (!unit.inside) return;
    const int64_t begin = starts[unit.row], end = starts[unit.row + 1];
    if (in_place && begin == end) return;
    Pack sum = {}, row;
    if (accumulate) load_pack(before, unit.first, unit.count, sum);
    for (int64_t i = begin; i < end; ++i) {
      load_pack(dx, order[i] * packs.width + unit.column, unit.count, row);
      SPILLWAY_UNROLL
      for (int d = 0; d < pack_width; ++d)
        sum[d] += row[d];
    }
    store_pack(table, unit.first, unit.count, sum);
  }
};

struct EmbedBackwardKernel {
  static constexpr OpKind kind = OpKind::embed_backward;

  static int64_t workspace_bytes(const Program& program, const Op& op) {
    const int64_t vocabulary = program.at(op.outputs[0].tensor).shape[0];
    const SortCut cut(program.at(op.inputs[0].tensor).slice_elements(), vocabulary);
    return cut.workspace_bytes() + (vocabulary + 1) * 4;
  }

  template <class Launch>
  static void run(const KernelCall& call, const Launch& launch) {
    const Buffer& tokens = call.input(0);
    const int64_t vocabulary = call.output(0).shape[0];
    const SortCut cut(tokens.elements(), vocabulary);
    const int32_t* order = sort_by_key(launch, cut, tokens.as<int32_t>(), call.workspace);
    auto* starts = reinterpret_cast<int32_t*>(call.workspace + cut.workspace_bytes());
    const TokenStarts find{{}, tokens.as<int32_t>(), order, cut.count, vocabulary, starts};
    launch(find, find.tiles());
    const EmbedGradient body(call, order, starts);
    launch(body, body.packs.tiles(EmbedGradient::threads));
  }
};

}  // namespace spillway
