#include "loaders/elf/elf_image.h"

#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "base/compose.h"
#include "loaders/elf/elf_format.h"
#include "schema/module_abi.h"

namespace mlc::elf {
namespace {

constexpr uint64_t kMaxFile = uint64_t{1} << 30, kMaxSpan = uint64_t{1} << 30, kSegmentAlign = 65536;
constexpr uint64_t kMaxRelocations = uint64_t{1} << 20, kMaxDynamicLen = 4096;
constexpr uint32_t kMaxSymbols = 64, kMaxProgramHeaders = 16;

Status bad(const char* pattern, Pieces pieces = {}) {
  return Status(Code::Malformed, "module: {}", compose_pieces(pattern, pieces));
}

// Reads a T at `offset`; false if it does not lie within the file.
template <class T>
bool read_at(Bytes file, uint64_t offset, T& out) {
  if (!range_within(offset, sizeof(T), file.size())) return false;
  std::memcpy(&out, file.data() + offset, sizeof(T));
  return true;
}

// What the dynamic section says, by virtual address.
struct DynamicTable {
  std::optional<uint64_t> rela, relasz, relaent, relacount, symtab, syment, strtab, strsz, hash, flags, flags1, bti, pac;
};

class Parser {
 public:
  Parser(Bytes file, Machine machine, uint64_t page_size) : file_(file), machine_(machine), page_size_(page_size) {}

  Result<ElfImage> parse() {
    MLC_RETURN_IF_ERROR(read_header());
    MLC_RETURN_IF_ERROR(read_program_headers());
    MLC_RETURN_IF_ERROR(read_dynamic());
    MLC_RETURN_IF_ERROR(read_relocations());
    MLC_RETURN_IF_ERROR(read_symbols());
    make_relative();
    return std::move(image_);
  }

 private:
  Status read_header() {
    if (file_.size() > kMaxFile) return bad("{} bytes, at most {} are loaded", {file_.size(), kMaxFile});
    if (!read_at(file_, 0, header_)) return bad("{} bytes, too few for a header", {file_.size()});
    static constexpr uint8_t kIdent[16] = {0x7f, 'E', 'L', 'F', /*64 bit*/ 2, /*little-endian*/ 1, /*version*/ 1};
    if (std::memcmp(header_.ident, kIdent, sizeof kIdent) != 0) return bad("not an ELF64 little-endian file");
    if (header_.type != kTypeDyn || header_.version != 1) return bad("not a shared object of version 1");
    if (header_.machine != static_cast<uint16_t>(machine_))
      return bad("made for machine {}, this is {}", {header_.machine, static_cast<uint16_t>(machine_)});
    const uint32_t flags = machine_ == Machine::RiscV64 ? header_.flags & ~kRiscvRvc : header_.flags;
    const uint32_t expected = machine_ == Machine::RiscV64       ? kRiscvFloatAbiDouble
                              : machine_ == Machine::LoongArch64 ? kLoongArchDoubleObjectsV1
                                                                 : 0;
    if (flags != expected) return bad("unexpected e_flags");
    if (header_.ehsize != sizeof(FileHeader) || header_.phentsize != sizeof(ProgramHeader)) return bad("entry sizes");
    if (header_.phnum < 1 || header_.phnum > kMaxProgramHeaders)
      return bad("number of program headers is {}, 1 to {} expected", {header_.phnum, kMaxProgramHeaders});
    return ok();
  }

