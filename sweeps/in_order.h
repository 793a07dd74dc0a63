// Independent pieces of work on several threads, their results taken in order.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace spillway {

// Calls work(i) for every i in [0, count) on `threads` threads and take(i, its result) on the
// caller's, for i = 0, 1, ... With one thread each piece is taken before the next one begins; with
// more, they run ahead of what is taken by a few pieces at most. What work or take throws ends the
// rest and is thrown here; of several pieces that throw, the first one's.
template <class Result>
class InOrder {
 public:
  using Work = std::function<Result(size_t)>;
  using Take = std::function<void(size_t, Result)>;

  static void run(size_t count, int threads, const Work& work, const Take& take) {
    if (threads > 1 && count > 1) return InOrder(count, threads, work).take_all(take);
    for (size_t i = 0; i < count; ++i)
      take(i, work(i));
  }

 private:
  struct Piece {
    std::optional<Result> result;
    std::exception_ptr error;
    bool done = false;
  };

  InOrder(size_t count, int threads, const Work& work)
      : work_(work), pieces_(count), lead_(4 * static_cast<size_t>(threads)) {
    for (int i = 0; i < std::min(threads, static_cast<int>(count)); ++i)
      threads_.emplace_back([this] { serve(); });
  }
  ~InOrder() {
    {
      const std::lock_guard lock(guard_);
      stopped_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_)
      thread.join();
  }

  void serve() {
    std::unique_lock lock(guard_);
    for (;;) {
      changed_.wait(lock, [&] {
        return stopped_ || next_ < std::min(pieces_.size(), taken_ + lead_) ||
               next_ == pieces_.size();
      });
      if (stopped_ || next_ == pieces_.size()) return;
      const size_t i = next_++;
      Piece piece;
      lock.unlock();
      try {
        piece.result = work_(i);
      } catch (...) {
        piece.error = std::current_exception();
      }
      piece.done = true;
      lock.lock();
      pieces_[i] = std::move(piece);
      changed_.notify_all();
    }
  }

  void take_all(const Take& take) {
    for (size_t i = 0; i < pieces_.size(); ++i) {
      std::unique_lock lock(guard_);
      changed_.wait(lock, [&] { return pieces_[i].done; });
      Piece piece = std::exchange(pieces_[i], {});
      taken_ = i + 1;
      lock.unlock();
      changed_.notify_all();
      if (piece.error) std::rethrow_exception(piece.error);
      take(i, std::move(*piece.result));
    }
  }

  const Work& work_;
  std::mutex guard_;  // of all that follows
  std::condition_variable changed_;
  std::vector<Piece> pieces_;
  size_t next_ = 0, taken_ = 0, lead_;
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace spillway
