// Plays the accesses of all events in their linear order over the pieces of memory.
#include "harness/access_map.h"

#include <algorithm>
#include <array>
#include <span>

#include "harness/error.h"
#include "harness/layout.h"
#include "harness/window.h"

namespace spillway {
namespace {

struct Piece {
  int last_write = -1;                                // access; -1: nothing was ever here
  std::array<int, lane_count> reads{-1, -1, -1, -1};  // since then, the last of each lane
  // Only iterations that are not looked at use it: nobody else may write it while its tensor lives.
  bool held = false;
};

// Program order of the accesses to one slice: (run, op) as one number.
struct SliceOrder {
  int64_t written = -1, touched = -1;
};

class Player {
 public:
  Player(const Schedule& schedule, const Plan& plan, const Unrolled& unrolled, AccessMap& result)
      : schedule_(schedule),
        program_(schedule.program),
        plan_(plan),
        unrolled_(unrolled),
        result_(result),
        layout_(program_, plan),
        skipped_(skipped_slices(program_)),
        pieces_(index_of(layout_.pieces())),
        order_(program_.tensors.size()) {
    for (size_t id = 0; id < order_.size(); ++id) {
      order_[id].resize(static_cast<size_t>(program_.tensors[id].slices));
    }
  }

  void play() {
    result_.violation = layout_.violation();
    if (result_.violation) return;
    for (size_t id = 0; id < program_.tensors.size(); ++id) {
      if (program_.tensors[id].extent != Extent::persistent) continue;
      cover(AccessKind::initial, -1, static_cast<TensorId>(id));
    }
    for (size_t e = 0; e < unrolled_.events.size(); ++e)
      play_event(static_cast<int>(e));
  }

 private:
  void play_event(int e) {
    const Event& event = unrolled_.events[index_of(e)];
    const BodyRun& run = unrolled_.runs[index_of(event.run)];
    const SegmentSchedule& segment = schedule_.segments[index_of(run.segment)];
    if (event.kind == EventKind::enter) {
      for (const TensorId id : segment.enter_allocate)
        cover(AccessKind::allocate, e, id);
    } else if (event.kind == EventKind::exit) {
      for (const TensorId id : segment.exit_release)
        cover(AccessKind::release, e, id);
    } else {
      const LaneStep& step = segment.lanes[index_of(event.lane)][index_of(event.position)];
      for (const TensorId id : step.allocate)
        cover(AccessKind::allocate, e, id);
      if (step.kind == StepKind::run) play_op(e, run, step.op);
      if (step.kind == StepKind::done) play_done(e, run);
      for (const TensorId id : step.release)
        cover(AccessKind::release, e, id);
    }
  }

  void play_op(int e, const BodyRun& run, int op_index) {
    const Op& op = program_.segments[index_of(run.segment)].ops[index_of(op_index)];
    const size_t first = result_.accesses.size();
    for (const Operand& operand : op.inputs)
      add(AccessKind::read, e, operand, run.iteration);
    for (const Operand& operand : op.outputs)
      add(AccessKind::write, e, operand, run.iteration);
    settle(e, first, op_index);
  }

  // Dones read what their ops wrote.
  void play_done(int e, const BodyRun& run) {
    const Event& event = unrolled_.events[index_of(e)];
    const auto& compute = schedule_.segments[index_of(run.segment)].lanes[index_of(event.lane)];
    for (const int op : confirmed_at(compute, static_cast<size_t>(event.position))) {
      const size_t first = result_.accesses.size();
      for (const Operand& operand :
           program_.segments[index_of(run.segment)].ops[index_of(op)].outputs)
        add(AccessKind::read, e, operand, run.iteration);
      settle(e, first, op);
    }
  }

