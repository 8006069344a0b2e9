// Layouts and tensors: the bytes of a copy are exactly what type, shape and layout need.
#include <algorithm>

#include "base/compose.h"
#include "schema/layout_text.h"
#include "schema/validate/validate_internal.h"

namespace mlc::format {
namespace {

struct KnownLayout {
  uint32_t id;
  bool parsed;
  ParsedLayout layout;
};

Status validate_quant(const Manifest& m, const Tensor& tensor, size_t index, const Place& place) {
  if (!tensor.quant) return ok();
  const Quant& quant = *tensor.quant;
  if (quant.scheme == QuantScheme::None || static_cast<uint8_t>(quant.scheme) > kLastQuantScheme)
    return place.wrong("quantisation scheme {} is unknown", static_cast<uint8_t>(quant.scheme));
  if (!tensor.shape.empty() && quant.axis >= tensor.shape.size())
    return place.wrong("quantisation axis is not one of its axes");
  for (const auto& other : {quant.scale, quant.zero})
    if (other && (*other >= m.tensors.size() || *other == index))
      return place.wrong("quantised by tensor {}, which is not another tensor", *other);
  if (!quant.scale) return place.wrong("quantised without a scale");
  return ok();
}

Status validate_copies(const Manifest& m, const Tensor& tensor, const Place& place,
                       const std::vector<KnownLayout>& layouts) {
  for (size_t c = 0; c < tensor.copies.size(); ++c) {
    const Copy& copy = tensor.copies[c];
    auto wrong = [&](const char* pattern, Pieces pieces = {}) {
      return place.wrong("copy {} {}", c, compose_pieces(pattern, pieces));
    };
    if (Status status = check_ref(m, copy.ref, SegmentKind::Weights); !status.ok()) return wrong("{}", {status.message});
    const Segment& segment = m.segments[copy.ref.segment];
    if (c == 0 && segment.droppable) return wrong("is primary but lies in a droppable segment");
    if (c == 0 && segment.codec != Codec::Raw) return wrong("is primary but lies in a compressed segment");
    if (copy.ref.offset % kPackedAlign != 0) return wrong("is not aligned to 256 bytes");
    auto layout = std::lower_bound(layouts.begin(), layouts.end(), copy.layout,
                                   [](const KnownLayout& a, uint32_t id) { return a.id < id; });
    if (layout == layouts.end() || layout->id != copy.layout)
      return wrong("has layout {}, which is not listed", {copy.layout});
    if (!layout->parsed) continue;  // disabled: variants that read it are no candidates
    auto bytes = stored_bytes(layout->layout, tensor.dtype, tensor.shape);
    if (!bytes.ok()) return wrong("{}", {bytes.status().message});
    if (*bytes != copy.ref.length)
      return wrong("has {} bytes, type, shape and layout need {}", {copy.ref.length, *bytes});
  }
  return ok();
}

}  // namespace

Status validate_tensors(const Manifest& m) {
  std::vector<KnownLayout> layouts;
  for (size_t i = 0; i < m.layouts.size(); ++i) {
    const Layout& layout = m.layouts[i];
    if (!is_name(layout.text))
      return Place{"layouts", i, layout.text}.wrong("text must be 1 to 1023 bytes of clean UTF-8");
    if (!is_clean_text(layout.params, kMaxNameLen))
      return Place{"layouts", i, layout.text}.wrong("params are not clean text");
    auto parsed = parse_layout(layout.text);
    layouts.push_back({layout.id, parsed.ok(), parsed.ok() ? std::move(parsed).value() : ParsedLayout{}});
  }
  MLC_RETURN_IF_ERROR(check_sorted(m.layouts, "layouts", [](const Layout& x) { return x.id; }));

  for (size_t i = 0; i < m.tensors.size(); ++i) {
    const Tensor& tensor = m.tensors[i];
    Place place{"tensors", i, tensor.name};
    if (!is_name(tensor.name)) return place.wrong("name must be 1 to 1023 bytes of UTF-8 without control characters");
    if (!is_known(tensor.dtype) || bits_of(tensor.dtype) == 0)
      return place.wrong("element type {} is unknown or has no size", static_cast<uint8_t>(tensor.dtype));
    if (tensor.shape.size() > kMaxRank) return place.wrong("rank {}, at most 8 allowed", tensor.shape.size());
    bool empty = std::find(tensor.shape.begin(), tensor.shape.end(), 0u) != tensor.shape.end();
    if (!checked_product(tensor.shape) && !empty) return place.wrong("the number of elements exceeds 2^64");
    if (tensor.copies.size() > kMaxCopies) return place.wrong("{} copies, at most 4 allowed", tensor.copies.size());
    if (empty != tensor.copies.empty())
      return place.wrong(empty ? "has copies but no elements" : "has elements but no copy");
    MLC_RETURN_IF_ERROR(validate_copies(m, tensor, place, layouts));
    MLC_RETURN_IF_ERROR(validate_quant(m, tensor, i, place));
  }
  return check_sorted(m.tensors, "tensors", [](const Tensor& x) -> std::string_view { return x.name; });
}

std::optional<uint64_t> copy_bytes(std::span<const Tensor> tensors, uint32_t tensor, uint32_t copy) {
  if (tensor >= tensors.size()) return std::nullopt;
  const std::vector<Copy>& copies = tensors[tensor].copies;
  if (copies.empty() && copy == 0) return 0;
  return copy < copies.size() ? std::optional(copies[copy].ref.length) : std::nullopt;
}

}  // namespace mlc::format
