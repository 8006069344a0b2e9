#include "targets/ptx/parse_operands.h"

#include <algorithm>
#include <optional>

namespace mlc::targets::ptx {

namespace {

unsigned bits_of(RegClass c) {
  switch (c) {
    case RegClass::Pred: return 1;
    case RegClass::B16: return 16;
    case RegClass::B32: case RegClass::F32: return 32;
    case RegClass::B64: case RegClass::F64: return 64;
  }
  return 0;
}
bool is_float(RegClass c) { return c == RegClass::F32 || c == RegClass::F64; }

// A number of `bits` bits: decimal, or for floats the bits in hexadecimal behind 0f or 0d; of 16 bits, which have no type of their own, behind 0x.
std::optional<int64_t> number_of(std::string_view word, bool is_negative, std::string_view type) {
  const unsigned bits = bits_of_type(type);
  const bool is_half = type == "b16" && word.starts_with("0x");
  if (is_float_type(type) || is_half) {
    const size_t digits = bits / 4;
    if (is_negative || word.size() != 2 + digits || word[0] != '0' || word[1] != (is_half ? 'x' : bits == 32 ? 'f' : 'd')) return std::nullopt;
    uint64_t value = 0;
    for (const char c : word.substr(2)) {
      const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
      if (digit < 0) return std::nullopt;
      value = value << 4 | static_cast<uint64_t>(digit);
    }
    return static_cast<int64_t>(value);
  }
  const std::optional<uint64_t> n = Lexer::decimal(word);
  if (!n) return std::nullopt;
  if (is_negative) {
    const uint64_t lowest = uint64_t{1} << (bits - 1);  // its magnitude
    return *n <= lowest ? std::optional(static_cast<int64_t>(0 - *n)) : std::nullopt;
  }
  if (bits < 64 && *n >> bits) return std::nullopt;
  return static_cast<int64_t>(*n);
}

// One operand, whatever it is.
struct OperandParser {
  Lexer& in;
  const Names& names;
  std::string_view type;  // of numbers

  Result<Operand> memory() {
    in.next();  // [
    MLC_ASSIGN(Operand o, address());
    o.is_memory = true;
    if (in.accept("+")) {
      const bool is_negative = in.accept("-");
      const std::optional<int64_t> offset = number_of(in.token(), is_negative, "s32");
      if (!offset || (!is_negative && *offset > INT32_MAX)) return in.bad("an offset expected");
      o.value += *offset;
      in.next();
    }
    MLC_RETURN_IF_ERROR(in.expect("]"));
    return o;
  }

  // A register, the shared array or a parameter.
  Result<Operand> address() {
    Operand o;
    if (in.token().starts_with("%")) return parse_register(in, names);
    const bool is_dynamic = names.dynamic_shared.contains(in.token());
    if (is_dynamic || (!names.shared.empty() && in.token() == names.shared)) {
      if (is_dynamic && (!names.shared.empty() || (names.uses_dynamic_shared && names.used_dynamic != in.token()))) return in.bad("two shared arrays in one entry");
      if (is_dynamic) names.uses_dynamic_shared = true, names.used_dynamic = in.token();
      o.kind = Operand::Kind::SharedAddress;
    } else if (const auto param = names.params.find(in.token()); param != names.params.end()) {
      o.kind = Operand::Kind::Param;
      o.number = param->second;
    } else {
      return in.bad("an address expected");
    }
    in.next();
    return o;
  }

