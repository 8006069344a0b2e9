// From handles in the order of adding to the sorted lists and final indices of the file.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <numeric>
#include <tuple>

#include "base/run_on_threads.h"
#include "packager/container/builder.h"
#include "packager/container/builder_state.h"
#include "packager/container/manifest_encode.h"
#include "schema/audit.h"
#include "schema/validate/validate.h"
#include "signing/hash_tree.h"

namespace mlc::container {
namespace {

using format::Manifest;

// Where each handle went. An index that was never a handle stays what it is: the validator refuses it by name.
class Permutation {
 public:
  Permutation() = default;
  // `order[i]` is the handle that becomes index i, out of `handles` ones.
  Permutation(const std::vector<uint32_t>& order, size_t handles) : to_(handles, UINT32_MAX) {
    for (uint32_t i = 0; i < order.size(); ++i) to_[order[i]] = i;
  }
  void apply(uint32_t& handle) const {
    if (handle < to_.size()) handle = to_[handle];
  }
  void apply(std::optional<uint32_t>& handle) const {
    if (handle) apply(*handle);
  }

 private:
  std::vector<uint32_t> to_;
};

template <class List, class Key>
std::vector<uint32_t> sorted_order(const List& list, Key key) {
  std::vector<uint32_t> order(list.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return key(list[a]) < key(list[b]); });
  return order;
}
template <class T>
void reorder(std::vector<T>& list, const std::vector<uint32_t>& order) {
  std::vector<T> out;
  out.reserve(order.size());
  for (uint32_t handle : order) out.push_back(std::move(list[handle]));
  list = std::move(out);
}
template <class T, class Key>
Permutation sort_list(std::vector<T>& list, Key key) {
  std::vector<uint32_t> order = sorted_order(list, key);
  Permutation permutation(order, list.size());
  reorder(list, order);
  return permutation;
}

constexpr auto by_name = [](const auto& x) -> std::string_view { return x.name; };

template <class Visit>
void for_each_ref(Manifest& m, Visit visit) {
  for (auto& tensor : m.tensors)
    for (auto& copy : tensor.copies) visit(copy.ref);
  for (auto& asset : m.assets) visit(asset.ref);
  for (auto& golden : m.golden) {
    for (auto& array : golden.inputs) visit(array.ref);
    for (auto& array : golden.outputs) visit(array.ref);
  }
  for (auto& op : m.operators) visit(op.text);
  for (auto& extension : m.extensions)
    if (extension.data) visit(*extension.data);
}

void renumber_segments(Manifest& m, const Permutation& to) {
  for_each_ref(m, [&](format::Ref& ref) {
    if (ref.length != 0) to.apply(ref.segment);
  });
  for (auto& variant : m.variants) {
    to.apply(variant.plan);
    to.apply(variant.module);
  }
  for (auto& tuning : m.tuning) to.apply(tuning.segment);
  if (m.portable) to.apply(m.portable->segment);
  for (auto& parent : m.provenance.parents) to.apply(parent.segment);
}

void renumber_assets(Manifest& m, const Permutation& to) {
  for (auto& method : m.methods)
    for (auto* ports : {&method.inputs, &method.outputs, &method.core_inputs, &method.core_outputs, &method.state})
      for (auto& port : *ports) {
        to.apply(port.labels);
        to.apply(port.tokenizer);
      }
}

void renumber_methods(Manifest& m, const Permutation& to) {
  to.apply(m.model.default_method);
  for (auto& variant : m.variants) {
    for (auto& method : variant.methods) to.apply(method);
    std::sort(variant.methods.begin(), variant.methods.end());
  }
  for (auto& golden : m.golden) to.apply(golden.method);
  for (auto& section : m.methods) {
    for (auto& method : section.runs) to.apply(method);
    std::sort(section.runs.begin(), section.runs.end());
  }
}

void sort_everything(Manifest& m) {
  renumber_assets(m, sort_list(m.assets, by_name));
  renumber_methods(m, sort_list(m.methods, by_name));
  sort_list(m.variants, by_name);
  sort_list(m.golden, by_name);
  sort_list(m.layouts, [](const format::Layout& x) { return x.id; });
  sort_list(m.operators, [](const format::Operator& x) {
    return std::tuple<std::string_view, std::string_view, uint32_t>(x.domain, x.name, x.version);
  });
  sort_list(m.tuning, [](const format::Tuning& x) { return x.segment; });
  sort_list(m.extensions, [](const format::Extension& x) -> std::string_view { return x.id; });
  for (auto& variant : m.variants) {
    std::sort(variant.features.begin(), variant.features.end());
    std::sort(variant.layouts.begin(), variant.layouts.end());
  }
  for (auto& golden : m.golden)
    for (auto* arrays : {&golden.inputs, &golden.outputs})
      std::stable_sort(arrays->begin(), arrays->end(), [](const auto& a, const auto& b) { return a.port < b.port; });
}

// Weights are mapped, so they stay raw.
std::optional<Effort> compression_of(format::SegmentKind kind, Effort effort) {
  if (kind == format::SegmentKind::Weights) return std::nullopt;
  return kind == format::SegmentKind::Golden ? Effort::Fast : effort;
}

void fill_audits(Manifest& m) {
  for (auto& variant : m.variants)
    if (variant.audit && variant.module && *variant.module < m.segments.size())
      variant.audit->digest = sha256(format::audit_preimage(variant, m.segments[*variant.module].digest));
}

}  // namespace

