// Masks over a fixed number of slots: C = capacity slots for each expert and sequence, filled in
// the order of (token, j); what finds its expert full is dropped.
//   capacity_mask {experts[T,k] i32, weights[T,k] f32} -> {dispatch[T,E*C], combine[T,E*C],
//                  slots[T,k] i32, dropped[1] i32}
// slots[t,j] = e * C + c, or -1 where dropped; dispatch is 1 there and combine the weight, both 0
// elsewhere.
//   capacity_mask_backward {dcombine[T,E*C], slots[T,k] i32} -> {dweights[T,k] f32}
// Attributes: batch, seq, capacity.
#include <numeric>
#include <vector>

#include "harness/error.h"
#include "harness/ops/all.h"
#include "harness/ops/capacity.h"
#include "harness/ops/floats.h"
#include "harness/ops/operands.h"

namespace spillway {

std::string check_mask(const Attributes& a, const Signature& s) {
  const std::string positive =
      require_positive({{"batch", a.batch}, {"seq", a.seq}, {"capacity", a.capacity}});
  if (!positive.empty()) return positive;
  if (s["T"] != a.batch * a.seq)
    return text("has ", s["T"], " rows, expected batch * seq = ", a.batch * a.seq);
  if (s["W"] % a.capacity != 0)
    return text("mask has ", s["W"], " slots, expected a multiple of capacity = ", a.capacity);
  return {};
}

namespace {

std::string check_forward(const Program& program, const Op& op) {
  const Signature s = match(program, op,
                            "experts[T,k]:i32 weights[T,k]:f32 -> dispatch[T,W]:x combine[T,W]:x "
                            "slots[T,k]:i32 dropped[N]:i32");
  if (!s.error.empty()) return s.error;
  const std::string error = check_mask(op.attributes, s);
  if (!error.empty()) return error;
  return s["N"] == 1 ? "" : text("dropped has ", s["N"], " elements, expected 1");
}

std::string check_backward(const Program& program, const Op& op) {
  return match(program, op, "dcombine[T,W]:x slots[T,k]:i32 -> dweights[T,k]:f32").error;
}

OpCost cost_forward(const Program& program, const Op& op) {
  return {.bytes = touched_bytes(program, op)};
}

// One element of dcombine a slot is read.
OpCost cost_backward(const Program& program, const Op& op) {
  const double slots = static_cast<double>(elements_of(shape_of(program, op.inputs[1])));
  const double element = static_cast<double>(bytes_of(program.at(op.inputs[0].tensor).dtype));
  return {.bytes = slots * (element + 8)};
}

// Slots of one sequence; returns how many were dropped.
int32_t fill_slots(const OpCall& call, int64_t b, int64_t experts) {
  const Attributes& a = call.op->attributes;
  const int64_t k = call.inputs[0].shape[1], first = b * a.seq * k, end = first + a.seq * k;
  const int32_t* expert = call.inputs[0].as<int32_t>();
  int32_t* slots = call.outputs[2].as<int32_t>();
  std::vector<int64_t> used(static_cast<size_t>(experts), 0);
  int32_t dropped = 0;
  for (int64_t i = first; i < end; ++i) {
    check(expert[i] >= 0 && expert[i] < experts, "expert ", expert[i], " is outside the ", experts,
          " experts");
    int64_t& next = used[static_cast<size_t>(expert[i])];
    const bool full = next == a.capacity;
    slots[i] = full ? -1 : static_cast<int32_t>(expert[i] * a.capacity + next);
    dropped += full ? 1 : 0;
    next += full ? 0 : 1;
  }
  return dropped;
}

void run_forward(const OpCall& call, ThreadPool& pool) {
  const Attributes& a = call.op->attributes;
  const int64_t width = call.outputs[0].shape[1], k = call.inputs[0].shape[1];
  const int32_t* slots = call.outputs[2].as<int32_t>();
  const float* weights = call.inputs[1].as<float>();
  std::vector<int32_t> dropped(static_cast<size_t>(a.batch));
  pool.run(a.batch, [&](int64_t b, int) {
    dropped[static_cast<size_t>(b)] = fill_slots(call, b, width / a.capacity);
  });
  *call.outputs[3].as<int32_t>() = std::accumulate(dropped.begin(), dropped.end(), 0);
  for_blocks(pool, a.batch * a.seq, rows_per_block(width), [&](int64_t first, int64_t count) {
    simd([&](auto) SPILLWAY_SIMD {
      float *dispatch = row_scratch(0, width), *combine = row_scratch(1, width);
      for (int64_t t = first; t < first + count; ++t) {
        std::fill_n(dispatch, width, 0.f);
        std::fill_n(combine, width, 0.f);
        for (int64_t i = t * k; i < (t + 1) * k; ++i) {
          if (slots[i] < 0) continue;
          dispatch[slots[i]] = 1;
          combine[slots[i]] = weights[i];
        }
        store(call.outputs[0], t * width, width, dispatch);
        store(call.outputs[1], t * width, width, combine);
      }
    });
  });
}

void run_backward(const OpCall& call, ThreadPool& pool) {
  const Buffer& d_combine = call.inputs[0];
  const int64_t width = d_combine.shape[1], k = call.inputs[1].shape[1];
  const int32_t* slots = call.inputs[1].as<int32_t>();
  float* d_weights = call.outputs[0].as<float>();
  for_blocks(pool, call.inputs[1].elements(), chunk, [&](int64_t first, int64_t count) {
    for (int64_t i = first; i < first + count; ++i) {
      d_weights[i] = 0;
      check(slots[i] < width, "slot ", slots[i], " is outside the ", width, " slots of the mask");
      if (slots[i] >= 0) load(d_combine, i / k * width + slots[i], 1, d_weights + i);
    }
  });
}

}  // namespace

const OpInfo capacity_mask_info = {
    OpKind::capacity_mask, "capacity_mask", Lane::compute, "masks over a fixed number of slots",
    check_forward,         cost_forward,    run_forward};
const OpInfo capacity_mask_backward_info = {OpKind::capacity_mask_backward,
                                            "capacity_mask_backward",
                                            Lane::compute,
                                            "gradient of capacity_mask for the weights",
                                            check_backward,
                                            cost_backward,
                                            run_backward};

}  // namespace spillway
