#include "runtime/plan/string_table.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "base/compose.h"

namespace mlc::exec {
namespace {

uint32_t hash_of(std::string_view text) {  // FNV-1a
  uint32_t h = 2166136261u;
  for (const char c : text) h = (h ^ static_cast<uint8_t>(c)) * 16777619u;
  return h ^ h >> 15;
}

}  // namespace

void StringTable::clear() {
  texts_ = entries_ = index_ = Value();
  count_ = used_ = num_slots_ = 0;
}

Status StringTable::reserve(Value& array, uint64_t used, uint64_t wanted) {
  if (array && BlockPool::capacity(array->block) >= wanted) return ok();
  const uint64_t bytes = std::max<uint64_t>({wanted, 2 * used, 4096});
  if (!array) return make_array(pool_, DType::U8, {}, bytes, array);
  return make_room(*array.node(), used, bytes);
}

Status StringTable::grow_index() {
  const uint64_t slots = std::max<uint64_t>(256, 2 * num_slots_);
  Value bigger;
  MLC_RETURN_IF_ERROR(make_array(pool_, DType::U8, {}, slots * sizeof(uint32_t), bigger));
  std::memset(bigger->data, 0, slots * sizeof(uint32_t));
  index_ = std::move(bigger);
  num_slots_ = slots;
  for (uint64_t i = 0; i < count_; ++i) {
    uint64_t at = entries()[i].hash & (slots - 1);
    while (this->slots()[at] != 0) at = (at + 1) & (slots - 1);
    this->slots()[at] = static_cast<uint32_t>(i + 1);
  }
  return ok();
}

Status StringTable::place_of(std::string_view wanted, uint64_t& out) {
  if (count_ == 0 && !wanted.empty()) {
    uint64_t first = 0;
    MLC_RETURN_IF_ERROR(place_of({}, first));
  }
  if (2 * count_ >= num_slots_) MLC_RETURN_IF_ERROR(grow_index());
  const uint32_t hash = hash_of(wanted);
  uint64_t at = hash & (num_slots_ - 1);
  for (; slots()[at] != 0; at = (at + 1) & (num_slots_ - 1)) {
    const Entry& e = entries()[slots()[at] - 1];
    if (e.hash != hash || text(e) != wanted) continue;
    out = slots()[at] - 1;
    return ok();
  }
  const auto end = checked_add(used_, uint64_t{wanted.size()});
  if (!end || *end > uint64_t{1} << 48 || count_ >= UINT32_MAX - 1) return Status(Code::Resource, "too many strings");
  MLC_RETURN_IF_ERROR(reserve(entries_, count_ * sizeof(Entry), (count_ + 1) * sizeof(Entry)));
  Value old = texts_;  // `wanted` may lie in it
  if (texts_ && BlockPool::capacity(texts_->block) < *end) {
    Value bigger;
    MLC_RETURN_IF_ERROR(make_array(pool_, DType::U8, {}, std::max(*end, 2 * used_), bigger));
    std::memcpy(bigger->data, old->data, used_);
    texts_ = std::move(bigger);
  } else {
    MLC_RETURN_IF_ERROR(reserve(texts_, used_, *end));
  }
  if (!wanted.empty()) std::memcpy(texts_->data + used_, wanted.data(), wanted.size());
  entries()[count_] = {used_, wanted.size(), hash};
  used_ = *end;
  out = count_++;
  slots()[at] = static_cast<uint32_t>(count_);
  return ok();
}

Status StringTable::text_at(uint64_t place, std::string_view& out) const {
  out = {};
  if (place == 0) return ok();  // there before anything is
  if (place >= count_) return Status(Code::InputMismatch, compose("{} is no string of this run", place));
  out = text(entries()[place]);
  return ok();
}

}  // namespace mlc::exec
