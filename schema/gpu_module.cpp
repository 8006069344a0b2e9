#include "schema/gpu_module.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <string_view>
#include <tuple>

#include "base/byte_cursor.h"
#include "base/checked.h"
#include "schema/format.h"

namespace mlc::gpu {
namespace {

constexpr uint8_t kPtx = static_cast<uint8_t>(format::ModuleFormat::Ptx), kSpirv = static_cast<uint8_t>(format::ModuleFormat::Spirv);
constexpr uint16_t kMayFault = 1, kHasBarriers = 2, kWantsFullSubgroups = 4, kHasFewLanes = 8, kAllFlags = 15;
constexpr size_t kModuleHeaderLen = 24, kEntryLen = 48, kImageLen = 16;

// Bits of a mask from `count` on, for what has `count` of them.
uint64_t beyond(uint64_t count) { return count >= 64 ? 0 : ~uint64_t{0} << count; }

class Decoder {
 public:
  explicit Decoder(Bytes bytes) : in_(bytes) {}

  Result<Module> decode() {
    MLC_RETURN_IF_ERROR(header());
    for (Entry& e : out_.entries) MLC_RETURN_IF_ERROR(entry(e));
    for (Image& i : out_.images) MLC_RETURN_IF_ERROR(image_head(i));
    MLC_RETURN_IF_ERROR(features());
    MLC_RETURN_IF_ERROR(names());
    MLC_RETURN_IF_ERROR(image_bytes());
    MLC_RETURN_IF_ERROR(used());
    return std::move(out_);
  }

 private:
  template <class... Args>
  static Status broken(const char* pattern, const Args&... args) {
    return Status(Code::Malformed, pattern, args...).note("module of a device");
  }
  static Status cut_off() { return broken("cut off, or bytes that must be zero are not"); }

  Status header() {
    const uint64_t size = in_.left();
    const uint32_t magic = in_.take<uint32_t>();
    const uint16_t version = in_.take<uint16_t>();
    out_.format = in_.take<uint8_t>();
    in_.skip_zeros(1);
    const uint32_t entries = in_.take<uint32_t>(), images = in_.take<uint32_t>();
    num_features_ = in_.take<uint32_t>();
    name_bytes_ = in_.take<uint32_t>();
    if (magic != kModuleMagic) return broken("no such module");
    if (in_.failed()) return cut_off();
    if (version != kModuleVersion) return broken("version {}, expected {}", version, kModuleVersion);
    if (out_.format != kPtx && out_.format != kSpirv) return broken("format {}, expected {} or {}", out_.format, kPtx, kSpirv);
    if (size > format::kMaxModuleLen) return broken("{} bytes, at most {} are read", size, format::kMaxModuleLen);
    if (entries > kMaxEntries) return broken("{} entries, at most {} are read", entries, kMaxEntries);
    if (images > kMaxImages) return broken("{} images, at most {} are read", images, kMaxImages);
    if (num_features_ > kMaxImageFeatures) return broken("{} features, at most {} are read", num_features_, kMaxImageFeatures);
    // Of at most 32 bits each: the sum does not overflow.
    if (entries * uint64_t{kEntryLen} + images * uint64_t{kImageLen} + num_features_ * uint64_t{4} + name_bytes_ > in_.left()) return cut_off();
    out_.entries.resize(entries);
    out_.images.resize(images);
    name_lengths_.reserve(entries);
    image_lengths_.reserve(images);
    return ok();
  }

