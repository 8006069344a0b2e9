#include "runtime/io/npz.h"

#include <zlib.h>

#include <algorithm>
#include <optional>
#include <set>

#include "base/byte_cursor.h"
#include "runtime/io/npy.h"

namespace mlc::io {
namespace {

constexpr uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50, kEnd64 = 0x06064b50,
                   kLocator64 = 0x07064b50;
constexpr uint64_t kMaxEntries = 1 << 16, kMaxName = 4096;
// Deflate cannot pack better than 1032 to 1 (zlib.net/zlib_tech.html).
constexpr uint64_t kMaxRatio = 1032;
constexpr uint32_t kFull32 = 0xFFFFFFFF;

Status bad_npz(std::string what) { return Status(Code::Malformed, "npz: " + std::move(what)); }

struct Directory {
  uint64_t offset = 0, size = 0, entries = 0;
};

// The end record lies in the last 64 KB, before a comment whose length it states.
std::optional<uint64_t> find_end(const ByteCursor& file) {
  if (file.left() < 22) return std::nullopt;
  uint64_t last = file.left() - 22, first = last > 0xFFFF ? last - 0xFFFF : 0;
  for (uint64_t at = last + 1; at-- > first;)
    if (file.at(at).take<uint32_t>() == kEnd && at + 22 + file.at(at + 20).take<uint16_t>() == file.left()) return at;
  return std::nullopt;
}

Result<Directory> find_directory(const ByteCursor& file) {
  const auto end = find_end(file);
  if (!end) return bad_npz("truncated: no end of central directory");
  ByteCursor in = file.at(*end + 4);
  if (in.take<uint16_t>() != in.take<uint16_t>()) return bad_npz("an archive in several files");
  in.skip(2);
  Directory d;
  d.entries = in.take<uint16_t>();
  d.size = in.take<uint32_t>();
  d.offset = in.take<uint32_t>();
  uint64_t limit = *end;
  if (ByteCursor locator = file.at(*end >= 20 ? *end - 20 : UINT64_MAX); locator.take<uint32_t>() == kLocator64) {
    locator.skip(4);
    limit = locator.take<uint64_t>();
    in = file.at(limit);
    if (!range_within(limit, 56, *end - 20) || in.take<uint32_t>() != kEnd64) return bad_npz("damaged ZIP64 end record");
    in.skip(28);
    d.entries = in.take<uint64_t>();
    d.size = in.take<uint64_t>();
    d.offset = in.take<uint64_t>();
  }
  if (!range_within(d.offset, d.size, limit)) return bad_npz("central directory outside the file");
  if (d.entries > kMaxEntries) return bad_npz(std::to_string(d.entries) + " entries");
  return d;
}

// Sizes above 4 GB stand in extra field 1, in this order, each only where its 32-bit field is full (4.5.3).
Status read_zip64(ByteCursor extra, NpzEntry& e, uint64_t& local) {
  while (extra.left() >= 4) {
    const auto id = extra.take<uint16_t>(), size = extra.take<uint16_t>();
    ByteCursor in(extra.bytes(size));
    if (extra.failed()) return bad_npz("damaged extra field");
    if (id != 1) continue;
    for (uint64_t* v : {&e.unpacked, &e.packed, &local})
      if (*v == kFull32) *v = in.take<uint64_t>();
    return in.failed() ? bad_npz("damaged ZIP64 extra field") : ok();
  }
  return ok();
}

// Checks the local header and sets where the data begins. `data`: all in front of the directory.
Status locate_data(const ByteCursor& data, uint64_t local, std::string_view name, NpzEntry& e) {
  ByteCursor in = data.at(local);
  if (in.take<uint32_t>() != kLocal) return bad_npz("entry '" + e.name + "' has no local header");
  in.skip(4);
  const auto method = in.take<uint16_t>();
  in.skip(16);
  const auto name_length = in.take<uint16_t>(), extra_length = in.take<uint16_t>();
  const std::string_view name_here = in.text(name_length);
  in.skip(extra_length);
  if (in.failed() || name_here != name || method != (e.deflated ? 8 : 0))
    return bad_npz("entry '" + e.name + "': local header and directory differ");
  e.offset = in.offset();
  in.skip(e.packed);
  return in.failed() ? bad_npz("entry '" + e.name + "' is cut off") : ok();
}

// The next entry of the directory.
Status read_entry(ByteCursor& in, const ByteCursor& data, NpzEntry& e, uint64_t& local) {
  const bool is_entry = in.take<uint32_t>() == kCentral;
  in.skip(4);
  const auto flags = in.take<uint16_t>(), method = in.take<uint16_t>();
  in.skip(4);
  e.crc = in.take<uint32_t>();
  e.packed = in.take<uint32_t>();
  e.unpacked = in.take<uint32_t>();
  const auto name_length = in.take<uint16_t>(), extra_length = in.take<uint16_t>(), comment_length = in.take<uint16_t>();
  in.skip(8);
  local = in.take<uint32_t>();
  const std::string_view name = in.text(name_length);
  const ByteCursor extra(in.bytes(extra_length));
  in.skip(comment_length);
  if (in.failed() || !is_entry || name_length > kMaxName) return bad_npz("damaged central directory");
  e.name = name.ends_with(".npy") ? name.substr(0, name.size() - 4) : name;
  if (flags & 1) return Status(Code::InputMismatch, "npz: entry '" + e.name + "' is encrypted");
  if (method != 0 && method != 8)
    return Status(Code::InputMismatch, "npz: entry '" + e.name + "' uses method " + std::to_string(method) +
                                         ", expected stored or deflated");
  e.deflated = method == 8;
  MLC_RETURN_IF_ERROR(read_zip64(extra, e, local));
  if (e.deflated ? e.unpacked / kMaxRatio > e.packed : e.unpacked != e.packed)
    return bad_npz("entry '" + e.name + "': " + std::to_string(e.packed) + " bytes cannot hold " +
               std::to_string(e.unpacked));
  return locate_data(data, local, name, e);
}

Result<HostBuffer> inflate_entry(Bytes packed, const NpzEntry& e) {
  MLC_ASSIGN(HostBuffer out, HostBuffer::allocate(e.unpacked));
  z_stream s = {};
  if (inflateInit2(&s, -MAX_WBITS) != Z_OK) return Status(Code::Resource, "npz: out of memory");
  // zlib counts in 32 bits: feed and drain in pieces.
  constexpr uint64_t kPiece = 1u << 30;
  uint64_t in = 0, written = 0;
  int rc = Z_OK;
  std::byte end_of_output[1];
  while (rc == Z_OK) {
    if (s.avail_in == 0) {
      s.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data() + in));
      s.avail_in = static_cast<uInt>(std::min<uint64_t>(kPiece, packed.size() - in));
      in += s.avail_in;
    }
    // One spare byte tells a stream that ends here from one that goes on.
    bool full = written == out.size();
    uInt room = full ? 1 : static_cast<uInt>(std::min<uint64_t>(kPiece, out.size() - written));
    s.next_out = reinterpret_cast<Bytef*>(full ? end_of_output : out.data() + written);
    s.avail_out = room;
    rc = inflate(&s, Z_NO_FLUSH);
    uint64_t produced = room - s.avail_out;
    if (full && produced) rc = Z_DATA_ERROR;
    if (!full) written += produced;
  }
  uint64_t unread = s.avail_in + (packed.size() - in);
  inflateEnd(&s);
  if (rc != Z_STREAM_END || written != out.size() || unread != 0)
    return bad_npz("entry '" + e.name + "' does not unpack to " + std::to_string(e.unpacked) + " bytes");
  return out;
}

