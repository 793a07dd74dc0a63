// Looking up what was measured.
#include "harness/op_rates.h"

#include <algorithm>
#include <cmath>

#include "harness/error.h"
#include "harness/ops/operands.h"

namespace spillway {
namespace {

bool is_attention(OpKind kind) {
  return kind == OpKind::attention || kind == OpKind::attention_backward;
}

std::string dtypes_of(const Program& program, const std::vector<Operand>& operands) {
  std::string names;
  for (const Operand& operand : operands)
    names += std::string(" ") + name_of(program.at(operand.tensor).dtype);
  return names;
}

// Transposes where an op knows them, precision where it has one.
std::string variant_of(const Program& program, const Op& op, const OpCost& cost) {
  std::string variant;
  if (cost.matmul_flops > 0)
    variant = text(op.attributes.transpose_a ? "t" : "n", op.attributes.transpose_b ? "t" : "n",
                   " ", name_of(op.attributes.precision));
  else if (is_attention(op.kind))
    variant = name_of(op.attributes.precision);
  variant += (variant.empty() ? "" : ":") + dtypes_of(program, op.inputs);
  variant += " ->" + dtypes_of(program, op.outputs);
  return variant.substr(variant.find_first_not_of(' '));
}

size_t common_dimensions(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  if (a.size() != b.size()) return 0;
  size_t equal = 0;
  for (size_t i = 0; i < a.size(); ++i)
    equal += a[i] == b[i];
  return equal;
}

// Rows of the same kind and variant that share most dimensions, ascending by work.
std::vector<const OpRate*> relatives_of(const Rates& rates, const OpSize& size) {
  std::vector<const OpRate*> relatives;
  size_t most = 0;
  for (const OpRate& rate : rates.ops) {
    if (rate.size.kind != size.kind || rate.size.variant != size.variant) continue;
    const size_t shared = common_dimensions(rate.size.shape, size.shape);
    if (shared > most) relatives.clear();
    most = std::max(most, shared);
    if (shared == most) relatives.push_back(&rate);
  }
  std::stable_sort(relatives.begin(), relatives.end(),
                   [](const OpRate* a, const OpRate* b) { return a->size.work < b->size.work; });
  return relatives;
}

// Work and seconds of the nearest relatives on one side; of several with the same work the
// geometric mean.
struct Anchor {
  double work = 0, seconds = 0;
};

std::vector<Anchor> anchors_of(const std::vector<const OpRate*>& relatives) {
  std::vector<Anchor> anchors;
  for (size_t i = 0; i < relatives.size();) {
    const double work = relatives[i]->size.work;
    double logarithms = 0;
    size_t n = 0;
    for (; i < relatives.size() && relatives[i]->size.work == work; ++i, ++n)
      logarithms += std::log(relatives[i]->seconds);
    anchors.push_back({work, std::exp(logarithms / static_cast<double>(n))});
  }
  return anchors;
}

double beyond(const Anchor& anchor, double work, double fixed) {
  const double base = std::min(fixed, anchor.seconds);
  return base + (anchor.seconds - base) * work / anchor.work;
}

double between(const Anchor& low, const Anchor& high, double work) {
  const double part = std::log(work / low.work) / std::log(high.work / low.work);
  return low.seconds * std::pow(high.seconds / low.seconds, part);
}

}  // namespace

const char* name_of(CopyLanes lanes) {
  switch (lanes) {
    case CopyLanes::d2h:
      return "d2h";
    case CopyLanes::h2d:
      return "h2d";
    case CopyLanes::both:
      return "both";
  }
  return "?";
}

OpSize size_of(const Program& program, const Op& op) {
  const OpCost cost = info(op.kind).cost(program, op);
  OpSize size;
  size.kind = op.kind;
  size.variant = variant_of(program, op, cost);
  for (const auto* operands : {&op.inputs, &op.outputs})
    for (const Operand& operand : *operands)
      for (const int64_t dimension : shape_of(program, operand))
        size.shape.push_back(dimension);
  const Attributes& a = op.attributes;
  if (is_attention(op.kind))
    size.shape.insert(size.shape.end(), {a.seq, a.heads, a.kv_heads, a.head_dim, a.value_dim});
  const double flops = cost.matmul_flops + cost.attention_flops + cost.attention_extra_flops;
  size.work = flops > 0 ? flops : cost.bytes;
  return size;
}

std::optional<double> measured_seconds(const Rates& rates, const OpSize& size) {
  const std::vector<const OpRate*> relatives = relatives_of(rates, size);
  if (relatives.empty()) return std::nullopt;
  for (const OpRate* rate : relatives)
    if (rate->size.shape == size.shape) return rate->seconds;
  const std::vector<Anchor> anchors = anchors_of(relatives);
  const auto above = std::find_if(anchors.begin(), anchors.end(),
                                  [&](const Anchor& a) { return a.work >= size.work; });
  const double fixed = rates.overheads.pool_start;
  if (above == anchors.end()) return beyond(anchors.back(), size.work, fixed);
  if (above->work == size.work) return above->seconds;
  if (above == anchors.begin()) return beyond(*above, size.work, fixed);
  return between(*(above - 1), *above, size.work);
}

std::optional<double> unpaced_rate(const Rates& rates, CopyLanes lanes, double bytes) {
  std::vector<Anchor> sizes;  // here: bytes and bytes/s
  for (const CopyRate& copy : rates.copies)
    if (copy.lanes == lanes)
      sizes.push_back({static_cast<double>(copy.bytes), copy.bytes_per_second});
  if (sizes.empty()) return std::nullopt;
  std::sort(sizes.begin(), sizes.end(),
            [](const Anchor& a, const Anchor& b) { return a.work < b.work; });
  if (bytes <= sizes.front().work) return sizes.front().seconds;
  for (size_t i = 1; i < sizes.size(); ++i)
    if (bytes <= sizes[i].work) return between(sizes[i - 1], sizes[i], bytes);
  return sizes.back().seconds;
}

CopyCost fit_copy_cost(const std::vector<Contention>& rows) {
  CopyCost products_and_stream;
  double squares = 0;
  for (const Contention& row : rows) {
    if (row.paced <= 0) continue;
    squares += row.moved * row.moved;
    products_and_stream.products += row.moved * (1 - 1 / row.products);
    products_and_stream.stream += row.moved * (1 - 1 / row.stream);
  }
  if (squares == 0) return {};
  products_and_stream.products = std::max(0.0, products_and_stream.products / squares);
  products_and_stream.stream = std::max(0.0, products_and_stream.stream / squares);
  return products_and_stream;
}

Rates slowed(Rates rates, double slowness) {
  for (OpRate& op : rates.ops)
    op.seconds *= slowness;
  for (CopyRate& copy : rates.copies)
    copy.bytes_per_second /= slowness;
  for (double* seconds :
       {&rates.overheads.between_ops, &rates.overheads.pool_start, &rates.overheads.copy_start,
        &rates.overheads.copy_end, &rates.copy_cost.products, &rates.copy_cost.stream})
    *seconds *= slowness;
  return rates;
}

}  // namespace spillway
