#include "schema/audit.h"

#include "base/byte_cursor.h"

namespace mlc::format {

std::vector<std::byte> audit_preimage(const Variant& variant, const Digest& module_segment) {
  ByteBuilder out;
  out.put("MLCAUDT1").put(module_segment);
  out.put_uint(variant.features.size(), 4);
  for (uint32_t feature : variant.features) out.put_uint(feature, 4);
  out.put_uint(variant.clauses.size(), 4);
  for (const Clause& clause : variant.clauses) {
    out.put_uint(clause.id, 4);
    out.put_uint(static_cast<uint8_t>(clause.op), 1);
    out.put_uint(clause.values.size(), 4);
    for (int64_t value : clause.values) out.put_uint(static_cast<uint64_t>(value), 8);
  }
  return out.take();
}

}  // namespace mlc::format
