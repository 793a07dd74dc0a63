#include "tests/bench/large_case.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include <sys/mman.h>

#include "harness/error.h"
#include "harness/thread_pool.h"

namespace spillway {
namespace {

// A multiplicative hash of the place in the period: neighbours have nothing in common.
uint32_t mixed(int64_t i) {
  const auto place = static_cast<uint32_t>(i % pattern_period);
  return (place + 1) * 2654435761U;
}

size_t size_in_bytes(const Item& item) {
  return static_cast<size_t>(elements_of(item.shape) * bytes_of(item.dtype));
}

// Bits of one period of an item's content.
std::vector<std::byte> period_of(const Item& item) {
  const auto width = static_cast<size_t>(bytes_of(item.dtype));
  std::vector<std::byte> bits(static_cast<size_t>(pattern_period) * width);
  for (int64_t i = 0; i < pattern_period; ++i) {
    const double x = item.fill == Item::Fill::positive ? std::abs(pattern(i)) : pattern(i);
    const auto value = static_cast<float>(x);
    const int32_t token = item.dtype == DType::i32 ? token_pattern(i, item.vocabulary) : 0;
    std::byte word[4];
    std::memcpy(word, item.dtype == DType::i32 ? static_cast<const void*>(&token) : &value, 4);
    // bf16 is the upper half of fp32; little-endian, as everywhere here.
    std::memcpy(&bits[static_cast<size_t>(i) * width], word + (4 - width), width);
  }
  return bits;
}

}  // namespace

double pattern(int64_t i) {
  return static_cast<double>(2 * static_cast<int>(mixed(i) >> 25) - 127) / 64;
}

int32_t token_pattern(int64_t i, int64_t vocabulary) {
  return static_cast<int32_t>((mixed(i) >> 8) % static_cast<uint32_t>(vocabulary));
}

LargeMemory::~LargeMemory() {
  for (const Mapping& mapping : mappings_)
    ::munmap(mapping.data, mapping.bytes);
}

Buffer LargeMemory::empty(const Item& item) {
  const size_t bytes = size_in_bytes(item);
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) throw std::runtime_error(text("cannot map ", bytes, " bytes"));
  mappings_.push_back({data, bytes});
  return {data, item.shape, item.dtype};
}

Buffer LargeMemory::filled(const Item& item) {
  const Buffer buffer = empty(item);
  const std::vector<std::byte> period = period_of(item);
  const size_t bytes = size_in_bytes(item);
  for (size_t at = 0; at < bytes; at += period.size())
    std::memcpy(buffer.as<std::byte>() + at, period.data(), std::min(period.size(), bytes - at));
  return buffer;
}

Values decode_range(const Buffer& buffer, int64_t first, int64_t count) {
  const int64_t width = bytes_of(buffer.dtype);
  const auto* begin = buffer.as<std::byte>() + first * width;
  return decode({begin, begin + count * width}, buffer.dtype);
}

void Verdict::take(double error, double most) {
  if (!(error <= most)) passed = false;  // a NaN fails
  if (!(error <= worst)) worst = error;
  allowed = std::max(allowed, most);
}

