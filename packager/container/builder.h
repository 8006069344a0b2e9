// Collects what goes into a container and writes it: the only writer, so that equal input gives equal bytes.
//
//   ContainerBuilder b;
//   b.manifest.model.id = "local/cat";                                     // plain fields are set directly
//   auto weights = b.add_segment("weights", SegmentKind::Weights);
//   auto t = b.add_tensor("fc.weight", DType::F32, {128, 64}, tensor_digest(...));
//   b.add_copy(*t, layout, weights, std::move(panel_bytes));
//   b.add_variant(variant, plan_segment, module_segment); ...
//   MLC_RETURN_IF_ERROR(b.write("cat.mlc", &key));
//
// Handles. add_* returns handles: positions in the order of adding. `finish` sorts every named list and rewrites all
// indices, so callers need not sort. One exception: a plan names tensors by their final index, which must be known when
// the plan is written, before the container is; so tensors must be added in ascending order of their names (bytewise),
// and a tensor's handle is its final index. The order of the bytes inside a weights segment is the order of add_copy.
//
// Filled in by `finish`: digests and lengths of segments, Audit::digest, and the compressor in Provenance::flags.
//
// In `manifest`, the lists segments, tensors, assets and golden are filled by add_* only; the others (methods,
// variants, layouts, stages, operators) may be filled through add_* or directly, with handles wherever an index is
// wanted.
//
// A container can be made of another one: its manifest is taken over, whose indices are then handles, keep_segment and add_segment
// are called for its segments in their order (with `manifest.segments` empty before), and more is added behind them.
//
// Bytes are either owned (moved in) or borrowed (`Borrowed`, must outlive the builder): weights are hashed and written
// from their place, never copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/checked.h"
#include "base/progress.h"
#include "base/status.h"
#include "packager/container/image.h"
#include "packager/container/zstd_frames.h"
#include "schema/manifest.h"
#include "signing/keys.h"

namespace mlc::container {

struct Borrowed {
  Bytes bytes;
};
using Content = std::variant<std::vector<std::byte>, Borrowed>;
inline Bytes view(const Content& content) {
  if (auto* owned = std::get_if<std::vector<std::byte>>(&content)) return *owned;
  return std::get<Borrowed>(content).bytes;
}

class ContainerBuilder {
 public:
  ContainerBuilder();
  ~ContainerBuilder();
  ContainerBuilder(ContainerBuilder&&) noexcept;
  ContainerBuilder& operator=(ContainerBuilder&&) noexcept;

  format::Manifest manifest;
  Effort effort = Effort::Small;  // of all that is compressed but golden arrays; Fast for what is not kept
  unsigned threads = 1;           // that compress and hash segments; the bytes do not depend on it

  // An empty segment; content is appended by the functions below, or set whole. Weights are raw, everything else is
  // zstd unless that makes it larger. `droppable`: a thinned copy of the file may leave it out. A weights segment that
  // stays empty is left out of the file.
  uint32_t add_segment(std::string name, format::SegmentKind kind, bool droppable = false);
  // A segment with this content: module, plan, tuning, ...
  uint32_t add_segment(std::string name, format::SegmentKind kind, bool droppable, Content content);
  // A segment of another container as it is stored there, or absent where it is absent: nothing is decoded, hashed or compressed, and
  // nothing may be appended. What `stored` delivers must be what `segment` says; the reader finds out.
  uint32_t keep_segment(format::Segment segment, StoredSegment stored);
  // The bytes of a kept segment that was absent.
  void bring_back(uint32_t segment, StoredSegment stored);
  // A kept segment becomes an empty one of the same name, to be filled by `append`.
  void renew_segment(uint32_t segment);
  // Appends to a segment at the next multiple of `alignment` (a power of two <= 256), zeros between.
  format::Ref append(uint32_t segment, Content content, uint64_t alignment);
  // Bytes of a segment so far.
  uint64_t segment_len(uint32_t segment) const;

  // A layout by its text (schema/layout_text.h); returns its id. The same text gives the same id.
  uint32_t layout(const std::string& text);
  // Names must ascend. `content` is the tensor_digest of the row-major elements. Malformed if out of order.
  [[nodiscard]] Result<uint32_t> add_tensor(std::string name, DType dtype, std::vector<uint64_t> shape,
                                            const format::Digest& content);
  // The first copy of a tensor is its primary one. Malformed if the length does not fit dtype, shape and layout.
  [[nodiscard]] Status add_copy(uint32_t tensor, uint32_t layout, uint32_t segment, Content content);

  // Names of assets are labels ("labels", "charset", "pipeline.json"), media says what they are. Returns the handle.
  // They share one segment, "assets".
  uint32_t add_asset(std::string name, std::string media, std::vector<std::byte> content);
  uint32_t add_method(format::Method method);
  uint32_t add_variant(format::Variant variant);
  // Stores an array for a golden vector, in the segment "golden".
  format::GoldenArray golden_array(uint32_t port, DType dtype, std::vector<uint64_t> shape,
                                   std::vector<std::byte> content);
  void add_golden(format::Golden golden);
  // Text of a custom operator, in the segment "operators".
  void add_operator(std::string domain, std::string name, uint32_t version, std::vector<std::byte> text);

  // Sorts, compresses, hashes and encodes. Idempotent until something is added; `write` calls it. Malformed if the
  // content breaks a rule of the format (the same validator that readers run), with the item named.
  // `progress` counts segments.
  [[nodiscard]] Status finish(const Progress& progress = {});
  // After finish: what `root` of the file will be, and the manifest as written (sorted, final indices and digests).
  const format::Digest& root() const;
  const format::Manifest& finished() const;

  // Writes the file: temporary file in the same folder, fsync, rename; never in place. `key` none: unsigned. `accept`, if
  // there is one, is told where the complete file is before it is renamed; if it fails, the file disappears.
  [[nodiscard]] Status write(const std::string& path, const signing::PrivateKey* key, const std::function<Status(const std::string& path)>& accept = {});
  [[nodiscard]] Result<std::vector<std::byte>> to_bytes(const signing::PrivateKey* key);
  // The bytes of the file, in order.
  [[nodiscard]] Status emit(const signing::PrivateKey* key, const Sink& sink);

 private:
  struct State;
  Status seal_segments(const Progress& progress);
  uint32_t shared_segment(std::optional<uint32_t>& handle, const char* name, format::SegmentKind kind);

  std::unique_ptr<State> state_;
};

}  // namespace mlc::container