  Status entry(Entry& e) {
    const uint64_t number = name_lengths_.size();
    e.image = in_.take<uint32_t>();
    name_lengths_.push_back(in_.take<uint16_t>());
    for (uint16_t& lanes : e.lanes) lanes = in_.take<uint16_t>();
    const uint16_t flags = in_.take<uint16_t>();
    e.may_fault = flags & kMayFault;
    e.has_barriers = flags & kHasBarriers;
    e.wants_full_subgroups = flags & kWantsFullSubgroups;
    e.has_few_lanes = flags & kHasFewLanes;
    e.num_buffers = in_.take<uint16_t>();
    e.num_scalars = in_.take<uint16_t>();
    e.subgroup_lanes = in_.take<uint16_t>();
    e.shared_bytes = in_.take<uint32_t>();
    e.dynamic_shared_bytes = in_.take<uint32_t>();
    in_.skip_zeros(4);
    e.narrow = in_.take<uint64_t>();
    e.written = in_.take<uint64_t>();
    if (in_.failed()) return cut_off();
    if (e.image >= out_.images.size()) return broken("entry {}: image {} of {}", number, e.image, out_.images.size());
    if (flags & ~kAllFlags) return broken("entry {}: unknown flags {}", number, flags);
    const uint64_t lanes = uint64_t{e.lanes[0]} * e.lanes[1] * e.lanes[2];  // below 2^48
    if (lanes == 0 || lanes > kMaxBlockLanes) return broken("entry {}: {} lanes, expected 1 to {}", number, lanes, kMaxBlockLanes);
    if (e.subgroup_lanes != 0 && (!e.wants_full_subgroups || !std::has_single_bit(e.subgroup_lanes) || e.subgroup_lanes < 4 || e.subgroup_lanes > 64 || e.lanes[0] % e.subgroup_lanes != 0))
      return broken("entry {}: subgroups of {} lanes", number, e.subgroup_lanes);
    if (e.num_buffers > kMaxBuffers) return broken("entry {}: {} buffers, at most {} are read", number, e.num_buffers, kMaxBuffers);
    if (e.num_scalars > kMaxScalars) return broken("entry {}: {} scalars, at most {} are read", number, e.num_scalars, kMaxScalars);
    if (e.narrow & beyond(e.num_scalars)) return broken("entry {}: narrow scalars behind the last", number);
    if (e.written & beyond(e.num_buffers)) return broken("entry {}: written buffers behind the last", number);
    return ok();
  }

  Status image_head(Image& i) {
    const uint64_t number = image_lengths_.size();
    const uint8_t kind = in_.take<uint8_t>();
    in_.skip_zeros(1);
    i.architecture = in_.take<uint16_t>();
    const uint32_t features = in_.take<uint32_t>();
    image_lengths_.push_back(in_.take<uint64_t>());
    if (in_.failed()) return cut_off();
    i.kind = static_cast<ImageKind>(kind);
    if (out_.format == kSpirv ? i.kind != ImageKind::SpirV : i.kind != ImageKind::Ptx && i.kind != ImageKind::Cubin)
      return broken("image {}: kind {} in a module of format {}", number, kind, out_.format);
    if (i.kind == ImageKind::Cubin && number == 0) return broken("image 0: a cubin without PTX before it");
    if ((i.kind == ImageKind::Cubin) != (i.architecture != 0)) return broken("image {}: architecture {}", number, i.architecture);
    if (features > num_features_) return broken("image {}: {} features of {}", number, features, num_features_);
    num_features_ -= features;
    i.features.resize(features);
    return ok();
  }

  Status features() {
    if (num_features_ != 0) return broken("{} features of no image", num_features_);
    for (size_t i = 0; i < out_.images.size(); ++i) {
      std::vector<uint32_t>& all = out_.images[i].features;
      for (uint32_t& f : all) f = in_.take<uint32_t>();
      if (std::adjacent_find(all.begin(), all.end(), std::greater_equal<>()) != all.end()) return broken("image {}: features not in ascending order", i);
    }
    in_.skip_padding(8);
    return in_.failed() ? cut_off() : ok();
  }

  Status names() {
    for (size_t k = 0; k < out_.entries.size(); ++k) {
      if (name_lengths_[k] == 0 || name_lengths_[k] > format::kMaxIdLen)
        return broken("entry {}: a name of {} bytes, expected 1 to {}", k, name_lengths_[k], format::kMaxIdLen);
      if (name_lengths_[k] > name_bytes_) return broken("entry {}: a name behind the last", k);
      name_bytes_ -= name_lengths_[k];
      out_.entries[k].name = in_.text(name_lengths_[k]);
      // Drivers take names as C strings, messages show them.
      for (char c : out_.entries[k].name)
        if (c <= ' ' || c > '~') return broken("entry {}: a name with byte {}", k, static_cast<unsigned char>(c));
    }
    if (name_bytes_ != 0) return broken("{} bytes of no name", name_bytes_);
    in_.skip_padding(8);
    if (in_.failed()) return cut_off();
    std::vector<std::pair<uint32_t, std::string_view>> all;
    all.reserve(out_.entries.size());
    for (const Entry& e : out_.entries) all.emplace_back(e.image, e.name);
    std::sort(all.begin(), all.end());
    const auto twice = std::adjacent_find(all.begin(), all.end());
    return twice == all.end() ? ok() : broken("image {}: two entries '{}'", twice->first, twice->second);
  }

