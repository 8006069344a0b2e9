#include "targets/ptx/parse.h"

#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include "targets/ptx/lexer.h"
#include "targets/ptx/parse_operands.h"

namespace mlc::targets::ptx {

namespace {

std::optional<RegClass> reg_class_of(std::string_view type) {
  if (type == ".pred") return RegClass::Pred;
  if (type == ".b16") return RegClass::B16;
  if (type == ".b32") return RegClass::B32;
  if (type == ".b64") return RegClass::B64;
  if (type == ".f32") return RegClass::F32;
  if (type == ".f64") return RegClass::F64;
  return std::nullopt;
}

bool is_name(std::string_view word) {
  return !word.empty() && word.size() <= 256 && word[0] != '.' && word[0] != '%' && !(word[0] >= '0' && word[0] <= '9') &&
         word.find_first_of(".%") == word.npos && (word[0] == '_' || word[0] == '$' || (word[0] | 32) >= 'a');
}

// One entry's body.
class BodyParser {
 public:
  BodyParser(Lexer& in, Entry& entry, const std::map<std::string_view, uint32_t, std::less<>>& params, const std::set<std::string_view>& dynamic_shared)
      : in_(in), entry_(entry), names_{registers_, params, shared_, dynamic_shared, labels_, entry.uses_dynamic_shared, dynamic_} {}

  Status run() {
    MLC_RETURN_IF_ERROR(in_.expect("{"));
    while (in_.token() == ".reg" || in_.token() == ".shared") MLC_RETURN_IF_ERROR(declaration());
    while (!in_.accept("}")) MLC_RETURN_IF_ERROR(statement());
    return finish();
  }

 private:
  Status declaration() {
    if (in_.accept(".reg")) return registers(false);
    MLC_RETURN_IF_ERROR(in_.expect(".shared"));
    MLC_RETURN_IF_ERROR(in_.expect(".align"));
    MLC_ASSIGN(const uint64_t align, in_.number());
    MLC_RETURN_IF_ERROR(in_.expect(".b8"));
    const std::string_view name = in_.token();
    if (!is_name(name) || !shared_.empty()) return in_.bad("the name of one shared array expected");
    in_.next();
    MLC_RETURN_IF_ERROR(in_.expect("["));
    MLC_ASSIGN(const uint64_t bytes, in_.number());
    if (align == 0 || align > 1024 || (align & (align - 1)) != 0 || bytes == 0 || bytes > kMaxSharedBytes) return in_.bad("a shared array of another size");
    MLC_RETURN_IF_ERROR(in_.expect("]"));
    entry_.shared_bytes = static_cast<uint32_t>(bytes);
    shared_ = name;
    return in_.expect(";");
  }

  // `%r<6>`: %r0 to %r5; in a scope of its own one name without a number.
  Status registers(bool in_scope) {
    const std::optional<RegClass> reg_class = reg_class_of(in_.token());
    if (!reg_class) return in_.bad("a type of registers expected");
    in_.next();
    const std::string_view name = in_.token();
    uint64_t count = 1;
    if (in_scope ? !is_name(name) : name.size() < 2 || name[0] != '%' || (name.back() >= '0' && name.back() <= '9'))
      return in_.bad("a name of registers expected");
    in_.next();
    const bool numbered = !in_scope && in_.accept("<");
    if (numbered) {
      MLC_ASSIGN(count, in_.number());
      MLC_RETURN_IF_ERROR(in_.expect(">"));
    }
    if (count == 0 || count > kMaxRegisters - entry_.num_registers) return in_.bad("too many registers");
    if (!registers_.emplace(name, RegisterBank{*reg_class, entry_.num_registers, static_cast<uint32_t>(count), numbered}).second)
      return in_.bad("registers '" + std::string(name) + "' are declared twice");
    entry_.num_registers += static_cast<uint32_t>(count);
    declared_ = name;
    return in_.expect(";");
  }

  Status statement() {
    if (in_.accept(".pragma")) {
      for (const std::string_view part : {"\"", "nounroll", "\"", ";"}) MLC_RETURN_IF_ERROR(in_.expect(part));
      return ok();
    }
    if (in_.accept("{")) return scope();
    if (in_.token().starts_with("$")) return label();
    return instruction();
  }

  // LLVM takes the high half of a register in a scope with a register for the other half.
  Status scope() {
    MLC_RETURN_IF_ERROR(in_.expect(".reg"));
    MLC_RETURN_IF_ERROR(registers(true));
    const std::string_view name = declared_;
    while (!in_.accept("}")) MLC_RETURN_IF_ERROR(instruction());
    registers_.erase(registers_.find(name));
    return ok();
  }

