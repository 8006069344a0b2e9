#include "runtime/plan/string_table.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/compose.h"
#include "base/siphash.h"

namespace mlc::exec {
namespace {

Status ended() { return Status(Code::Cancelled, "the run has ended"); }  // its meter knows why

// Texts come from strangers, so the hash has a key. False: the run has ended.
bool hash_of(std::string_view text, WorkAccount& work, uint32_t& out) {
  constexpr size_t kPiece = 64 << 10;
  SipKey key = process_sip_key();
  for (size_t at = 0; at < text.size(); at += kPiece) {
    const std::string_view piece = text.substr(at, kPiece);
    if (!work.spend(1 + piece.size() / 8)) return false;
    key[0] ^= siphash13(key, std::as_bytes(std::span(piece)));
  }
  out = static_cast<uint32_t>(key[0]);
  return true;
}

}  // namespace

void StringTable::clear() {
  texts_ = entries_ = index_ = Value();
  count_ = used_ = num_slots_ = pending_ = 0;
}

Status StringTable::grow(Value& array, uint64_t used, uint64_t wanted) {
  if (array && BlockPool::capacity(array->block) >= wanted) {
    BlockPool::use(array->block, wanted);
    return ok();
  }
  if (!work_.spend(units_of(used))) return ended();
  const Value old = std::move(array);
  MLC_RETURN_IF_ERROR(make_array(pool_, DType::U8, {}, std::max<uint64_t>({wanted, 2 * used, 4096}), array));
  if (used > 0) std::memcpy(array->data, old->data, used);
  return ok();
}

Status StringTable::grow_index() {
  const uint64_t slots = std::max<uint64_t>(256, 2 * num_slots_);
  if (!work_.spend(units_of(slots * sizeof(uint32_t)))) return ended();
  Value bigger;
  MLC_RETURN_IF_ERROR(make_array(pool_, DType::U8, {}, slots * sizeof(uint32_t), bigger));
  std::memset(bigger->data, 0, slots * sizeof(uint32_t));
  index_ = std::move(bigger);
  num_slots_ = slots;
  for (uint64_t i = 0; i < count_; ++i) {
    uint64_t at = entries()[i].hash & (slots - 1);
    for (; this->slots()[at] != 0; at = (at + 1) & (slots - 1))
      if (!work_.spend(1)) return ended();
    this->slots()[at] = static_cast<uint32_t>(i + 1);
  }
  return ok();
}

Status StringTable::append(std::string_view piece) {
  const Value old = texts_;  // the piece may lie in it
  const uint64_t end = used_ + pending_;
  if (piece.size() > (uint64_t{1} << 48) - end) return Status(Code::Resource, "too many strings");
  MLC_RETURN_IF_ERROR(grow(texts_, end, end + piece.size()));
  if (!work_.spend(units_of(piece.size()))) return ended();
  if (!piece.empty()) std::memcpy(texts_->data + end, piece.data(), piece.size());
  pending_ += piece.size();
  return ok();
}

Status StringTable::place_of(std::string_view text, uint64_t& out) {
  MLC_RETURN_IF_ERROR(append(text));
  return finish(out);
}

Status StringTable::finish(uint64_t& out) {
  const Entry made{used_, pending_, 0};
  pending_ = 0;
  out = 0;
  if (made.bytes == 0) return ok();
  if (2 * count_ >= num_slots_) MLC_RETURN_IF_ERROR(grow_index());
  const std::string_view wanted = text(made);
  uint32_t hash = 0;
  if (!hash_of(wanted, work_, hash)) return ended();
  uint64_t at = hash & (num_slots_ - 1);
  for (; slots()[at] != 0; at = (at + 1) & (num_slots_ - 1)) {
    const Entry& e = entries()[slots()[at] - 1];
    const bool alike = e.hash == hash && e.bytes == made.bytes;
    if (!work_.spend(alike ? units_of(made.bytes) : 1)) return ended();
    if (!alike || text(e) != wanted) continue;
    out = slots()[at];
    return ok();
  }
  if (count_ >= UINT32_MAX - 1) return Status(Code::Resource, "too many strings");
  MLC_RETURN_IF_ERROR(grow(entries_, count_ * sizeof(Entry), (count_ + 1) * sizeof(Entry)));
  entries()[count_] = {made.offset, made.bytes, hash};
  used_ += made.bytes;
  out = ++count_;
  slots()[at] = static_cast<uint32_t>(count_);
  return ok();
}

Status StringTable::text_at(uint64_t place, std::string_view& out) const {
  out = {};
  if (place == 0) return ok();
  if (place > count_) return Status(Code::InputMismatch, "{} is no string of this run", place);
  out = text(entries()[place - 1]);
  return ok();
}

}  // namespace mlc::exec
