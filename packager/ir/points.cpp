// Values of a node at a few points: symbols, dims and variables each given a number of their range. A fact that fails at one of
// them holds nowhere by proof, which saves the search for one: most facts that are asked for do not hold.
#include <algorithm>

#include "packager/ir/impl.h"

namespace mlc::ir {
namespace {

// Numbers that look random and are the same in every build.
uint64_t scrambled(uint64_t of, size_t point) {
  uint64_t h = (of + 1) * 0x9e3779b97f4a7c15u + point * 0xff51afd7ed558ccdu;
  h = (h ^ h >> 32) * 0xd6e8feb86659fd93u;
  return h ^ h >> 32;
}

// Not by the age of a node: what a search finds before its fuel ends would depend on what was built before.
uint64_t hash_of(const std::string& name) {
  uint64_t h = 0xcbf29ce484222325u;
  for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return h;
}

constexpr uint64_t kSpreads[kPoints] = {1, 16, 5000, 1};  // how far from its least value a symbol is taken

std::optional<int64_t> of_symbol(const Node& n, size_t point) {
  const int64_t multiple = n.sym->multiple, reach = static_cast<int64_t>(scrambled(hash_of(n.sym->name), point) % kSpreads[point]) + (point == 3 ? 64 : 0);
  int64_t least, value;
  if (__builtin_mul_overflow(floor_div(n.sym->lo, multiple) + (floor_mod(n.sym->lo, multiple) != 0), multiple, &least)) return {};
  if (least > n.sym->hi) return {};  // no multiple of it is in the range
  if (__builtin_mul_overflow(reach, multiple, &value) || __builtin_add_overflow(value, least, &value)) value = n.sym->hi;
  return floor_div(std::min(value, n.sym->hi), multiple) * multiple;  // not below `least`, which is one
}

// One of the ends, or a position between them; none where nothing runs.
std::optional<int64_t> of_dim(const Node& n, size_t point) {
  const Node& extent = *node(n.dim->extent);
  if (!(extent.points_known >> point & 1) || extent.points[point] < 1) return {};
  const int64_t last = extent.points[point] - 1;
  const uint64_t pick = scrambled(hash_of(n.dim->name), point);
  return point == 0 ? 0 : point == 1 ? last : point == 2 ? static_cast<int64_t>(pick % static_cast<uint64_t>(last + 1)) : pick & 1 ? last : 0;
}

std::optional<int64_t> of_operation(const Node& n, const int64_t* v) {
  int64_t r;
  switch (n.op) {
    case Op::Add: return __builtin_add_overflow(v[0], v[1], &r) ? std::nullopt : std::optional(r);
    case Op::Sub: return __builtin_sub_overflow(v[0], v[1], &r) ? std::nullopt : std::optional(r);
    case Op::Mul: return __builtin_mul_overflow(v[0], v[1], &r) ? std::nullopt : std::optional(r);
    case Op::FloorDiv: return v[1] > 0 ? std::optional(floor_div(v[0], v[1])) : std::nullopt;
    case Op::FloorMod: return v[1] > 0 ? std::optional(floor_mod(v[0], v[1])) : std::nullopt;
    case Op::Min: return std::min(v[0], v[1]);
    case Op::Max: return std::max(v[0], v[1]);
    case Op::Lt: return v[0] < v[1];
    case Op::Le: return v[0] <= v[1];
    case Op::Eq: return v[0] == v[1];
    case Op::Ne: return v[0] != v[1];
    case Op::And: return v[0] && v[1];
    case Op::Or: return v[0] || v[1];
    case Op::Not: return !v[0];
    case Op::Select: return v[v[0] ? 1 : 2];
    default: return {};
  }
}

std::optional<int64_t> at_point(const Node& n, size_t point) {
  switch (n.op) {
    case Op::Const: return n.i;
    case Op::Sym: return of_symbol(n, point);
    case Op::Dim: return of_dim(n, point);
    case Op::Var: return point == 0 ? 0 : static_cast<int64_t>(scrambled(n.type.lanes, point) % 100);
    default: break;
  }
  int64_t v[3];
  if (n.args.empty() || n.args.size() > std::size(v)) return {};
  for (size_t k = 0; k < n.args.size(); ++k) {
    const Node& arg = *node(n.args[k]);
    if (!(arg.points_known >> point & 1)) return {};
    v[k] = arg.points[point];
  }
  return of_operation(n, v);
}

}  // namespace

void set_points(Node& n) {
  const DType t = n.type.dtype;
  if ((t != DType::I64 && t != DType::Bool) || n.type.lanes != 1) return;
  for (size_t k = 0; k < kPoints; ++k)
    if (const auto v = at_point(n, k)) n.points[k] = *v, n.points_known |= 1u << k;
}

bool is_negative_somewhere(const Poly& p) {
  unsigned known = (1u << kPoints) - 1;
  for (const Term& t : p.terms)
    for (const Expr* f : t.factors) known &= node(f)->points_known;
  for (size_t k = 0; k < kPoints; ++k) {
    if (!(known >> k & 1)) continue;
    int64_t sum = p.c;
    bool fits = true;
    for (const Term& t : p.terms) {
      int64_t product = t.k;
      for (const Expr* f : t.factors) fits = fits && !__builtin_mul_overflow(product, node(f)->points[k], &product);
      fits = fits && !__builtin_add_overflow(sum, product, &sum);
    }
    if (fits && sum < 0) return true;
  }
  return false;
}

}  // namespace mlc::ir