uint32_t crc_of(Bytes bytes, uint32_t crc = 0) {
  if (bytes.empty()) return crc;  // zlib would begin anew without a buffer
  return static_cast<uint32_t>(crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

// The entry, its name in the set and twice the place in vectors that double.
MemoryNeed listing_memory(uint64_t entries, uint64_t directory_bytes) {
  return MemoryNeed().add(entries, 2 * (sizeof(NpzEntry) + 16) + 128).add(directory_bytes, 2);
}

}  // namespace

Result<std::vector<NpzEntry>> list_npz(Bytes file, const DecodeLimits& limits) {
  MLC_ASSIGN(const Directory d, find_directory(ByteCursor(file)));
  MLC_RETURN_IF_ERROR(listing_memory(d.entries, d.size).check(limits.beyond(file), "npz: the directory"));
  const ByteCursor data(file.first(d.offset));
  ByteCursor directory(file.subspan(d.offset, d.size));
  std::vector<NpzEntry> entries;
  std::set<std::string> names;
  std::vector<std::pair<uint64_t, uint64_t>> ranges;  // local header to end of data
  for (uint64_t i = 0; i < d.entries; ++i) {
    NpzEntry e;
    uint64_t local = 0;
    MLC_RETURN_IF_ERROR(read_entry(directory, data, e, local));
    if (!names.insert(e.name).second) return bad_npz("two entries are called '" + e.name + "'");
    ranges.emplace_back(local, e.offset + e.packed);
    entries.push_back(std::move(e));
  }
  if (!directory.done()) return bad_npz("damaged central directory");
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 1; i < ranges.size(); ++i)
    if (ranges[i].first < ranges[i - 1].second) return bad_npz("entries overlap");
  return entries;
}