  // Plays the accesses from `first` on, which are those of one op or of its done.
  void settle(int e, size_t first, int op_index) {
    const int64_t order = (int64_t{unrolled_.events[index_of(e)].run} << 32) + op_index;
    for (size_t a = first; a < result_.accesses.size(); ++a) {
      for (size_t b = first; b < a; ++b)
        check_within_op(static_cast<int>(a), static_cast<int>(b));
      check_direction(static_cast<int>(a), order);
      if (result_.accesses[a].kind == AccessKind::read)
        read(static_cast<int>(a));
      else
        write(static_cast<int>(a));
    }
  }

  void add(AccessKind kind, int e, const Operand& operand, int64_t iteration) {
    const ByteRange range = range_of(program_, operand, iteration);
    const int64_t bytes = program_.at(operand.tensor).slice_bytes();
    const int64_t first = range.begin / bytes;
    result_.accesses.push_back({kind, e, operand.tensor, first, first + range.size / bytes});
  }

  // A write of the whole tensor that leaves no value, except what skipped iterations put there.
  void cover(AccessKind kind, int e, TensorId tensor) {
    if (!layout_.placed(tensor)) return;
    const int64_t slices = program_.at(tensor).slices;
    const int access = static_cast<int>(result_.accesses.size());
    result_.accesses.push_back({kind, e, tensor, 0, slices});
    write(access);
    if (kind == AccessKind::release) return;
    const std::vector<bool>& skipped = skipped_[static_cast<size_t>(tensor)];
    for (int64_t slice = 0; slice < slices; ++slice) {
      if (!skipped[static_cast<size_t>(slice)]) continue;
      for (Piece& piece : pieces(tensor, slice, slice + 1))
        piece.held = true;
    }
  }

  std::span<Piece> pieces(TensorId tensor, int64_t first, int64_t end) {
    const Pieces range = layout_.pieces_of(tensor, first, end);
    return {pieces_.data() + range.first, pieces_.data() + range.end};
  }

  std::span<Piece> pieces(const Access& access) {
    return pieces(access.tensor, access.first_slice, access.end_slice);
  }

  bool lacks_place(const Access& access, int id) {
    if (layout_.placed(access.tensor)) return false;
    violate(told(id), ": the plan gives this tensor no place");
    return true;
  }

  // One op on two tensors that share bytes.
  void check_within_op(int a, int b) {
    const Access &x = result_.accesses[index_of(a)], &y = result_.accesses[index_of(b)];
    if (x.tensor == y.tensor || (x.kind == AccessKind::read && y.kind == AccessKind::read)) return;
    if (!layout_.placed(x.tensor) || !layout_.placed(y.tensor)) return;
    const Pieces p = layout_.pieces_of(x.tensor, x.first_slice, x.end_slice);
    const Pieces q = layout_.pieces_of(y.tensor, y.first_slice, y.end_slice);
    if (p.first < q.end && q.first < p.end) {
      violate(told(a), " and ", told(b), " touch the same bytes");
    }
  }

  void check_direction(int a, int64_t order) {
    const Access& access = result_.accesses[index_of(a)];
    const bool writes = access.kind == AccessKind::write;
    for (int64_t k = access.first_slice; k < access.end_slice; ++k) {
      SliceOrder& slice = order_[static_cast<size_t>(access.tensor)][static_cast<size_t>(k)];
      if (order < (writes ? slice.touched : slice.written)) {
        violate(told(a), " comes after an access that follows it in the program");
      }
      if (writes) slice.written = std::max(slice.written, order);
      slice.touched = std::max(slice.touched, order);
    }
  }

  void read(int a) {
    const Access access = result_.accesses[index_of(a)];
    if (lacks_place(access, a)) return;
    for (Piece& piece : pieces(access)) {
      if (piece.last_write >= 0) conflict(piece.last_write, a);
      if (!holds_value(piece, access.tensor)) {
        violate(told(a), " does not find its value: last comes ", told(piece.last_write));
      }
      piece.reads[lane_of_event(access.event)] = a;
    }
  }