  Status image_bytes() {
    for (size_t i = 0; i < out_.images.size(); ++i) {
      Image& image = out_.images[i];
      const uint64_t length = image_lengths_[i];
      if (length == 0 || length > in_.left()) return broken("image {}: {} bytes, expected 1 to {}", i, length, in_.left());
      const Bytes bytes = in_.bytes(length);
      in_.skip_padding(8);
      if (in_.failed()) return cut_off();
      if (image.kind == ImageKind::SpirV && length % 4 != 0) return broken("image {}: {} bytes are no words", i, length);
      // What the audit read is what a driver reads: up to the one zero at the end.
      if (image.kind == ImageKind::Ptx && std::find(bytes.begin(), bytes.end(), std::byte{0}) != bytes.end() - 1)
        return broken("image {}: text that does not end with its first zero", i);
      image.bytes.assign(bytes.begin(), bytes.end());
    }
    return in_.left() == 0 ? ok() : broken("{} bytes behind the last image", in_.left());
  }

  // Entries name images of text or words; cubins belong to the text before them.
  Status used() {
    std::vector<uint8_t> used(out_.images.size());
    for (const Entry& e : out_.entries) used[e.image] = 1;
    for (size_t i = 0; i < used.size(); ++i)
      if (used[i] == (out_.images[i].kind == ImageKind::Cubin))
        return broken(used[i] ? "image {}: an entry of a cubin, expected of PTX" : "image {}: no entry is in it", i);
    return ok();
  }

  ByteCursor in_;
  Module out_;
  uint32_t num_features_ = 0, name_bytes_ = 0;  // that are left
  std::vector<uint16_t> name_lengths_;
  std::vector<uint64_t> image_lengths_;
};

}  // namespace

std::vector<std::byte> encode(const Module& module) {
  uint64_t num_features = 0, name_bytes = 0;
  for (const Image& i : module.images) num_features += i.features.size();
  for (const Entry& e : module.entries) name_bytes += e.name.size();
  ByteBuilder out;
  out.put_uint(kModuleMagic, 4).put_uint(kModuleVersion, 2).put_uint(module.format, 1).put_uint(0, 1);
  out.put_uint(module.entries.size(), 4).put_uint(module.images.size(), 4).put_uint(num_features, 4).put_uint(name_bytes, 4);
  for (const Entry& e : module.entries) {
    out.put_uint(e.image, 4).put_uint(e.name.size(), 2);
    for (uint16_t lanes : e.lanes) out.put_uint(lanes, 2);
    out.put_uint((e.may_fault ? kMayFault : 0) | (e.has_barriers ? kHasBarriers : 0) | (e.wants_full_subgroups ? kWantsFullSubgroups : 0) |
                     (e.has_few_lanes ? kHasFewLanes : 0), 2);
    out.put_uint(e.num_buffers, 2).put_uint(e.num_scalars, 2).put_uint(e.subgroup_lanes, 2);
    out.put_uint(e.shared_bytes, 4).put_uint(e.dynamic_shared_bytes, 4).put_uint(0, 4);
    out.put_uint(e.narrow, 8).put_uint(e.written, 8);
  }
  for (const Image& i : module.images)
    out.put_uint(static_cast<uint8_t>(i.kind), 1).put_uint(0, 1).put_uint(i.architecture, 2).put_uint(i.features.size(), 4).put_uint(i.bytes.size(), 8);
  for (const Image& i : module.images)
    for (uint32_t f : i.features) out.put_uint(f, 4);
  out.pad(8);
  for (const Entry& e : module.entries) out.put(e.name);
  out.pad(8);
  for (const Image& i : module.images) {
    out.put(i.bytes);
    out.pad(8);
  }
  return out.take();
}

Result<Module> decode(std::span<const std::byte> bytes) { return Decoder(bytes).decode(); }

}  // namespace mlc::gpu
