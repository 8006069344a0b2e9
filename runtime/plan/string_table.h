// The texts of one run, each once: what a string is inside a program is its place here. Texts that are the same in every run
// are kept between runs. Internal to the executor.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/system/siphash.h"
#include "base/work_meter.h"
#include "runtime/plan/value.h"

namespace mlc::exec {

class StringTable {
 public:
  // Charges `work` for what it looks at. Once that says that the run must end, texts are not found any more.
  StringTable(BlockPool& pool, WorkAccount& work) : pool_(pool), work_(work) {}

  // The memory goes back to the pool, but for what is kept.
  void clear();
  // What is there now is kept by `clear` from now on, under its places. To be called when nothing is kept.
  void keep();
  void clear_kept();  // all of it goes

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
  struct Texts {
    Value texts, entries, index;  // entries: one behind the other; index: numbers of entries by hash, from 1 on, 0 where nothing is
    uint64_t count = 0, used = 0, num_slots = 0;

    std::string_view text(const Entry& e) const {
      return {reinterpret_cast<const char*>(texts->data) + e.offset, static_cast<size_t>(e.bytes)};
    }
    Entry* entry() const { return reinterpret_cast<Entry*>(entries->data); }
    uint32_t* slots() const { return reinterpret_cast<uint32_t*>(index->data); }
  };
  struct Found {
    uint64_t slot = 0;    // where the text is, or where it belongs
    uint32_t number = 0;  // 0: it is not there
  };
  bool hash_of(std::string_view text, uint32_t& out);
  Status find(const Texts& in, std::string_view text, uint32_t hash, Found& out);
  Status enter(std::string_view text, bool is_appended, uint64_t& out);
  Status grow(Value& array, uint64_t used, uint64_t wanted);
  Status grow_index();

  BlockPool& pool_;
  WorkAccount& work_;
  const SipKey key_ = process_sip_key();
  Texts kept_, run_;      // places: those that are kept, then those of the run
  uint64_t pending_ = 0;  // bytes behind those of the run that have been appended
};

}  // namespace mlc::exec
