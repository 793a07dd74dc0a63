// merge_straight_line(): neighbouring segments of trip count 1 become one body.
#include <map>
#include <span>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "harness/schedule.h"

namespace spillway {
namespace {

// Ops of one body need unique names; peeled copies of a body meet here and get their segment's name
// in front.
Segment joined(std::span<Segment> segments) {
  size_t ops = 0;
  for (const Segment& segment : segments)
    ops += segment.ops.size();
  Segment body = std::move(segments.front());
  body.ops.reserve(ops);  // names stay where they are
  body.forward_segment = -1;
  std::unordered_set<std::string_view> taken(ops);
  for (const Op& op : body.ops)
    taken.insert(op.name);
  for (Segment& segment : segments.subspan(1)) {
    for (Op& op : segment.ops) {
      if (taken.count(op.name)) op.name = segment.name + "/" + op.name;
      body.ops.push_back(std::move(op));
      taken.insert(body.ops.back().name);
    }
    body.name += "+" + segment.name;
    if (body.pass != segment.pass) body.pass = Pass::other;
  }
  return body;
}

}  // namespace

Program merge_straight_line(Program program) {
  std::vector<Segment> merged;
  std::map<int, int> now_at;  // of segments that stay as they are
  std::vector<Segment>& segments = program.segments;
  for (size_t first = 0; first < segments.size();) {
    size_t end = first + 1;
    if (segments[first].trips == 1)
      while (end < segments.size() && segments[end].trips == 1)
        ++end;
    if (end == first + 1) {
      now_at[static_cast<int>(first)] = static_cast<int>(merged.size());
      merged.push_back(std::move(segments[first]));
    } else {
      merged.push_back(joined(std::span(segments).subspan(first, end - first)));
    }
    first = end;
  }
  for (Segment& segment : merged) {
    const auto forward = now_at.find(segment.forward_segment);
    segment.forward_segment = forward == now_at.end() ? -1 : forward->second;
  }
  program.segments = std::move(merged);
  return program;
}

}  // namespace spillway
