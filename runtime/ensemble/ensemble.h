// Parts, and whose turn it is on each: sessions that share them have their requests done one after the other on each part, by the
// executor that the part has. Used by any number of threads.
#pragma once

#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/work_meter.h"
#include "runtime/ensemble/mapper.h"
#include "runtime/ensemble/part.h"
#include "runtime/ensemble/turns.h"
#include "runtime/threads/runners.h"

namespace mlc::ensemble {

// What all executors may hold together, with that of a session.
struct MemoryTogether {
  uint64_t limit = 0;    // bytes; 0: each has a limit of its own, and nothing is shared
  uint64_t held = 0;     // by the session
  uint64_t at_once = 1;  // requests of it that parts may do at one time
};

class Ensemble {
 public:
  explicit Ensemble(std::vector<Part> parts);

  const std::vector<Part>& parts() const { return parts_; }
  Runners& runners() { return runners_; }  // for callers that use several parts at once

  // How long a function is expected to take on a part, until runs have shown it.
  void expect(uint32_t function, uint32_t part, double ns);

  // A part whose executor is the holder's alone.
  class Turn {
   public:
    Turn(Turn&& other) noexcept : of_(std::exchange(other.of_, nullptr)), function_(other.function_), place_(other.place_), began_(other.began_) {}
    ~Turn();
    uint32_t part() const { return place_.part; }
    const Part& operator*() const { return of_->parts_[place_.part]; }
    void succeeded();  // so that what it took tells how long the next one will take

   private:
    friend class Ensemble;
    Turn(Ensemble& of, uint32_t function, Turns::Place place);
    Ensemble* of_;
    uint32_t function_;
    Turns::Place place_;
    uint64_t began_;
  };
  uint64_t held() const;  // bytes, by all parts, as far as they are at rest

  // Waits for a turn on the part of those that `may` allows, one at least, that is expected to be done first. None: the meter has
  // ended the run.
  std::optional<Turn> wait(uint32_t function, const std::vector<uint8_t>& may, WorkMeter& meter, const MemoryTogether& memory = {});

  // A part that does not answer any more gets no requests. `lose` is true for the first caller, which reports it.
  bool lose(uint32_t part);
  bool is_lost(uint32_t part) const;

 private:
  void leave(const Turns::Place& place);
  void allot(uint32_t part, const MemoryTogether& memory);  // mu_ is held
  std::vector<double>& expected(uint32_t function);  // mu_ is held

  const std::vector<Part> parts_;
  Runners runners_;
  mutable std::mutex mu_;
  Turns turns_;                            // guarded by mu_, as are the next
  std::vector<std::vector<double>> expected_;  // of each function on each part; 0: unknown
  std::vector<uint8_t> lost_;
  std::vector<uint64_t> held_;             // by each part: what it may hold while it has a turn, else what it holds
  std::vector<double> asked_;              // of `wait`, kept for its memory
};

}  // namespace mlc::ensemble
