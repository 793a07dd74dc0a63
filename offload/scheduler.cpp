// One order per body, latency hiding off or on, laid out on lanes.
#include "offload/scheduler.h"

#include <algorithm>
#include <utility>

#include "harness/error.h"
#include "offload/lhs.h"
#include "offload/order.h"

namespace spillway {

ScheduleResult schedule_program(Program program, const SchedulerOptions& options) {
  check(!options.lhs || options.seconds, "latency hiding needs the seconds of every op");
  check_rule_names(options.rules_off);
  program = merge_straight_line(std::move(program));
  ScheduleResult result;
  std::vector<BodyOrder> orders;
  for (const Segment& segment : program.segments) {
    const BodyGraph graph = graph_of(program, segment);
    BodyOrder order = blocking_order(graph, options.collectives_without_lhs);
    if (options.lhs) order = latency_hiding_order(graph, order, options, result.rule_counts);
    orders.push_back(std::move(order));
  }
  result.schedule = lay_out(std::move(program), orders);
  return result;
}

}  // namespace spillway
