// grouped_matmul: rows in groups, each times a matrix of its own. Group e is the rows offsets[e] ..
// offsets[e + 1] - 1.
//   transpose_b  {a[R,K], b[E,N,K], offsets[E+1] i32} -> {c[R,N]}: c_e = a_e b[e]^T
//   neither      {a[R,N], b[E,N,K], offsets} -> {c[R,K]}: c_e = a_e b[e], the gradient for a
//   transpose_a  {a[R,N], b[R,K], offsets} -> {c[E,N,K]}: c[e] = a_e^T b_e, the gradient for b; a
//                group without rows gives zeros
// Without offsets the E groups are of equal size, R / E rows.
// a and b: both f32 or both bf16; c: either. Rows from offsets[E] on (a planned buffer that is not
// full) give rows of zeros. Costs count R whatever the split, as the plan does.
// This file: legality, cost, and the groups as tiles for the kernels of matmul.
#include <cstring>
#include <vector>

#include "harness/error.h"
#include "harness/ops/all.h"
#include "harness/ops/floats.h"
#include "harness/ops/matmul.h"
#include "harness/ops/operands.h"
#include "harness/ops/quantised.h"

namespace spillway {
namespace {

// By the operand that is transposed, then by whether all groups are of one size.
constexpr SignaturePattern none_transposed[] = {
    "a[R,N]:q b[E,N,K]:q offsets[F]:i32 -> c[R,K]:float", "a[R,N]:q b[E,N,K]:q -> c[R,K]:float"};
constexpr SignaturePattern a_transposed[] = {"a[R,N]:q b[R,K]:q offsets[F]:i32 -> c[E,N,K]:float",
                                             "a[R,N]:q b[R,K]:q -> c[E,N,K]:float"};
constexpr SignaturePattern b_transposed[] = {"a[R,K]:q b[E,N,K]:q offsets[F]:i32 -> c[R,N]:float",
                                             "a[R,K]:q b[E,N,K]:q -> c[R,N]:float"};

std::string check_grouped(const Program& program, const Op& op) {
  const Attributes& a = op.attributes;
  if (a.transpose_a && a.transpose_b) return "has both operands transposed, expected at most one";
  const bool even = op.inputs.size() == 2;
  const auto& patterns = a.transpose_a   ? a_transposed
                         : a.transpose_b ? b_transposed
                                         : none_transposed;
  const Signature s = match(program, op, patterns[even]);
  if (!s.error.empty()) return s.error;
  if (even && s["R"] % s["E"] != 0)
    return text("has ", s["R"], " rows, expected a multiple of the ", s["E"], " groups");
  if (!even && s["F"] != s["E"] + 1)
    return text("offsets has ", s["F"], " elements, expected groups + 1 = ", s["E"] + 1);
  return check_operands(program, op);
}

// R, N, K and E of operands that passed the check.
struct Sizes {
  int64_t rows, n, k, groups;
};

Sizes sizes_of(const Shape& a, const Shape& three) { return {a[0], three[1], three[2], three[0]}; }

OpCost cost_grouped(const Program& program, const Op& op) {
  const bool gradient = op.attributes.transpose_a;
  const Sizes s = sizes_of(shape_of(program, op.inputs[0]),
                           shape_of(program, gradient ? op.outputs[0] : op.inputs[1]));
  return {.matmul_flops = 2.0 * static_cast<double>(s.rows) * static_cast<double>(s.n) *
                          static_cast<double>(s.k),
          .bytes = touched_bytes(program, op)};
}

// The product of one group: rows first .. first + count - 1.
Product group_product(const OpCall& call, const Sizes& s, int64_t group, int64_t first,
                      int64_t count) {
  const Buffer &a = call.inputs[0], &b = call.inputs[1], &c = call.outputs[0];
  const Attributes& attributes = call.op->attributes;
  const int64_t in = bytes_of(a.dtype), out = bytes_of(c.dtype), matrix = group * s.n * s.k;
  Product q{.in = a.dtype, .out = c.dtype};
  q.a = a.as<std::byte>() + first * a.shape[1] * in;
  if (attributes.transpose_a) {
    q.m = s.n;
    q.n = s.k;
    q.k = count;
    q.a_row = 1;
    q.a_step = s.n;
    q.b_step = s.k;
    q.b_column = 1;
    q.b = b.as<std::byte>() + first * s.k * in;
    q.c = c.as<std::byte>() + matrix * out;
    return q;
  }
  q.b = b.as<std::byte>() + matrix * in;
  q.c = c.as<std::byte>() + first * c.shape[1] * out;
  const bool forward = attributes.transpose_b;
  q.m = count;
  q.n = forward ? s.n : s.k;
  q.k = forward ? s.k : s.n;
  q.a_row = q.k;
  q.a_step = 1;
  q.b_step = forward ? 1 : s.k;
  q.b_column = forward ? s.k : 1;
  return q;
}

// First row of group e; of e = groups: the end of the last one.
int64_t first_row(const OpCall& call, const Sizes& s, int64_t e) {
  return call.inputs.size() == 2 ? e * (s.rows / s.groups) : call.inputs[2].as<int32_t>()[e];
}

std::vector<Product> group_products(const OpCall& call, const Sizes& s) {
  check(first_row(call, s, 0) == 0, "the first group begins at row ", first_row(call, s, 0),
        ", expected 0");
  std::vector<Product> products;
  for (int64_t e = 0; e < s.groups; ++e) {
    const int64_t first = first_row(call, s, e), end = first_row(call, s, e + 1);
    check(first <= end && end <= s.rows, "group ", e, " has rows ", first, " to ", end, " of ",
          s.rows);
    products.push_back(group_product(call, s, e, first, end - first));
  }
  return products;
}

// Tiles of all groups; how many a group is cut into goes by its share of the work.
std::vector<Product> tiles_of(const std::vector<Product>& groups, const Sizes& s) {
  constexpr int64_t wanted = 24;
  std::vector<Product> tiles;
  for (const Product& q : groups) {
    if (q.m == 0) continue;
    const double share = static_cast<double>(q.m) * static_cast<double>(q.n) *
                         static_cast<double>(q.k) / static_cast<double>(s.rows * s.n * s.k);
    const Tiling tiling_of_group =
        tiling(q.m, q.n, portable_most_m, portable_most_n, common_tile / 3,
               1 + static_cast<int64_t>(share * (wanted - 1)));
    for (int64_t i = 0; i < tiling_of_group.count(); ++i)
      tiles.push_back(tile_of(q, tiling_of_group, i));
  }
  return tiles;
}

// The library generates code for each shape, and the sizes of groups are data: they are cut into
// powers of two, and what is left goes through the portable kernel.
constexpr int64_t least_piece = 32;

// Calls piece(first, count) for powers of two from `most` down to least_piece, then rest(first,
// count).
template <class Piece, class Rest>
void in_pieces(int64_t size, int64_t most, const Piece& piece, const Rest& rest) {
  int64_t first = 0;
  for (int64_t count = most; count >= least_piece; count /= 2) {
    for (; size - first >= count; first += count)
      piece(first, count);
  }
  if (first < size) rest(first, size - first);
}

// The rows of a tile in pieces.
void pieces_of_rows(const Product& tile, int64_t c_row) {
  const auto part = [&](int64_t first, int64_t count) {
    Product q = tile;
    q.m = count;
    q.a = static_cast<const std::byte*>(tile.a) + first * tile.a_row * bytes_of(tile.in);
    q.c = static_cast<std::byte*>(tile.c) + first * c_row * bytes_of(tile.out);
    return q;
  };
  in_pieces(
      tile.m, 256,
      [&](int64_t first, int64_t count) { tile_onednn(part(first, count), c_row, false); },
      [&](int64_t first, int64_t count) { tile_portable(part(first, count), c_row, false); });
}

// The sum of a tile in pieces, in fp32.
void pieces_of_sum(const Product& tile, int64_t c_row) {
  Product sum = tile;
  const bool apart = tile.out != DType::f32;
  const int64_t sum_row = apart ? tile.n : c_row;
  if (apart) sum.c = row_scratch(4, tile.m * tile.n);
  sum.out = DType::f32;
  const auto part = [&](int64_t first, int64_t count) {
    Product q = sum;
    q.k = count;
    q.a = static_cast<const std::byte*>(tile.a) + first * tile.a_step * bytes_of(tile.in);
    q.b = static_cast<const std::byte*>(tile.b) + first * tile.b_step * bytes_of(tile.in);
    return q;
  };
  in_pieces(
      tile.k, 1024,
      [&](int64_t first, int64_t count) { tile_onednn(part(first, count), sum_row, first > 0); },
      [&](int64_t first, int64_t count) { tile_portable(part(first, count), sum_row, first > 0); });
  for (int64_t i = 0; apart && i < tile.m; ++i)
    store(tile.c, tile.out, i * c_row, tile.n, static_cast<float*>(sum.c) + i * tile.n);
}

void run_tile(const Product& tile, int64_t c_row, bool gradient, MatmulPath path) {
  const int64_t out = bytes_of(tile.out);
  for (int64_t i = 0; tile.k == 0 && i < tile.m; ++i)
    std::memset(static_cast<std::byte*>(tile.c) + i * c_row * out, 0,
                static_cast<size_t>(tile.n * out));
  if (tile.k == 0) return;
  if (path != MatmulPath::onednn || !onednn_fits(tile, c_row))
    return tile_portable(tile, c_row, false);
  gradient ? pieces_of_sum(tile, c_row) : pieces_of_rows(tile, c_row);
}

// Rows of c that belong to no group.
void zero_rest(const OpCall& call, const Sizes& s, ThreadPool& pool) {
  const int64_t used = first_row(call, s, s.groups);
  const Buffer& c = call.outputs[0];
  const int64_t row = c.shape[1] * bytes_of(c.dtype);
  for_blocks(pool, s.rows - used, rows_per_block(c.shape[1]), [&](int64_t first, int64_t count) {
    std::memset(c.as<std::byte>() + (used + first) * row, 0, static_cast<size_t>(count * row));
  });
}

void run_grouped(const OpCall& call, ThreadPool& pool) {
  const bool gradient = call.op->attributes.transpose_a;
  const Sizes s =
      sizes_of(call.inputs[0].shape, (gradient ? call.outputs[0] : call.inputs[1]).shape);
  const std::vector<Product> groups = group_products(call, s);
  if (!gradient) zero_rest(call, s, pool);
  const MatmulPath path = path_for_groups(call.inputs[0].dtype);
  if (path == MatmulPath::plain) {
    for (const Product& q : groups)
      product_plain(q, pool);
    return;
  }
  const std::vector<Product> tiles = tiles_of(groups, s);
  const int64_t c_row = groups.front().n;
  pool.run(static_cast<int64_t>(tiles.size()),
           [&](int64_t i, int) { run_tile(tiles[static_cast<size_t>(i)], c_row, gradient, path); });
}

}  // namespace

const OpInfo grouped_matmul_info = {
    OpKind::grouped_matmul,  "grouped_matmul",
    Lane::compute,           "rows of each group times a matrix of their own",
    check_grouped,           cost_grouped,
    run_product<run_grouped>};

}  // namespace spillway
