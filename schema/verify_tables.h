// Whether bytes are a FlatBuffer of one of our schemas, by rows that say what its fields are. FlatBuffers' own Verify() is
// a function for each table, 16 KB of code in libmlrt; the rows are 1 KB. They are made from those functions
// (verify_tables.py), and a test compares both on damaged files.
#pragma once

#include <cstdint>

#include "base/checked.h"

namespace mlc::format {

enum class FieldKind : uint8_t { Deprecated, Inline, String, Table, Vector, Strings, Tables };

struct TableField {
  FieldKind kind = FieldKind::Deprecated;
  bool required = false;
  uint8_t of = 0;     // its table (Table, Tables), else the bytes of it (Inline) or of an item
  uint8_t align = 0;  // of what is Inline
};

// The tables of a schema. Fields of table t are those from first[t] to first[t + 1], in the order of their ids.
struct TableSet {
  const char* identifier;  // four characters
  const TableField* fields;
  const uint8_t* first;
  uint32_t root;
};

struct TableLimits {
  uint32_t depth, tables;
};

// Whether everything that can be reached from the root lies inside of `bytes` and is aligned, counted from their start. Below 2 GiB.
[[nodiscard]] bool verify_tables(Bytes bytes, const TableSet& set, const TableLimits& limits);

}  // namespace mlc::format
