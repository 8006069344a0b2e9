// What an executor holds and may hold. One thread.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "runtime/memory/allocator.h"

namespace mlc::exec {

struct MemoryBudget {
  uint64_t limit = 0, held = 0;          // bytes; held <= limit
  const Allocator* allocator = nullptr;  // that gives them; outlives the executor; null: the system

  uint64_t available() const { return limit - held; }
  Status refusal(std::string_view what, uint64_t bytes) const {
    return Status(Code::Resource, "{} of {} bytes, {} are available", what, bytes, available());
  }
};

// A part of the budget, given back at the end. For memory that comes from the heap; blocks are counted where they are mapped.
class Charge {
 public:
  Charge() = default;
  Charge(Charge&& other) noexcept
      : budget_(std::exchange(other.budget_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Charge& operator=(Charge&& other) noexcept {
    std::swap(budget_, other.budget_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Charge() {
    if (budget_) budget_->held -= bytes_;
  }

  // Resource if so much is not available.
  static Status take(MemoryBudget& budget, std::string_view what, uint64_t bytes, Charge& out) {
    if (bytes > budget.available()) return budget.refusal(what, bytes);
    Charge made;
    made.budget_ = &budget;
    made.bytes_ = bytes;
    budget.held += bytes;
    out = std::move(made);
    return ok();
  }

 private:
  MemoryBudget* budget_ = nullptr;  // outlives this
  uint64_t bytes_ = 0;
};

}  // namespace mlc::exec
