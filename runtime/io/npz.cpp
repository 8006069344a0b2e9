#include "runtime/io/npz.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>

#include "runtime/io/npy.h"

namespace mlc::io {
namespace {

constexpr uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50, kEnd64 = 0x06064b50,
                   kLocator64 = 0x07064b50;
constexpr uint64_t kMaxEntries = 1 << 16, kMaxName = 4096;
// Deflate cannot pack better than 1032 to 1 (zlib.net/zlib_tech.html).
constexpr uint64_t kMaxRatio = 1032;
constexpr uint32_t kFull32 = 0xFFFFFFFF;

Status bad(std::string what) { return Status(Code::Malformed, "npz: " + std::move(what)); }

// Little-endian fields at checked places. Every offset and length comes from the file.
struct ZipView {
  Bytes bytes;

  uint64_t field(uint64_t at, unsigned n) const {
    assert(range_within(at, n, bytes.size()));
    uint64_t v = 0;
    for (unsigned i = 0; i < n; ++i) v |= std::to_integer<uint64_t>(bytes[at + i]) << 8 * i;
    return v;
  }
  bool has(uint64_t at, uint64_t length) const { return range_within(at, length, bytes.size()); }
  std::string_view text(uint64_t at, uint64_t length) const {
    return {reinterpret_cast<const char*>(bytes.data()) + at, length};
  }
};

struct Directory {
  uint64_t offset = 0, size = 0, entries = 0;
};

// The end record lies in the last 64 KB, before a comment whose length it states.
std::optional<uint64_t> find_end(const ZipView& z) {
  if (z.bytes.size() < 22) return std::nullopt;
  uint64_t last = z.bytes.size() - 22, first = last > 0xFFFF ? last - 0xFFFF : 0;
  for (uint64_t at = last + 1; at-- > first;)
    if (z.field(at, 4) == kEnd && at + 22 + z.field(at + 20, 2) == z.bytes.size()) return at;
  return std::nullopt;
}

Result<Directory> find_directory(const ZipView& z) {
  auto end = find_end(z);
  if (!end) return bad("truncated: no end of central directory");
  if (z.field(*end + 4, 2) != z.field(*end + 6, 2)) return bad("an archive in several files");
  Directory d{z.field(*end + 16, 4), z.field(*end + 12, 4), z.field(*end + 10, 2)};
  uint64_t limit = *end;
  if (*end >= 20 && z.field(*end - 20, 4) == kLocator64) {
    uint64_t at = z.field(*end - 20 + 8, 8);
    if (!range_within(at, 56, *end - 20) || z.field(at, 4) != kEnd64) return bad("damaged ZIP64 end record");
    d = {z.field(at + 48, 8), z.field(at + 40, 8), z.field(at + 32, 8)};
    limit = at;
  }
  if (!range_within(d.offset, d.size, limit)) return bad("central directory outside the file");
  if (d.entries > kMaxEntries) return bad(std::to_string(d.entries) + " entries");
  return d;
}

// Sizes above 4 GB stand in extra field 1, in this order, each only where its 32-bit field is full (4.5.3).
Status read_zip64(const ZipView& z, uint64_t at, uint64_t length, NpzEntry& e, uint64_t& local) {
  uint64_t end = at + length;
  while (at + 4 <= end) {
    uint64_t id = z.field(at, 2), size = z.field(at + 2, 2), p = at + 4;
    if (size > end - p) return bad("damaged extra field");
    at = p + size;
    if (id != 1) continue;
    for (uint64_t* v : {&e.unpacked, &e.packed, &local}) {
      if (*v != kFull32) continue;
      if (p + 8 > at) return bad("damaged ZIP64 extra field");
      *v = z.field(p, 8);
      p += 8;
    }
    return ok();
  }
  return ok();
}

// Checks the local header and sets where the data begins.
Status locate_data(const ZipView& z, uint64_t local, uint64_t limit, std::string_view name, NpzEntry& e) {
  if (!range_within(local, 30, limit) || z.field(local, 4) != kLocal)
    return bad("entry '" + e.name + "' has no local header");
  uint64_t name_length = z.field(local + 26, 2), extra_length = z.field(local + 28, 2);
  if (!range_within(local + 30, name_length + extra_length, limit) || z.text(local + 30, name_length) != name ||
      z.field(local + 8, 2) != (e.deflated ? 8u : 0u))
    return bad("entry '" + e.name + "': local header and directory differ");
  e.offset = local + 30 + name_length + extra_length;
  if (!range_within(e.offset, e.packed, limit)) return bad("entry '" + e.name + "' is cut off");
  return ok();
}

Status read_entry(const ZipView& z, const Directory& d, uint64_t& at, NpzEntry& e, uint64_t& local) {
  uint64_t end = d.offset + d.size;
  if (!range_within(at, 46, end) || z.field(at, 4) != kCentral) return bad("damaged central directory");
  uint64_t flags = z.field(at + 8, 2), method = z.field(at + 10, 2), name_length = z.field(at + 28, 2),
           extra_length = z.field(at + 30, 2), comment_length = z.field(at + 32, 2);
  uint64_t variable = name_length + extra_length + comment_length;
  if (!range_within(at + 46, variable, end) || name_length > kMaxName) return bad("damaged central directory");
  std::string_view name = z.text(at + 46, name_length);
  e.name = name.ends_with(".npy") ? name.substr(0, name.size() - 4) : name;
  e.crc = static_cast<uint32_t>(z.field(at + 16, 4));
  e.packed = z.field(at + 20, 4);
  e.unpacked = z.field(at + 24, 4);
  local = z.field(at + 42, 4);
  if (flags & 1) return Status(Code::Unsupported, "npz: entry '" + e.name + "' is encrypted");
  if (method != 0 && method != 8)
    return Status(Code::Unsupported, "npz: entry '" + e.name + "' uses method " + std::to_string(method) +
                                         ", expected stored or deflated");
  e.deflated = method == 8;
  MLC_RETURN_IF_ERROR(read_zip64(z, at + 46 + name_length, extra_length, e, local));
  if (e.deflated ? e.unpacked / kMaxRatio > e.packed : e.unpacked != e.packed)
    return bad("entry '" + e.name + "': " + std::to_string(e.packed) + " bytes cannot hold " +
               std::to_string(e.unpacked));
  MLC_RETURN_IF_ERROR(locate_data(z, local, d.offset, name, e));
  at += 46 + variable;
  return ok();
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
    return bad("entry '" + e.name + "' does not unpack to " + std::to_string(e.unpacked) + " bytes");
  return out;
}

uint32_t crc_of(Bytes bytes, uint32_t crc = 0) {
  if (bytes.empty()) return crc;  // zlib would begin anew without a buffer
  return static_cast<uint32_t>(crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace

namespace {

// The entry, its name in the set and twice the place in vectors that double.
MemoryNeed listing_memory(uint64_t entries, uint64_t directory_bytes) {
  return MemoryNeed().add(entries, 2 * (sizeof(NpzEntry) + 16) + 128).add(directory_bytes, 2);
}

}  // namespace

Result<std::vector<NpzEntry>> list_npz(Bytes file, const DecodeLimits& limits) {
  ZipView z{file};
  MLC_ASSIGN(Directory d, find_directory(z));
  MLC_RETURN_IF_ERROR(listing_memory(d.entries, d.size).check(limits.beyond(file), "npz: the directory"));
  std::vector<NpzEntry> entries;
  std::set<std::string> names;
  std::vector<std::pair<uint64_t, uint64_t>> ranges;  // local header to end of data
  uint64_t at = d.offset;
  for (uint64_t i = 0; i < d.entries; ++i) {
    NpzEntry e;
    uint64_t local = 0;
    MLC_RETURN_IF_ERROR(read_entry(z, d, at, e, local));
    if (!names.insert(e.name).second) return bad("two entries are called '" + e.name + "'");
    ranges.emplace_back(local, e.offset + e.packed);
    entries.push_back(std::move(e));
  }
  if (at != d.offset + d.size) return bad("damaged central directory");
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 1; i < ranges.size(); ++i)
    if (ranges[i].first < ranges[i - 1].second) return bad("entries overlap");
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
  if (crc_of(data) != e.crc) return bad("entry '" + e.name + "': checksum does not match");
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

// Little-endian fields appended to a record.
struct Record {
  std::vector<std::byte> bytes;

  Record& put(uint64_t value, unsigned n) {
    for (unsigned i = 0; i < n; ++i) bytes.push_back(static_cast<std::byte>(value >> 8 * i & 0xFF));
    return *this;
  }
  Record& put(std::string_view text) {
    for (char c : text) bytes.push_back(static_cast<std::byte>(c));
    return *this;
  }
};

constexpr uint64_t kDate = 0x0021 /* 1980-01-01 */, kTime = 0;

struct Written {
  std::string name;
  uint64_t offset = 0, size = 0;
  uint32_t crc = 0;

  // NumPy always writes the ZIP64 field in local headers; so do we, which keeps one form for all sizes.
  Record local() const {
    Record r;
    r.put(kLocal, 4)
        .put(45, 2)
        .put(0x800, 2)
        .put(0, 2)
        .put(kTime, 2)
        .put(kDate, 2)
        .put(crc, 4)
        .put(kFull32, 4)
        .put(kFull32, 4);
    r.put(name.size(), 2).put(20, 2).put(name).put(1, 2).put(16, 2).put(size, 8).put(size, 8);
    return r;
  }
  Record central() const {
    bool large = size >= kFull32 || offset >= kFull32;
    uint64_t size32 = large ? kFull32 : size, offset32 = large ? kFull32 : offset;
    Record r;
    r.put(kCentral, 4).put(45, 2).put(45, 2).put(0x800, 2).put(0, 2).put(kTime, 2).put(kDate, 2).put(crc, 4);
    r.put(size32, 4).put(size32, 4).put(name.size(), 2).put(large ? 28 : 0, 2).put(0, 2).put(0, 2).put(0, 2);
    r.put(0, 4).put(offset32, 4).put(name);
    if (large) r.put(1, 2).put(24, 2).put(size, 8).put(size, 8).put(offset, 8);
    return r;
  }
};

Record end_records(uint64_t entries, uint64_t offset, uint64_t size) {
  Record r;
  bool large = entries >= 0xFFFF || offset >= kFull32 || size >= kFull32;
  if (large) {
    r.put(kEnd64, 4)
        .put(44, 8)
        .put(45, 2)
        .put(45, 2)
        .put(0, 4)
        .put(0, 4)
        .put(entries, 8)
        .put(entries, 8)
        .put(size, 8)
        .put(offset, 8);
    r.put(kLocator64, 4).put(0, 4).put(offset + size, 8).put(1, 4);
  }
  uint64_t entries16 = large ? 0xFFFF : entries;
  r.put(kEnd, 4).put(0, 2).put(0, 2).put(entries16, 2).put(entries16, 2);
  r.put(large ? kFull32 : size, 4).put(large ? kFull32 : offset, 4).put(0, 2);
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
    MLC_RETURN_IF_ERROR(emit(w.local().bytes));
    MLC_RETURN_IF_ERROR(emit(header));
    MLC_RETURN_IF_ERROR(emit(data));
    done.push_back(std::move(w));
  }
  uint64_t directory = at;
  for (const Written& w : done) MLC_RETURN_IF_ERROR(emit(w.central().bytes));
  return emit(end_records(done.size(), directory, at - directory).bytes);
}

}  // namespace mlc::io
