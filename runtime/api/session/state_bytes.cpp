#include "runtime/api/session/state_bytes.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/byte_cursor.h"
#include "base/compose.h"
#include "schema/format.h"

namespace mlc::api {
namespace {

constexpr std::string_view kStateMagic = "MLCSTATE";
constexpr uint32_t kStateVersion = 1;
constexpr uint64_t kStateAlign = 8;
constexpr uint64_t kStateHeader = 56;  // magic, version, number of arrays, root, length of the whole
constexpr uint64_t kDigestLen = sizeof(Digest);

uint64_t padded(uint64_t bytes) { return (bytes + kStateAlign - 1) / kStateAlign * kStateAlign; }

uint64_t room_for(const StateArray& a) {
  return 16 + a.shape.size() * sizeof(int64_t) + padded(a.name.size()) + padded(a.bytes.size());
}

Status damaged(const char* what) { return Status(Code::Malformed, "saved state: {}", what); }

Status take_array(ByteCursor& in, StateArray& out) {
  const auto name_len = in.take<uint32_t>();
  const auto dtype = in.take<uint8_t>();
  const auto rank = in.take<uint8_t>();
  in.skip_zeros(2);
  const auto len = in.take<uint64_t>();
  if (in.failed() || rank > format::kMaxRank) return damaged("an array begins with something else");
  for (uint8_t axis = 0; axis < rank; ++axis) out.shape.push_back(in.take<int64_t>());
  out.name = in.text(name_len);
  in.skip_padding(kStateAlign);
  out.bytes = in.bytes(len);
  in.skip_padding(kStateAlign);
  if (in.failed()) return damaged("an array is cut off");
  if (dtype == 0 || dtype > static_cast<uint8_t>(kLastDType)) return damaged("an array has no element type");
  out.dtype = static_cast<DType>(dtype);
  auto elements = checked_product(out.shape);
  if (elements) elements = checked_mul(*elements, bytes_of(out.dtype));
  if (!elements || *elements != len) return damaged("an array has more or fewer bytes than its shape takes");
  return ok();
}

}  // namespace

Result<AlignedBlock> encode_state(const Digest& root, std::span<const StateArray> arrays, const Allocator* from) {
  uint64_t size = kStateHeader + kDigestLen;
  for (const StateArray& a : arrays) size += room_for(a);  // of memory that exists
  MLC_ASSIGN(AlignedBlock block, AlignedBlock::allocate(size, from));
  std::byte* at = block.data();
  const auto put = [&](const void* data, uint64_t bytes) {
    if (bytes > 0) std::memcpy(at, data, bytes);
    at += bytes;
  };
  const auto put_uint = [&](uint64_t value, unsigned width) {
    for (unsigned i = 0; i < width; ++i) *at++ = static_cast<std::byte>(value >> 8 * i & 0xff);
  };
  put(kStateMagic.data(), kStateMagic.size());
  put_uint(kStateVersion, 4);
  put_uint(arrays.size(), 4);
  put(root.data(), root.size());
  put_uint(size, 8);
  for (const StateArray& a : arrays) {
    put_uint(a.name.size(), 4);
    put_uint(static_cast<uint8_t>(a.dtype), 1);
    put_uint(a.shape.size(), 1);
    put_uint(0, 2);
    put_uint(a.bytes.size(), 8);
    for (int64_t extent : a.shape) put_uint(static_cast<uint64_t>(extent), 8);
    put(a.name.data(), a.name.size());
    at += padded(a.name.size()) - a.name.size();  // the block is zeros
    put(a.bytes.data(), a.bytes.size());
    at += padded(a.bytes.size()) - a.bytes.size();
  }
  const Digest digest = sha256(Bytes(block.data(), static_cast<size_t>(size - kDigestLen)));
  put(digest.data(), digest.size());
  return block;
}

Result<SavedState> decode_state(Bytes bytes) {
  ByteCursor in(bytes);
  if (in.text(kStateMagic.size()) != kStateMagic) return damaged("these bytes are none");
  if (const auto version = in.take<uint32_t>(); version != kStateVersion)
    return Status(Code::Malformed, "saved state: version {} found, {} expected", version, kStateVersion);
  const auto count = in.take<uint32_t>();
  SavedState out;
  const Bytes root = in.bytes(kDigestLen);
  const auto size = in.take<uint64_t>();
  if (in.failed() || size != bytes.size() || bytes.size() < kStateHeader + kDigestLen) return damaged("it is cut off, or something follows");
  std::copy(root.begin(), root.end(), out.root.begin());
  const Bytes body = bytes.first(bytes.size() - kDigestLen);
  const Digest digest = sha256(body);
  if (!std::equal(digest.begin(), digest.end(), bytes.last(kDigestLen).begin())) return damaged("it does not match its digest");
  ByteCursor arrays = ByteCursor(body).at(kStateHeader);
  for (uint32_t i = 0; i < count; ++i) {
    StateArray& array = out.arrays.emplace_back();  // as many as there are bytes for: one that is cut off ends this
    MLC_RETURN_IF_ERROR(take_array(arrays, array));
  }
  if (!arrays.done()) return damaged("something follows the last array");
  std::vector<std::string_view> names;
  for (const StateArray& a : out.arrays) names.push_back(a.name);
  std::sort(names.begin(), names.end());
  if (std::adjacent_find(names.begin(), names.end()) != names.end()) return damaged("two arrays have one name");
  return out;
}

}  // namespace mlc::api
