// Fibres by ucontext.
#include "tests/support/fibres.h"

#include <algorithm>
#include <cmath>
#include <exception>

#include <ucontext.h>

#include "harness/error.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace spillway {
namespace {

constexpr size_t stack_bytes = size_t{128} << 10;

// Why a fibre gave way.
enum class Meeting : uint8_t { ready, sync, sum, max, largest, done };

// The address sanitizer must know which stack is in use.
struct StackSwitch {
#if defined(__SANITIZE_ADDRESS__)
  void* fake = nullptr;
  void leave(const void* bottom, size_t size, bool for_good = false) {
    __sanitizer_start_switch_fiber(for_good ? nullptr : &fake, bottom, size);
  }
  void arrive(const void** bottom, size_t* size) {
    __sanitizer_finish_switch_fiber(fake, bottom, size);
  }
#else
  void leave(const void*, size_t, bool = false) {}
  void arrive(const void**, size_t*) {}
#endif
};

struct Fibre {
  ucontext_t context = {};
  std::unique_ptr<std::byte[]> stack{new std::byte[stack_bytes]};  // not touched before it is used
  StackSwitch switching;
  Meeting meeting = Meeting::ready;
  float value = 0;
  int index = 0;
};

}  // namespace

struct Fibres::State {
  std::vector<Fibre> fibres;
  std::vector<std::byte> scratch_memory;
  std::byte* scratch = nullptr;
  ucontext_t main = {};
  StackSwitch switching;
  const void* main_bottom = nullptr;
  size_t main_size = 0;
  int threads = 0, running = 0;
  int first_to_run = 0;  // in the round that begins: 1 where the first has run already
  bool on_fibre = true;
  Fibres* owner = nullptr;
  const Body* body = nullptr;
  std::exception_ptr thrown;
  float result = 0;
  int result_index = 0;

  Fibre& own(int rank) { return fibres[static_cast<size_t>(rank)]; }

  static State*& current() {
    static thread_local State* state = nullptr;
    return state;
  }

  static void enter() {
    State& s = *current();
    Fibre& self = s.own(s.running);
    self.switching = {};
    self.switching.arrive(&s.main_bottom, &s.main_size);
    try {
      (*s.body)(FibreGroup(*s.owner, s.running));
    } catch (...) {
      if (!s.thrown) s.thrown = std::current_exception();
    }
    self.meeting = Meeting::done;
    self.switching.leave(s.main_bottom, s.main_size, true);
    setcontext(&s.main);
  }

  void start(int rank) {
    Fibre& fibre = own(rank);
    fibre.meeting = Meeting::ready;
    getcontext(&fibre.context);
    fibre.context.uc_stack.ss_sp = fibre.stack.get();
    fibre.context.uc_stack.ss_size = stack_bytes;
    fibre.context.uc_link = nullptr;
    makecontext(&fibre.context, &State::enter, 0);
  }

  void resume(int rank) {
    Fibre& fibre = own(rank);
    running = rank;
    switching.leave(fibre.stack.get(), stack_bytes);
    swapcontext(&main, &fibre.context);
    switching.arrive(nullptr, nullptr);
  }

  // Of the fibre that runs.
  void give_way(Meeting meeting) {
    check(on_fibre, "thread ", running, " of a group waits, the first one did not");
    Fibre& self = own(running);
    self.meeting = meeting;
    self.switching.leave(main_bottom, main_size);
    swapcontext(&self.context, &main);
    self.switching.arrive(&main_bottom, &main_size);
  }

  // The i-th of the group in this order.
  void resume_or_throw(ThreadOrder order, int i) {
    resume(rank_of(order, i));
    if (thrown) std::rethrow_exception(thrown);
  }
  int rank_of(ThreadOrder order, int i) const {
    return order == ThreadOrder::rising ? i : threads - 1 - i;
  }

