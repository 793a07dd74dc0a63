// What every op means, in double precision, by the plainest loops: the yardstick of the kernels'
// tests. Gradients are the formulas' own derivatives (and ops_test compares them with finite
// differences).
#include "tests/support/op_reference.h"

#include <cmath>

namespace spillway {
namespace {

// Row-major access with `columns` per row.
struct Grid {
  const Values& values;
  int64_t columns;
  double operator()(int64_t r, int64_t c) const {
    return values[static_cast<size_t>(r * columns + c)];
  }
};

std::vector<Values> zeros(const OpCase& c) {
  std::vector<Values> out;
  for (const Item& item : c.outputs)
    out.emplace_back(static_cast<size_t>(elements_of(item.shape)), 0.0);
  return out;
}

void matmul(const OpCase& c, const std::vector<Values>& in, std::vector<Values>& out) {
  const Shape &a = c.inputs[0].shape, &b = c.inputs[1].shape;
  const bool ta = c.attributes.transpose_a, tb = c.attributes.transpose_b;
  const int64_t m = ta ? a[1] : a[0], k = ta ? a[0] : a[1], n = tb ? b[0] : b[1];
  const Grid x{in[0], a[1]}, y{in[1], b[1]};
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t p = 0; p < k; ++p)
        at(out[0], i * n + j) += (ta ? x(p, i) : x(i, p)) * (tb ? y(j, p) : y(p, j));
    }
  }
}

void embed(const OpCase& c, const std::vector<Values>& in, std::vector<Values>& out) {
  const int64_t width = c.inputs[1].shape[1];
  const bool backward = c.kind == OpKind::embed_backward;
  if (backward && in.size() > 2) out[0] = in[2];
  for (size_t t = 0; t < in[0].size(); ++t) {
    for (int64_t d = 0; d < width; ++d) {
      const int64_t row = static_cast<int64_t>(t) * width + d,
                    entry = static_cast<int64_t>(in[0][t]) * width + d;
      if (backward) {
        at(out[0], entry) += at(in[1], row);
      } else {
        at(out[0], row) = at(in[1], entry);
      }
    }
  }
}

void rms_norm(const OpCase& c, const std::vector<Values>& in, std::vector<Values>& out) {
  const int64_t width = c.inputs[1].shape[0],
                rows = elements_of(c.inputs[0].shape) / width;  // a group is a row
  const bool backward = c.kind == OpKind::rms_norm_backward;
  for (int64_t t = 0; t < rows; ++t) {
    double squares = 0, along = 0;
    for (int64_t d = 0; d < width; ++d)
      squares += std::pow(at(in[0], t * width + d), 2);
    const double rms = std::sqrt(squares / static_cast<double>(width) + c.attributes.epsilon);
    for (int64_t d = 0; backward && d < width; ++d) {
      along += at(in[2], t * width + d) * at(in[1], d) * at(in[0], t * width + d);
    }
    for (int64_t d = 0; d < width; ++d) {
      const double x = at(in[0], t * width + d), w = at(in[1], d);
      if (!backward) {
        at(out[0], t * width + d) = x / rms * w;
        continue;
      }
      const double dy = at(in[2], t * width + d),
                   onto = in.size() > 3 ? at(in[3], t * width + d) : 0;
      at(out[0], t * width + d) =
          onto + dy * w / rms - x * along / (static_cast<double>(width) * std::pow(rms, 3));
      at(out[1], d) += dy * x / rms;
    }
  }
}

// Calls body(query row, key row, query head, key head) for every visible pair.
template <class Body>
void causal_pairs(const Attributes& a, const Body& body) {
  for (int64_t b = 0; b < a.batch; ++b) {
    for (int64_t h = 0; h < a.heads; ++h) {
      for (int64_t i = 0; i < a.seq; ++i) {
        for (int64_t j = 0; j <= i; ++j)
          body(b * a.seq + i, b * a.seq + j, h, h / (a.heads / a.kv_heads));
      }
    }
  }
}

double head_dot(int64_t dim, const Values& x, int64_t x_base, const Values& y, int64_t y_base) {
  double sum = 0;
  for (int64_t d = 0; d < dim; ++d)
    sum += at(x, x_base + d) * at(y, y_base + d);
  return sum;
}

int64_t value_dim(const Attributes& a) { return a.value_dim == 0 ? a.head_dim : a.value_dim; }
double scale_of(const Attributes& a) {
  return a.scale == 0 ? 1 / std::sqrt(static_cast<double>(a.head_dim)) : a.scale;
}

void attention(const OpCase& c, const std::vector<Values>& in, std::vector<Values>& out) {
  const Attributes& a = c.attributes;
  const int64_t e = value_dim(a), lse_size = a.batch * a.seq * a.heads;
  out = {Values(static_cast<size_t>(lse_size * e), 0.0),
         Values(static_cast<size_t>(lse_size), 0.0)};
  const auto score = [&](int64_t i, int64_t j, int64_t h, int64_t kv) {
    return std::exp(scale_of(a) * head_dot(a.head_dim, in[0], (i * a.heads + h) * a.head_dim, in[1],
                                           (j * a.kv_heads + kv) * a.head_dim));
  };
  causal_pairs(a, [&](int64_t i, int64_t j, int64_t h, int64_t kv) {
    at(out[1], i * a.heads + h) += score(i, j, h, kv);
  });
  causal_pairs(a, [&](int64_t i, int64_t j, int64_t h, int64_t kv) {
    const double p = score(i, j, h, kv) / at(out[1], i * a.heads + h);
    for (int64_t d = 0; d < e; ++d)
      at(out[0], (i * a.heads + h) * e + d) += p * at(in[2], (j * a.kv_heads + kv) * e + d);
  });
  for (double& sum : out[1])
    sum = std::log(sum);
}

