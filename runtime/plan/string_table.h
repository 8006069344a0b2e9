// The texts of one run, each once: what a string is inside a program is its place here. Internal to the executor.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/work_meter.h"
#include "runtime/plan/value.h"

namespace mlc::exec {

class StringTable {
 public:
  // Charges `work` for what it looks at. Once that says that the run must end, texts are not found any more.
  StringTable(BlockPool& pool, WorkAccount& work) : pool_(pool), work_(work) {}

  void clear();  // the memory goes back to the pool
  // The place of a text, which is copied when it is new; the empty one is at 0. `text` may be one of the table's own.
  // Resource.
  Status place_of(std::string_view text, uint64_t& out);
  // The same piece by piece: any number of appends, which may be texts of the table, then one finish.
  Status append(std::string_view piece);
  Status finish(uint64_t& out);
  // InputMismatch if nothing is there: kernels compute places, so they may be any number. Valid until the next place_of.
  Status text_at(uint64_t place, std::string_view& out) const;

 private:
  struct Entry {
    uint64_t offset, bytes;
    uint32_t hash;
  };
  Status grow(Value& array, uint64_t used, uint64_t wanted);
  Status grow_index();
  std::string_view text(const Entry& e) const {
    return {reinterpret_cast<const char*>(texts_->data) + e.offset, static_cast<size_t>(e.bytes)};
  }
  Entry* entries() const { return reinterpret_cast<Entry*>(entries_->data); }
  uint32_t* slots() const { return reinterpret_cast<uint32_t*>(index_->data); }

  BlockPool& pool_;
  WorkAccount& work_;
  Value texts_, entries_, index_;  // entries_: of place 1, 2, ...; index_: places by hash, 0 where nothing is
  uint64_t count_ = 0, used_ = 0, num_slots_ = 0;
  uint64_t pending_ = 0;  // bytes behind used_ that have been appended
};

}  // namespace mlc::exec
