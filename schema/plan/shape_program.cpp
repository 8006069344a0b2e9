#include "schema/plan/shape_program.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <string>

#include "base/checked.h"
#include "base/compose.h"
#include "base/counted.h"

namespace mlc::exec {
namespace {

double as_double(int64_t bits) { return std::bit_cast<double>(bits); }
int64_t as_bits(double v) { return std::bit_cast<int64_t>(v); }

// None: overflow or division by zero.
std::optional<int64_t> floor_div(int64_t a, int64_t b) {
  if (b == 0 || (a == INT64_MIN && b == -1)) return std::nullopt;
  const int64_t q = a / b;
  return a % b != 0 && (a % b < 0) != (b < 0) ? q - 1 : q;
}
std::optional<int64_t> ceil_div(int64_t a, int64_t b) {
  if (b == 0 || (a == INT64_MIN && b == -1)) return std::nullopt;
  const int64_t q = a / b;
  return a % b != 0 && (a % b < 0) == (b < 0) ? q + 1 : q;
}
std::optional<int64_t> floor_mod(int64_t a, int64_t b) {
  if (b == 0) return std::nullopt;
  if (b == -1) return 0;  // INT64_MIN % -1 traps
  const int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
std::optional<int64_t> to_integer(double v) {
  if (!(v >= -0x1p63 && v < 0x1p63)) return std::nullopt;  // NaN fails too
  return static_cast<int64_t>(v);
}

std::optional<int64_t> evaluate(const SymbolInstr& i, const std::vector<int64_t>& s, std::span<const Shape> shapes) {
  using enum SymbolOp;
  int64_t r = 0;
  switch (i.op) {
    case None: case InputElement: return std::nullopt;  // the latter is read by the caller
    case Const: case FConst: return i.imm;
    case InputDim: return shapes[i.a][i.b];
    case Add: return __builtin_add_overflow(s[i.a], s[i.b], &r) ? std::nullopt : std::optional(r);
    case Sub: return __builtin_sub_overflow(s[i.a], s[i.b], &r) ? std::nullopt : std::optional(r);
    case Mul: return __builtin_mul_overflow(s[i.a], s[i.b], &r) ? std::nullopt : std::optional(r);
    case FloorDiv: return floor_div(s[i.a], s[i.b]);
    case CeilDiv: return ceil_div(s[i.a], s[i.b]);
    case Mod: return floor_mod(s[i.a], s[i.b]);
    case Min: return std::min(s[i.a], s[i.b]);
    case Max: return std::max(s[i.a], s[i.b]);
    case Eq: return s[i.a] == s[i.b];
    case Ne: return s[i.a] != s[i.b];
    case Lt: return s[i.a] < s[i.b];
    case Le: return s[i.a] <= s[i.b];
    case And: return s[i.a] != 0 && s[i.b] != 0;
    case Or: return s[i.a] != 0 || s[i.b] != 0;
    case Not: return s[i.a] == 0;
    case Select: return s[i.a] != 0 ? s[i.b] : s[i.c];
    case ToDouble: return as_bits(static_cast<double>(s[i.a]));
    case FAdd: return as_bits(as_double(s[i.a]) + as_double(s[i.b]));
    case FSub: return as_bits(as_double(s[i.a]) - as_double(s[i.b]));
    case FMul: return as_bits(as_double(s[i.a]) * as_double(s[i.b]));
    case FDiv: return as_bits(as_double(s[i.a]) / as_double(s[i.b]));
    case FFloor: return to_integer(std::floor(as_double(s[i.a])));
    case FCeil: return to_integer(std::ceil(as_double(s[i.a])));
    case FRint: return to_integer(std::nearbyint(as_double(s[i.a])));
    case FTrunc: return to_integer(std::trunc(as_double(s[i.a])));
    case FMin: return as_bits(std::min(as_double(s[i.a]), as_double(s[i.b])));
    case FMax: return as_bits(std::max(as_double(s[i.a]), as_double(s[i.b])));
    case FLt: return as_double(s[i.a]) < as_double(s[i.b]);
    case FLe: return as_double(s[i.a]) <= as_double(s[i.b]);
    case FSqrt: return as_bits(std::sqrt(as_double(s[i.a])));
    case FRoundF32: return as_bits(static_cast<double>(static_cast<float>(as_double(s[i.a]))));
  }
  return std::nullopt;
}

std::string shape_text(std::span<const int64_t> shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) out.push_back(',');
    out += std::to_string(shape[i]);
  }
  out.push_back(']');
  return out;
}

// Compares every port's shape with the symbols it names; `known` says which symbols have a value yet.
Status check_input_shapes(const Function& f, std::span<const Shape> shapes, const std::vector<int64_t>& symbols,
                          const std::vector<bool>* known) {
  Status status;
  for (size_t i = 0; i < f.inputs.size(); ++i) {
    bool same = true;
    std::string wanted;
    for (size_t axis = 0; axis < shapes[i].size(); ++axis) {
      const Symbol s = f.inputs[i].shape[axis];
      const bool fixed = !known || (*known)[s];
      if (axis > 0) wanted.push_back(',');
      wanted += fixed ? std::to_string(symbols[s]) : std::string("?");
      same = same && (!fixed || symbols[s] == shapes[i][axis]);
    }
    if (same) continue;
    if (status.ok()) status = Status(Code::InputMismatch, 4001, "an input has the wrong shape");
    status.facts.push_back(compose("{}   found {}, expected [{}]", f.inputs[i].name, shape_text(shapes[i]), wanted));
  }
  return status;
}

// Fixed extents first: a wrong one would otherwise show up as some failed check or overflow further down.
Status check_fixed_extents(const Function& f, std::span<const Shape> shapes, std::vector<int64_t>& symbols) {
  std::vector<bool> known(f.num_symbols, false);
  for (const SymbolInstr& i : f.shape)
    if (i.op == SymbolOp::Const) {
      symbols[i.dst] = i.imm;
      known[i.dst] = true;
    }
  return check_input_shapes(f, shapes, symbols, &known);
}

// With the shapes that were found, of inputs that have free extents.
Status misfit(const Function& f, const std::string& why, std::span<const Shape> shapes) {
  constexpr size_t kMostFacts = 16;
  Status status(Code::InputMismatch, 4002, "these input shapes do not fit: " + why);
  std::vector<bool> fixed(f.num_symbols, false);
  for (const SymbolInstr& i : f.shape)
    if (i.op == SymbolOp::Const) fixed[i.dst] = true;
  size_t more = 0;
  for (size_t i = 0; i < f.inputs.size(); ++i) {
    const auto& extents = f.inputs[i].shape;
    if (std::all_of(extents.begin(), extents.end(), [&](Symbol s) { return fixed[s]; })) continue;
    if (status.facts.size() < kMostFacts) status.facts.push_back(compose("{}   found {}", f.inputs[i].name, shape_text(shapes[i])));
    else ++more;
  }
  if (more > 0) status.facts.push_back(compose("and {} more", more));
  return status;
}

}  // namespace

