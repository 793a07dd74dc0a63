// Plays the accesses of all events in their linear order over the pieces of memory.
#include "harness/access_map.h"

#include <algorithm>
#include <span>

#include "harness/error.h"
#include "harness/event_accesses.h"
#include "harness/layout.h"
#include "harness/operands.h"

namespace spillway {
namespace {

// An access of a body's event, made ready to be played in every run.
struct BodyAccess {
  AccessKind kind = AccessKind::initial;
  TensorId tensor = no_tensor;
  int op = -1;
  int first_part = 0, end_part = 0;  // of a whole tensor
  Index index;                       // else of one slice
  bool placed = true;                // the plan has a place for the tensor
};

struct BodyAccesses {
  std::vector<BodyAccess> list;
  std::vector<int> first;  // per event, and the end
};

struct Piece {
  Clock used{};  // the last write and the reads since then: per lane, events up to these
  // The last write, whose it was and where; none: nothing was ever here.
  int write_event = -1, write_count = 0, write_part = -1;
  TensorId tensor = no_tensor;
  uint8_t write_lane = 0;
  AccessKind kind = AccessKind::initial;
  // Only iterations that are not looked at use it: nobody else may write it while its tensor lives.
  bool held = false;
};

// Program order of the accesses to one part: (run, op) as one number.
struct PartOrder {
  int64_t written = -1, touched = -1;
};

class Player {
 public:
  // `apart`: the pieces of two tensors are never the same (layout.h).
  Player(const Schedule& schedule, const Plan& plan, const Unrolled& unrolled, const Parts& parts,
         std::vector<Pieces> pieces, bool apart)
      : schedule_(schedule),
        program_(schedule.program),
        plan_(plan),
        unrolled_(unrolled),
        parts_(parts),
        pieces_of_(std::move(pieces)),
        apart_(apart),
        order_(parts.slice.size()) {
    int end = 0;
    for (const Pieces& range : pieces_of_)
      end = std::max(end, range.end);
    pieces_.resize(index_of(end));
  }

  AccessMap play() {
    result_.needed.resize(index_of(unrolled_.events));
    for (size_t s = 0; s < unrolled_.bodies.size(); ++s)
      bodies_.push_back(accesses_of(static_cast<int>(s)));
    for (size_t id = 0; id < program_.tensors.size(); ++id) {
      if (program_.tensors[id].extent != Extent::persistent || plan_.offset[id] == -1) continue;
      const TensorId tensor = static_cast<TensorId>(id);
      cover({AccessKind::initial, tensor, -1, parts_.first[id], parts_.end(tensor), {}, true});
    }
    for (size_t r = 0; r < unrolled_.runs.size(); ++r)
      play_run(static_cast<int>(r));
    return std::move(result_);
  }

 private:
  // The event that is played.
  struct Now {
    int event = -1, count = 0;  // count: events on its lane, with this one
    uint8_t lane = 0;
    Clock needed{};
  };
  struct Played {
    const BodyAccess* access = nullptr;
    int first_part = 0, end_part = 0;
  };

  BodyAccesses accesses_of(int segment) const {
    const std::vector<Event>& events = unrolled_.bodies[index_of(segment)].events;
    BodyAccesses body;
    body.list.reserve(4 * events.size());
    body.first.reserve(events.size() + 1);
    const auto add = [&](AccessKind kind, const Operand& operand, int op) {
      const size_t tensor = static_cast<size_t>(operand.tensor);
      const bool placed = plan_.offset[tensor] != -1;
      if (!placed && op < 0) return;
      body.list.push_back({kind, operand.tensor, op, parts_.first[tensor], parts_.first[tensor + 1],
                           operand.index, placed});
    };
    for (const Event& event : events) {
      body.first.push_back(static_cast<int>(body.list.size()));
      for_each_access(schedule_, segment, event, add);
    }
    body.first.push_back(static_cast<int>(body.list.size()));
    return body;
  }

  void play_run(int r) {
    const BodyRun& run = unrolled_.runs[index_of(r)];
    const std::vector<Event>& events = unrolled_.body_of(run).events;
    const BodyAccesses& body = bodies_[index_of(run.segment)];
    for (size_t k = 0; k < events.size(); ++k) {
      const Event& event = events[k];
      if (body.first[k] == body.first[k + 1] || !happens(program_, run, event)) continue;
      const size_t lane = index_of(event.lane);
      begin_event(run.first_event + static_cast<int>(k), lane,
                  run.before[lane] + event.sequence + 1);
      played_.clear();
      for (int a = body.first[k]; a < body.first[k + 1]; ++a)
        play_access(body.list[index_of(a)], r, run.iteration);
      // A lane is in order by itself.
      result_.needed[index_of(now_.event)] = with_count(now_.needed, lane, 0);
    }
  }

  // Member by member, here and in write(): a whole one would be put together in memory first.
  void begin_event(int event, size_t lane, int count) {
    now_.event = event;
    now_.count = count;
    now_.lane = static_cast<uint8_t>(lane);
    now_.needed = {};
  }

