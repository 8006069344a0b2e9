#include "packager/loop/kernel_key.h"

#include <unordered_map>

#include "packager/ir/structure_key.h"

namespace mlc::loop {
namespace {

class KeyWriter {
 public:
  explicit KeyWriter(const Kernel& kernel) {
    for (const ir::Sym* sym : kernel.scalars) syms_.emplace(sym, syms_.size());
    number(kernel.scalars.size());  // of those that nothing reads, too: a launch passes all of its own
    number(kernel.params.size());
    for (const Param& param : kernel.params) number(param.dtype), number(param.written);
    number(kernel.locals.size());
    for (const LocalArray& local : kernel.locals) number(local.dtype), number(local.space), key_.expression(local.count);
    number(kernel.hoisting);
    key_.expression(kernel.tile_begin), key_.expression(kernel.tile_end), key_.expression(kernel.tiles);
    number(kernel.cuts.size());
    for (const Cut& cut : kernel.cuts) key_.expression(cut.chunk), key_.expression(cut.units);
    number(kernel.lanes), number(kernel.cluster), number(kernel.resident);
    number(kernel.team.lanes), number(kernel.team.side), number(kernel.team.rows), number(kernel.team.columns);
    block(kernel.body);
  }
  std::string take() { return key_.take(); }

 private:
  template <class T>
  void number(T value) {
    key_.number(static_cast<int64_t>(value));
  }

  void leaf(const ir::Expr* e) {
    if (e->op == ir::Op::Var) number(vars_.emplace(e->i, vars_.size()).first->second);
    if (e->op == ir::Op::Load) number(e->array);
    if (e->op == ir::Op::Sym) number(syms_.emplace(e->sym, syms_.size()).first->second);
  }

  void block(const std::vector<StmtPtr>& statements) {
    number(statements.size());
    for (const StmtPtr& s : statements) {
      for (const int64_t word : words_of(*s)) number(word);
      for (const ir::Expr* e : {s->var, s->begin, s->end, s->cond, s->bound, s->value}) key_.expression(e);
      for (const ir::Expr* e : s->index) key_.expression(e);
      for (const ir::Expr* e : s->sums) key_.expression(e);
      block(s->body), block(s->orelse);
    }
  }

  ir::StructureKey key_{[this](ir::StructureKey&, const ir::Expr* e) { leaf(e); }};
  std::unordered_map<int64_t, size_t> vars_;
  std::unordered_map<const ir::Sym*, size_t> syms_;
};

}  // namespace

std::array<int64_t, 16> words_of(const Stmt& s) {
  const auto number = [](auto value) { return static_cast<int64_t>(value); };
  return {number(s.kind), number(s.for_kind), number(s.rolled), s.step, number(s.array), number(s.fault), number(s.index.size()), number(s.sums.size()),
          number(s.combine), number(s.factors), number(s.b_factors), number(s.tile_op), number(s.tile), number(s.transposed), number(s.b_transposed), number(s.matrix_op)};
}

std::string kernel_key(const Kernel& kernel) { return KeyWriter(kernel).take(); }

}  // namespace mlc::loop
