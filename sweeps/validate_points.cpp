// Which points validate a calibrated machine.
#include "sweeps/validate_points.h"

#include <algorithm>

#include "harness/error.h"
#include "harness/measurement.h"
#include "sweeps/link.h"
#include "sweeps/run.h"

namespace spillway {
namespace {

constexpr int64_t layers_validated = 3;  // calibrate: 2
constexpr double slow_part = 1.3;        // of compute, taken by copies each way

// A model as all its points see it.
struct Validated {
  std::string model, machine;
  int64_t micro_batch = 1, layers = 1;
  std::string offload, device;  // policies: the same names moved, and kept
};

Point variant_point(const Validated& v, const std::string& policy) {
  Point point;
  point.model = v.model;
  point.machine = v.machine;
  point.micro_batch = v.micro_batch;
  point.layers = v.layers;
  point.policy = policy;
  return point;
}

// The names that a policy keeps anywhere, all kept on the device.
std::string kept_on_device(const Point& point) {
  std::string fates;
  for (const PolicySummary::Row& row : plan_point(point, {}).summary.rows)
    if (row.fate != Fate::remat) fates += text(fates.empty() ? "" : ",", row.name, "=device");
  return fates.empty() ? "full" : fates;
}

Validated validated_of(const std::string& model, const std::string& machine) {
  const ModelConfig config = load_model(model);
  Validated v;
  v.model = model;
  v.machine = machine;
  v.micro_batch = config.micro_batch.value_or(1);
  v.layers = layers_to_probe(config, layers_validated);
  v.offload = config.proxy_of ? config.proxy_of->policy : "minimal_offloaded";
  v.device = kept_on_device(variant_point(v, v.offload));
  return v;
}

struct Rate {
  const char* name;
  double bytes_per_second;
};

// Adds a point that offloads, with LHS and pipelining as its name says.
enum class Order { lhs_off, lhs, pipelined };
void add_offload(std::vector<ValidatePoint>& points, const Validated& v, const Rate& rate,
                 std::initializer_list<Order> orders) {
  for (const Order order : orders) {
    Point point = variant_point(v, v.offload);
    point.lhs = order != Order::lhs_off;
    point.pipeline = order == Order::pipelined;
    points.push_back({point, rate.name, rate.bytes_per_second});
  }
}

}  // namespace

std::string workload_of(const ValidatePoint& validated) {
  const Point& point = validated.point;
  return text(point.model, ", micro batch ", *point.micro_batch, ", ", *point.layers, " layers");
}

std::string label_of(const ValidatePoint& validated) {
  const Point& point = validated.point;
  return text(workload_of(validated), ", ", point.policy, ", LHS ", point.lhs ? "on" : "off",
              point.pipeline ? ", pipelined" : "", validated.link.empty() ? "" : ", link ",
              validated.link);
}

double rate_for_part(const std::string& model, const std::string& machine, double part) {
  const Validated v = validated_of(model, machine);
  Settings settings;
  settings.free_transfers = true;
  const Prepared prepared = prepare(variant_point(v, v.offload), settings);
  const double compute = run_sim(prepared).traces.front().seconds;
  const auto bytes = static_cast<double>(std::max(planned_bytes(prepared.schedule, Lane::d2h),
                                                  planned_bytes(prepared.schedule, Lane::h2d)));
  if (bytes == 0) throw InputError(text("model ", model, ": its offloading policy moves nothing"));
  return bytes / (part * compute);
}

std::vector<ValidatePoint> validate_points(const std::string& model, const std::string& machine,
                                           double matched) {
  using enum Order;
  Validated v = validated_of(model, machine);
  const Rate fast = {"4 x matched", 4 * matched}, match = {"matched", matched},
             eighth = {"matched / 8", matched / 8},
             slow = {"slower than compute", rate_for_part(model, machine, slow_part)};
  std::vector<ValidatePoint> points = {{variant_point(v, "full"), "", 0},
                                       {variant_point(v, v.device), "", 0}};
  add_offload(points, v, fast, {lhs, pipelined});
  add_offload(points, v, match, {lhs_off, lhs, pipelined});
  add_offload(points, v, eighth, {lhs_off, lhs, pipelined});
  add_offload(points, v, slow, {lhs_off, lhs, pipelined});
  const int64_t own = v.micro_batch;
  v.micro_batch = own + std::max<int64_t>(1, own / 2);  // of no size that calibrate measures
  if (own == 1) v.micro_batch = 3;
  points.push_back({variant_point(v, "full"), "", 0});
  add_offload(points, v, match, {lhs});
  add_offload(points, v, eighth, {pipelined});
  v.micro_batch = std::max<int64_t>(1, own / 2);
  v.offload = "minimal_offloaded";
  add_offload(points, v, match, {lhs, pipelined});
  return points;
}

}  // namespace spillway
