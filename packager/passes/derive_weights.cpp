// What products with weights read that is computed from constants, the same in every run, is a constant of the opened model:
// numbers for codes of 8 bits of which a file has only these, say. Those that a product computes in registers have become part of
// it (inline_weights.cpp). Layouts are assigned: it lies as it would in every run.
#include <algorithm>

#include "packager/nest/layout.h"
#include "packager/passes/all.h"
#include "packager/passes/util.h"

namespace mlc::passes {
namespace {

using ir::Op;

// Depends on nothing but constants, and no point of it can fail.
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

}  // namespace

Status derive_weights(ir::Context& ctx, nest::Function& f, uint64_t most) {
  const Uses uses = uses_of(f);
  for (const nest::Array& a : f.arrays)
    if (a.kind == nest::Array::Kind::Derived && std::all_of(a.shape.begin(), a.shape.end(), [](const Expr* e) { return e->is_const(); }))
      most -= std::min<uint64_t>(most, static_cast<uint64_t>(nest::stored_elements(ctx, a.layout, a.shape)->i) * bytes_of(a.dtype));
  for (size_t s = 0; s < f.body.size(); ++s) {
    PlainMap p;
    if (!plain_map(f.body[s], p) || f.body[s].joins || !is_constant(f, *p.nest)) continue;
    nest::Array& a = f.arrays[p.write->array];
    if (a.kind != nest::Array::Kind::Temp || uses.output[p.write->array] || uses.writers[p.write->array].size() != 1 || a.list_depth > 0) continue;
    // Padding would have to be zero.
    const bool whole = std::all_of(a.layout.pieces.begin(), a.layout.pieces.end(), [](const nest::Piece& piece) { return piece.extent == 0; });
    const auto elements = nest::stored_elements(ctx, a.layout, a.shape);
    if (!whole || !elements->is_const() || bits_of(a.dtype) < 8 || bytes_of(a.dtype) == 0) continue;
    const uint64_t bytes = static_cast<uint64_t>(elements->i) * bytes_of(a.dtype);
    if (bytes == 0 || bytes > most) continue;
    const auto reads_in_nest = [&](size_t reader) { return f.body[reader].nest != nullptr; };
    const auto& readers = uses.readers[p.write->array];
    if (readers.empty() || !std::all_of(readers.begin(), readers.end(), reads_in_nest)) continue;
    a.kind = nest::Array::Kind::Derived;
    most -= bytes;
  }
  return ok();
}

}  // namespace mlc::passes