  Status read_program_headers() {
    std::optional<ProgramHeader> relro;
    bool stack_seen = false;
    for (uint32_t i = 0; i < header_.phnum; ++i) {
      ProgramHeader p;
      const auto at = checked_add(header_.phoff, i * uint64_t{sizeof p});
      if (!at || !read_at(file_, *at, p)) return bad("program header outside the file");
      switch (p.type) {
        case kPtLoad: MLC_RETURN_IF_ERROR(add_segment(p)); break;
        case kPtDynamic:
          if (dynamic_) return bad("two dynamic segments");
          dynamic_ = p;
          break;
        case kPtGnuRelro:
          if (relro) return bad("two RELRO ranges");
          relro = p;
          break;
        case kPtGnuStack:
          if (stack_seen) return bad("two stack headers");
          if (p.flags & kExecute) return bad("wants an executable stack");
          stack_seen = true;
          break;
        case kPtGnuProperty: MLC_RETURN_IF_ERROR(read_property(p)); break;
        case kPtNote:
        case kPtPhdr: break;
        case kPtRiscvAttributes:
          if (machine_ != Machine::RiscV64) return bad("program header of another machine");
          break;
        default: return bad("program header type {} is not allowed", {p.type});
      }
    }
    if (image_.segments.empty()) return bad("nothing to load");
    if (!dynamic_) return bad("no dynamic segment");
    if (!relro) return ok();
    for (Segment& s : image_.segments)
      if (s.writable && s.vaddr == relro->vaddr && s.mem_len == relro->memsz) {
        s.relro = true;
        return ok();
      }
    return bad("RELRO is not one whole writable segment");
  }

  Status add_segment(const ProgramHeader& p) {
    if (p.flags & ~(kRead | kWrite | kExecute) || !(p.flags & kRead)) return bad("rights of a segment");
    if ((p.flags & kWrite) && (p.flags & kExecute)) return bad("a segment is writable and executable");
    if (p.memsz == 0 || p.filesz > p.memsz) return bad("length of a segment");
    if (p.align != kSegmentAlign || p.vaddr % kSegmentAlign != p.offset % kSegmentAlign) return bad("segment alignment");
    if (!range_within(p.offset, p.filesz, file_.size())) return bad("segment outside the file");
    const auto end = checked_add(p.vaddr, p.memsz);
    const auto page_end = end ? checked_align(*end, page_size_) : std::nullopt;
    if (!page_end) return bad("segment outside the address space");
    const uint64_t page_start = p.vaddr & ~(page_size_ - 1);
    if (image_.segments.empty()) origin_ = page_start;
    else if (page_start < end_) return bad("segments overlap or are not in order");
    end_ = *page_end;
    if (end_ - origin_ > kMaxSpan) return bad("spans more than 1 GiB");
    image_.segments.push_back(
        {p.vaddr, p.memsz, p.offset, p.filesz, (p.flags & kWrite) != 0, (p.flags & kExecute) != 0, false});
    return ok();
  }

  // .note.gnu.property: name "GNU", then properties {u32 type, u32 size, data padded to 8}.
  Status read_property(const ProgramHeader& p) {
    if (machine_ != Machine::AArch64) return ok();
    if (!range_within(p.offset, p.filesz, file_.size())) return bad("property note outside the file");
    struct {
      uint32_t name_len, desc_len, type;
      char name[4];
    } note;
    if (p.filesz < sizeof note || !read_at(file_, p.offset, note)) return ok();
    if (note.name_len != 4 || note.type != kNoteGnuPropertyType || std::memcmp(note.name, "GNU", 4) != 0) return ok();
    if (note.desc_len > p.filesz - sizeof note) return bad("property note too long");
    uint64_t at = p.offset + sizeof note;
    uint64_t left = note.desc_len;
    while (left >= 8) {
      uint32_t head[2];
      if (!read_at(file_, at, head)) return bad("property outside the file");
      const uint64_t padded = (uint64_t{head[1]} + 7) & ~uint64_t{7};
      if (padded > left - 8) return bad("property too long");
      uint32_t bits;
      if (head[0] == kPropertyAarch64Feature1 && head[1] == 4 && read_at(file_, at + 8, bits))
        image_.bti = (bits & kFeature1Bti) != 0;
      at += 8 + padded;
      left -= 8 + padded;
    }
    return ok();
  }

