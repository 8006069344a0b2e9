#include "packager/delta/delta.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/byte_cursor.h"

namespace mlc::delta {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kDeltaMagic = "\x89MLD\r\n\x1a\n"sv;
constexpr uint16_t kDeltaVersion = 1;

Digest take_digest(ByteCursor& in) {
  Digest digest{};
  const Bytes bytes = in.bytes(digest.size());
  std::copy(bytes.begin(), bytes.end(), digest.begin());
  return digest;
}

// Empty: the part keeps the rules.
std::string_view what_is_wrong(const Part& p) {
  const Source& s = p.source;
  if (p.length == 0 || p.length > kMaxPart || p.stored > kMaxPart) return "it has no length, or a longer one than a leaf";
  const bool has_source = p.kind == PartKind::Copy || p.kind == PartKind::Patch;
  const bool has_stored = p.kind == PartKind::Stored || p.kind == PartKind::Packed || p.kind == PartKind::Patch;
  if (has_source != (s.where != Where::None) || has_stored != (p.stored > 0)) return "it does not say where its bytes come from";
  if (!has_source) return s.segment == 0 && s.length == 0 && s.offset == 0 ? "" : "it refers to bytes that it does not use";
  if (s.length == 0 || s.length > kMaxPart) return "it refers to no bytes, or to more than a leaf";
  if (s.where == Where::Manifest && s.segment != 0) return "it refers to a segment of the manifest";
  if (p.kind == PartKind::Copy && s.length != p.length) return "it copies fewer or more bytes than it has";
  return "";
}

Result<Part> take_part(ByteCursor& in, uint64_t number) {
  Part part;
  const auto kind = in.take<uint8_t>(), where = in.take<uint8_t>();
  const auto zero = in.take<uint16_t>();
  part.length = in.take<uint32_t>();
  part.stored = in.take<uint32_t>();
  part.source.segment = in.take<uint32_t>();
  part.source.length = in.take<uint32_t>();
  const auto last = in.take<uint32_t>();
  part.source.offset = in.take<uint64_t>();
  const auto wrong = [&](std::string_view why) { return Status(Code::Malformed, "part {} of the delta: {}", number, why); };
  if (in.failed()) return wrong("the delta ends in it");
  if (zero != 0 || last != 0 || kind < 1 || kind > 5 || where > 3) return wrong("its kind is not known");
  part.kind = static_cast<PartKind>(kind);
  part.source.where = static_cast<Where>(where);
  if (const std::string_view why = what_is_wrong(part); !why.empty()) return wrong(why);
  if (part.kind == PartKind::Stored && part.stored != part.length) return wrong("it stores fewer or more bytes than it has");
  return part;
}

}  // namespace

std::vector<std::byte> encode(const Delta& delta) {
  ByteBuilder out;
  out.put(kDeltaMagic).put_uint(kDeltaVersion, 2).put_uint(0, 2).put_uint(0, 4).put_uint(delta.size, 8).put_uint(delta.parts.size(), 8);
  out.put(delta.from).put(delta.root).put(delta.file);
  for (const Part& p : delta.parts) {
    out.put_uint(static_cast<uint8_t>(p.kind), 1).put_uint(static_cast<uint8_t>(p.source.where), 1).put_uint(0, 2).put_uint(p.length, 4).put_uint(p.stored, 4);
    out.put_uint(p.source.segment, 4).put_uint(p.source.length, 4).put_uint(0, 4).put_uint(p.source.offset, 8);
  }
  return out.take();
}

Result<uint64_t> front_len(Bytes front, uint64_t delta_len) {
  ByteCursor in(front);
  if (in.text(kDeltaMagic.size()) != kDeltaMagic) return Status(Code::Malformed, "it is no delta of mlpack diff --delta");
  const auto version = in.take<uint16_t>();
  const auto minor = in.take<uint16_t>();
  const auto flags = in.take<uint32_t>();
  in.skip(8);
  const auto count = in.take<uint64_t>();
  if (in.failed() || delta_len < kFrontLen) return Status(Code::Malformed, "the delta is truncated: {} bytes found, at least {} expected", delta_len, kFrontLen);
  if (version != kDeltaVersion || flags != 0)
    return Status(Code::Unsupported, "the delta is of version {}.{} with flags {}, this mlpack reads {}.0", version, minor, flags, kDeltaVersion).hint("apply it with the mlpack that made it, or a newer one");
  if (count > (delta_len - kFrontLen) / kPartLen)
    return Status(Code::Malformed, "the delta is truncated: {} bytes found, {} parts expected", delta_len, count);
  return kFrontLen + count * kPartLen;
}

Result<Delta> parse(Bytes front, uint64_t delta_len) {
  MLC_ASSIGN(const uint64_t length, front_len(front, delta_len));
  if (front.size() != length) return Status(Code::Malformed, "the delta is truncated: {} bytes of its front found, {} expected", front.size(), length);
  ByteCursor in(front);
  in.skip(16);
  Delta delta;
  delta.size = in.take<uint64_t>();
  const auto count = in.take<uint64_t>();
  delta.from = take_digest(in);
  delta.root = take_digest(in);
  delta.file = take_digest(in);
  delta.parts.reserve(count);
  uint64_t made = 0, stored = 0;  // of at most 2^59 parts of 2^21 bytes each in theory: these sums are checked
  for (uint64_t k = 0; k < count; ++k) {
    MLC_ASSIGN(const Part part, take_part(in, k));
    const auto more_made = checked_add(made, part.length), more_stored = checked_add(stored, part.stored);
    if (!more_made || !more_stored) return Status(Code::Malformed, "the parts of the delta are too long");
    made = *more_made;
    stored = *more_stored;
    delta.parts.push_back(part);
  }
  if (made != delta.size) return Status(Code::Malformed, "the parts of the delta make {} bytes, {} expected", made, delta.size);
  if (stored != delta_len - length) return Status(Code::Malformed, "the delta has {} bytes behind its parts, {} expected", delta_len - length, stored);
  return delta;
}

}  // namespace mlc::delta
