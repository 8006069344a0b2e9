// Parts of validate(), one file per part of the manifest. Not for use outside schema/validate*.cpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/checked.h"
#include "schema/validate/validate.h"

namespace mlc::format {

// Where a message points: `tensors[3] "fc.weight"`. Built only when something is wrong.
struct Place {
  const char* list;
  size_t index;
  std::string_view name;

  // compose(pattern, args...) behind the place.
  template <class... Args>
  Status wrong(const char* pattern, const Args&... args) const {
    return wrong_of(pattern, {args...});
  }
  Status wrong_of(const char* pattern, Pieces pieces) const;
};

template <class... Args>
Status malformed(const char* pattern, const Args&... args) {
  return Status(Code::Malformed, pattern, args...);
}
inline std::string str(uint64_t n) { return std::to_string(n); }

// A name: not empty, clean, at most kMaxNameLen bytes.
[[nodiscard]] inline bool is_name(std::string_view text) { return !text.empty() && is_clean_text(text, kMaxNameLen); }
// Labels joined by '/'.
[[nodiscard]] bool is_segment_name(std::string_view text);

[[nodiscard]] Status not_sorted(const char* what, size_t index);
// Strictly ascending by key: sorted and unique.
template <class List, class Key>
[[nodiscard]] Status check_sorted(const List& list, const char* what, Key key) {
  for (size_t i = 1; i < list.size(); ++i)
    if (!(key(list[i - 1]) < key(list[i]))) return not_sorted(what, i);
  return ok();
}

[[nodiscard]] Status check_count(const char* what, size_t count, uint64_t least, uint64_t most);
// In range, and in a segment of this kind.
[[nodiscard]] Status check_ref(const Manifest& m, const Ref& ref, SegmentKind kind);
[[nodiscard]] Status check_tolerances(const std::vector<Tolerance>& tolerances, size_t outputs, bool& unknown_metric);
[[nodiscard]] bool is_known(DType type);

[[nodiscard]] Status validate_segments(const Manifest& m);
[[nodiscard]] Status validate_interface(const Manifest& m);  // model, methods
[[nodiscard]] Status validate_tensors(const Manifest& m);    // layouts, tensors
[[nodiscard]] Status validate_variants(Manifest& m);
[[nodiscard]] Status validate_extras(const Manifest& m);     // stages, assets, golden, operators, ..., provenance

}  // namespace mlc::format
