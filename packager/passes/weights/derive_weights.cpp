// What products with weights read that is computed from constants, the same in every run, is a constant of the opened model:
// numbers for codes of 8 bits of which a file has only these, say. Those that a product computes in registers have become part of
// it (inline_weights.cpp). Layouts are assigned: it lies as it would in every run.
//
// Weights in f16 that many rows are multiplied with become f32 so, if memory is left: else each tile would convert them again.
#include <algorithm>
#include <map>

#include "packager/nest/facts/contraction.h"
#include "packager/nest/layout.h"
#include "packager/nest/text/names.h"
#include "packager/passes/all.h"
#include "packager/passes/util.h"

namespace mlc::passes {

namespace {

using ir::Op;

constexpr double kManyRows = 64;

// Padding would have to be zero, but for columns of a panel: what comes of those is written nowhere.
bool is_whole(const nest::Array& a) {
  return std::all_of(a.layout.pieces.begin(), a.layout.pieces.end(), [&](const nest::Piece& piece) {
    return piece.extent == 0 || (piece.extent == nest::kPanel && is_float(a.dtype)) || (a.shape[piece.axis]->is_const() && a.shape[piece.axis]->i % (piece.divisor * piece.extent) == 0);
  });
}

class Widening {
 public:
  Widening(ir::Context& ctx, nest::Function& f, uint64_t most) : ctx_(ctx), f_(f), most_(most) {}

  void run() {
    for (nest::Statement& s : f_.body) {
      if (!s.nest) continue;
      for (nest::Write& w : s.nest->writes)
        w.value = ctx_.rewrite(w.value, [&](const Expr* e) { return widened(s.nest->dims, e); });
    }
    for (nest::Statement& s : added_) f_.body.push_back(std::move(s));
    std::rotate(f_.body.begin(), f_.body.end() - static_cast<ptrdiff_t>(added_.size()), f_.body.end());
  }

 private:
  const Expr* widened(const std::vector<const ir::Dim*>& scope, const Expr* e) {
    auto c = nest::contraction_of(ctx_, scope, e);
    if (!c || c->acc() != DType::F32 || !c->is_plain()) return nullptr;
    const auto is_weight = [&](const nest::Operand& o) { return f_.arrays[o.load->array].kind == nest::Array::Kind::Const; };
    if (is_weight(c->a)) c = c->swapped();
    if (!is_weight(c->b) || is_weight(c->a) || c->b.code() != DType::F16) return nullptr;
    double rows = 1;
    for (const ir::Dim* d : scope)
      if (!ir::depends_on(c->b.load, ctx_.dim(d))) rows *= estimate(d->extent);
    const auto made = rows >= kManyRows ? twin(c->b.load->array) : std::nullopt;
    if (!made) return nullptr;
    const Expr *load = c->b.load, *factor = ctx_.cast(DType::F32, load);
    const Expr* wide = ctx_.load(*made, {DType::F32, 1}, {load->args.begin(), load->args.end()}, load->access);
    return ctx_.fold(*e->fold, {ctx_.substitute(e->args[0], {{factor, wide}})});
  }

  // The array with the same elements in f32.
  std::optional<uint32_t> twin(uint32_t array) {
    if (const auto known = twins_.find(array); known != twins_.end()) return known->second;
    std::optional<uint32_t>& made = twins_[array];
    nest::Array a = f_.arrays[array];
    const Expr* elements = nest::stored_elements(ctx_, a.layout, a.shape);
    a.dtype = DType::F32;
    if (!is_whole(a) || !elements->is_const() || elements->i <= 0 || static_cast<uint64_t>(elements->i) > most_ / bytes_of(a.dtype)) return made;
    most_ -= static_cast<uint64_t>(elements->i) * bytes_of(a.dtype);
    a.name = nest::unique_name(f_, a.name + ", f32", "");
    a.kind = nest::Array::Kind::Derived;
    a.data = nullptr;
    made = static_cast<uint32_t>(f_.arrays.size());
    f_.arrays.push_back(std::move(a));
    added_.push_back(copy_statement(ctx_, f_, array, *made, f_.arrays[*made].name));
    return made;
  }

  ir::Context& ctx_;
  nest::Function& f_;
  uint64_t most_;
  std::map<uint32_t, std::optional<uint32_t>> twins_;
  std::vector<nest::Statement> added_;
};

}  // namespace

Status derive_weights(ir::Context& ctx, nest::Function& f, uint64_t most) {
  const Uses uses = uses_of(f);
  most -= std::min(most, derived_bytes(ctx, f));
  for (size_t s = 0; s < f.body.size(); ++s) {
    PlainMap p;
    if (!plain_map(f.body[s], p) || f.body[s].joins || !is_constant(f, *p.nest)) continue;
    nest::Array& a = f.arrays[p.write->array];
    if (a.kind != nest::Array::Kind::Temp || uses.output[p.write->array] || uses.writers[p.write->array].size() != 1 || a.list_depth > 0) continue;
    const auto elements = nest::stored_elements(ctx, a.layout, a.shape);
    if (!is_whole(a) || !elements->is_const() || bits_of(a.dtype) < 8 || bytes_of(a.dtype) == 0) continue;
    const uint64_t bytes = static_cast<uint64_t>(elements->i) * bytes_of(a.dtype);
    if (bytes == 0 || bytes > most) continue;
    const auto reads_in_nest = [&](size_t reader) { return f.body[reader].nest != nullptr; };
    const auto& readers = uses.readers[p.write->array];
    if (readers.empty() || !std::all_of(readers.begin(), readers.end(), reads_in_nest)) continue;
    a.kind = nest::Array::Kind::Derived;
    most -= bytes;
  }
  Widening(ctx, f, most).run();
  return ok();
}

}  // namespace mlc::passes
