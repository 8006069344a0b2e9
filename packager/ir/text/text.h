// The text form of expressions, printed and parsed.
//
//   12  -3  7:u8  true          integers (i64 unless said), Bool
//   1.5  1e-05:f64  inf  nan    floating point (f32 unless said)
//   $N  $"p2o.Dim.0"            symbol           n            dim              #4   variable
//   %3[i, j]  %3?[i]  %3~[i]    load: proved, checked, clamped; `%3:f32x8[i, mask]` with lanes
//   a + b - c * d // e % f      infix: + - * / // %  < <= == !=  and or  & | ^ << >>
//   exp(x) min(a, b) select(c, a, b) cast<f32>(x) sat<u8>(x) bits<i32>(x) splat<8>(x) ramp<8, 4>(x)
//   sum(body for c, k where cond)   softsum(a, b for r).1
#pragma once

#include <functional>
#include <string>
#include <unordered_map>

#include "base/status.h"
#include "packager/ir/context.h"
#include "packager/ir/text/lexer.h"

namespace mlc::ir {

// How things are called. The default names everything as in its declaration.
struct Names {
  std::function<std::string(const Dim*)> dim;
  std::function<std::string(const Sym*)> sym;
  std::function<std::string(int64_t)> var;
  std::unordered_map<const Expr*, std::string> defined;  // nodes that are printed as this text
};
// Beyond `limit` characters the text ends in an ellipsis.
std::string print(const Expr* e, const Names& names = {}, size_t limit = 1 << 20);
std::string print_sym(const Sym* s);

struct Scope {
  std::unordered_map<std::string, const Dim*> dims;
  std::unordered_map<std::string, const Expr*> defined;     // names that stand for a node
  std::unordered_map<std::string, const Combiner*> combiners;
  std::unordered_map<int64_t, const Expr*> vars;
  std::function<Type(uint32_t array)> array_type;           // None: no such array
};
// Parses one expression; nodes are built as written, not simplified. Nesting deeper than 200 is an error.
Result<const Expr*> parse_expr(Context& ctx, Lexer& in, const Scope& scope);
Result<Type> parse_type(Lexer& in);  // "f32" or "f32x8"
std::string print_type(Type type);

}  // namespace mlc::ir
