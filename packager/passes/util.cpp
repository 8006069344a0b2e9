#include "packager/passes/util.h"

#include <algorithm>
#include <unordered_set>

#include "packager/nest/facts/contraction.h"
#include "packager/nest/layout.h"
#include "targets/machines.h"

namespace mlc::passes {

using ir::Op;

const Expr* replace_loads(ir::Context& ctx, const Expr* root, uint32_t array, const std::function<const Expr*(const Expr*)>& with) {
  std::vector<const Expr*> loads;  // arguments first
  ir::walk(root, [&](const Expr* e) {
    if (e->op == Op::Load && e->array == array) loads.push_back(e);
  });
  std::unordered_map<const Expr*, const Expr*> replacement;
  for (const Expr* load : loads) {
    std::vector<const Expr*> index(load->args.begin(), load->args.end());
    if (!replacement.empty())
      for (const Expr*& e : index) e = ctx.substitute(e, replacement);
    replacement.emplace(load, with(ctx.load(array, load->type, std::move(index), load->access)));
  }
  return loads.empty() ? root : ctx.substitute(root, replacement);
}

Uses uses_of(const nest::Function& f) {
  Uses u;
  u.writers.resize(f.arrays.size());
  u.readers.resize(f.arrays.size());
  u.reads.resize(f.body.size());
  u.output.assign(f.arrays.size(), false);
  for (uint32_t o : f.outputs) u.output[o] = true;
  for (size_t i = 0; i < f.body.size(); ++i) {
    for (uint32_t a : written(f.body[i])) u.writers[a].push_back(i);
    update_reads(u, f, i);
  }
  return u;
}

void update_reads(Uses& uses, const nest::Function& f, size_t s) {
  for (uint32_t a : uses.reads[s]) uses.readers[a].erase(s);
  uses.reads[s] = read(f.body[s]);
  for (uint32_t a : uses.reads[s]) uses.readers[a].insert(uses.readers[a].end(), s);
}

bool plain_map(const nest::Statement& s, PlainMap& out) {
  if (!s.nest || s.nest->where || s.nest->scan_dim || s.nest->writes.size() != 1 || s.nest->writes[0].push) return false;
  const nest::Write& w = s.nest->writes[0];
  out = {s.nest.get(), &w, {}};
  std::vector<const ir::Dim*> left = s.nest->dims;
  for (const Expr* e : w.index) {
    if (e->is_int(0)) {
      out.axis_dim.push_back(nullptr);
      continue;
    }
    auto it = e->op == Op::Dim ? std::find(left.begin(), left.end(), e->dim) : left.end();
    if (it == left.end()) return false;
    out.axis_dim.push_back(*it);
    left.erase(it);
  }
  return std::all_of(left.begin(), left.end(), [](const ir::Dim* d) { return d->extent->is_int(1); });
}

const Expr* composed(ir::Context& ctx, const PlainMap& p, const Expr* load) {
  std::unordered_map<const Expr*, const Expr*> at;
  for (size_t k = 0; k < load->args.size(); ++k)
    if (p.axis_dim[k] && ctx.dim(p.axis_dim[k]) != load->args[k]) at.emplace(ctx.dim(p.axis_dim[k]), load->args[k]);
  for (const ir::Dim* d : p.nest->dims)
    if (d->extent->is_int(1)) at.insert_or_assign(ctx.dim(d), ctx.integer(0));
  return at.empty() ? p.write->value : ctx.substitute(p.write->value, at);
}

bool has_fold(const Expr* root) {
  bool found = false;
  ir::walk(root, [&](const Expr* e) { found |= e->op == Op::Fold; });
  return found;
}

std::optional<uint32_t> rounded_array(const nest::Statement& s) {
  PlainMap copy;
  if (!s.nest || !plain_map(s, copy)) return std::nullopt;
  const Expr *value = copy.write->value, *load = value->op == ir::Op::Cast ? value->args[0] : nullptr;
  if (!load || load->op != ir::Op::Load || load->type.dtype != DType::F32 || load->access == ir::Access::Checked || bits_of(value->type.dtype) != 16) return std::nullopt;
  const bool same = load->args.size() == copy.write->index.size() && std::equal(load->args.begin(), load->args.end(), copy.write->index.begin());
  return same ? std::optional(load->array) : std::nullopt;
}

nest::Statement copy_statement(ir::Context& ctx, const nest::Function& f, uint32_t from, uint32_t to, std::string source) {
  nest::Statement s;
  s.source = std::move(source);
  s.nest = std::make_unique<nest::Nest>();
  std::vector<const Expr*> index;
  for (const Expr* extent : f.arrays[from].shape) {
    s.nest->dims.push_back(ctx.declare_dim("e" + std::to_string(index.size()), extent));
    index.push_back(ctx.dim(s.nest->dims.back()));
  }
  const DType read = f.arrays[from].dtype, written = f.arrays[to].dtype;
  const Expr* value = ctx.load(from, {read, 1}, index);
  s.nest->writes.push_back({to, std::move(index), read == written ? value : ctx.cast(written, value)});
  return s;
}

void add_conjuncts(const Expr* e, std::vector<const Expr*>& out) {
  std::unordered_set<const Expr*> seen;
  std::vector<const Expr*> open;
  if (e) open.push_back(e);
  while (!open.empty()) {
    const Expr* term = open.back();
    open.pop_back();
    if (!seen.insert(term).second) continue;
    if (term->op != Op::And) out.push_back(term);
    else open.insert(open.end(), term->args.rbegin(), term->args.rend());
  }
}

bool is_stored_whole(const nest::Array& a) {
  return std::all_of(a.layout.pieces.begin(), a.layout.pieces.end(), [&](const nest::Piece& piece) {
    return piece.extent == 0 || (piece.extent == nest::kPanel && is_float(a.dtype)) || (a.shape[piece.axis]->is_const() && a.shape[piece.axis]->i % (piece.divisor * piece.extent) == 0);
  });
}

bool is_constant(const nest::Function& f, const nest::Nest& n) {
  bool constant = true;
  const auto look = [&](const Expr* root) {
    ir::walk(root, [&](const Expr* e) {
      constant &= e->op != Op::Sym;
      if (e->op == Op::Fold)
        for (const ir::Dim* d : e->fold->dims) constant &= d->extent->is_const();
      if (e->op != Op::Load) return;
      const auto kind = f.arrays[e->array].kind;
      constant &= e->access != ir::Access::Checked && (kind == nest::Array::Kind::Const || kind == nest::Array::Kind::Derived);
    });
  };
  for (const ir::Dim* d : n.dims) constant &= d->extent->is_const();
  for (const nest::Write& w : n.writes) look(w.value);
  return constant;
}

std::vector<bool> constant_temporaries(const nest::Function& f, const Uses& uses) {
  std::vector<bool> found(f.arrays.size(), false);
  for (const nest::Statement& s : f.body) {
    PlainMap p;
    if (!plain_map(s, p) || s.joins || !is_constant(f, *p.nest)) continue;
    const uint32_t a = p.write->array;
    found[a] = f.arrays[a].kind == nest::Array::Kind::Temp && !uses.output[a] && uses.writers[a].size() == 1 && f.arrays[a].list_depth == 0;
  }
  return found;
}

uint64_t derived_bytes(ir::Context& ctx, const nest::Function& f) {
  uint64_t bytes = 0;
  for (const nest::Array& a : f.arrays)
    if (a.kind == nest::Array::Kind::Derived && std::all_of(a.shape.begin(), a.shape.end(), [](const Expr* e) { return e->is_const(); }))
      bytes += static_cast<uint64_t>(nest::stored_elements(ctx, a.layout, a.shape)->i) * bytes_of(a.dtype);
  return bytes;
}

double estimate(const std::vector<const ir::Dim*>& dims) {
  double n = 1;
  for (const ir::Dim* d : dims) n *= estimate(d->extent);
  return n;
}

namespace {
bool is_transcendental(Op op) {
  switch (op) {
    case Op::Exp: case Op::Log: case Op::Sin: case Op::Cos: case Op::Tan: case Op::Asin: case Op::Acos: case Op::Atan:
    case Op::Sinh: case Op::Cosh: case Op::Tanh: case Op::Asinh: case Op::Acosh: case Op::Atanh: case Op::Erf: case Op::Pow:
      return true;
    default:
      return false;
  }
}
}  // namespace

double cost_of(const Expr* root) {
  double cost = 0;
  ir::walk(root, [&](const Expr* e) {
    if (is_transcendental(e->op)) {
      cost += targets::kAnyProcessor.function_operations;
      return;
    }
    switch (e->op) {
      case Op::Const: case Op::Sym: case Op::Dim: case Op::Var: case Op::Field: break;
      case Op::Div: case Op::FloorDiv: case Op::FloorMod: case Op::TruncDiv: case Op::TruncMod: case Op::Sqrt:
        cost += 4;
        break;
      case Op::Fold: cost += 1000; break;
      default:
        // Index arithmetic that is linear costs next to nothing.
        cost += e->type.dtype == DType::I64 && (e->op == Op::Add || e->op == Op::Sub || e->op == Op::Mul) ? 0.25 : 1;
        break;
    }
  });
  return cost;
}

bool is_nonlinear(const Expr* e) { return e->op == Op::FloorDiv || e->op == Op::FloorMod || e->op == Op::Select || e->op == Op::Min || e->op == Op::Max; }

size_t nonlinear_operations(const Expr* load) {
  size_t n = 0;
  for (const Expr* i : load->args) ir::walk(i, [&](const Expr* e) { n += is_nonlinear(e); });
  return n;
}

size_t node_count(const Expr* root, size_t limit) {
  size_t n = 0;
  ir::walk(root, [&](const Expr* e) { n += is_transcendental(e->op) ? 24 : 1; });
  return std::min(n, limit);
}

}  // namespace mlc::passes