  // Where the first thread does not wait none may: the others need no stack of their own.
  bool run_without_waits(ThreadOrder order) {
    const int first = rank_of(order, 0);
    start(first);
    resume_or_throw(order, 0);
    if (own(first).meeting != Meeting::done) return false;
    on_fibre = false;
    for (int i = 1; i < threads; ++i) {
      running = rank_of(order, i);
      (*body)(FibreGroup(*owner, running));
    }
    return true;
  }

  // What all fibres of the group, waiting for the same, are to find.
  void combine(Meeting meeting) {
    std::vector<float> values;
    for (int rank = 0; rank < threads; ++rank)
      values.push_back(own(rank).value);
    if (meeting == Meeting::largest) {
      int best = 0;
      const auto key = [&](int rank) {
        return std::isnan(own(rank).value) ? -INFINITY : own(rank).value;
      };
      for (int rank = 1; rank < threads; ++rank) {
        const bool lower = own(rank).index < own(best).index;
        if (key(rank) > key(best) || (key(rank) == key(best) && lower)) best = rank;
      }
      result_index = own(best).index;
    }
    for (size_t half = values.size() / 2; half > 0; half /= 2) {
      for (size_t i = 0; i < half; ++i) {
        const float a = values[i], b = values[i + half];
        values[i] = meeting == Meeting::sum ? a + b : std::fmax(a, b);
      }
    }
    result = values[0];
  }

  // Lets every fibre run to where it waits or ends; false when all have ended.
  bool round(ThreadOrder order) {
    for (int i = first_to_run; i < threads; ++i)
      resume_or_throw(order, i);
    first_to_run = 0;
    const Meeting meeting = own(0).meeting;
    for (int rank = 1; rank < threads; ++rank) {
      check(own(rank).meeting == meeting, "thread ", rank, " of a group is at another wait (",
            static_cast<int>(own(rank).meeting), ") than thread 0 (", static_cast<int>(meeting),
            ")");
    }
    if (meeting != Meeting::done && meeting != Meeting::sync) combine(meeting);
    return meeting != Meeting::done;
  }
};

Fibres::Fibres() : state_(std::make_unique<State>()) {}
Fibres::~Fibres() = default;

void Fibres::run(int threads, int64_t scratch_bytes, ThreadOrder order, const Body& body) {
  check(threads > 0 && (threads & (threads - 1)) == 0, "a group of ", threads, " threads");
  State& s = *state_;
  State::current() = &s;
  s.owner = this;
  s.threads = threads;
  s.body = &body;
  s.thrown = nullptr;
  while (s.fibres.size() < static_cast<size_t>(threads))
    s.fibres.emplace_back();
  // Ends where the memory ends, so that the address sanitizer sees what goes beyond.
  s.scratch_memory.assign(static_cast<size_t>((scratch_bytes + 15) / 16 * 16), std::byte{0xff});
  s.scratch = s.scratch_memory.data();
  s.on_fibre = true;
  if (s.run_without_waits(order)) return;
  for (int i = 1; i < threads; ++i)
    s.start(s.rank_of(order, i));
  s.first_to_run = 1;
  while (s.round(order)) {
  }
}

int FibreGroup::size() const { return fibres_.state_->threads; }
std::byte* FibreGroup::scratch() const { return fibres_.state_->scratch; }
void FibreGroup::sync() const { fibres_.state_->give_way(Meeting::sync); }

float FibreGroup::sum(float x) const {
  fibres_.state_->own(rank_).value = x;
  fibres_.state_->give_way(Meeting::sum);
  return fibres_.state_->result;
}
float FibreGroup::max(float x) const {
  fibres_.state_->own(rank_).value = x;
  fibres_.state_->give_way(Meeting::max);
  return fibres_.state_->result;
}
int FibreGroup::largest(float x, int index) const {
  fibres_.state_->own(rank_).value = x;
  fibres_.state_->own(rank_).index = index;
  fibres_.state_->give_way(Meeting::largest);
  return fibres_.state_->result_index;
}

}  // namespace spillway