Status evaluate_shapes(const Function& f, std::span<const Shape> shapes, std::span<const int64_t> elements,
                       std::vector<int64_t>& symbols) {
  symbols.assign(f.num_symbols, 0);
  MLC_RETURN_IF_ERROR(check_fixed_extents(f, shapes, symbols));
  size_t next_check = 0, next_element = 0;
  for (size_t i = 0; i <= f.shape.size(); ++i) {
    for (; next_check < f.checks.size() && f.checks[next_check].after == i; ++next_check)
      if (symbols[f.checks[next_check].condition] == 0)
        return misfit(f, f.checks[next_check].message, shapes);
    if (i == f.shape.size()) break;
    if (f.shape[i].op == SymbolOp::InputElement) {
      const SymbolInstr& read = f.shape[i];
      const auto count = checked_product(shapes[read.a]);
      if (count && read.b >= *count)
        return Status(Code::InputMismatch, 4001,
                      "input '{}' has {}, '{}' reads element {}", f.inputs[read.a].name, counted(*count, "element"), f.name, read.b);
      symbols[read.dst] = elements[next_element++];
      continue;
    }
    const auto value = evaluate(f.shape[i], symbols, shapes);
    if (!value)
      return Status(Code::InputMismatch, 4003,
                    "these input shapes cannot be computed with: symbol {} of '{}' overflows or divides by "
                            "zero", f.shape[i].dst, f.name);
    symbols[f.shape[i].dst] = *value;
  }
  return check_input_shapes(f, shapes, symbols, nullptr);
}

}  // namespace mlc::exec
