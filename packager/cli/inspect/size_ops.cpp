#include "packager/cli/inspect/size_ops.h"

#include <algorithm>
#include <cstdio>
#include <set>

#include "base/counted.h"
#include "schema/placement.h"

namespace mlc::cli {

namespace {

using namespace format;

SizeEntry group(std::string name, std::string note = {}) { return {std::move(name), 0, std::move(note), {}}; }

void add(SizeEntry& parent, SizeEntry child) {
  if (child.bytes == 0) return;
  parent.bytes += child.bytes;
  parent.children.push_back(std::move(child));
}

void sort_by_size(SizeEntry& entry) {
  std::stable_sort(entry.children.begin(), entry.children.end(),
                   [](const SizeEntry& a, const SizeEntry& b) { return a.bytes > b.bytes; });
  for (SizeEntry& child : entry.children) sort_by_size(child);
}

// A segment left out of this copy of the file takes no bytes.
uint64_t stored(const container::Container& file, uint32_t segment) {
  return file.present(segment) ? file.manifest().segments[segment].stored_len : 0;
}

SizeEntry segment_entry(const container::Container& file, uint32_t index) {
  const Segment& segment = file.manifest().segments[index];
  SizeEntry entry{segment.name, stored(file, index), {}, {}};
  if (segment.codec == Codec::Zstd) entry.note = "zstd, " + human_bytes(segment.decoded_len) + " decoded";
  return entry;
}

// Everything that is no segment. What remains is the zeros between items.
void add_overhead(SizeEntry& root, const OpenContainer& file) {
  const container::Container& opened = *file.opened;
  std::vector<SegmentShape> shapes;
  for (uint32_t i = 0; i < opened.manifest().segments.size(); ++i) {
    const Segment& segment = opened.manifest().segments[i];
    shapes.push_back({segment.codec, segment.stored_len, segment.decoded_len, opened.present(i)});
  }
  SizeEntry fixed = group("header");
  add(fixed, {"header page", kHeaderLen, {}, {}});
  add(fixed, {"placement table", shapes.size() * 8, {}, {}});
  add(root, std::move(fixed));
  add(root, {"manifest", file.manifest_len, {}, {}});
  uint64_t leaves = 0, tables = 0;
  // The reader has placed the same segments already, so there is a placement.
  if (const auto placement = place(file.manifest_len, shapes))
    for (const Placement::Item& item : placement->segments)
      if (item.offset != 0) leaves += item.leaves, tables += item.table_len;
  add(root, {"hash tree", tables, counted(leaves, "leaf", "leaves"), {}});
  const uint64_t signatures = file.authentication.signatures().size();
  add(root, {"signature", opened.file_size() - opened.body_size(), counted(signatures, "signature"), {}});
  add(root, {"alignment", opened.file_size() - root.bytes, "zeros between items", {}});
}

const char* kind_title(SegmentKind kind) {
  switch (kind) {
    case SegmentKind::Weights: return "weights";
    case SegmentKind::Module: return "code";
    case SegmentKind::Plan: return "plans";
    case SegmentKind::Asset: return "assets";
    case SegmentKind::Golden: return "golden";
    case SegmentKind::Operator: return "operators";
    case SegmentKind::Tuning: return "tuning";
    case SegmentKind::PortableIr: return "portable IR";
    case SegmentKind::Parent: return "parent manifest";
    case SegmentKind::SourceMap: return "source map";
    case SegmentKind::None: break;
  }
  return "unknown";
}

std::string kind_note(const Manifest& manifest, SegmentKind kind) {
  if (kind == SegmentKind::Weights)
    return counted(manifest.tensors.size(), "tensor") + ", one copy for " +
           counted(manifest.variants.size(), "variant");
  if (kind == SegmentKind::Golden) return counted(manifest.golden.size(), "vector");
  return {};
}

void add_kinds(SizeEntry& root, const container::Container& file) {
  const Manifest& manifest = file.manifest();
  std::vector<SegmentKind> kinds;
  for (const Segment& segment : manifest.segments)
    if (std::find(kinds.begin(), kinds.end(), segment.kind) == kinds.end()) kinds.push_back(segment.kind);
  for (const SegmentKind kind : kinds) {
    SizeEntry entry = group(kind_title(kind), kind_note(manifest, kind));
    for (uint32_t i = 0; i < manifest.segments.size(); ++i)
      if (manifest.segments[i].kind == kind) add(entry, segment_entry(file, i));
    if (entry.children.size() == 1 && entry.children.front().name == entry.name) {
      if (entry.note.empty()) entry.note = entry.children.front().note;
      entry.children.clear();
    }
    add(root, std::move(entry));
  }
}

// The variants that a segment serves; none where every reader may need it whatever the variant.
std::vector<std::set<uint32_t>> users_of_segments(const Manifest& manifest) {
  std::vector<std::set<uint32_t>> users(manifest.segments.size());
  for (uint32_t v = 0; v < manifest.variants.size(); ++v) {
    const Variant& variant = manifest.variants[v];
    if (variant.plan) users[*variant.plan].insert(v);
    if (variant.module) users[*variant.module].insert(v);
    for (const Tensor& tensor : manifest.tensors)
      for (const Copy& copy : tensor.copies)
        if (std::find(variant.layouts.begin(), variant.layouts.end(), copy.layout) != variant.layouts.end())
          users[copy.ref.segment].insert(v);
  }
  return users;
}

void add_variants(SizeEntry& root, const container::Container& file) {
  const Manifest& manifest = file.manifest();
  const auto users = users_of_segments(manifest);
  std::vector<SizeEntry> own;
  for (const Variant& variant : manifest.variants) own.push_back(group(variant.name));
  SizeEntry shared = group("shared by variants"), common = group("for every variant");
  for (uint32_t i = 0; i < manifest.segments.size(); ++i) {
    SizeEntry entry = segment_entry(file, i);
    // A variant's weights are its own only if nothing else could read them.
    if (users[i].size() == 1 && (manifest.variants.size() > 1 || manifest.segments[i].kind != SegmentKind::Weights)) {
      add(own[*users[i].begin()], std::move(entry));
    } else if (users[i].size() > 1) {
      entry.note = counted(users[i].size(), "variant") + (entry.note.empty() ? "" : ", " + entry.note);
      add(shared, std::move(entry));
    } else {
      add(common, std::move(entry));
    }
  }
  for (SizeEntry& entry : own) add(root, std::move(entry));
  add(root, std::move(shared));
  add(root, std::move(common));
}

std::string shape_text(const std::vector<uint64_t>& shape) {
  std::string text = "[";
  for (const uint64_t extent : shape) text += (text.size() > 1 ? "," : "") + std::to_string(extent);
  return text + "]";
}

void add_tensors(SizeEntry& root, const container::Container& file) {
  const Manifest& manifest = file.manifest();
  std::vector<SizeEntry> weights;
  for (uint32_t i = 0; i < manifest.segments.size(); ++i) {
    weights.push_back(segment_entry(file, i));
    weights.back().bytes = 0;
  }
  for (const Tensor& tensor : manifest.tensors) {
    for (const Copy& copy : tensor.copies) {
      const uint32_t segment = copy.ref.segment;
      // Compressed copies have no stored size of their own.
      if (!file.present(segment) || manifest.segments[segment].codec != Codec::Raw) continue;
      const auto layout = std::find_if(manifest.layouts.begin(), manifest.layouts.end(),
                                       [&](const Layout& l) { return l.id == copy.layout; });
      add(weights[segment], {tensor.name, copy.ref.length,
                             std::string(name_of(tensor.dtype)) + shape_text(tensor.shape) + " " +
                                 (layout == manifest.layouts.end() ? "unknown layout" : layout->text),
                             {}});
    }
  }
  for (uint32_t i = 0; i < manifest.segments.size(); ++i) {
    SizeEntry& entry = weights[i];
    const uint64_t bytes = stored(file, i);
    if (!entry.children.empty() && bytes > entry.bytes)
      add(entry, {"alignment", bytes - entry.bytes, "zeros between tensors", {}});
    entry.bytes = bytes;
    add(root, std::move(entry));
  }
}

}  // namespace

SizeEntry size_tree(const OpenContainer& file, SizeBy by) {
  SizeEntry root = group(file.path);
  const container::Container& opened = *file.opened;
  switch (by) {
    case SizeBy::Kind: add_kinds(root, opened); break;
    case SizeBy::Variant: add_variants(root, opened); break;
    case SizeBy::Tensor: add_tensors(root, opened); break;
    case SizeBy::Segment:
      for (uint32_t i = 0; i < opened.manifest().segments.size(); ++i) add(root, segment_entry(opened, i));
      break;
  }
  add_overhead(root, file);
  sort_by_size(root);
  return root;
}

void fold_small(SizeEntry& entry, uint64_t least) {
  SizeEntry others = group("others");
  size_t count = 0;
  std::vector<SizeEntry> kept;
  for (SizeEntry& child : entry.children) {
    fold_small(child, least);
    if (child.bytes >= least) {
      kept.push_back(std::move(child));
    } else {
      ++count;
      others.bytes += child.bytes;
    }
  }
  others.note = counted(count, "item", "items");
  if (count > 0) kept.push_back(std::move(others));
  // One line "others" instead of all children says nothing.
  if (count > 0 && kept.size() == 1) kept.clear();
  entry.children = std::move(kept);
}

std::string human_bytes(uint64_t bytes) {
  char text[32];
  const auto value = static_cast<double>(bytes);
  if (bytes < 1000) std::snprintf(text, sizeof text, "%u B", static_cast<unsigned>(bytes));
  else if (value < 999'950) std::snprintf(text, sizeof text, "%.1f kB", value / 1e3);
  else if (value < 999'995'000) std::snprintf(text, sizeof text, "%.2f MB", value / 1e6);
  else std::snprintf(text, sizeof text, "%.2f GB", value / 1e9);
  return text;
}

}  // namespace mlc::cli