double run_timed(const OpCase& c, const std::vector<Buffer>& in, const std::vector<Buffer>& out) {
  const OneOp one = program_of(c);
  const std::string wrong = info(c.kind).check(one.program, one.op);
  if (!wrong.empty()) throw std::logic_error(c.name + ": " + wrong);
  ThreadPool pool(usable_cpus());
  const auto begin = std::chrono::steady_clock::now();
  info(c.kind).run({&one.op, in, out, c.step}, pool);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

namespace {

int64_t rows_of(const RowOp& op) { return op.c.inputs.front().shape.front(); }

bool is_rows(const RowOp& op, const Item& item) { return item.shape.front() == rows_of(op); }

// The op of a window alone.
OpCase window_case(const RowOp& op) {
  OpCase c = op.c;
  const auto cut = [&](std::vector<Item>& items) {
    for (Item& item : items)
      if (is_rows(op, item)) item.shape.front() = op.window;
  };
  cut(c.inputs);
  cut(c.outputs);
  if (c.attributes.seq > 0) c.attributes.batch = op.window / c.attributes.seq;
  return c;
}

// First rows of the windows; the middle one has element 2^31 of the largest operand inside.
std::vector<int64_t> window_starts(const RowOp& op) {
  const int64_t rows = rows_of(op), row_elements = most_elements(op.c) / rows;
  return {0, (int64_t{1} << 31) / row_elements - op.window / 2, rows - op.window};
}

Values window_of(const RowOp& op, const Item& item, const Buffer& buffer, int64_t first_row) {
  if (!is_rows(op, item)) return decode_range(buffer, 0, buffer.elements());
  const int64_t width = elements_of(item.shape) / rows_of(op);
  return decode_range(buffer, first_row * width, op.window * width);
}

// `scale`: what a mean over all rows makes of one over the window's.
void compare(Values want, const Values& got, DType dtype, double scale, double allowed,
             Verdict& verdict) {
  double largest = 0;
  for (double& x : want) {
    x = rounded(x * scale, dtype);
    largest = std::max(largest, std::abs(x));
  }
  for (size_t i = 0; i < want.size(); ++i) {
    const double error = std::abs(got[i] - want[i]);
    verdict.take(error == 0 ? 0 : error / std::max(std::abs(want[i]), largest / 16), allowed);
  }
}

void compare_window(const RowOp& op, const std::vector<Values>& in, const std::vector<Buffer>& out,
                    int64_t first_row, Verdict& verdict) {
  const std::vector<Values> want = reference(window_case(op), in);
  const bool mean = op.c.kind == OpKind::cross_entropy;
  const double scale = mean ? static_cast<double>(op.window) / static_cast<double>(rows_of(op)) : 1;
  for (size_t i = 0; i < out.size(); ++i) {
    const Item& item = op.c.outputs[i];
    if (is_rows(op, item))
      compare(want[i], window_of(op, item, out[i], first_row), item.dtype, scale, op.allowed,
              verdict);
  }
}

struct Operands {
  std::vector<Buffer> in, out;
};

Operands operands_of(const RowOp& op, LargeMemory& memory) {
  Operands all;
  auto& [in, out] = all;
  for (size_t i = 0; i < op.c.inputs.size(); ++i) {
    const auto shared =
        std::find_if(op.same.begin(), op.same.end(), [&](const Shared& s) { return s.to == i; });
    in.push_back(shared == op.same.end() ? memory.filled(op.c.inputs[i]) : in[shared->from]);
  }
  for (size_t i = 0; i < op.c.outputs.size(); ++i) {
    const auto in_place = std::find_if(op.c.in_place.begin(), op.c.in_place.end(),
                                       [&](const Shared& s) { return s.to == i; });
    out.push_back(in_place == op.c.in_place.end() ? memory.empty(op.c.outputs[i])
                                                  : in[in_place->from]);
  }
  return all;
}

}  // namespace

int64_t most_elements(const OpCase& c) {
  int64_t most = 0;
  for (const auto* items : {&c.inputs, &c.outputs})
    for (const Item& item : *items)
      most = std::max(most, elements_of(item.shape));
  return most;
}

Verdict run_rows(const RowOp& op) {
  LargeMemory memory;
  const auto [in, out] = operands_of(op, memory);
  std::vector<std::vector<Values>> windows;  // before an op in place overwrites them
  for (const int64_t start : window_starts(op)) {
    windows.emplace_back();
    for (size_t i = 0; i < in.size(); ++i)
      windows.back().push_back(window_of(op, op.c.inputs[i], in[i], start));
  }
  Verdict verdict;
  verdict.seconds = run_timed(op.c, in, out);
  for (size_t i = 0; i < windows.size(); ++i)
    compare_window(op, windows[i], out, window_starts(op)[i], verdict);
  if (op.rest) op.rest(out, verdict);
  return verdict;
}

}  // namespace spillway