  void play_access(const BodyAccess& access, int run, int64_t iteration) {
    if (access.op < 0) return cover(access);
    int first = access.first_part, end = access.end_part;
    if (!access.placed) return violate(told(access, first), ": the plan gives it no place");
    if (!access.index.whole) {
      const size_t tensor = static_cast<size_t>(access.tensor);
      const int64_t slice = slice_of(program_.tensors[tensor], access.index, iteration);
      first = parts_.of_slice[index_of(parts_.first_slice[tensor]) + static_cast<size_t>(slice)];
      end = first + 1;
    }
    if (!apart_) check_within_op({&access, first, end});
    const int64_t order = (int64_t{run} << 32) + access.op;
    for (int part = first; part < end; ++part) {
      check_direction(access, part, order);
      for (Piece& piece : pieces(part))
        access.kind == AccessKind::read ? read(access, part, piece) : write(access, part, piece);
    }
  }

  // A write of the whole tensor that leaves no value, except what skipped iterations put there.
  void cover(const BodyAccess& access) {
    for (int part = access.first_part; part < access.end_part; ++part) {
      const bool held = access.kind != AccessKind::release && parts_.held[index_of(part)];
      for (Piece& piece : pieces(part)) {
        write(access, part, piece);
        piece.held = held;
      }
    }
  }

  std::span<Piece> pieces(int part) {
    const Pieces range = pieces_of_[index_of(part)];
    return {pieces_.data() + range.first, pieces_.data() + range.end};
  }

  // One op on two tensors that share bytes.
  void check_within_op(const Played& later) {
    const int first = pieces_of_[index_of(later.first_part)].first;
    const int end = pieces_of_[index_of(later.end_part - 1)].end;
    for (const Played& earlier : played_) {
      const BodyAccess &a = *earlier.access, &b = *later.access;
      if (a.op != b.op || a.tensor == b.tensor) continue;
      if (a.kind == AccessKind::read && b.kind == AccessKind::read) continue;
      if (pieces_of_[index_of(earlier.first_part)].first < end &&
          first < pieces_of_[index_of(earlier.end_part - 1)].end)
        violate(told(b, later.first_part), " and ", told(a, earlier.first_part),
                " touch the same bytes");
    }
    played_.push_back(later);
  }

  void check_direction(const BodyAccess& access, int part, int64_t order) {
    const bool writes = access.kind == AccessKind::write;
    PartOrder& last = order_[index_of(part)];
    if (order < (writes ? last.touched : last.written))
      violate(told(access, part), " comes after an access that follows it in the program");
    if (writes) last.written = std::max(last.written, order);
    last.touched = std::max(last.touched, order);
  }

  void read(const BodyAccess& access, int part, Piece& piece) {
    const bool valued = piece.kind == AccessKind::write || piece.kind == AccessKind::initial;
    if (piece.tensor != access.tensor || !(valued || piece.held))
      violate(told(access, part), " does not find its value: last comes ", told(piece));
    join(now_.needed, with_count({}, piece.write_lane, piece.write_count));
    piece.used = with_count(piece.used, now_.lane, now_.count);
  }

  void write(const BodyAccess& access, int part, Piece& piece) {
    if (piece.held && piece.tensor != access.tensor)
      violate(told(access, part), " destroys ", told(piece));
    if (access.kind == AccessKind::initial && piece.tensor != no_tensor)
      violate(told(access, part), " overlaps ", told(piece));
    const bool alive = piece.tensor != no_tensor && piece.kind != AccessKind::release;
    if (apart_ && access.kind == AccessKind::write && !alive)
      violate(told(access, part), " comes while its tensor has no place");
    join(now_.needed, piece.used);
    piece.used = with_count({}, now_.lane, now_.count);
    piece.write_event = now_.event;
    piece.write_count = now_.count;
    piece.write_part = part;
    piece.tensor = access.tensor;
    piece.write_lane = now_.lane;
    piece.kind = access.kind;
    piece.held = false;
  }

  std::string told(const BodyAccess& access, int part) const {
    return told(access.kind, now_.event, access.tensor, part);
  }
  std::string told(const Piece& piece) const {
    if (piece.tensor == no_tensor) return "nobody's bytes";
    return told(piece.kind, piece.write_event, piece.tensor, piece.write_part);
  }
  std::string told(AccessKind kind, int event, TensorId tensor, int part) const {
    return describe(schedule_, plan_, unrolled_,
                    {kind, event, tensor, parts_.slice[index_of(part)],
                     parts_.end_slice(program_, tensor, part)});
  }

  template <class... Parts>
  void violate(const Parts&... parts) {
    if (!result_.violation) result_.violation = text(parts...);
  }

  const Schedule& schedule_;
  const Program& program_;
  const Plan& plan_;
  const Unrolled& unrolled_;
  const Parts& parts_;
  std::vector<Pieces> pieces_of_;  // of each part
  bool apart_;
  std::vector<BodyAccesses> bodies_;  // per segment
  std::vector<Piece> pieces_;
  std::vector<PartOrder> order_;  // per part
  Now now_;
  std::vector<Played> played_;  // of this event
  AccessMap result_;
};

}  // namespace

AccessMap map_accesses(const Schedule& schedule, const Plan& plan, const Unrolled& unrolled) {
  AccessMap result;
  result.violation = misplaced(schedule.program, plan);
  if (result.violation) {
    result.needed.resize(index_of(unrolled.events));
    return result;
  }
  const Parts parts = parts_of(schedule.program);
  if (alive_apart(schedule, plan)) {
    result = Player(schedule, plan, unrolled, parts, pieces_apart(parts), true).play();
    if (!result.violation) return result;
  }
  // Something is wrong, or only looks so: by the bytes themselves.
  return Player(schedule, plan, unrolled, parts, pieces_shared(schedule.program, plan, parts),
                false)
      .play();
}

}  // namespace spillway
