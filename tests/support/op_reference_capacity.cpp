// What the ops of the capacity path mean, and those that only add or move columns, in double
// precision by plain loops.
#include <map>

#include "tests/support/op_reference.h"

namespace spillway {
namespace {

void bias(const OpCase& c, const std::vector<Values>& in, std::vector<Values>& out) {
  const int64_t width = c.inputs[0].shape[1];
  for (int64_t i = 0; i < static_cast<int64_t>(in[0].size()); ++i) {
    if (c.kind == OpKind::add_bias) at(out[0], i) = at(in[0], i) + at(in[1], i % width);
    if (c.kind == OpKind::bias_backward) at(out[0], i % width) += at(in[0], i);
  }
}

void columns(const OpCase& c, const std::vector<Values>& in, std::vector<Values>& out) {
  const int64_t width = c.outputs[0].shape[1], left = c.inputs[0].shape[1];
  for (int64_t t = 0; t < c.outputs[0].shape[0]; ++t) {
    for (int64_t d = 0; d < width; ++d) {
      double& y = at(out[0], t * width + d);
      if (c.kind == OpKind::columns) {
        y = at(in[0], t * left + c.attributes.first_column + d);
      } else {
        y = d < left ? at(in[0], t * left + d) : at(in[1], t * (width - left) + d - left);
      }
    }
  }
}

void capacity_mask(const OpCase& c, const std::vector<Values>& in, std::vector<Values>& out) {
  const Attributes& a = c.attributes;
  const int64_t width = c.outputs[0].shape[1], k = c.inputs[0].shape[1];
  std::map<std::pair<int64_t, int64_t>, int64_t> used;  // by sequence and expert
  for (int64_t i = 0; i < static_cast<int64_t>(in[0].size()); ++i) {
    const int64_t t = i / k, expert = index_at(in[0], i);
    const int64_t c_of_slot = used[{t / a.seq, expert}]++;
    if (c_of_slot >= a.capacity) {
      at(out[2], i) = -1;
      out[3][0] += 1;
      continue;
    }
    const int64_t slot = expert * a.capacity + c_of_slot;
    at(out[2], i) = static_cast<double>(slot);
    at(out[0], t * width + slot) = 1;
    at(out[1], t * width + slot) = at(in[1], i);
  }
}

void mask_backward(const OpCase& c, const std::vector<Values>& in, std::vector<Values>& out) {
  const int64_t width = c.inputs[0].shape[1], k = c.inputs[1].shape[1];
  for (int64_t i = 0; i < static_cast<int64_t>(in[1].size()); ++i) {
    if (at(in[1], i) >= 0) at(out[0], i) = at(in[0], i / k * width + index_at(in[1], i));
  }
}

// The three products differ in which of mask, tokens and slots is made from the others.
void einsum(const OpCase& c, const std::vector<Values>& in, std::vector<Values>& out) {
  const Attributes& a = c.attributes;
  const bool dispatch = c.kind == OpKind::dispatch_einsum,
             gradient = c.kind == OpKind::mask_gradient;
  const Shape& y_shape = dispatch ? c.outputs[0].shape : c.inputs[1].shape;
  const int64_t width = y_shape[1], slots = y_shape[0] / a.batch;
  for (int64_t t = 0; t < a.batch * a.seq; ++t) {
    for (int64_t slot = 0; slot < slots; ++slot) {
      const int64_t expert = slot / a.capacity, b = t / a.seq,
                    row = (expert * a.batch + b) * a.capacity + slot % a.capacity;
      for (int64_t d = 0; d < width; ++d) {
        const int64_t mask = t * slots + slot, token = t * width + d, y = row * width + d;
        if (gradient) {
          at(out[0], mask) += at(in[0], token) * at(in[1], y);
        } else if (dispatch) {
          at(out[0], y) += at(in[0], mask) * at(in[1], token);
        } else {
          at(out[0], token) += at(in[0], mask) * at(in[1], y);
        }
      }
    }
  }
}

}  // namespace

bool capacity_reference(const OpCase& c, const std::vector<Values>& in, std::vector<Values>& out) {
  switch (c.kind) {
    case OpKind::add_bias:
    case OpKind::bias_backward:
      bias(c, in, out);
      return true;
    case OpKind::columns:
    case OpKind::concat_columns:
      columns(c, in, out);
      return true;
    case OpKind::capacity_mask:
      capacity_mask(c, in, out);
      return true;
    case OpKind::capacity_mask_backward:
      mask_backward(c, in, out);
      return true;
    case OpKind::dispatch_einsum:
    case OpKind::combine_einsum:
    case OpKind::mask_gradient:
      einsum(c, in, out);
      return true;
    default:
      return false;
  }
}

}  // namespace spillway