void attention_backward(const OpCase& c, const std::vector<Values>& in, std::vector<Values>& out) {
  const Attributes& a = c.attributes;
  const Values &q = in[0], &k = in[1], &v = in[2], &o = in[3], &lse = in[4], &dout = in[5];
  const int64_t dim = a.head_dim, e = value_dim(a);
  const double scale = scale_of(a);
  causal_pairs(a, [&](int64_t i, int64_t j, int64_t h, int64_t kv) {
    const int64_t query = i * a.heads + h, key = j * a.kv_heads + kv;
    const double p = std::exp(scale * head_dot(dim, q, query * dim, k, key * dim) - at(lse, query));
    const double ds =
        p * scale *
        (head_dot(e, dout, query * e, v, key * e) - head_dot(e, dout, query * e, o, query * e));
    for (int64_t d = 0; d < dim; ++d) {
      at(out[0], query * dim + d) += ds * at(k, key * dim + d);
      at(out[1], key * dim + d) += ds * at(q, query * dim + d);
    }
    for (int64_t d = 0; d < e; ++d)
      at(out[2], key * e + d) += p * at(dout, query * e + d);
  });
}

void elementwise(const OpCase& c, const std::vector<Values>& in, std::vector<Values>& out) {
  for (size_t i = 0; i < in[0].size(); ++i) {
    const double x = in[0][i], y = in.size() > 1 ? in[1][i] : 0, s = 1 / (1 + std::exp(-x));
    if (c.kind == OpKind::add) out[0][i] = x + y;
    if (c.kind == OpKind::swiglu) out[0][i] = x * s * y;
    if (c.kind == OpKind::swiglu_backward) {
      out[0][i] = in[2][i] * y * (s + x * s * (1 - s));
      out[1][i] = in[2][i] * x * s;
    }
    if (in.size() == 1) out[0][i] = x;  // copies and casts
  }
}

void cross_entropy(const OpCase& c, const std::vector<Values>& in, std::vector<Values>& out) {
  const int64_t rows = c.inputs[0].shape[0], vocabulary = c.inputs[0].shape[1];
  for (int64_t t = 0; t < rows; ++t) {
    double sum = 0;
    for (int64_t i = 0; i < vocabulary; ++i)
      sum += std::exp(at(in[0], t * vocabulary + i));
    const auto target = static_cast<int64_t>(at(in[1], t));
    at(out[0], 0) +=
        (std::log(sum) - at(in[0], t * vocabulary + target)) / static_cast<double>(rows);
    for (int64_t i = 0; i < vocabulary; ++i) {
      const double p = std::exp(at(in[0], t * vocabulary + i)) / sum;
      at(out[1], t * vocabulary + i) = (p - (i == target ? 1 : 0)) / static_cast<double>(rows);
    }
  }
}

// torch.optim.AdamW's documentation, line by line.
void adamw(const OpCase& c, const std::vector<Values>& in, std::vector<Values>& out) {
  const Attributes& a = c.attributes;
  const double t = static_cast<double>(c.step) + 1;
  for (size_t i = 0; i < in[0].size(); ++i) {
    double w = in[0][i];
    const double g = in[3][i], m = a.beta1 * in[1][i] + (1 - a.beta1) * g,
                 v = a.beta2 * in[2][i] + (1 - a.beta2) * g * g;
    w -= a.learning_rate * a.weight_decay * w;
    const double m_hat = m / (1 - std::pow(a.beta1, t)), v_hat = v / (1 - std::pow(a.beta2, t));
    w -= a.learning_rate * m_hat / (std::sqrt(v_hat) + a.adam_epsilon);
    out[0][i] = w;
    out[1][i] = m;
    out[2][i] = v;
    if (out.size() > 3) out[3][i] = w;
  }
}

}  // namespace

std::vector<Values> reference(const OpCase& c, const std::vector<Values>& in) {
  std::vector<Values> out = zeros(c);
  if (rope_reference(c, in, out) || routing_reference(c, in, out) || capacity_reference(c, in, out))
    return out;
  switch (c.kind) {
    case OpKind::embed:
    case OpKind::embed_backward:
      embed(c, in, out);
      break;
    case OpKind::rms_norm:
    case OpKind::rms_norm_backward:
      rms_norm(c, in, out);
      break;
    case OpKind::matmul:
      matmul(c, in, out);
      break;
    case OpKind::attention:
      attention(c, in, out);
      break;
    case OpKind::attention_backward:
      attention_backward(c, in, out);
      break;
    case OpKind::cross_entropy:
      cross_entropy(c, in, out);
      break;
    case OpKind::adamw:
      adamw(c, in, out);
      break;
    default:
      elementwise(c, in, out);
  }
  return out;
}

}  // namespace spillway
