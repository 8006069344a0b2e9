#include "schema/audit.h"

#include <string_view>

namespace mlc::format {
namespace {

void append(std::vector<std::byte>& out, uint64_t value, unsigned width) {
  for (unsigned i = 0; i < width; ++i) out.push_back(static_cast<std::byte>(value >> (8 * i)));
}

}  // namespace

std::vector<std::byte> audit_preimage(const Variant& variant, const Digest& module_segment) {
  std::vector<std::byte> out;
  for (char c : std::string_view("MLCAUDT1")) out.push_back(static_cast<std::byte>(c));
  out.insert(out.end(), module_segment.begin(), module_segment.end());
  append(out, variant.features.size(), 4);
  for (uint32_t feature : variant.features) append(out, feature, 4);
  append(out, variant.clauses.size(), 4);
  for (const Clause& clause : variant.clauses) {
    append(out, clause.id, 4);
    append(out, static_cast<uint8_t>(clause.op), 1);
    append(out, clause.values.size(), 4);
    for (int64_t value : clause.values) append(out, static_cast<uint64_t>(value), 8);
  }
  return out;
}

}  // namespace mlc::format
