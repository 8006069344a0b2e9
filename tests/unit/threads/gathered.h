// A run of a session, as far as its threads go.
#pragma once

#include <doctest/doctest.h>

#include <memory>

#include "runtime/threads/team.h"

namespace mlc::test {

inline std::unique_ptr<WorkerPool> pool_of(unsigned workers) { return WorkerPool::create({.workers = workers}).value(); }

// A team that has its workers from here on, and no limits.
class Gathered {
 public:
  explicit Gathered(const TeamOptions& options) : team_(options) {
    team_.start_run();
    const Status status = team_.gather(meter_);
    CHECK_MESSAGE(status.ok(), status.text());
  }
  ~Gathered() { team_.end_run(); }
  Gathered(const Gathered&) = delete;

  Team& operator*() { return team_; }
  Team* operator->() { return &team_; }

 private:
  WorkMeter meter_;
  Team team_;
};

}  // namespace mlc::test