  Status label() {
    const std::string_view name = in_.token();
    in_.next();
    MLC_RETURN_IF_ERROR(in_.expect(":"));
    Label& label = labels_.try_emplace(name, Label{}).first->second;
    if (label.is_defined) return in_.bad("label '" + std::string(name) + "' stands twice");
    label.is_defined = true;
    label.at = static_cast<uint32_t>(entry_.code.size());
    return ok();
  }

  Status instruction() {
    Instruction i;
    if (in_.accept("@")) {
      i.has_guard = true;
      i.guard_negated = in_.accept("!");
      MLC_ASSIGN(const Operand guard, parse_register(in_, names_));
      if (guard.reg_class != RegClass::Pred) return in_.bad("a guard that is no predicate");
      i.guard = guard.number;
    }
    i.op = find_opcode(in_.token());
    if (!i.op) return in_.bad("no opcode that may be used");
    in_.next();
    MLC_RETURN_IF_ERROR(parse_operands(in_, names_, i));
    if (i.op->op_class == OpClass::Barrier) {
      if (i.has_guard) return in_.bad("a barrier under a predicate");
      entry_.has_barriers = true;
    }
    if (i.op->parts[0] == "shfl" && i.has_guard) return in_.bad("a shuffle under a predicate");
    if ((i.op->op_class == OpClass::TensorCore || i.op->op_class == OpClass::GroupProduct) && i.has_guard) return in_.bad("a product of a warp under a predicate");
    const bool is_of_cluster = i.op->op_class == OpClass::Cluster;
    if (is_of_cluster && (i.has_guard || entry_.cluster == 1)) return in_.bad("'" + i.op->name + "' in an entry without clusters, or under a predicate");
    entry_.has_barriers |= is_of_cluster;
    entry_.code.push_back(std::move(i));
    return in_.expect(";");
  }

  // Labels were numbered as they came up; here they become places.
  Status finish() {
    std::vector<uint32_t> places(labels_.size());
    for (const auto& [name, label] : labels_) {
      if (!label.is_defined || label.at >= entry_.code.size()) return in_.bad("label '" + std::string(name) + "' stands before no instruction");
      places[label.number] = label.at;
    }
    for (Instruction& i : entry_.code)
      for (Operand& o : i.operands)
        if (o.kind == Operand::Kind::Label) o.number = places[o.number];
    const Instruction* last = entry_.code.empty() ? nullptr : &entry_.code.back();
    if (!last || last->has_guard || (last->op->parts[0] != "ret" && last->op->parts[0] != "bra"))
      return in_.bad("the code of '" + entry_.name + "' ends without ret");
    return ok();
  }

  Lexer& in_;
  Entry& entry_;
  RegisterBanks registers_;
  std::string_view shared_, dynamic_;
  Labels labels_;
  std::string_view declared_;  // the registers declared last
  Names names_;
};

class Parser {
 public:
  explicit Parser(std::string_view text) : in_(text) {}

  Result<Image> run() {
    MLC_RETURN_IF_ERROR(header());
    while (!in_.at_end()) {
      if (in_.token() == ".extern") {
        MLC_RETURN_IF_ERROR(dynamic_shared());
      } else {
        if (out_.entries.size() == kMaxEntries) return in_.bad("too many entries");
        MLC_RETURN_IF_ERROR(entry());
      }
    }
    if (out_.entries.empty()) return in_.bad("an entry expected");
    return std::move(out_);
  }

 private:
  Status header() {
    MLC_RETURN_IF_ERROR(in_.expect(".version"));
    const std::string_view version = in_.token();
    if (version.size() != 3 || version[1] != '.' || version[0] < '1' || version[0] > '9' || version[2] < '0' || version[2] > '9')
      return in_.bad("a version expected");
    out_.version = static_cast<unsigned>((version[0] - '0') * 10 + (version[2] - '0'));
    in_.next();
    MLC_RETURN_IF_ERROR(in_.expect(".target"));
    std::string_view target = in_.token();
    if (target.ends_with("a")) out_.is_specific = true, target.remove_suffix(1);
    const std::optional<uint64_t> sm = target.starts_with("sm_") ? Lexer::decimal(target.substr(3)) : std::nullopt;
    if (!sm || *sm > 1000) return in_.bad("a target expected");
    out_.sm = static_cast<unsigned>(*sm);
    in_.next();
    MLC_RETURN_IF_ERROR(in_.expect(".address_size"));
    return in_.expect("64");
  }

