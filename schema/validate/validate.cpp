#include "schema/validate/validate.h"

#include <algorithm>
#include <cmath>

#include "base/compose.h"
#include "schema/validate/tiling.h"
#include "schema/validate/validate_internal.h"

namespace mlc::format {

Status Place::wrong_of(const char* pattern, Pieces pieces) const {
  return malformed("{}[{}] {}: {}", list, index, quoted(name), compose_pieces(pattern, pieces));
}

Status not_sorted(const char* what, size_t index) {
  return malformed("{}[{}]: not in ascending order, or there twice", what, index);
}

bool is_label(std::string_view text) {
  if (text.empty() || text.size() > kMaxIdLen || text[0] == '.' || text.back() == '.') return false;
  for (char c : text) {
    bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
                c == '-' || c == '+';
    if (!good) return false;
  }
  // Device names of Windows, with or without an extension.
  std::string stem(text.substr(0, text.find('.')));
  for (char& c : stem) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  if (stem == "con" || stem == "prn" || stem == "aux" || stem == "nul") return false;
  std::string_view device = stem;
  bool numbered = device.size() == 4 && (device.starts_with("com") || device.starts_with("lpt"));
  return !(numbered && device[3] >= '0' && device[3] <= '9');
}

bool is_segment_name(std::string_view text) {
  if (text.size() > kMaxIdLen) return false;
  for (;;) {
    size_t slash = text.find('/');
    if (!is_label(text.substr(0, slash))) return false;
    if (slash == std::string_view::npos) return true;
    text.remove_prefix(slash + 1);
  }
}

bool is_known(DType type) { return type != DType::None && type <= kLastDType; }

Status check_count(const char* what, size_t count, uint64_t least, uint64_t most) {
  if (count >= least && count <= most) return ok();
  return malformed("{}: {} found, {} to {} expected", what, count, least, most);
}

Status check_ref(const Manifest& m, const Ref& ref, SegmentKind kind) {
  if (ref.length == 0 && ref.segment == 0 && ref.offset == 0) return ok();  // no bytes, of no segment
  if (ref.segment >= m.segments.size())
    return malformed("refers to segment {} of {}", ref.segment, m.segments.size());
  const Segment& segment = m.segments[ref.segment];
  if (segment.kind != kind)
    return malformed("lies in segment {} of kind {}, {} expected", quoted(segment.name), name_of(segment.kind),
                     name_of(kind));
  if (!range_within(ref.offset, ref.length, segment.decoded_len))
    return malformed("offset {} and length {} lie outside segment {} of {} bytes", ref.offset, ref.length,
                     quoted(segment.name), segment.decoded_len);
  return ok();
}

Status check_tolerances(const std::vector<Tolerance>& tolerances, size_t outputs, bool& unknown_metric) {
  if (tolerances.size() > kMaxPorts) return malformed("too many tolerances");
  for (const Tolerance& tolerance : tolerances) {
    if (tolerance.output >= outputs)
      return malformed("tolerance of output {}, which does not exist", tolerance.output);
    if (!std::isfinite(tolerance.value) || tolerance.value < 0)
      return malformed("tolerance that is not a finite number >= 0");
    if (tolerance.metric == Metric::None) return malformed("tolerance without a metric");
    if (static_cast<uint8_t>(tolerance.metric) > kLastMetric) unknown_metric = true;
  }
  return ok();
}

Status validate(Manifest& m) {
  if (!m.required.empty())
    return Status(Code::Malformed, "needs format feature {}, which this version does not know", m.required[0])
        .hint("update mlrun, or build the model again with the mlpack of this version");
  MLC_RETURN_IF_ERROR(check_count("methods", m.methods.size(), 1, kMaxMethods));
  MLC_RETURN_IF_ERROR(check_count("segments", m.segments.size(), 1, kMaxSegments));
  MLC_RETURN_IF_ERROR(check_count("tensors", m.tensors.size(), 0, kMaxTensors));
  MLC_RETURN_IF_ERROR(check_count("layouts", m.layouts.size(), 0, kMaxLayouts));
  MLC_RETURN_IF_ERROR(check_count("variants", m.variants.size(), 1, kMaxVariants));
  MLC_RETURN_IF_ERROR(check_count("assets", m.assets.size(), 0, kMaxAssets));
  MLC_RETURN_IF_ERROR(validate_segments(m));
  MLC_RETURN_IF_ERROR(validate_interface(m));
  MLC_RETURN_IF_ERROR(validate_tensors(m));
  MLC_RETURN_IF_ERROR(validate_variants(m));
  MLC_RETURN_IF_ERROR(validate_extras(m));
  auto gaps = tile_segments(m);
  return gaps.ok() ? ok() : std::move(gaps).status();
}

}  // namespace mlc::format
