// A compiled tokenizer taken apart and put together again, also as no packager would.
#pragma once

#include <vector>

#include "base/byte_cursor.h"
#include "packager/text/compile_tokenizer.h"
#include "schema/text/compiled.h"
#include "tests/support/tokenizer_json.h"

namespace mlc::test {

class TokenizerBytes {
 public:
  using Section = text::Section;

  explicit TokenizerBytes(const std::string& json) {
    const auto bytes = text::compile_tokenizer(json, "tokenizer.json");
    if (!bytes.ok()) return;
    ByteCursor cursor(*bytes);
    cursor.skip(16);
    for (auto& section : sections_) {
      const auto offset = cursor.take<uint32_t>(), length = cursor.take<uint32_t>();
      const Bytes found = Bytes(*bytes).subspan(offset, length);
      section.assign(found.begin(), found.end());
    }
  }

  std::vector<std::byte>& operator[](Section s) { return sections_[static_cast<size_t>(s)]; }
  template <class T>
  void put(Section s, const T& item) {
    const auto bytes = std::as_bytes(std::span(&item, 1));
    (*this)[s].insert((*this)[s].end(), bytes.begin(), bytes.end());
  }
  std::vector<std::byte> bytes() const {
    ByteBuilder out;
    constexpr auto kCount = static_cast<uint64_t>(Section::Count);
    out.put_uint(text::kMagic, 4).put_uint(text::kVersion, 4).put_uint(kCount, 4).put_uint(0, 4);
    uint64_t at = 16 + 8 * kCount;
    for (const auto& section : sections_) {
      at = (at + 3) / 4 * 4;
      out.put_uint(at, 4).put_uint(section.size(), 4);
      at += section.size();
    }
    for (const auto& section : sections_) out.pad(4), out.put(Bytes(section));
    return out.take();
  }

 private:
  std::vector<std::byte> sections_[static_cast<size_t>(Section::Count)];
};

}  // namespace mlc::test
