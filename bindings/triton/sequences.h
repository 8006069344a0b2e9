// What a model keeps between the requests of a sequence (Triton's word for requests that belong together).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "bindings/triton/model.h"

namespace mlc::triton {

// The sequence that a request belongs to, and where in it.
struct SequenceTurn {
  std::string id;  // empty: of none
  bool begins = false, ends = false;
};

// Ids of text come from clients, are kept with each state and shown in messages. Triton's servers take as many, but a server in a process of its application
// need not be asked by them.
inline constexpr size_t kMaxSequenceIdBytes = 128;

// The id of a turn of one that clients give as text; empty: of none. InputMismatch where it is longer than kMaxSequenceIdBytes.
[[nodiscard]] Result<std::string> id_of_text(std::string_view text);

// The states of an instance's sequences. That of the last request lies in the session, the others as bytes (spec/state.md): where a slot of
// Triton's has one sequence until it ends, nothing is copied. For one thread, as an instance of Triton's is.
class Sequences {
 public:
  // `session` must outlive it. Of more than `most` sequences, at least 1, the one that was idle longest is dropped: Triton does not
  // tell which ones it has given up.
  Sequences(MlcSession* session, uint32_t most) : session_(session), most_(most) {}

  // In front of a run: the session has the state of this sequence, the first values where it begins or is none. InputMismatch for one
  // that is not there.
  [[nodiscard]] Status enter(const SequenceTurn& turn);
  // Behind it. A run that failed may have written some of the state, so its sequence ends too, but for runs that were refused (InputMismatch, Usage).
  [[nodiscard]] Status leave(const SequenceTurn& turn, const Status& ran);

  size_t count() const { return idle_.size() + (current_.empty() ? 0 : 1); }

 private:
  struct Idle {
    std::vector<std::byte> state;
    uint64_t since = 0;
  };

  [[nodiscard]] Status reset();
  // The state in the session becomes one of the idle ones.
  [[nodiscard]] Status park();

  MlcSession* session_;
  uint32_t most_;
  std::string current_;  // whose state the session has; empty: no sequence's
  std::map<std::string, Idle, std::less<>> idle_;
  uint64_t parked_ = 0;
};

}  // namespace mlc::triton