Result<HostTensor> read_npz_entry(Bytes file, const NpzEntry& e, const DecodeLimits& limits) {
  assert(range_within(e.offset, e.packed, file.size()));
  Bytes data = file.subspan(e.offset, e.packed);
  HostBuffer unpacked;
  DecodeLimits left = limits;
  if (e.deflated) {
    // Unpacked, and as an array.
    MLC_RETURN_IF_ERROR(MemoryNeed().add(e.unpacked, 2).check(limits, "npz: entry '" + e.name + "'"));
    left.memory -= e.unpacked;
    MLC_ASSIGN(unpacked, inflate_entry(data, e));
    data = unpacked.bytes();
  }
  if (crc_of(data) != e.crc) return bad_npz("entry '" + e.name + "': checksum does not match");
  auto tensor = parse_npy_within(data, left);
  if (!tensor.ok()) return std::move(tensor).status().note("npz entry '" + e.name + "'");
  return tensor;
}

namespace {

uint64_t bytes_held(const HostTensor& t) {
  uint64_t bytes = t.data.size() + t.strings.capacity() * sizeof(std::string);
  for (const std::string& s : t.strings) bytes += s.capacity();
  return bytes;
}

}  // namespace

Result<std::vector<NamedTensor>> parse_npz(Bytes file, const DecodeLimits& limits) {
  MLC_ASSIGN(auto entries, list_npz(file, limits));
  std::vector<NamedTensor> all;
  DecodeLimits left = limits.beyond(file);
  uint64_t names = 0;
  for (const NpzEntry& e : entries) names += e.name.size();
  const MemoryNeed listed = listing_memory(entries.size(), names).add(entries.size(), 2 * sizeof(NamedTensor)).add(names);
  left.memory -= std::min(left.memory, listed.bytes);
  for (const NpzEntry& e : entries) {
    MLC_ASSIGN(HostTensor t, read_npz_entry(file, e, left));
    left.memory -= std::min(left.memory, bytes_held(t));
    all.push_back({e.name, std::move(t)});
  }
  return all;
}

namespace {

constexpr uint64_t kDate = 0x0021 /* 1980-01-01 */, kTime = 0;

struct Written {
  std::string name;
  uint64_t offset = 0, size = 0;
  uint32_t crc = 0;