  // An array without a size: as many bytes as the launch gives. Each entry that has one has its own.
  Status dynamic_shared() {
    for (const std::string_view part : {".extern", ".shared", ".align"}) MLC_RETURN_IF_ERROR(in_.expect(part));
    if (!in_.accept("16")) MLC_RETURN_IF_ERROR(in_.expect("1024"));
    MLC_RETURN_IF_ERROR(in_.expect(".b8"));
    if (!is_name(in_.token()) || !dynamic_.insert(in_.token()).second) return in_.bad("the name of a shared array of its own expected");
    in_.next();
    for (const std::string_view part : {"[", "]", ";"}) MLC_RETURN_IF_ERROR(in_.expect(part));
    return ok();
  }

  Status entry() {
    MLC_RETURN_IF_ERROR(in_.expect(".visible"));
    MLC_RETURN_IF_ERROR(in_.expect(".entry"));
    Entry e;
    if (!is_name(in_.token())) return in_.bad("the name of an entry expected");
    e.name = in_.token();
    if (!entries_.emplace(in_.token(), 0).second) return in_.bad("two entries of one name");
    in_.next();
    std::map<std::string_view, uint32_t, std::less<>> params;
    MLC_RETURN_IF_ERROR(in_.expect("("));
    if (!in_.accept(")")) {
      do MLC_RETURN_IF_ERROR(param(e, params));
      while (in_.accept(","));
      MLC_RETURN_IF_ERROR(in_.expect(")"));
    }
    MLC_RETURN_IF_ERROR(in_.expect(".maxntid"));
    for (unsigned k = 0; k < 3; ++k) {
      if (k > 0) MLC_RETURN_IF_ERROR(in_.expect(","));
      MLC_ASSIGN(const uint64_t lanes, in_.number());
      if (lanes == 0 || lanes > 1024) return in_.bad("a number of lanes expected");
      e.max_lanes[k] = static_cast<uint32_t>(lanes);
    }
    MLC_RETURN_IF_ERROR(resident());
    MLC_RETURN_IF_ERROR(cluster(e));
    MLC_RETURN_IF_ERROR(BodyParser(in_, e, params, dynamic_).run());
    out_.entries.push_back(std::move(e));
    return ok();
  }

  // What an assembler makes of it changes no result.
  Status resident() {
    if (!in_.accept(".minnctapersm")) return ok();
    MLC_ASSIGN(const uint64_t blocks, in_.number());
    return blocks == 0 || blocks > kMostResidentBlocks ? in_.bad("1 to " + std::to_string(kMostResidentBlocks) + " blocks of a multiprocessor expected") : ok();
  }

  // Blocks along x alone.
  Status cluster(Entry& e) {
    if (!in_.accept(".reqnctapercluster")) return ok();
    MLC_ASSIGN(const uint64_t blocks, in_.number());
    if (blocks < 2 || blocks > kMaxClusterBlocks) return in_.bad("2 to " + std::to_string(kMaxClusterBlocks) + " blocks of a cluster expected");
    e.cluster = static_cast<uint32_t>(blocks);
    for (const std::string_view part : {",", "1", ",", "1"}) MLC_RETURN_IF_ERROR(in_.expect(part));
    return ok();
  }

  Status param(Entry& e, std::map<std::string_view, uint32_t, std::less<>>& params) {
    MLC_RETURN_IF_ERROR(in_.expect(".param"));
    const unsigned bytes = in_.token() == ".u64" ? 8 : in_.token() == ".u32" ? 4 : 0;
    if (bytes == 0) return in_.bad("a parameter of type .u64 or .u32 expected");
    in_.next();
    if (in_.accept(".ptr")) {
      MLC_RETURN_IF_ERROR(in_.expect(".global"));
      MLC_RETURN_IF_ERROR(in_.expect(".align"));
      MLC_ASSIGN(const uint64_t align, in_.number());
      if (align == 0 || align > 16) return in_.bad("an alignment of at most 16 expected");
    }
    if (!is_name(in_.token()) || e.params.size() == kMaxParams || !params.emplace(in_.token(), static_cast<uint32_t>(e.params.size())).second)
      return in_.bad("the name of a parameter expected");
    in_.next();
    e.params.push_back({bytes});
    return ok();
  }

  Lexer in_;
  Image out_;
  std::map<std::string_view, int, std::less<>> entries_;
  std::set<std::string_view> dynamic_;
};

}  // namespace

Result<Image> parse(std::string_view text) {
  if (text.size() > kMaxText) return Status(Code::Malformed, "the text is longer than " + std::to_string(kMaxText) + " bytes");
  return Parser(text).run();
}

}  // namespace mlc::targets::ptx
