#include "schema/cubin.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "base/byte_cursor.h"

namespace mlc::gpu {
namespace {

// ELF, of the generic ABI; the rest is what NVIDIA's assembler writes, as readelf shows it.
constexpr uint16_t kExecutable = 2, kCudaMachine = 190;
constexpr uint32_t kProgramBits = 1, kSymbolTable = 2, kStringTable = 3, kNoBits = 8;
constexpr uint64_t kExecuted = 4;                              // flag of a section
constexpr uint8_t kLocal = 0, kFunction = 2, kIsEntry = 0x10;  // of a symbol: binding, type, other
constexpr uint8_t kAbi7 = 51, kAbi8 = 65;                      // EI_OSABI: up to CUDA 12, from 13 on
constexpr uint64_t kHeaderLen = 64, kSectionLen = 64, kSymbolLen = 24, kMostSections = 1 << 20, kKiB = 1024;

struct Section {
  uint32_t name = 0, type = 0;
  uint64_t flags = 0, offset = 0, size = 0;
  uint32_t link = 0;
};

class Reader {
 public:
  explicit Reader(Bytes bytes) : bytes_(bytes) {}

  Result<Cubin> read() {
    MLC_RETURN_IF_ERROR(header());
    MLC_RETURN_IF_ERROR(sections());
    MLC_RETURN_IF_ERROR(symbols());
    if (out_.entries.empty()) return broken("no entry");
    for (Cubin::Entry& e : out_.entries)
      if (const auto shared = shared_.find(e.name); shared != shared_.end()) e.shared_bytes = shared->second;
    return std::move(out_);
  }

 private:
  template <class... Args>
  static Status broken(const char* pattern, const Args&... args) {
    return Status(Code::Malformed, pattern, args...).note("cubin");
  }

  Status header() {
    ByteCursor in(bytes_);
    const std::string_view magic = in.text(4);
    const auto wide = in.take<uint8_t>(), little = in.take<uint8_t>(), version = in.take<uint8_t>(), abi = in.take<uint8_t>();
    in.skip(8);
    const auto type = in.take<uint16_t>(), machine = in.take<uint16_t>();
    in.skip(4 + 8 + 8);
    section_table_ = in.take<uint64_t>();
    const auto flags = in.take<uint32_t>();
    in.skip(2 + 2 + 2);
    const auto section_len = in.take<uint16_t>();
    num_sections_ = in.take<uint16_t>();
    names_section_ = in.take<uint16_t>();
    if (in.failed() || magic != "\x7f" "ELF" || wide != 2 || little != 1 || version != 1) return broken("no ELF of 64 bits");
    if (type != kExecutable || machine != kCudaMachine) return broken("type {} for machine {}, expected {} for {}", type, machine, kExecutable, kCudaMachine);
    if (abi != kAbi7 && abi != kAbi8) return broken("ABI {}", abi);
    out_.architecture = (abi == kAbi7 ? flags : flags >> 8) & 0xff;
    if (section_len != kSectionLen) return broken("sections of {} bytes, expected {}", section_len, kSectionLen);
    return ok();
  }

  Status sections() {
    ByteCursor in = ByteCursor(bytes_).at(section_table_);
    // A file with more than 65,279 of them says so in the first one.
    if (num_sections_ == 0) num_sections_ = in.at(section_table_ + 32).take<uint64_t>();
    if (num_sections_ > kMostSections || num_sections_ * kSectionLen > in.left()) return broken("the table of sections is cut off");
    for (uint64_t k = 0; k < num_sections_; ++k) {
      Section s;
      s.name = in.take<uint32_t>(), s.type = in.take<uint32_t>(), s.flags = in.take<uint64_t>();
      in.skip(8);
      s.offset = in.take<uint64_t>(), s.size = in.take<uint64_t>(), s.link = in.take<uint32_t>();
      in.skip(4 + 8 + 8);
      if (k == 0) s = {};  // which is none
      if (s.type != 0 && s.type != kNoBits && !range_within(s.offset, s.size, bytes_.size())) return broken("section {} is cut off", k);
      sections_.push_back(s);
    }
    constexpr uint16_t kInLinkOfTheFirst = 0xffff;
    const uint64_t names = names_section_ == kInLinkOfTheFirst ? ByteCursor(bytes_).at(section_table_ + 40).take<uint32_t>() : names_section_;
    MLC_ASSIGN(const Bytes strings, strings_of(names));
    for (const Section& s : sections_) {
      MLC_ASSIGN(const std::string_view name, text_at(strings, s.name));
      names_.push_back(name);
      constexpr std::string_view kShared = ".nv.shared.";
      if (name.starts_with(".nv.global") || name.starts_with(".nv.constant3") || name.starts_with(".nv.constant4"))
        return broken("memory of the module's own: {}", name);
      if (name.starts_with(kShared)) shared_[name.substr(kShared.size())] = s.size;
    }
    return ok();
  }