  // NumPy always writes the ZIP64 field in local headers; so do we, which keeps one form for all sizes.
  ByteBuilder local() const {
    ByteBuilder r;
    r.put_uint(kLocal, 4)
        .put_uint(45, 2)
        .put_uint(0x800, 2)
        .put_uint(0, 2)
        .put_uint(kTime, 2)
        .put_uint(kDate, 2)
        .put_uint(crc, 4)
        .put_uint(kFull32, 4)
        .put_uint(kFull32, 4);
    r.put_uint(name.size(), 2).put_uint(20, 2).put(name).put_uint(1, 2).put_uint(16, 2).put_uint(size, 8).put_uint(size, 8);
    return r;
  }
  ByteBuilder central() const {
    bool large = size >= kFull32 || offset >= kFull32;
    uint64_t size32 = large ? kFull32 : size, offset32 = large ? kFull32 : offset;
    ByteBuilder r;
    r.put_uint(kCentral, 4).put_uint(45, 2).put_uint(45, 2).put_uint(0x800, 2).put_uint(0, 2).put_uint(kTime, 2).put_uint(kDate, 2).put_uint(crc, 4);
    r.put_uint(size32, 4).put_uint(size32, 4).put_uint(name.size(), 2).put_uint(large ? 28 : 0, 2).put_uint(0, 2).put_uint(0, 2).put_uint(0, 2);
    r.put_uint(0, 4).put_uint(offset32, 4).put(name);
    if (large) r.put_uint(1, 2).put_uint(24, 2).put_uint(size, 8).put_uint(size, 8).put_uint(offset, 8);
    return r;
  }
};

ByteBuilder end_records(uint64_t entries, uint64_t offset, uint64_t size) {
  ByteBuilder r;
  bool large = entries >= 0xFFFF || offset >= kFull32 || size >= kFull32;
  if (large) {
    r.put_uint(kEnd64, 4)
        .put_uint(44, 8)
        .put_uint(45, 2)
        .put_uint(45, 2)
        .put_uint(0, 4)
        .put_uint(0, 4)
        .put_uint(entries, 8)
        .put_uint(entries, 8)
        .put_uint(size, 8)
        .put_uint(offset, 8);
    r.put_uint(kLocator64, 4).put_uint(0, 4).put_uint(offset + size, 8).put_uint(1, 4);
  }
  uint64_t entries16 = large ? 0xFFFF : entries;
  r.put_uint(kEnd, 4).put_uint(0, 2).put_uint(0, 2).put_uint(entries16, 2).put_uint(entries16, 2);
  r.put_uint(large ? kFull32 : size, 4).put_uint(large ? kFull32 : offset, 4).put_uint(0, 2);
  return r;
}

}  // namespace

Status write_npz(std::span<const NpzItem> items, const ByteSink& sink) {
  uint64_t at = 0;
  auto emit = [&](Bytes bytes) {
    at += bytes.size();
    return sink(bytes);
  };
  std::vector<Written> done;
  std::set<std::string_view> names;
  for (const NpzItem& item : items) {
    if (item.name.size() + 4 > kMaxName)
      return Status(Code::Usage, "npz: a name of " + std::to_string(item.name.size()) + " bytes");
    if (!names.insert(item.name).second) return Status(Code::Usage, "npz: two arrays are called '" + item.name + "'");
    MLC_ASSIGN(auto header, npy_header(*item.tensor));
    Bytes data = item.tensor->data.bytes();
    Written w{item.name + ".npy", at, header.size() + data.size(), crc_of(data, crc_of(header))};
    MLC_RETURN_IF_ERROR(emit(w.local().bytes()));
    MLC_RETURN_IF_ERROR(emit(header));
    MLC_RETURN_IF_ERROR(emit(data));
    done.push_back(std::move(w));
  }
  uint64_t directory = at;
  for (const Written& w : done) MLC_RETURN_IF_ERROR(emit(w.central().bytes()));
  return emit(end_records(done.size(), directory, at - directory).bytes());
}

}  // namespace mlc::io
