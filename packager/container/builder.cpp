#include "packager/container/builder.h"


#include "packager/container/builder_state.h"
#include "packager/container/output_file.h"
#include "schema/layout_text.h"
#include "schema/validate/validate.h"
#include "signing/envelope.h"
#include "signing/hash_tree.h"

namespace mlc::container {

using format::SegmentKind;

ContainerBuilder::ContainerBuilder() : state_(std::make_unique<State>()) {}
ContainerBuilder::~ContainerBuilder() = default;
ContainerBuilder::ContainerBuilder(ContainerBuilder&&) noexcept = default;
ContainerBuilder& ContainerBuilder::operator=(ContainerBuilder&&) noexcept = default;

uint32_t ContainerBuilder::add_segment(std::string name, SegmentKind kind, bool droppable) {
  format::Segment segment;
  segment.name = std::move(name);
  segment.kind = kind;
  segment.droppable = droppable;
  manifest.segments.push_back(std::move(segment));
  state_->bytes.emplace_back();
  state_->kept.emplace_back();
  return static_cast<uint32_t>(state_->bytes.size() - 1);
}

uint32_t ContainerBuilder::keep_segment(format::Segment segment, StoredSegment stored) {
  manifest.segments.push_back(std::move(segment));
  state_->bytes.emplace_back();
  state_->kept.emplace_back(std::move(stored));
  return static_cast<uint32_t>(state_->bytes.size() - 1);
}

uint32_t ContainerBuilder::add_segment(std::string name, SegmentKind kind, bool droppable, Content content) {
  uint32_t segment = add_segment(std::move(name), kind, droppable);
  append(segment, std::move(content), 1);
  return segment;
}

void ContainerBuilder::renew_segment(uint32_t segment) { state_->kept[segment].reset(); }

void ContainerBuilder::bring_back(uint32_t segment, StoredSegment stored) { state_->kept[segment] = std::move(stored); }

format::Ref ContainerBuilder::append(uint32_t segment, Content content, uint64_t alignment) {
  uint64_t length = view(content).size();
  uint64_t offset = state_->bytes[segment].append(std::move(content), alignment);
  return {segment, offset, length};
}

uint64_t ContainerBuilder::segment_len(uint32_t segment) const { return state_->bytes[segment].decoded_len(); }

uint32_t ContainerBuilder::layout(const std::string& text) {
  uint32_t next = 0;
  for (const format::Layout& known : manifest.layouts) {
    if (known.text == text) return known.id;
    next = std::max(next, known.id + 1);
  }
  manifest.layouts.push_back({next, text, {}});
  return next;
}

Result<uint32_t> ContainerBuilder::add_tensor(std::string name, DType dtype, std::vector<uint64_t> shape,
                                              const format::Digest& content) {
  if (!manifest.tensors.empty() && manifest.tensors.back().name >= name)
    return Status(Code::Malformed, "tensor " + format::quoted(name) + " added after " +
                                       format::quoted(manifest.tensors.back().name) + ": names must ascend");
  format::Tensor tensor;
  tensor.name = std::move(name);
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  tensor.content = content;
  manifest.tensors.push_back(std::move(tensor));
  return static_cast<uint32_t>(manifest.tensors.size() - 1);
}

Status ContainerBuilder::add_copy(uint32_t tensor, uint32_t layout, uint32_t segment, Content content) {
  format::Tensor& t = manifest.tensors[tensor];
  for (const format::Layout& known : manifest.layouts) {
    if (known.id != layout) continue;
    MLC_ASSIGN(auto parsed, format::parse_layout(known.text));
    MLC_ASSIGN(uint64_t expected, format::stored_bytes(parsed, t.dtype, t.shape));
    uint64_t found = view(content).size();
    if (expected != found)
      return Status(Code::Malformed, "tensor " + format::quoted(t.name) + " in layout " + format::quoted(known.text) +
                                         ": " + std::to_string(found) + " bytes, " + std::to_string(expected) +
                                         " expected");
    if (found != 0) t.copies.push_back({layout, append(segment, std::move(content), format::kPackedAlign)});
    return ok();
  }
  return Status(Code::Malformed,
                "tensor " + format::quoted(t.name) + ": layout " + std::to_string(layout) + " was not declared");
}

uint32_t ContainerBuilder::shared_segment(std::optional<uint32_t>& handle, const char* name, SegmentKind kind) {
  if (!handle) handle = add_segment(name, kind);
  return *handle;
}

uint32_t ContainerBuilder::add_asset(std::string name, std::string media, std::vector<std::byte> content) {
  format::Asset asset;
  asset.name = std::move(name);
  asset.media = std::move(media);
  asset.digest = sha256(content);
  if (!content.empty()) asset.ref = append(shared_segment(state_->assets, "assets", SegmentKind::Asset), std::move(content), 1);
  manifest.assets.push_back(std::move(asset));
  return static_cast<uint32_t>(manifest.assets.size() - 1);
}

uint32_t ContainerBuilder::add_method(format::Method method) {
  manifest.methods.push_back(std::move(method));
  return static_cast<uint32_t>(manifest.methods.size() - 1);
}

uint32_t ContainerBuilder::add_variant(format::Variant variant) {
  manifest.variants.push_back(std::move(variant));
  return static_cast<uint32_t>(manifest.variants.size() - 1);
}

format::GoldenArray ContainerBuilder::golden_array(uint32_t port, DType dtype, std::vector<uint64_t> shape,
                                                   std::vector<std::byte> content) {
  format::GoldenArray array;
  array.port = port;
  array.dtype = dtype;
  array.shape = std::move(shape);
  if (!content.empty()) array.ref = append(shared_segment(state_->golden, "golden", SegmentKind::Golden), std::move(content), 64);
  return array;
}

void ContainerBuilder::add_golden(format::Golden golden) { manifest.golden.push_back(std::move(golden)); }

void ContainerBuilder::add_operator(std::string domain, std::string name, uint32_t version,
                                    std::vector<std::byte> text) {
  format::Operator op;
  op.domain = std::move(domain);
  op.name = std::move(name);
  op.version = version;
  op.digest = sha256(text);
  if (!text.empty()) op.text = append(shared_segment(state_->operators, "operators", SegmentKind::Operator), std::move(text), 1);
  manifest.operators.push_back(std::move(op));
}

const format::Digest& ContainerBuilder::root() const { return state_->root; }
const format::Manifest& ContainerBuilder::finished() const { return state_->final_manifest; }

Status ContainerBuilder::emit(const signing::PrivateKey* key, const Sink& sink) {
  MLC_RETURN_IF_ERROR(finish());
  std::vector<StoredSegment> segments;
  for (uint32_t handle : state_->order) {
    if (const auto& kept = state_->kept[handle]) {
      segments.push_back(*kept);
      continue;
    }
    const SegmentBytes& bytes = state_->bytes[handle];
    segments.push_back({bytes.codec(), bytes.stored_len(), bytes.decoded_len(), true, bytes.leaf_table(),
                        [&bytes](const Sink& out) { return bytes.for_each_stored(out); }});
  }
  MLC_RETURN_IF_ERROR(emit_body(state_->core, state_->manifest_bytes, segments, sink));
  if (key == nullptr) return ok();
  signing::Statement statement;
  statement.root = state_->root;
  statement.manifest = sha256(state_->manifest_bytes);
  statement.model_id = state_->final_manifest.model.id;
  statement.model_version = state_->final_manifest.model.version;
  statement.not_after = state_->final_manifest.model.not_after;
  MLC_ASSIGN(std::vector<std::byte> block, signing::sign_block(statement, *key));
  return sink(block);
}

Status ContainerBuilder::write(const std::string& path, const signing::PrivateKey* key, const std::function<Status(const std::string& path)>& accept) {
  MLC_RETURN_IF_ERROR(finish());  // before any file is touched
  MLC_ASSIGN(OutputFile file, OutputFile::create(path));
  MLC_RETURN_IF_ERROR(emit(key, [&](Bytes bytes) { return file.write(bytes); }));
  if (accept) {
    MLC_ASSIGN(const std::string complete, file.flushed());
    MLC_RETURN_IF_ERROR(accept(complete));
  }
  return file.commit();
}

Result<std::vector<std::byte>> ContainerBuilder::to_bytes(const signing::PrivateKey* key) {
  std::vector<std::byte> out;
  MLC_RETURN_IF_ERROR(emit(key, [&](Bytes bytes) {
    out.insert(out.end(), bytes.begin(), bytes.end());
    return ok();
  }));
  return out;
}

}  // namespace mlc::container
