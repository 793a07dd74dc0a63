// Device memory over a step.
#include "harness/live_bytes.h"

#include <algorithm>

#include "harness/measurement.h"

namespace spillway {
namespace {

class LiveCount {
 public:
  LiveCount(const Schedule& schedule, const Trace& trace) : schedule_(schedule) {
    for (const Span& span : every_span(trace))
      if (span.kind == SpanKind::op && span.lane == Lane::compute) ends_.push_back(span.end);
    std::sort(ends_.begin(), ends_.end());
    for (const Tensor& tensor : schedule.program.tensors)
      if (tensor.extent == Extent::persistent) now_.bytes += device_bytes(tensor);
    curve_.push_back(now_);
  }

  std::vector<LiveBytes> curve() {
    for (size_t s = 0; s < schedule_.segments.size(); ++s)
      walk(schedule_.segments[s], schedule_.program.segments[s].trips);
    return std::move(curve_);
  }

 private:
  static int64_t device_bytes(const Tensor& tensor) {
    return tensor.space == Space::device ? tensor.bytes() : 0;
  }

  void walk(const SegmentSchedule& segment, int64_t trips) {
    change(segment.enter_allocate, 1);
    for (int64_t trip = 0; trip < trips; ++trip) {
      for (const LaneStep& step : segment.lanes[index_of(Lane::compute)]) {
        change(step.allocate, 1);
        if (step.kind == StepKind::run && next_ < ends_.size()) now_.seconds = ends_[next_++];
        change(step.release, -1);
      }
    }
    change(segment.exit_release, -1);
  }

  void change(const std::vector<TensorId>& tensors, int64_t sign) {
    int64_t bytes = 0;
    for (const TensorId id : tensors)
      bytes += sign * device_bytes(schedule_.program.at(id));
    if (bytes == 0) return;
    now_.bytes += bytes;
    curve_.push_back(now_);
  }

  const Schedule& schedule_;
  std::vector<double> ends_;  // of the compute lane's ops, in order
  size_t next_ = 0;
  LiveBytes now_;
  std::vector<LiveBytes> curve_;
};

}  // namespace

std::vector<LiveBytes> live_curve(const Schedule& schedule, const Trace& trace) {
  return LiveCount(schedule, trace).curve();
}

}  // namespace spillway
