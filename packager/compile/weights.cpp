#include "packager/compile/weights.h"

#include <algorithm>
#include <numeric>

#include "base/text/text.h"
#include "packager/container/weight_segments.h"
#include "packager/passes/weights/pack.h"

namespace mlc::compile {
namespace {

std::vector<uint64_t> constant_shape(const nest::Array& array) {
  std::vector<uint64_t> shape;
  for (const ir::Expr* extent : array.shape) shape.push_back(static_cast<uint64_t>(extent->i));
  return shape;
}

// Kernels read elements of less than 8 bits a byte each and weights are mapped as stored, so such constants are stored as
// bytes; a tensor of their own type would be packed.
DType stored_type(DType t) { return bits_of(t) >= 8 ? t : is_signed_int(t) ? DType::I8 : DType::U8; }

// Room for a suffix. Exporters write names of any length; the content digest, not the name, identifies a tensor.
std::string tensor_name(const std::string& name) {
  constexpr size_t kLongest = 200;
  const std::string clean = clean_name(name, kLongest);
  return clean.empty() ? "constant" : clean;
}

}  // namespace

std::string clean_name(std::string_view name, size_t longest) {
  std::string clean;
  for (size_t at = 0; at < name.size();) {
    uint32_t c = 0;
    const size_t length = decode_utf8(name, at, c);
    const bool is_clean = length > 0 && !is_unseen(c);
    const std::string_view letter = is_clean ? name.substr(at, length) : "_";
    if (clean.size() + letter.size() > longest) break;
    clean += letter;
    at += std::max<size_t>(length, 1);
  }
  return clean;
}

std::string layout_text(const nest::Layout& layout, unsigned rank) {
  if (layout.is_row_major()) return "dense";
  const auto name = [](unsigned axis) { return std::string(1, static_cast<char>('A' + axis)); };
  std::string names, factors;
  for (unsigned axis = 0; axis < rank; ++axis) names += (axis ? "," : "") + name(axis);
  for (const nest::Piece& piece : layout.pieces) {
    if (piece.extent != 0)
      factors += "[" + std::to_string(piece.extent) + "]";
    else
      factors += "[" + name(piece.axis) + (piece.divisor == 1 ? "" : "/" + std::to_string(piece.divisor)) + "]";
  }
  return names + "->" + factors;
}

void WeightStore::add(const nest::Function& function, uint32_t number) {
  if (placed_.count({&function, number})) return;
  const nest::Array& array = function.arrays[number];
  // The digest covers type and shape too, so arrays that share data under two shapes are hashed per shape.
  const Digest digest = digest_of(array);
  auto [found, is_new] = by_content_.emplace(digest, entries_.size());
  if (is_new) entries_.push_back({tensor_name(array.name), digest, &array, {}, 0});
  Entry& entry = entries_[found->second];
  const auto same_layout = [&](const nest::Array* copy) { return layout_text(copy->layout, copy->shape.size()) == layout_text(array.layout, array.shape.size()); };
  auto copy = std::find_if(entry.copies.begin(), entry.copies.end(), same_layout);
  if (copy == entry.copies.end()) copy = entry.copies.insert(copy, &array);
  placed_[{&function, number}] = {found->second, static_cast<uint32_t>(copy - entry.copies.begin())};
}

// Segments of several forms share what they read.
Digest WeightStore::digest_of(const nest::Array& array) {
  auto [known, is_new] = digests_.try_emplace({array.data.get(), array.dtype, constant_shape(array)});
  if (is_new) known->second = tensor_digest(stored_type(array.dtype), constant_shape(array), array.data->bytes);
  return known->second;
}

void WeightStore::seal() {
  order_.resize(entries_.size());
  std::iota(order_.begin(), order_.end(), 0);
  std::stable_sort(order_.begin(), order_.end(), [&](size_t a, size_t b) { return entries_[a].name < entries_[b].name; });
  // Different constants of one name (folded ones, say) are told apart by a suffix; sorted again, since it may reorder.
  std::map<std::string, int> seen;
  for (size_t k : order_)
    if (int times = seen[entries_[k].name]++) entries_[k].name += "#" + std::to_string(times);
  std::stable_sort(order_.begin(), order_.end(), [&](size_t a, size_t b) { return entries_[a].name < entries_[b].name; });
  for (size_t k = 0; k < order_.size(); ++k) entries_[order_[k]].number = static_cast<uint32_t>(k);
}

std::pair<uint32_t, uint32_t> WeightStore::place_of(const nest::Function& function, uint32_t array) const {
  const auto [entry, copy] = placed_.at({&function, array});
  return {entries_[entry].number, copy};
}

Status WeightStore::write(container::ContainerBuilder& builder) const {
  if (entries_.empty()) return ok();
  uint64_t total = 0;
  for (const Entry& entry : entries_) total += entry.copies.size() * entry.array->data->bytes.size();
  container::WeightSegments segments(builder, total);
  for (size_t k : order_) {
    const Entry& entry = entries_[k];
    MLC_ASSIGN(const uint32_t tensor, builder.add_tensor(entry.name, stored_type(entry.array->dtype), constant_shape(*entry.array), entry.content));
    if (entry.array->data->bytes.empty()) continue;
    const uint32_t segment = segments.segment_for(entry.name);
    for (const nest::Array* copy : entry.copies) {
      const uint32_t layout = builder.layout(layout_text(copy->layout, copy->shape.size()));
      if (copy->layout.is_row_major())
        MLC_RETURN_IF_ERROR(builder.add_copy(tensor, layout, segment, container::Borrowed{copy->data->bytes}));
      else
        MLC_RETURN_IF_ERROR(builder.add_copy(tensor, layout, segment, passes::pack(*copy)));
    }
  }
  return ok();
}

std::map<Digest, import::Reference> WeightStore::references() const {
  std::map<Digest, import::Reference> found;
  for (const Entry& entry : entries_) found.emplace(entry.content, import::Reference{entry.content});
  for (const Entry& entry : entries_) {
    const nest::ConstData& whole = *entry.array->data;
    std::vector<uint64_t> shape = constant_shape(*entry.array);
    if (whole.parts.empty() || whole.bytes.empty() || whole.axis >= shape.size()) continue;
    const uint64_t length = shape[whole.axis];
    uint64_t from = 0;
    for (const auto& part : whole.parts) {
      shape[whole.axis] = length * part->bytes.size() / whole.bytes.size();
      found.emplace(tensor_digest(stored_type(entry.array->dtype), shape, part->bytes), import::Reference{entry.content, import::PartOfTensor{whole.axis, from}});
      from += shape[whole.axis];
    }
  }
  return found;
}

uint64_t WeightStore::num_parameters() const {
  uint64_t total = 0;
  for (const Entry& entry : entries_) total += entry.array->data->bytes.size() / std::max(1u, bytes_of(entry.array->dtype));
  return total;
}

}  // namespace mlc::compile
