#include "bindings/triton/sequences.h"

#include <algorithm>

namespace mlc::triton {

// In quotes: the text '7' is another sequence than the number 7.
Result<std::string> id_of_text(std::string_view text) {
  if (text.size() > kMaxSequenceIdBytes)
    return std::move(Status(Code::InputMismatch, "sequence_id has {} bytes, at most {} expected", text.size(), kMaxSequenceIdBytes))
        .hint("name the sequence by a number, a UUID, or the hash of what names it now");
  return text.empty() ? std::string() : "'" + std::string(text) + "'";
}

Status Sequences::reset() {
  MlcError* error = nullptr;
  return status_of(api().state_reset(session_, &error), error);
}

Status Sequences::park() {
  if (current_.empty()) return ok();
  MlcBytes bytes = {};
  MlcError* error = nullptr;
  const Status saved = status_of(api().state_save(session_, &bytes, &error), error);
  const std::string id = std::exchange(current_, {});  // a state that cannot be saved is lost
  MLC_RETURN_IF_ERROR(saved);
  while (idle_.size() + 1 >= most_ && !idle_.empty())
    idle_.erase(std::min_element(idle_.begin(), idle_.end(), [](const auto& a, const auto& b) { return a.second.since < b.second.since; }));
  if (most_ < 2) return ok();  // the one that enters is all there may be
  const auto* const begin = static_cast<const std::byte*>(bytes.data);
  idle_[id] = {{begin, begin + bytes.bytes}, ++parked_};
  return ok();
}

Status Sequences::enter(const SequenceTurn& turn) {
  if (turn.id.empty()) {
    MLC_RETURN_IF_ERROR(park());
    return reset();
  }
  if (turn.begins) {
    idle_.erase(turn.id);
    if (current_ == turn.id) current_.clear();
    MLC_RETURN_IF_ERROR(park());
    MLC_RETURN_IF_ERROR(reset());
    current_ = turn.id;
    return ok();
  }
  if (current_ == turn.id) return ok();
  auto found = idle_.extract(turn.id);
  if (found.empty())
    return Status(Code::InputMismatch, "sequence {} has no state here: it did not begin, has ended, failed, or was idle while {} others ran; a request with sequence_start expected",
                  turn.id, most_);
  MLC_RETURN_IF_ERROR(park());
  MlcError* error = nullptr;
  const std::vector<std::byte>& state = found.mapped().state;
  MLC_RETURN_IF_ERROR(status_of(api().state_restore(session_, state.data(), state.size(), &error), error));
  current_ = turn.id;
  return ok();
}

Status Sequences::leave(const SequenceTurn& turn, const Status& ran) {
  const bool is_whole = ran.ok() || ran.code == Code::InputMismatch || ran.code == Code::Usage;
  if (turn.id.empty() || (is_whole && !turn.ends)) return ok();
  current_.clear();
  return reset();
}

}  // namespace mlc::triton
