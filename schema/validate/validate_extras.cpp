// Stages, assets, golden vectors, custom operators, tuning, portable IR, extensions, provenance.
#include <algorithm>
#include <tuple>

#include "base/checked.h"
#include "base/compose.h"
#include "schema/layout_text.h"
#include "schema/validate/validate_internal.h"

namespace mlc::format {
namespace {

// Order is the order of execution, so stages are not sorted.
Status validate_stages(const Manifest& m) {
  MLC_RETURN_IF_ERROR(check_count("stages", m.stages.size(), 0, kMaxStages));
  for (size_t i = 0; i < m.stages.size(); ++i) {
    const Stage& stage = m.stages[i];
    Place place{"stages", i, stage.name};
    if (!is_name(stage.name) || !is_name(stage.operator_name)) return place.wrong("name or operator is not a name");
    if (!is_clean_text(stage.doc, kMaxStringLen)) return place.wrong("doc is not clean text");
    if (stage.attributes.size() > kMaxAttributes) return place.wrong("more than 1024 attributes");
    for (const Attribute& attribute : stage.attributes)
      if (!is_name(attribute.name) || !is_clean_text(attribute.value, kMaxStringLen))
        return place.wrong("attribute {} is not clean text", quoted(attribute.name));
  }
  return ok();
}

Status validate_assets(const Manifest& m) {
  for (size_t i = 0; i < m.assets.size(); ++i) {
    const Asset& asset = m.assets[i];
    Place place{"assets", i, asset.name};
    if (!is_label(asset.name)) return place.wrong("name must be a plain file name: letters, digits, '.', '_', '+' and '-'");
    if (!is_name(asset.media)) return place.wrong("media is missing");
    if (Status s = check_ref(m, asset.ref, SegmentKind::Asset); !s.ok()) return place.wrong("{}", s.message);
    if (asset.ref.length > kMaxAssetLen) return place.wrong("longer than 1 GiB");
  }
  return check_sorted(m.assets, "assets", [](const Asset& x) -> std::string_view { return x.name; });
}

// The bindings, if there are any, are one per dimension of the method.
Status validate_shape(const Golden& golden, const GoldenArray& array, const Port& port, const Place& place) {
  auto wrong = [&](const std::string& why) { return place.wrong("array of port {}: {}", quoted(port.name),
                                                                        why); };
  if (array.dtype != port.dtype) return wrong("its element type is not the port's");
  if (array.shape.size() != port.dims.size())
    return wrong(compose("rank {}, the port has rank {}", array.shape.size(), port.dims.size()));
  for (size_t axis = 0; axis < array.shape.size(); ++axis) {
    const DimRef& ref = port.dims[axis];
    std::optional<int64_t> expected = ref.extent;
    if (ref.dim && !golden.bindings.empty()) expected = golden.bindings[*ref.dim];
    if (expected && (*expected < 0 || static_cast<uint64_t>(*expected) != array.shape[axis]))
      return wrong(compose("axis {} has extent {}, {} expected", axis, array.shape[axis], *expected));
  }
  return ok();
}

Status validate_arrays(const Manifest& m, const Golden& golden, const std::vector<GoldenArray>& arrays,
                       const std::vector<Port>& ports, const Place& place, uint64_t& total) {
  for (const GoldenArray& array : arrays) {
    if (array.port >= ports.size()) return place.wrong("port {} of {}", array.port, ports.size());
    const Port& port = ports[array.port];
    if (port.list_depth > 0 || port.dtype == DType::Str)
      return place.wrong("port {} is a list or holds strings, of which there are no golden arrays", quoted(port.name));
    if (Status s = check_ref(m, array.ref, SegmentKind::Golden); !s.ok()) return place.wrong("{}", s.message);
    if (array.shape.size() > kMaxRank) return place.wrong("array of rank {}", array.shape.size());
    MLC_RETURN_IF_ERROR(validate_shape(golden, array, port, place));
    std::optional<uint64_t> bytes = bytes_of(array.dtype);  // as a run takes and gives them: elements of less than 8 bits a byte each
    for (uint64_t extent : array.shape) bytes = bytes ? checked_mul(*bytes, extent) : bytes;
    if (!bytes) return place.wrong("the size of a golden array overflows");
    if (*bytes != array.ref.length)
      return place.wrong("array of port {} has {} bytes, {} expected", quoted(port.name), array.ref.length, *bytes);
    auto sum = checked_add(total, array.ref.length);
    if (!sum || *sum > kMaxGoldenLen) return place.wrong("golden arrays exceed 256 MiB in all");
    total = *sum;
  }
  return check_sorted(arrays, compose("arrays of golden {}", quoted(golden.name)).c_str(), [](const GoldenArray& a) { return a.port; });
}

Status validate_golden(const Manifest& m) {
  MLC_RETURN_IF_ERROR(check_count("golden", m.golden.size(), 0, kMaxGolden));
  uint64_t total = 0;
  for (size_t i = 0; i < m.golden.size(); ++i) {
    const Golden& golden = m.golden[i];
    Place place{"golden", i, golden.name};
    if (!is_name(golden.name)) return place.wrong("not a name");
    if (golden.method >= m.methods.size())
      return place.wrong("method {} of {}", golden.method, m.methods.size());
    if (golden.entry == GoldenEntry::None || static_cast<uint8_t>(golden.entry) > kLastGoldenEntry)
      return place.wrong("entry {} is unknown", static_cast<uint8_t>(golden.entry));
    const Method& method = m.methods[golden.method];
    if (!golden.bindings.empty() && golden.bindings.size() != method.dims.size())
      return place.wrong("{} bindings, the method has {} dimensions", golden.bindings.size(), method.dims.size());
    bool core = golden.entry == GoldenEntry::Core;
    const auto& inputs = core && !method.core_inputs.empty() ? method.core_inputs : method.inputs;
    const auto& outputs = core && !method.core_outputs.empty() ? method.core_outputs : method.outputs;
    if (golden.outputs.empty()) return place.wrong("expects no output");
    MLC_RETURN_IF_ERROR(validate_arrays(m, golden, golden.inputs, inputs, place, total));
    MLC_RETURN_IF_ERROR(validate_arrays(m, golden, golden.outputs, outputs, place, total));
    bool unknown_metric = false;
    if (Status s = check_tolerances(golden.tolerance, outputs.size(), unknown_metric); !s.ok())
      return place.wrong("{}", s.message);
    if (unknown_metric) return place.wrong("states its tolerance in an unknown metric");
  }
  return check_sorted(m.golden, "golden", [](const Golden& x) -> std::string_view { return x.name; });
}

Status validate_operators(const Manifest& m) {
  MLC_RETURN_IF_ERROR(check_count("operators", m.operators.size(), 0, kMaxOperators));
  uint64_t total = 0;
  for (size_t i = 0; i < m.operators.size(); ++i) {
    const Operator& op = m.operators[i];
    Place place{"operators", i, op.name};
    if (!is_clean_text(op.domain, kMaxNameLen) || !is_name(op.name)) return place.wrong("domain or name is not a name");
    if (Status s = check_ref(m, op.text, SegmentKind::Operator); !s.ok()) return place.wrong("{}", s.message);
    if (op.text.length > kMaxOperatorLen) return place.wrong("text longer than 1 MiB");
    total += op.text.length;  // at most kMaxOperators * kMaxOperatorLen
  }
  if (total > kMaxOperatorsLen) return malformed("operators: texts longer than 16 MiB in all");
  return check_sorted(m.operators, "operators", [](const Operator& x) {
    return std::tuple<std::string_view, std::string_view, uint32_t>(x.domain, x.name, x.version);
  });
}

Status check_whole(const Manifest& m, uint32_t segment, SegmentKind kind, const char* what) {
  if (segment >= m.segments.size())
    return malformed("{}: segment {} of {}", what, segment, m.segments.size());
  if (m.segments[segment].kind != kind)
    return malformed("{}: segment {} is of another kind", what, quoted(m.segments[segment].name));
  return ok();
}

Status validate_optional_parts(const Manifest& m) {
  MLC_RETURN_IF_ERROR(check_count("tuning", m.tuning.size(), 0, kMaxTuning));
  MLC_RETURN_IF_ERROR(check_count("extensions", m.extensions.size(), 0, kMaxExtensions));
  for (const Tuning& tuning : m.tuning) {
    MLC_RETURN_IF_ERROR(check_whole(m, tuning.segment, SegmentKind::Tuning, "tuning"));
    if (!is_name(tuning.target)) return malformed("tuning: target is not a name");
  }
  MLC_RETURN_IF_ERROR(check_sorted(m.tuning, "tuning", [](const Tuning& x) { return x.segment; }));
  if (m.portable) {
    if (m.portable->level == PortableLevel::None) return malformed("portable IR: level is missing");
    MLC_RETURN_IF_ERROR(check_whole(m, m.portable->segment, SegmentKind::PortableIr, "portable IR"));
  }
  for (size_t i = 0; i < m.extensions.size(); ++i) {
    const Extension& extension = m.extensions[i];
    Place place{"extensions", i, extension.id};
    if (!is_name(extension.id)) return place.wrong("not a name");
    if (extension.critical) return place.wrong("is unknown to this version and marked critical");
    if (extension.data)
      if (Status s = check_ref(m, *extension.data, SegmentKind::Asset); !s.ok()) return place.wrong("{}", s.message);
  }
  return check_sorted(m.extensions, "extensions", [](const Extension& x) -> std::string_view { return x.id; });
}

Status validate_provenance(const Manifest& m) {
  const Provenance& p = m.provenance;
  if (!is_name(p.tool) || !is_name(p.tool_version)) return malformed("provenance: tool or version is not a name");
  if (!is_clean_text(p.source_name, kMaxNameLen) || p.source_name.find_first_of("/\\") != std::string::npos)
    return malformed("provenance: source {} is not a plain file name", quoted(p.source_name));
  if (p.flags.size() > kMaxFlags) return malformed("provenance: more than 1024 flags");
  for (const std::string& flag : p.flags)
    if (!is_clean_text(flag, kMaxStringLen))
      return malformed("provenance: flag {} is not clean text", quoted(flag));
  if (p.targets.size() > kMaxVariants) return malformed("provenance: more than 256 targets");
  if (p.parents.size() > kMaxVariants) return malformed("provenance: more than 256 parents");
  for (const Parent& parent : p.parents)
    if (parent.segment) MLC_RETURN_IF_ERROR(check_whole(m, *parent.segment, SegmentKind::Parent, "provenance: parent"));
  return ok();
}

}  // namespace

Status validate_extras(const Manifest& m) {
  MLC_RETURN_IF_ERROR(validate_stages(m));
  MLC_RETURN_IF_ERROR(validate_assets(m));
  MLC_RETURN_IF_ERROR(validate_golden(m));
  MLC_RETURN_IF_ERROR(validate_operators(m));
  MLC_RETURN_IF_ERROR(validate_optional_parts(m));
  return validate_provenance(m);
}

}  // namespace mlc::format