  bool holds_value(const Piece& piece, TensorId tensor) const {
    if (piece.last_write < 0) return false;
    const Access& source = result_.accesses[index_of(piece.last_write)];
    const bool valued = source.kind == AccessKind::write || source.kind == AccessKind::initial;
    return source.tensor == tensor && (valued || piece.held);
  }

  void write(int a) {
    const Access access = result_.accesses[index_of(a)];
    if (lacks_place(access, a)) return;
    for (Piece& piece : pieces(access)) {
      if (piece.held && result_.accesses[index_of(piece.last_write)].tensor != access.tensor) {
        violate(told(a), " destroys ", told(piece.last_write));
      }
      if (access.kind == AccessKind::initial && piece.last_write >= 0) {
        violate(told(a), " overlaps ", told(piece.last_write));
      }
      if (piece.last_write >= 0) conflict(piece.last_write, a);
      for (const int earlier : piece.reads) {
        if (earlier >= 0) conflict(earlier, a);
      }
      piece = Piece{a, {-1, -1, -1, -1}, false};
    }
  }

  size_t lane_of_event(int e) const {
    return static_cast<size_t>(unrolled_.events[index_of(e)].lane);
  }

  void conflict(int earlier, int later) {
    const int x = result_.accesses[index_of(earlier)].event,
              y = result_.accesses[index_of(later)].event;
    if (x < 0 || y < 0 || lane_of_event(x) == lane_of_event(y)) return;
    std::vector<Conflict>& list = result_.conflicts;
    if (!list.empty() && list.back().earlier == earlier && list.back().later == later) return;
    list.push_back({earlier, later});
  }

  std::string told(int access) const {
    return access < 0 ? std::string("nobody's bytes")
                      : describe(schedule_, plan_, unrolled_, result_.accesses[index_of(access)]);
  }

  template <class... Parts>
  void violate(const Parts&... parts) {
    if (!result_.violation) result_.violation = text(parts...);
  }

  const Schedule& schedule_;
  const Program& program_;
  const Plan& plan_;
  const Unrolled& unrolled_;
  AccessMap& result_;
  Layout layout_;
  std::vector<std::vector<bool>> skipped_;  // per tensor and slice
  std::vector<Piece> pieces_;
  std::vector<std::vector<SliceOrder>> order_;  // per tensor and slice
};

}  // namespace

std::string describe(const Schedule& schedule, const Plan& plan, const Unrolled& unrolled,
                     const Access& access) {
  static constexpr const char* kinds[] = {"initial value", "allocation", "read", "write",
                                          "release"};
  const Program& program = schedule.program;
  const Tensor& tensor = program.at(access.tensor);
  const int64_t begin = plan.offset[static_cast<size_t>(access.tensor)];
  std::string out = text(kinds[static_cast<size_t>(access.kind)], " of \"", tensor.name,
                         "\" (bytes ", begin + access.first_slice * tensor.slice_bytes(), " to ",
                         begin + access.end_slice * tensor.slice_bytes(),
                         tensor.space == Space::host ? ", host)" : ")");
  if (access.event < 0) return out;
  const Event& event = unrolled.events[index_of(access.event)];
  const BodyRun& run = unrolled.runs[index_of(event.run)];
  const Segment& segment = program.segments[index_of(run.segment)];
  if (event.kind == EventKind::step) {
    const auto& steps = schedule.segments[index_of(run.segment)].lanes[index_of(event.lane)];
    out += text(" at op \"", segment.ops[index_of(steps[index_of(event.position)].op)].name, "\"");
  } else {
    out += event.kind == EventKind::enter ? " on entering" : " on leaving";
  }
  return text(out, ", segment \"", segment.name, "\", iteration ", run.iteration, " of step ",
              run.step, ", lane ", name_of(event.lane));
}

AccessMap map_accesses(const Schedule& schedule, const Plan& plan, const Unrolled& unrolled) {
  AccessMap result;
  Player(schedule, plan, unrolled, result).play();
  return result;
}

}  // namespace spillway
