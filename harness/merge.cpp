// merge_straight_line(): neighbouring segments of trip count 1 become one body.
#include <map>
#include <set>

#include "harness/schedule.h"

namespace spillway {
namespace {

// Ops of one body need unique names; peeled copies of a body meet here and get their segment's name
// in front.
void append(Segment& body, const Segment& segment) {
  std::set<std::string> taken;
  for (const Op& op : body.ops)
    taken.insert(op.name);
  for (Op op : segment.ops) {
    if (taken.count(op.name)) op.name = segment.name + "/" + op.name;
    body.ops.push_back(std::move(op));
  }
  body.name += "+" + segment.name;
  if (body.pass != segment.pass) body.pass = Pass::other;
  body.forward_segment = -1;
}

}  // namespace

Program merge_straight_line(Program program) {
  std::vector<Segment> merged;
  std::map<int, int> now_at;  // of segments that stay as they are
  bool joinable = false;      // whether the last merged segment runs once
  for (size_t s = 0; s < program.segments.size(); ++s) {
    Segment& segment = program.segments[s];
    if (joinable && segment.trips == 1) {
      now_at.erase(static_cast<int>(s) - 1);
      append(merged.back(), segment);
      continue;
    }
    joinable = segment.trips == 1;
    now_at[static_cast<int>(s)] = static_cast<int>(merged.size());
    merged.push_back(std::move(segment));
  }
  for (Segment& segment : merged) {
    const auto forward = now_at.find(segment.forward_segment);
    segment.forward_segment = forward == now_at.end() ? -1 : forward->second;
  }
  program.segments = std::move(merged);
  return program;
}

}  // namespace spillway