  // The segment that holds all of [vaddr, vaddr + length) in its part from the file.
  const Segment* file_backed(uint64_t vaddr, uint64_t length) const {
    for (const Segment& s : image_.segments)
      if (vaddr >= s.vaddr && range_within(vaddr - s.vaddr, length, s.file_len)) return &s;
    return nullptr;
  }
  // Bytes of the file behind an address range; empty if they are not all there.
  Bytes at_vaddr(uint64_t vaddr, uint64_t length) const {
    const Segment* s = length ? file_backed(vaddr, length) : nullptr;
    return s ? file_.subspan(s->offset + (vaddr - s->vaddr), length) : Bytes();
  }

  Status read_dynamic() {
    const uint64_t length = dynamic_->filesz;
    if (length == 0 || length % sizeof(Dynamic) != 0 || length > kMaxDynamicLen)
      return bad("length of dynamic segment is {}, a multiple of 16 up to {} expected", {length, kMaxDynamicLen});
    const Bytes table = at_vaddr(dynamic_->vaddr, length);
    if (table.empty()) return bad("dynamic segment is not loaded");
    bool ended = false;
    for (uint64_t i = 0; i < length && !ended; i += sizeof(Dynamic)) {
      Dynamic d;
      std::memcpy(&d, table.data() + i, sizeof d);
      std::optional<uint64_t>* field = nullptr;
      switch (d.tag) {
        case kDtNull: ended = true; continue;
        case kDtRela: field = &dyn_.rela; break;
        case kDtRelasz: field = &dyn_.relasz; break;
        case kDtRelaent: field = &dyn_.relaent; break;
        case kDtRelacount: field = &dyn_.relacount; break;
        case kDtSymtab: field = &dyn_.symtab; break;
        case kDtSyment: field = &dyn_.syment; break;
        case kDtStrtab: field = &dyn_.strtab; break;
        case kDtStrsz: field = &dyn_.strsz; break;
        case kDtHash: field = &dyn_.hash; break;
        case kDtFlags: field = &dyn_.flags; break;
        case kDtFlags1: field = &dyn_.flags1; break;
        case kDtAarch64BtiPlt: field = machine_ == Machine::AArch64 ? &dyn_.bti : nullptr; break;
        case kDtAarch64PacPlt: field = machine_ == Machine::AArch64 ? &dyn_.pac : nullptr; break;
        default: break;
      }
      // NEEDED, INIT, FINI, JMPREL, TEXTREL, RELR, GNU_HASH, ... have no field.
      if (!field) return bad("dynamic tag {} is not allowed", {d.tag});
      if (*field) return bad("dynamic tag {} twice", {d.tag});
      *field = d.value;
    }
    if (!ended) return bad("dynamic segment without end");
    if (dyn_.flags.value_or(0) & ~(kDfSymbolic | kDfBindNow)) return bad("dynamic flags");
    if (dyn_.flags1.value_or(0) & ~kDf1Now) return bad("dynamic flags");
    return ok();
  }

  Status read_relocations() {
    if (!dyn_.rela && !dyn_.relasz) return ok();
    if (!dyn_.rela || !dyn_.relasz || dyn_.relaent.value_or(0) != sizeof(Rela) || *dyn_.relasz % sizeof(Rela) != 0)
      return bad("relocation table");
    const uint64_t count = *dyn_.relasz / sizeof(Rela);
    if (count > kMaxRelocations) return bad("too many relocations: {}, at most {}", {count, kMaxRelocations});
    if (dyn_.relacount && *dyn_.relacount != count) return bad("relocations that are not relative");
    if (count == 0) return ok();
    const Bytes table = at_vaddr(*dyn_.rela, *dyn_.relasz);
    if (table.empty()) return bad("relocation table is not loaded");
    const uint64_t relative = machine_ == Machine::X86_64 ? 8 : machine_ == Machine::AArch64 ? 1027 : 3;  // RISC-V and LoongArch alike
    image_.relocations.reserve(count);
    for (uint64_t i = 0; i < count; ++i) {
      Rela r;
      std::memcpy(&r, table.data() + i * sizeof r, sizeof r);
      if (r.info != relative) return bad("relocation type or symbol");  // symbol in the upper half: 0
      if (r.offset % 8 != 0 || !in_writable(r.offset)) return bad("relocation outside writable data");
      const auto addend = static_cast<uint64_t>(r.addend);
      if (addend < origin_ || addend >= end_) return bad("relocation to an address outside the module");
      image_.relocations.push_back({r.offset, addend});
    }
    return ok();
  }

