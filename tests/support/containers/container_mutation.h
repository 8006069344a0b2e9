// What a hostile packager can write: a container whose segments or manifest were changed and whose hashes fit again.
// Unsigned, so that it reaches everything behind the hash tree. Shared by the fuzzer and by `mutants`.
#pragma once

#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/containers/bad_container.h"

namespace mlc::test {

class MutableContainer {
 public:
  // `file`: an unsigned or signed container that the tests' key or nobody signed. Aborts if it is none.
  explicit MutableContainer(Bytes file) : good_(take_apart(file)) {
    const auto opened = container::Container::open_memory(file, "good", trusting());
    for (uint32_t i = 0; i < good_.stored.size(); ++i) {
      decoded_.emplace_back();
      if (good_.manifest.segments[i].kind == format::SegmentKind::Weights) continue;  // data: every value is a good one
      const auto segment = (*opened)->segment(i);
      if (!segment.ok()) continue;  // native code of a file that nobody trusts: removed below
      decoded_.back().assign(segment->bytes().begin(), segment->bytes().end());
      if (!decoded_.back().empty()) editable_.push_back(i);
    }
  }

  // The file after the edits of `script`, 8 bytes each: u16 which part (0 to 8191: the manifest), u32 offset, u8
  // operation, u8 value; little-endian. Bytes behind the last whole edit are ignored.
  std::vector<std::byte> mutate(Bytes script) const {
    Parts parts = good_;
    std::vector<std::pair<uint32_t, Bytes>> manifest_edits;
    std::vector<std::optional<std::vector<std::byte>>> changed(decoded_.size());
    for (; script.size() >= kEditLen; script = script.subspan(kEditLen)) {
      const Bytes edit = script.first(kEditLen);
      const uint32_t part = number(edit.first(2)), offset = number(edit.subspan(2, 4));
      if (part < kManifestShare || editable_.empty()) {
        manifest_edits.emplace_back(offset, edit.last(2));
        continue;
      }
      const uint32_t segment = editable_[part % editable_.size()];
      if (!changed[segment]) changed[segment] = decoded_[segment];
      apply(offset, edit.last(2), *changed[segment]);
    }
    for (uint32_t i = 0; i < changed.size(); ++i)
      if (changed[i]) replace(parts, i, std::move(*changed[i]));
    parts.change_manifest_bytes = [&](std::vector<std::byte>& manifest) {
      for (const auto& [offset, edit] : manifest_edits) apply(offset, edit, manifest);
    };
    return assemble(parts, nullptr);
  }

  static constexpr size_t kEditLen = 8;

 private:
  static constexpr uint32_t kManifestShare = 8192;

  static uint32_t number(Bytes bytes) {
    uint32_t value = 0;
    for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | std::to_integer<uint32_t>(bytes[i]);
    return value;
  }

  static void apply(uint32_t offset, Bytes edit, std::vector<std::byte>& target) {
    const size_t at = offset % target.size();
    const std::byte value = edit[1];
    const auto word = [&](uint32_t v) {
      for (size_t i = at / 4 * 4; i < target.size() && i < at / 4 * 4 + 4; ++i, v >>= 8) target[i] = static_cast<std::byte>(v);
    };
    switch (std::to_integer<unsigned>(edit[0]) % 6) {
      case 0: target[at] = value; break;
      case 1: target[at] ^= value; break;
      case 2: target[at] = static_cast<std::byte>(std::to_integer<unsigned>(target[at]) + std::to_integer<unsigned>(value)); break;
      case 3: word(std::to_integer<uint32_t>(value)); break;
      case 4: word(0xffffff00u | std::to_integer<uint32_t>(value)); break;
      default: word(std::to_integer<uint32_t>(value) << 24 | std::to_integer<uint32_t>(value) << 16); break;
    }
  }

  static void replace(Parts& parts, uint32_t segment, std::vector<std::byte> bytes) {
    std::vector<uint32_t> leaves;
    for (size_t at = 0; at < bytes.size(); at += format::kLeafLen)
      leaves.push_back(static_cast<uint32_t>(std::min<size_t>(format::kLeafLen, bytes.size() - at)));
    const uint64_t len = bytes.size();
    replace_segment(parts, segment, format::Codec::Raw, std::move(bytes), len, leaves);
    for (format::Asset& asset : parts.manifest.assets)
      if (asset.ref.segment == segment)
        asset.digest = sha256(Bytes(parts.stored[segment]).subspan(asset.ref.offset, asset.ref.length));
  }

  Parts good_;
  std::vector<std::vector<std::byte>> decoded_;
  std::vector<uint32_t> editable_;
};

}  // namespace mlc::test