// Each by one thread, whichever is free. Of several errors the first segment's.
Status ContainerBuilder::seal_segments(const Progress& progress) {
  State& s = *state_;
  std::vector<size_t> handles;
  for (size_t handle = 0; handle < s.bytes.size(); ++handle)
    if (!s.kept[handle]) handles.push_back(handle);
  std::vector<Status> results(handles.size(), ok());
  std::atomic<size_t> next = 0;
  size_t done = 0;
  std::mutex told;
  run_on_threads(std::min<unsigned>(threads, static_cast<unsigned>(handles.size())), [&] {
    for (size_t k = next++; k < handles.size(); k = next++) {
      const format::Segment& segment = s.final_manifest.segments[handles[k]];
      SegmentBytes& bytes = s.bytes[handles[k]];
      results[k] = bytes.decoded_len() > format::kMaxSegmentLen ? Status(Code::Malformed, "segment " + format::quoted(segment.name) + " is longer than 16 GiB")
                                                                : bytes.seal(compression_of(segment.kind, effort));
      const std::lock_guard lock(told);
      if (progress) progress(s.bytes.size() - handles.size() + ++done, s.bytes.size());
    }
  });
  for (Status& result : results) MLC_RETURN_IF_ERROR(std::move(result));
  return ok();
}

Status ContainerBuilder::finish(const Progress& progress) {
  State& s = *state_;
  Manifest& m = s.final_manifest;
  m = manifest;
  if (m.segments.size() != s.bytes.size())
    return Status(Code::Internal, "container builder: segments must be added by add_segment");

  MLC_RETURN_IF_ERROR(seal_segments(progress));
  bool compressed = false;
  for (size_t handle = 0; handle < s.bytes.size(); ++handle) {
    if (s.kept[handle]) continue;
    format::Segment& segment = m.segments[handle];
    const SegmentBytes& bytes = s.bytes[handle];
    segment.codec = bytes.codec();
    segment.stored_len = bytes.stored_len();
    segment.decoded_len = bytes.decoded_len();
    segment.digest = bytes.digest();
    compressed |= segment.codec == format::Codec::Zstd;
  }
  auto& flags = m.provenance.flags;
  if (compressed && (flags.empty() || flags.back() != compressor_id())) flags.push_back(compressor_id());

  s.order = sorted_order(m.segments, by_name);
  std::erase_if(s.order, [&](uint32_t handle) {
    return m.segments[handle].kind == format::SegmentKind::Weights && m.segments[handle].decoded_len == 0;
  });
  renumber_segments(m, Permutation(s.order, m.segments.size()));
  reorder(m.segments, s.order);
  sort_everything(m);
  fill_audits(m);

  Manifest checked = m;  // the validator may mark variants
  MLC_RETURN_IF_ERROR(format::validate(checked));
  for (const format::Variant& variant : checked.variants)
    if (!variant.unusable.empty())
      return Status(Code::Malformed, "variant " + format::quoted(variant.name) + " " + variant.unusable);
  s.manifest_bytes = encode_manifest(m);
  if (s.manifest_bytes.size() >= format::kMaxManifestLen)
    return Status(Code::Malformed,
                  "the manifest has " + std::to_string(s.manifest_bytes.size()) + " bytes, less than 64 MiB allowed");
  s.core = make_core(s.manifest_bytes.size(), static_cast<uint32_t>(m.segments.size()));
  s.root = root_digest(s.core, s.manifest_bytes);
  return ok();
}

}  // namespace mlc::container
