#include "runtime/plan/string_table.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/compose.h"

namespace mlc::exec {
namespace {

Status ended() { return Status(Code::Cancelled, "the run has ended"); }  // its meter knows why

}  // namespace

// Texts come from strangers, so the hash has a key. False: the run has ended.
bool StringTable::hash_of(std::string_view text, uint32_t& out) {
  constexpr size_t kPiece = 64 << 10;
  SipKey key = key_;
  for (size_t at = 0; at < text.size(); at += kPiece) {
    const std::string_view piece = text.substr(at, kPiece);
    if (!work_.spend(1 + piece.size() / 8)) return false;
    key[0] ^= siphash13(key, std::as_bytes(std::span(piece)));
  }
  out = static_cast<uint32_t>(key[0]);
  return true;
}

void StringTable::clear() {
  run_ = {};
  pending_ = 0;
}

void StringTable::keep() {
  kept_ = std::exchange(run_, {});
  pending_ = 0;
}

void StringTable::clear_kept() {
  clear();
  kept_ = {};
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
  const uint64_t slots = std::max<uint64_t>(256, 2 * run_.num_slots);
  if (!work_.spend(units_of(slots * sizeof(uint32_t)))) return ended();
  Value bigger;
  MLC_RETURN_IF_ERROR(make_array(pool_, DType::U8, {}, slots * sizeof(uint32_t), bigger));
  std::memset(bigger->data, 0, slots * sizeof(uint32_t));
  run_.index = std::move(bigger);
  run_.num_slots = slots;
  for (uint64_t i = 0; i < run_.count; ++i) {
    uint64_t at = run_.entry()[i].hash & (slots - 1);
    for (; run_.slots()[at] != 0; at = (at + 1) & (slots - 1))
      if (!work_.spend(1)) return ended();
    run_.slots()[at] = static_cast<uint32_t>(i + 1);
  }
  return ok();
}

// A free slot ends the search: no more than half of them are taken.
Status StringTable::find(const Texts& in, std::string_view text, uint32_t hash, Found& out) {
  out = {};
  if (in.num_slots == 0) return ok();
  uint64_t at = hash & (in.num_slots - 1);
  for (; in.slots()[at] != 0; at = (at + 1) & (in.num_slots - 1)) {
    const Entry& e = in.entry()[in.slots()[at] - 1];
    const bool alike = e.hash == hash && e.bytes == text.size();
    if (!work_.spend(alike ? units_of(e.bytes) : 1)) return ended();
    if (!alike || in.text(e) != text) continue;
    out.number = in.slots()[at];
    break;
  }
  out.slot = at;
  return ok();
}

Status StringTable::append(std::string_view piece) {
  const Value old = run_.texts;  // the piece may lie in it
  const uint64_t end = run_.used + pending_;
  if (piece.size() > (uint64_t{1} << 48) - end) return Status(Code::Resource, "too many strings");
  MLC_RETURN_IF_ERROR(grow(run_.texts, end, end + piece.size()));
  if (!work_.spend(units_of(piece.size()))) return ended();
  if (!piece.empty()) std::memcpy(run_.texts->data + end, piece.data(), piece.size());
  pending_ += piece.size();
  return ok();
}

Status StringTable::place_of(std::string_view text, uint64_t& out) {
  if (pending_ == 0) return enter(text, false, out);
  MLC_RETURN_IF_ERROR(append(text));
  return finish(out);
}

Status StringTable::finish(uint64_t& out) {
  const Entry appended{run_.used, std::exchange(pending_, 0), 0};
  return enter(appended.bytes > 0 ? run_.text(appended) : std::string_view(), true, out);
}

Status StringTable::enter(std::string_view text, bool is_appended, uint64_t& out) {
  out = 0;
  if (text.empty()) return ok();
  Entry made{run_.used, text.size(), 0};
  if (!hash_of(text, made.hash)) return ended();
  Found found;
  MLC_RETURN_IF_ERROR(find(kept_, text, made.hash, found));
  out = found.number;
  if (out != 0) return ok();
  if (2 * run_.count >= run_.num_slots) MLC_RETURN_IF_ERROR(grow_index());
  MLC_RETURN_IF_ERROR(find(run_, text, made.hash, found));
  if (found.number != 0) out = kept_.count + found.number;
  if (out != 0) return ok();
  if (kept_.count + run_.count >= UINT32_MAX - 1) return Status(Code::Resource, "too many strings");
  if (!is_appended) {
    MLC_RETURN_IF_ERROR(append(text));
    pending_ = 0;
  }
  MLC_RETURN_IF_ERROR(grow(run_.entries, run_.count * sizeof(Entry), (run_.count + 1) * sizeof(Entry)));
  run_.entry()[run_.count] = made;
  run_.used += made.bytes;
  run_.slots()[found.slot] = static_cast<uint32_t>(++run_.count);
  out = kept_.count + run_.count;
  return ok();
}

Status StringTable::text_at(uint64_t place, std::string_view& out) const {
  out = {};
  if (place == 0) return ok();
  const Texts& in = place <= kept_.count ? kept_ : run_;
  const uint64_t number = place <= kept_.count ? place : place - kept_.count;
  if (number > in.count) return Status(Code::InputMismatch, "{} is no string of this run", place);
  out = in.text(in.entry()[number - 1]);
  return ok();
}

}  // namespace mlc::exec
