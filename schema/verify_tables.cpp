#include "schema/verify_tables.h"

#include "flatbuffers/flatbuffers.h"

namespace mlc::format {
namespace {

class TableVerifier {
 public:
  TableVerifier(Bytes bytes, const TableSet& set, const TableLimits& limits)
      : data_(reinterpret_cast<const uint8_t*>(bytes.data())), set_(set), verifier_(data_, bytes.size(), limits.depth, limits.tables) {}

  bool root(size_t size) {
    if (size < 2 * sizeof(flatbuffers::uoffset_t) || !flatbuffers::BufferHasIdentifier(data_, set_.identifier)) return false;
    const flatbuffers::uoffset_t offset = verifier_.VerifyOffset(0);
    return offset != 0 && table(data_ + offset, set_.root);
  }

 private:
  // Nests as deep as the limit of depth.
  bool table(const uint8_t* at, uint32_t number) {
    if (!verifier_.VerifyTableStart(at)) return false;
    const auto* table = reinterpret_cast<const flatbuffers::Table*>(at);
    const TableField* field = set_.fields + set_.first[number];
    for (flatbuffers::voffset_t id = 4; field != set_.fields + set_.first[number + 1]; ++field, id += 2) {
      if (field->kind == FieldKind::Deprecated) continue;
      const flatbuffers::voffset_t offset = table->GetOptionalFieldOffset(id);
      if (offset == 0 ? field->required : !value(at, offset, *field)) return false;
    }
    return verifier_.EndTable();
  }

  bool value(const uint8_t* base, flatbuffers::voffset_t offset, const TableField& field) {
    if (field.kind == FieldKind::Inline) return verifier_.VerifyFieldStruct(base, offset, field.of, field.align);
    if (!verifier_.VerifyOffset(base, offset)) return false;
    const uint8_t* at = follow(base + offset);
    if (field.kind == FieldKind::Table) return table(at, field.of);
    if (field.kind == FieldKind::String) return string(at);
    if (!verifier_.VerifyVectorOrString(at, field.kind == FieldKind::Tables ? sizeof(flatbuffers::uoffset_t) : field.of)) return false;
    if (field.kind == FieldKind::Vector) return true;
    const uint8_t* item = at + sizeof(flatbuffers::uoffset_t);
    for (auto left = flatbuffers::ReadScalar<flatbuffers::uoffset_t>(at); left > 0; --left, item += sizeof(flatbuffers::uoffset_t))
      if (field.kind == FieldKind::Tables ? !table(follow(item), field.of) : !string(follow(item))) return false;
    return true;
  }

  bool string(const uint8_t* at) const { return verifier_.VerifyString(reinterpret_cast<const flatbuffers::String*>(at)); }
  static const uint8_t* follow(const uint8_t* offset) { return offset + flatbuffers::ReadScalar<flatbuffers::uoffset_t>(offset); }

  const uint8_t* data_;
  const TableSet& set_;
  flatbuffers::Verifier verifier_;
};

}  // namespace

bool verify_tables(Bytes bytes, const TableSet& set, const TableLimits& limits) { return TableVerifier(bytes, set, limits).root(bytes.size()); }

}  // namespace mlc::format