  Result<Operand> any() {
    Operand o;
    const std::string_view word = in.token();
    if (word == "[") return memory();
    if (word == "-" || (!word.empty() && word[0] >= '0' && word[0] <= '9')) {
      const bool is_negative = in.accept("-");
      const std::optional<int64_t> value = number_of(in.token(), is_negative, type);
      if (!value) return in.bad("a number of type " + std::string(type) + " expected");
      in.next();
      o.kind = Operand::Kind::Number;
      o.value = *value;
      return o;
    }
    if (word.starts_with("$")) {
      o.kind = Operand::Kind::Label;
      o.number = names.labels.try_emplace(word, Label{}).first->second.number;
      in.next();
      return o;
    }
    for (const auto& [name, which] : {std::pair{"%tid.x", SpecialRegister::TidX}, {"%ctaid.x", SpecialRegister::CtaidX}, {"%ctaid.y", SpecialRegister::CtaidY}})
      if (word == name) {
        o.kind = Operand::Kind::Special;
        o.number = static_cast<uint32_t>(which);
        in.next();
        return o;
      }
    if (word.starts_with("%") || names.registers.contains(word)) return parse_register(in, names);
    return address();
  }
};

bool is_register(const Operand& o, unsigned bits, bool of_float) {
  return o.kind == Operand::Kind::Register && !o.is_memory && bits_of(o.reg_class) == bits && is_float(o.reg_class) == of_float;
}

// A register of the type; integers may be wider than what is read from or written to them, which PTX allows of ld, st and cvt.
bool is_register_for(const Operand& o, std::string_view type) {
  if (is_float_type(type)) return is_register(o, bits_of_type(type), true);
  return o.kind == Operand::Kind::Register && !o.is_memory && o.reg_class != RegClass::Pred && !is_float(o.reg_class) &&
         bits_of(o.reg_class) >= bits_of_type(type);
}

// [register] or [symbol], the latter of one kind.
bool is_memory(const Operand& o, Operand::Kind symbol) {
  if (!o.is_memory) return false;
  return o.kind == Operand::Kind::Register ? symbol != Operand::Kind::Param && o.reg_class == RegClass::B64 : o.kind == symbol;
}

bool fits(const Operand& o, char letter, const Opcode& op) {
  using Kind = Operand::Kind;
  const unsigned bits = bits_of_type(op.type);
  const bool of_float = is_float_type(op.type);
  switch (letter) {
    case 'D': return is_register(o, bits, of_float) || (op.parts[0] == "mov" && op.type[0] == 'b' && is_register(o, bits, true));
    case 'S': return is_register(o, bits, of_float) || o.kind == Kind::Number;
    case 'W': return is_register(o, 2 * bits, false);
    case 'w': return is_register(o, 2 * bits, false) || o.kind == Kind::Number;
    case 'N': return is_register(o, bits / 2, false);
    case 'T': return is_register_for(o, op.first_type);
    case 'F': return is_register_for(o, op.type);
    case 'h': return is_register(o, 16, false);
    case 'n': return o.kind == Kind::Number;
    case 'B': return o.kind == Kind::Number && o.value == 16;
    case 'C': return o.kind == Kind::Number && o.value == 4;
    case 'p': return is_register(o, 1, false);
    case 'R': return is_register(o, 32, false);
    case 'E': return is_register(o, 32, true);
    case 'Q': return is_register(o, 64, false);
    case '1': return o.kind == Kind::Number && o.value == 1;
    case 'b': return o.kind == Kind::Number && (o.value == 0 || o.value == 1);
    case 'c': return is_register(o, 32, false) || o.kind == Kind::Number;
    case 'M':
      if (o.kind == Kind::Special) return bits == 32 && !of_float;
      if (o.kind == Kind::SharedAddress) return bits == 64 && !of_float && !o.is_memory;
      return fits(o, 'S', op) || (op.type[0] == 'b' && is_register(o, bits, true));
    case 'G': return is_memory(o, Kind::Register);
    case 'H': return is_memory(o, Kind::SharedAddress);
    case 'P': return is_memory(o, Kind::Param);
    case 'L': return o.kind == Kind::Label;
    case '0': return o.kind == Kind::Number && o.value == 0;
    default: return false;
  }
}

// Whether operands, with the braces that stood around some of them, are what the shape says.
bool fits_shape(std::string_view shape, std::string_view braces, const Instruction& i) {
  size_t operand = 0, at = 0;
  for (const char letter : shape) {
    if (at >= braces.size()) return false;
    const char found = braces[at++];
    if (letter == '{' || letter == '}') {
      if (found != letter) return false;
    } else if (found != '.' || !fits(i.operands[operand++], letter, *i.op)) {
      return false;
    }
  }
  return at == braces.size();
}

}  // namespace

Result<Operand> parse_register(Lexer& in, const Names& names) {
  const std::string_view word = in.token();
  size_t digits = word.size();
  while (digits > 0 && word[digits - 1] >= '0' && word[digits - 1] <= '9') --digits;
  auto bank = names.registers.find(word);
  std::optional<uint64_t> number = 0;
  if (bank == names.registers.end() && digits < word.size()) {
    bank = names.registers.find(word.substr(0, digits));
    number = Lexer::decimal(word.substr(digits));
    if (bank != names.registers.end() && !bank->second.numbered) bank = names.registers.end();
  } else if (bank != names.registers.end() && bank->second.numbered) {
    bank = names.registers.end();
  }
  if (bank == names.registers.end() || !number || *number >= bank->second.count) return in.bad("a register that is declared expected");
  in.next();
  Operand o;
  o.reg_class = bank->second.reg_class;
  o.number = bank->second.first + static_cast<uint32_t>(*number);
  return o;
}

Status parse_operands(Lexer& in, const Names& names, Instruction& i) {
  OperandParser parser{in, names, i.op->type.empty() ? std::string_view("u32") : i.op->type};
  std::string braces;  // one character for each operand and brace
  bool open = false;
  while (in.token() != ";" && !in.at_end()) {
    if (braces.size() > 0 && braces.back() != '{') MLC_RETURN_IF_ERROR(in.expect(","));
    if (!open && in.accept("{")) {
      braces += '{';
      open = true;
    }
    if (i.operands.size() == kMaxOperands) return in.bad("too many operands");
    MLC_ASSIGN(const Operand operand, parser.any());
    i.operands.push_back(operand);
    braces += '.';
    if (open && in.accept("}")) {
      braces += '}';
      open = false;
    }
  }
  for (std::string_view shapes = i.op->shape;;) {
    const size_t bar = std::min(shapes.find('|'), shapes.size());
    if (fits_shape(shapes.substr(0, bar), braces, i)) return ok();
    if (bar == shapes.size()) return in.bad("other operands than " + i.op->name + " has");
    shapes.remove_prefix(bar + 1);
  }
}

}  // namespace mlc::targets::ptx
