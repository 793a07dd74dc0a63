// One order per body, latency hiding off or on, laid out on lanes.
#include "offload/scheduler.h"

#include <algorithm>
#include <utility>

#include "harness/error.h"
#include "offload/lhs.h"
#include "offload/order.h"

namespace spillway {

OrderedProgram order_bodies(Program program, const SchedulerOptions& options) {
  check(!options.lhs || options.seconds, "latency hiding needs the seconds of every op");
  for (const auto& [name, on] : options.rules)
    is_on(options.rules, name);  // refuses what is no rule
  LhsRuleSet rules(options);
  OrderedProgram result{merge_straight_line(std::move(program)), {}, {}};
  const std::vector<int64_t> around = bytes_around_segments(result.program);
  for (const Segment& segment : result.program.segments) {
    BodyGraph graph = graph_of(result.program, segment);
    graph.bytes_around = around[result.orders.size()];
    BodyOrder order = blocking_order(graph, options.collectives_without_lhs);
    if (options.lhs) order = latency_hiding_order(graph, order, options, rules);
    result.orders.push_back(std::move(order));
  }
  if (options.lhs) result.rule_counts = rules.counts_by_name();
  return result;
}

ScheduleResult schedule_program(Program program, const SchedulerOptions& options) {
  OrderedProgram ordered = order_bodies(std::move(program), options);
  return {lay_out(std::move(ordered.program), ordered.orders), std::move(ordered.rule_counts)};
}

}  // namespace spillway