  Status symbols() {
    for (const Section& table : sections_) {
      if (table.type != kSymbolTable) continue;
      if (table.size % kSymbolLen != 0) return broken("a table of symbols of {} bytes", table.size);
      MLC_ASSIGN(const Bytes strings, strings_of(table.link));
      ByteCursor in(bytes_.subspan(table.offset, table.size));
      for (bool first = true; in.left() > 0; first = false) {
        const auto name = in.take<uint32_t>();
        const auto info = in.take<uint8_t>(), other = in.take<uint8_t>();
        const auto section = in.take<uint16_t>();
        in.skip(8 + 8);
        if (first) continue;
        MLC_ASSIGN(const std::string_view text, text_at(strings, name));
        MLC_RETURN_IF_ERROR(symbol(text, info, other, section));
      }
    }
    return ok();
  }

  Status symbol(std::string_view name, uint8_t info, uint8_t other, uint64_t section) {
    if (info >> 4 == kLocal) return ok();
    // Where the system keeps something of its own in a block's memory is the driver's to know.
    const bool is_function = (info & 15) == kFunction;
    if (section == 0 && (is_function || !name.starts_with(".nv.reservedSmem."))) return broken("'{}' is not in it", name);
    if (!is_function || !(other & kIsEntry)) return ok();  // helpers of the assembler's, such as divisions, are no entries
    const bool has_code = section < sections_.size() && sections_[section].type == kProgramBits && (sections_[section].flags & kExecuted) &&
                          names_[section].starts_with(".text.") && names_[section].substr(6) == name;
    if (!has_code) return broken("entry '{}' has no code of its own", name);
    if (!entries_.insert(name).second) return broken("entry '{}' is there twice", name);
    out_.entries.push_back({std::string(name), 0});
    return ok();
  }

  Result<Bytes> strings_of(uint64_t section) const {
    if (section >= sections_.size() || sections_[section].type != kStringTable) return broken("no table of names");
    return bytes_.subspan(sections_[section].offset, sections_[section].size);
  }
  static Result<std::string_view> text_at(Bytes strings, uint64_t offset) {
    const std::string_view all(reinterpret_cast<const char*>(strings.data()), strings.size());
    const size_t end = offset < all.size() ? all.find('\0', offset) : all.npos;
    if (end == all.npos) return broken("a name behind the table of names");
    return all.substr(offset, end - offset);
  }

  const Bytes bytes_;
  Cubin out_;
  uint64_t section_table_ = 0, num_sections_ = 0;
  uint16_t names_section_ = 0;
  std::vector<Section> sections_;
  std::vector<std::string_view> names_;  // of the sections
  std::map<std::string_view, uint64_t, std::less<>> shared_;
  std::set<std::string_view> entries_;
};

// Whether an entry that has `ours` bytes of shared memory may state `stated`. From sm_90 on the system keeps a KiB of its own in a block's memory, before ours. Where the launch
// gives arrays to a kernel of the image, they may begin at a multiple of a KiB; what stands before them is whole KiB then, in every kernel.
bool may_state(uint64_t stated, uint64_t ours, uint32_t architecture, bool launch_gives) {
  constexpr uint32_t kWithSystem = 90;
  if (stated == ours) return true;
  if (architecture < kWithSystem) return false;
  const uint64_t with_system = ours + kKiB;
  return stated == with_system || (launch_gives && stated == (with_system + kKiB - 1) / kKiB * kKiB);
}

}  // namespace

Result<Cubin> read_cubin(Bytes bytes) { return Reader(bytes).read(); }

Status check_cubin(Bytes bytes, uint32_t architecture, std::span<const Entry* const> entries) {
  MLC_ASSIGN(const Cubin cubin, read_cubin(bytes));
  if (cubin.architecture != architecture) return Status(Code::Malformed, "a cubin for sm_{}, the module says sm_{}", cubin.architecture, architecture);
  if (cubin.entries.size() != entries.size()) return Status(Code::Malformed, "a cubin with {} entries, expected {}", cubin.entries.size(), entries.size());
  const bool launch_gives = std::any_of(entries.begin(), entries.end(), [](const Entry* e) { return e->dynamic_shared_bytes > 0; });
  for (const Entry* e : entries) {
    const auto found = std::find_if(cubin.entries.begin(), cubin.entries.end(), [&](const Cubin::Entry& c) { return c.name == e->name; });
    if (found == cubin.entries.end()) return Status(Code::Malformed, "a cubin without entry '{}'", e->name);
    if (!may_state(found->shared_bytes, e->shared_bytes, architecture, launch_gives))
      return Status(Code::Malformed, "a cubin whose entry '{}' has {} bytes of shared memory, expected {}", e->name, found->shared_bytes, e->shared_bytes);
  }
  return ok();
}

}  // namespace mlc::gpu
