// Work beside other work, in order: what is made ahead of its use, and what is done behind it. Both hold a bounded number of items, and
// what comes out does not depend on how many threads there are.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace mlc::cli {

inline constexpr uint64_t kMostWaiting = uint64_t{256} << 20;  // bytes of what is decoded and not yet run
// Of a machine that has so many workers.
inline size_t num_decoders(size_t workers) { return std::clamp<size_t>(workers, 1, 4); }

// Items 0 to count − 1, made by threads and taken by one other in this order. An item that is made waits; none is begun while `most_bytes`
// wait, unless it is the next one to be taken.
template <class Item>
class MadeAhead {
 public:
  // `make` is called by several threads at once. `bytes_of` an item while it waits.
  MadeAhead(size_t count, size_t threads, uint64_t most_bytes, std::function<Item(size_t)> make, std::function<uint64_t(const Item&)> bytes_of)
      : count_(count), most_ahead_(2 * threads), most_bytes_(most_bytes), make_(std::move(make)), bytes_of_(std::move(bytes_of)) {
    for (size_t t = 0; t < threads; ++t) threads_.emplace_back([this] { work(); });
  }
  ~MadeAhead() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    changed_.notify_all();
    for (std::thread& t : threads_) t.join();
  }
  MadeAhead(const MadeAhead&) = delete;
  MadeAhead& operator=(const MadeAhead&) = delete;

  // The next one. Not to be called more than `count` times.
  Item take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return made_.contains(taken_); });
    auto node = made_.extract(taken_++);
    waiting_bytes_ -= bytes_of_(node.mapped());
    changed_.notify_all();
    return std::move(node.mapped());
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return is_over_ || begun_ == count_ || may_begin(); });
      if (is_over_ || begun_ == count_) return;
      const size_t index = begun_++;
      lock.unlock();
      Item item = make_(index);
      lock.lock();
      waiting_bytes_ += bytes_of_(item);
      made_.emplace(index, std::move(item));
      changed_.notify_all();
    }
  }
  bool may_begin() const { return begun_ == taken_ || (begun_ < taken_ + most_ahead_ && waiting_bytes_ < most_bytes_); }

  // Constant.
  const size_t count_, most_ahead_;
  const uint64_t most_bytes_;
  const std::function<Item(size_t)> make_;
  const std::function<uint64_t(const Item&)> bytes_of_;
  // Guarded by mutex_.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<size_t, Item> made_;
  size_t begun_ = 0, taken_ = 0;
  uint64_t waiting_bytes_ = 0;
  bool is_over_ = false;

  std::vector<std::thread> threads_;  // last: they use all of the above
};

// One thread that does what it is given, in order. The destructor waits until all is done.
class DoneBehind {
 public:
  explicit DoneBehind(size_t most_waiting) : most_waiting_(most_waiting), thread_([this] { work(); }) {}
  ~DoneBehind() {
    put(nullptr);
    thread_.join();
  }
  DoneBehind(const DoneBehind&) = delete;
  DoneBehind& operator=(const DoneBehind&) = delete;

  // Waits while there are too many.
  void put(std::function<void()> job) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_.size() < most_waiting_; });
    waiting_.push_back(std::move(job));
    changed_.notify_all();
  }

 private:
  void work() {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return !waiting_.empty(); });
      const std::function<void()> job = std::move(waiting_.front());
      waiting_.pop_front();
      changed_.notify_all();
      lock.unlock();
      if (!job) return;  // the end
      job();
    }
  }

  const size_t most_waiting_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;  // guarded by mutex_
  std::thread thread_;                         // last: it uses all of the above
};

}  // namespace mlc::cli
