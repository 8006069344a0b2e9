// Impossible containers: takes a good one apart, lets a test change anything, hashes, signs and puts it together again.
// Without the new hashes and signature every parser bug would hide behind "the signature does not match".
#pragma once

#include <cstring>
#include <functional>
#include <vector>

#include "packager/container/image.h"
#include "packager/container/manifest_encode.h"
#include "schema/placement.h"
#include "signing/envelope.h"
#include "tests/support/containers/sample_container.h"

namespace mlc::test {

struct Parts {
  format::Manifest manifest;
  std::vector<std::vector<std::byte>> stored;  // by segment
  std::vector<std::vector<std::byte>> tables;  // leaf tables
  std::vector<bool> present;
  std::vector<format::SegmentShape> shapes;    // what the bytes at hand are, whatever the manifest claims
  // Applied in this order while assembling.
  std::function<void(std::vector<std::byte>&)> change_manifest_bytes;
  std::function<void(container::Core&)> change_core;
  std::function<void(std::vector<std::byte>&)> change_body;  // before the signature block is appended
};

inline Parts take_apart(Bytes file) {
  auto opened = container::Container::open_memory(file, "good", trusting());
  if (!opened.ok()) std::abort();
  const container::Container& c = **opened;
  Parts parts;
  parts.manifest = c.manifest();
  std::vector<format::SegmentShape> shapes;
  for (const auto& s : c.manifest().segments) shapes.push_back({s.codec, s.stored_len, s.decoded_len, true});
  uint64_t manifest_len = 0;
  std::memcpy(&manifest_len, file.data() + 32, 8);
  auto placement = format::place(manifest_len, shapes);
  for (size_t i = 0; i < shapes.size(); ++i) {
    const auto& item = placement->segments[i];
    auto slice = [&](uint64_t offset, uint64_t len) {
      return std::vector<std::byte>(file.begin() + static_cast<ptrdiff_t>(offset),
                                    file.begin() + static_cast<ptrdiff_t>(offset + len));
    };
    parts.stored.push_back(slice(item.offset, shapes[i].stored_len));
    parts.tables.push_back(slice(item.table_off, item.table_len));
    parts.present.push_back(true);
    parts.shapes.push_back(shapes[i]);
  }
  return parts;
}

// Replaces the stored bytes of a segment and makes digests and leaf table fit. `leaf_lens`: stored length of each leaf.
inline void replace_segment(Parts& parts, uint32_t i, format::Codec codec, std::vector<std::byte> stored,
                            uint64_t decoded_len, const std::vector<uint32_t>& leaf_lens) {
  std::vector<Digest> leaves;
  size_t at = 0;
  for (uint32_t len : leaf_lens) {
    leaves.push_back(leaf_digest(Bytes(stored).subspan(at, len)));
    at += len;
  }
  std::vector<std::byte> table(format::leaf_table_len(codec, leaves.size()));
  std::memcpy(table.data(), leaves.data(), leaves.size() * 32);
  if (codec == format::Codec::Zstd)
    std::memcpy(table.data() + leaves.size() * 32, leaf_lens.data(), leaf_lens.size() * 4);
  format::Segment& s = parts.manifest.segments[i];
  s.codec = codec;
  s.stored_len = stored.size();
  s.decoded_len = decoded_len;
  s.digest = segment_digest(static_cast<uint8_t>(codec), s.stored_len, s.decoded_len, leaves);
  parts.shapes[i] = {codec, stored.size(), decoded_len, true};
  parts.stored[i] = std::move(stored);
  parts.tables[i] = std::move(table);
}

// The file. Segments are placed by the lengths of the bytes at hand, whatever the manifest claims.
inline std::vector<std::byte> assemble(const Parts& parts, const signing::PrivateKey* key = &test_key()) {
  std::vector<std::byte> manifest = container::encode_manifest(parts.manifest);
  if (parts.change_manifest_bytes) parts.change_manifest_bytes(manifest);
  container::Core core = container::make_core(manifest.size(), static_cast<uint32_t>(parts.stored.size()));
  if (parts.change_core) parts.change_core(core);
  std::vector<container::StoredSegment> segments;
  for (size_t i = 0; i < parts.stored.size(); ++i) {
    container::StoredSegment s;
    s.codec = parts.shapes[i].codec;
    s.stored_len = parts.stored[i].size();
    s.decoded_len = parts.shapes[i].decoded_len;
    s.present = parts.present[i];
    s.leaf_table = parts.tables[i];
    const auto& bytes = parts.stored[i];
    s.stored = [&bytes](const container::Sink& sink) { return sink(bytes); };
    segments.push_back(std::move(s));
  }
  std::vector<std::byte> out;
  Status status = container::emit_body(core, manifest, segments, [&](Bytes bytes) {
    out.insert(out.end(), bytes.begin(), bytes.end());
    return ok();
  });
  if (!status.ok()) std::abort();
  if (parts.change_body) parts.change_body(out);
  if (key == nullptr) return out;
  signing::Statement statement;
  statement.root = root_digest(core, manifest);
  statement.manifest = sha256(manifest);
  statement.model_id = "local/sample";
  statement.model_version = 3;
  auto block = signing::sign_block(statement, *key);
  if (!block.ok()) std::abort();
  out.insert(out.end(), block->begin(), block->end());
  return out;
}

// Uses everything that a container offers; whatever it answers, nothing may crash. Returns the first failure.
inline Status use_everything(const container::Container& c) {
  Status first;
  auto keep = [&](const Status& status) {
    if (first.ok()) first = status;
  };
  for (const Status& status : c.verify_report()) keep(status);
  for (uint32_t i = 0; i < c.manifest().segments.size(); ++i)
    if (c.present(i))
      if (auto bytes = c.segment(i); !bytes.ok()) keep(bytes.status());
  for (uint32_t i = 0; i < c.manifest().tensors.size(); ++i)
    if (auto pointer = c.acquire_tensor(i); !pointer.ok()) keep(pointer.status());
  for (uint32_t i = 0; i < c.manifest().assets.size(); ++i)
    if (auto bytes = c.asset(i); !bytes.ok()) keep(bytes.status());
  for (const auto& golden : c.manifest().golden)
    for (const auto& array : golden.outputs)
      if (auto bytes = c.bytes(array.ref); !bytes.ok()) keep(bytes.status());
  return first;
}

}  // namespace mlc::test