  bool in_writable(uint64_t vaddr) const {
    for (const Segment& s : image_.segments)
      if (s.writable && vaddr >= s.vaddr && range_within(vaddr - s.vaddr, 8, s.mem_len)) return true;
    return false;
  }
  bool in_executable(uint64_t vaddr) const {
    for (const Segment& s : image_.segments)
      if (s.executable && vaddr >= s.vaddr && range_within(vaddr - s.vaddr, 1, s.file_len)) return true;
    return false;
  }

  // The number of symbols stands nowhere but in the hash table's chain count.
  Status read_symbols() {
    if (!dyn_.symtab || !dyn_.strtab || !dyn_.strsz || !dyn_.hash) return bad("no symbol table");
    if (dyn_.syment.value_or(sizeof(Symbol)) != sizeof(Symbol)) return bad("symbol size");
    const Bytes head = at_vaddr(*dyn_.hash, 8);
    if (head.empty()) return bad("hash table is not loaded");
    uint32_t counts[2];
    std::memcpy(counts, head.data(), sizeof counts);
    if (counts[1] > kMaxSymbols) return bad("too many symbols: {}, at most {}", {counts[1], kMaxSymbols});
    const Bytes symbols = at_vaddr(*dyn_.symtab, counts[1] * uint64_t{sizeof(Symbol)});
    const Bytes strings = at_vaddr(*dyn_.strtab, *dyn_.strsz);
    if (symbols.empty() || strings.empty() || strings.back() != std::byte{0}) return bad("symbol table is not loaded");
    bool found = false;
    for (uint32_t i = 1; i < counts[1]; ++i) {
      Symbol s;
      std::memcpy(&s, symbols.data() + i * sizeof s, sizeof s);
      if (s.shndx == 0) return bad("an undefined symbol: modules import nothing");
      if (s.name >= strings.size()) return bad("symbol name outside its table");
      const uint8_t type = s.info & 15;
      if (type != kSttNotype && type != kSttObject && type != kSttFunc && type != kSttSection)
        return bad("symbol type {} is not allowed", {type});
      const std::string_view name = reinterpret_cast<const char*>(strings.data()) + s.name;  // ends: last byte is 0
      if (name != MLRUN_QUERY_SYMBOL) continue;
      if (found) return bad("exports " MLRUN_QUERY_SYMBOL " twice");
      if (type != kSttFunc || s.info >> 4 != kStbGlobal || !in_executable(s.value))
        return bad(MLRUN_QUERY_SYMBOL " is not a function of the module");
      image_.query = s.value;
      found = true;
    }
    if (!found) return bad("does not export " MLRUN_QUERY_SYMBOL);
    return ok();
  }

  void make_relative() {
    for (Segment& s : image_.segments) s.vaddr -= origin_;
    for (Relocation& r : image_.relocations) {
      r.offset -= origin_;
      r.addend -= origin_;
    }
    image_.query -= origin_;
    image_.span = end_ - origin_;
  }

  Bytes file_;
  Machine machine_;
  uint64_t page_size_;
  FileHeader header_{};
  std::optional<ProgramHeader> dynamic_;
  DynamicTable dyn_;
  ElfImage image_;
  uint64_t origin_ = 0, end_ = 0;  // page-aligned
};

}  // namespace

Result<ElfImage> parse_image(Bytes file, Machine machine, uint64_t page_size) {
  if (page_size < 4096 || page_size > kSegmentAlign || (page_size & (page_size - 1)) != 0)
    return Status(Code::Resource, "pages of {} bytes are not supported", page_size);
  return Parser(file, machine, page_size).parse();
}

}  // namespace mlc::elf
