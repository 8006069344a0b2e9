// Numbers in f16 that are multiplied in f32 many times are converted once, for processors, which have no products in f16:
//
//   weights       that many rows are multiplied with, as derived constants, if memory is left: else each tile would convert them again
//   copies        of inputs (layout.cpp) that all their readers convert: else each tap of a convolution would
//   values        that products alone read, likewise: they are rounded where they are written, and stored in f32
//
// Devices multiply f16 as it is stored.
#include <algorithm>
#include <map>

#include "packager/nest/facts/contraction.h"
#include "packager/nest/layout.h"
#include "packager/nest/text/names.h"
#include "packager/passes/all.h"
#include "packager/passes/util.h"
#include "targets/machines.h"

namespace mlc::passes {

namespace {

using ir::Op;

class Widening {
 public:
  Widening(ir::Context& ctx, nest::Function& f, uint64_t most) : ctx_(ctx), f_(f), most_(most) {}

  void run() {
    copies();
    for (nest::Statement& s : f_.body) {
      if (!s.nest) continue;
      for (nest::Write& w : s.nest->writes)
        w.value = ctx_.rewrite(w.value, [&](const Expr* e) { return with_wide_weights(s.nest->dims, e); });
    }
    for (nest::Statement& s : added_) f_.body.push_back(std::move(s));
    std::rotate(f_.body.begin(), f_.body.end() - static_cast<ptrdiff_t>(added_.size()), f_.body.end());
  }

 private:
  // ---- weights ----

  const Expr* with_wide_weights(const std::vector<const ir::Dim*>& scope, const Expr* e) {
    auto c = nest::contraction_of(ctx_, scope, e);
    if (!c || c->acc() != DType::F32 || !c->is_plain()) return nullptr;
    const auto is_weight = [&](const nest::Operand& o) { return f_.arrays[o.load->array].kind == nest::Array::Kind::Const; };
    if (is_weight(c->a)) c = c->swapped();
    if (!is_weight(c->b) || is_weight(c->a) || c->b.code() != DType::F16) return nullptr;
    double rows = 1;
    for (const ir::Dim* d : scope)
      if (!ir::depends_on(c->b.load, ctx_.dim(d))) rows *= estimate(d->extent);
    const auto made = rows >= targets::kAnyProcessor.widened_rows ? twin(c->b.load->array) : std::nullopt;
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
    if (!is_stored_whole(a) || !elements->is_const() || elements->i <= 0 || static_cast<uint64_t>(elements->i) > most_ / bytes_of(a.dtype)) return made;
    most_ -= static_cast<uint64_t>(elements->i) * bytes_of(a.dtype);
    a.name = nest::unique_name(f_, a.name + ", f32", "");
    a.kind = nest::Array::Kind::Derived;
    a.data = nullptr;
    made = static_cast<uint32_t>(f_.arrays.size());
    f_.arrays.push_back(std::move(a));
    added_.push_back(copy_statement(ctx_, f_, array, *made, f_.arrays[*made].name));
    return made;
  }

  // ---- copies ----

  void copies() {
    const Uses uses = uses_of(f_);
    for (size_t s = 0; s < f_.body.size(); ++s) {
      PlainMap p;
      if (!plain_map(f_.body[s], p) || p.write->value->type.dtype != DType::F16) continue;
      const bool is_copy = p.write->value->op == Op::Load;
      nest::Array& copy = f_.arrays[p.write->array];
      const auto stays = [&](size_t reader) { return f_.body[reader].nest && f_.body[reader].part == f_.body[s].part; };
      const auto& readers = uses.readers[p.write->array];
      const bool is_private = copy.kind == nest::Array::Kind::Temp && !uses.output[p.write->array] && uses.writers[p.write->array].size() == 1 &&
                              std::all_of(readers.begin(), readers.end(), stays);
      if (!is_private || !is_read_widened(p.write->array, readers)) continue;
      if (is_copy ? f_.arrays[p.write->value->array].kind != nest::Array::Kind::Input : !is_factor(p.write->array, readers)) continue;
      copy.dtype = DType::F32;
      for (const size_t reader : readers) map_roots(f_.body[reader], [&](const Expr* root) { return widened(root, p.write->array); });
      f_.body[s].nest->writes[0].value = ctx_.cast(DType::F32, p.write->value);
    }
  }

  bool is_read_widened(uint32_t array, const std::set<size_t>& readers) const {
    bool all = true, any = false;
    const auto is_load = [&](const Expr* e) { return e->op == Op::Load && e->array == array; };
    for (const size_t reader : readers)
      for_roots(f_.body[reader], [&](const Expr* root) {
        all &= !is_load(root);
        ir::walk(root, [&](const Expr* e) {
          if (std::none_of(e->args.begin(), e->args.end(), is_load) && !(e->op == Op::Fold && e->fold->where && is_load(e->fold->where))) return;
          all &= e->op == Op::Cast && e->type.dtype == DType::F32;
          any = true;
        });
      });
    return all && any;
  }

  // Whether products alone read it.
  bool is_factor(uint32_t array, const std::set<size_t>& readers) {
    size_t loads = 0, factors = 0;
    for (const size_t reader : readers) {
      if (!f_.body[reader].nest) return false;
      for (const nest::Write& w : f_.body[reader].nest->writes)
        ir::walk(w.value, [&](const Expr* e) {
          loads += e->op == Op::Load && e->array == array;
          const auto c = nest::contraction_of(ctx_, f_.body[reader].nest->dims, e);
          if (!c || c->acc() != DType::F32 || !c->is_plain()) return;
          factors += c->a.load->array == array;
          factors += c->b.load->array == array && c->b.load != c->a.load;
        });
    }
    return loads == factors && loads > 0;
  }

  const Expr* widened(const Expr* root, uint32_t array) {
    std::function<const Expr*(const Expr*)> wide = [&](const Expr* e) -> const Expr* {
      if (e->op != Op::Cast || e->args[0]->op != Op::Load || e->args[0]->array != array) return nullptr;
      std::vector<const Expr*> index;
      for (const Expr* at : e->args[0]->args) index.push_back(ctx_.rewrite(at, wide));
      return ctx_.load(array, {DType::F32, 1}, index, e->args[0]->access);
    };
    return ctx_.rewrite(root, wide);
  }

  ir::Context& ctx_;
  nest::Function& f_;
  uint64_t most_;
  std::map<uint32_t, std::optional<uint32_t>> twins_;
  std::vector<nest::Statement> added_;
};

}  // namespace

Status widen(ir::Context& ctx, nest::Function& f, uint64_t most) {
  Widening(ctx, f, most - std::min(most, derived_bytes(ctx, f))).run();
  return ok();
}

}  // namespace mlc::passes
