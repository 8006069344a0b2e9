// Variants. What is broken is refused; what is merely newer than this version makes the variant no candidate.
#include <algorithm>

#include "base/compose.h"
#include "schema/features.h"
#include "schema/layout_text.h"
#include "schema/validate/validate_internal.h"

namespace mlc::format {
namespace {

constexpr size_t kMaxOneOf = 64;

Status validate_clause(const Clause& clause, const Place& place, std::string& unusable) {
  auto wrong = [&](const char* why) { return place.wrong("clause on feature {} {}", clause.id, why); };
  if (clause.id == 0) return wrong("names no feature");
  switch (clause.op) {
    case ClauseOp::None: return wrong("has no comparison");
    case ClauseOp::Equal: case ClauseOp::AtLeast: case ClauseOp::AtMost: case ClauseOp::Divides:
      if (clause.values.size() != 1) return wrong("must have one value");
      if (clause.op == ClauseOp::Divides && clause.values[0] == 0) return wrong("divides zero");
      return ok();
    case ClauseOp::OneOf:
      if (clause.values.empty() || clause.values.size() > kMaxOneOf) return wrong("must have 1 to 64 values");
      return ok();
  }
  if (clause.values.size() > kMaxOneOf) return wrong("has too many values");
  unusable = compose("uses comparison {}, which this version does not know", static_cast<uint8_t>(clause.op));
  return ok();
}

Status validate_segment_index(const Manifest& m, const std::optional<uint32_t>& index, SegmentKind kind,
                              const Place& place) {
  const std::string_view what = name_of(kind);
  if (!index) return place.wrong("has no {}", what);
  if (*index >= m.segments.size())
    return place.wrong("{} is segment {} of {}", what, *index, m.segments.size());
  const Segment& segment = m.segments[*index];
  if (segment.kind != kind)
    return place.wrong("{} is segment {} of kind {}", what, quoted(segment.name), name_of(segment.kind));
  return ok();
}

// `parsed[i]`: whether the text of layout i can be parsed.
Status validate_layouts(const Manifest& m, const std::vector<bool>& parsed, Variant& variant, const Place& place) {
  if (variant.layouts.size() > m.layouts.size()) return place.wrong("lists more layouts than there are");
  for (uint32_t id : variant.layouts) {
    auto found =
        std::lower_bound(m.layouts.begin(), m.layouts.end(), id, [](const Layout& l, uint32_t x) { return l.id < x; });
    if (found == m.layouts.end() || found->id != id)
      return place.wrong("reads layout {}, which is not listed", id);
    if (!parsed[size_t(found - m.layouts.begin())])
      variant.unusable = compose("reads layout {}, which this version cannot parse", quoted(found->text));
  }
  return check_sorted(variant.layouts, compose("layouts of {}", quoted(variant.name)).c_str(), [](uint32_t id) { return id; });
}

Status validate_features(const Variant& variant, const Place& place) {
  if (variant.features.size() > kMaxFeatures) return place.wrong("requires more than 1024 features");
  if (!variant.features.empty() && variant.features[0] == 0) return place.wrong("requires feature 0");
  return check_sorted(variant.features, compose("features of {}", quoted(variant.name)).c_str(), [](uint32_t id) { return id; });
}

Status validate_methods(const Manifest& m, const Variant& variant, const Place& place) {
  for (uint32_t method : variant.methods)
    if (method >= m.methods.size())
      return place.wrong("implements method {} of {}", method, m.methods.size());
  return check_sorted(variant.methods, compose("methods of {}", quoted(variant.name)).c_str(), [](uint32_t id) { return id; });
}

Status validate_numbers(const Manifest& m, Variant& variant, const Place& place) {
  size_t outputs = 0;
  for (const Method& method : m.methods) outputs = std::max(outputs, method.outputs.size());
  bool unknown_metric = false;
  if (Status s = check_tolerances(variant.tolerance, outputs, unknown_metric); !s.ok()) return place.wrong("{}", s.message);
  if (unknown_metric) variant.unusable = "states its tolerance in a metric that this version does not know";
  if (variant.cost.size() > kMaxPorts) return place.wrong("lists too many costs");
  for (const Cost& cost : variant.cost)
    if (cost.bindings.size() > kMaxDims) return place.wrong("cost with too many bindings");
  if (variant.audit && (!is_name(variant.audit->tool) || !is_name(variant.audit->tool_version)))
    return place.wrong("audit names no tool");
  return ok();
}

Status validate_portable(const Manifest& m, const Variant& variant, const Place& place) {
  if (variant.module_format != ModuleFormat::Portable) return place.wrong("is of family portable, its module is not");
  if (!std::all_of(variant.features.begin(), variant.features.end(), is_service) || !variant.clauses.empty())
    return place.wrong("is of family portable but requires features");
  if (m.segments[*variant.plan].droppable || m.segments[*variant.module].droppable)
    return place.wrong("is of family portable but lies in a droppable segment");
  if (!variant.methods.empty() && variant.methods.size() != m.methods.size())
    return place.wrong("is of family portable but does not implement every method");
  return ok();
}

// Machine code says what it needs of the host and which tool proved that it needs no more. Without clauses it would fit every
// machine. Formats of versions to come have rules of their own, and are no candidates here.
Status validate_native(const Variant& variant, const Place& place) {
  if (static_cast<uint8_t>(variant.module_format) > kLastModuleFormat) return ok();
  if (variant.features.empty() || variant.clauses.empty())
    return place.wrong("holds native code but requires no {} of the host",
                       variant.features.empty() ? "features" : "clauses");
  return variant.audit ? ok() : place.wrong("holds native code without an audit record");
}

Status validate_variant(Manifest& m, const std::vector<bool>& parsed, Variant& variant, const Place& place) {
  if (!is_label(variant.name)) return place.wrong("name must be letters, digits, '.', '_', '+' and '-'");
  if (!is_name(variant.family)) return place.wrong("family is missing");
  if (!is_name(variant.target)) return place.wrong("target is missing");
  if (variant.module_format == ModuleFormat::None) return place.wrong("module format is missing");
  if (static_cast<uint8_t>(variant.module_format) > kLastModuleFormat)
    variant.unusable = compose("has module format {}, which this version does not know",
                               static_cast<uint8_t>(variant.module_format));
  MLC_RETURN_IF_ERROR(validate_segment_index(m, variant.plan, SegmentKind::Plan, place));
  MLC_RETURN_IF_ERROR(validate_segment_index(m, variant.module, SegmentKind::Module, place));
  MLC_RETURN_IF_ERROR(validate_features(variant, place));
  if (variant.clauses.size() > kMaxClauses) return place.wrong("has more than 256 clauses");
  for (const Clause& clause : variant.clauses) MLC_RETURN_IF_ERROR(validate_clause(clause, place, variant.unusable));
  MLC_RETURN_IF_ERROR(validate_layouts(m, parsed, variant, place));
  MLC_RETURN_IF_ERROR(validate_methods(m, variant, place));
  MLC_RETURN_IF_ERROR(validate_numbers(m, variant, place));
  if (variant.family == "portable") return validate_portable(m, variant, place);
  return variant.module_format == ModuleFormat::Portable ? ok() : validate_native(variant, place);
}

// A module is handed to one kind of loader: a native module must not pass for a portable one by being listed twice.
Status validate_sharing(const Manifest& m) {
  std::vector<ModuleFormat> format_of(m.segments.size(), ModuleFormat::None);
  for (size_t i = 0; i < m.variants.size(); ++i) {
    const Variant& variant = m.variants[i];
    ModuleFormat& format = format_of[*variant.module];
    if (format != ModuleFormat::None && format != variant.module_format)
      return Place{"variants", i, variant.name}.wrong("shares its module with a variant of another module format");
    format = variant.module_format;
  }
  return ok();
}

}  // namespace

Status validate_variants(Manifest& m) {
  std::vector<bool> parsed(m.layouts.size());
  for (size_t i = 0; i < parsed.size(); ++i) parsed[i] = parse_layout(m.layouts[i].text).ok();
  size_t portable = 0;
  for (size_t i = 0; i < m.variants.size(); ++i) {
    Variant& variant = m.variants[i];
    MLC_RETURN_IF_ERROR(validate_variant(m, parsed, variant, Place{"variants", i, variant.name}));
    portable += variant.family == "portable";
  }
  if (portable != 1) return malformed("variants: {} of family portable found, exactly one expected", portable);
  MLC_RETURN_IF_ERROR(validate_sharing(m));
  return check_sorted(m.variants, "variants", [](const Variant& x) -> std::string_view { return x.name; });
}

}  // namespace mlc::format
