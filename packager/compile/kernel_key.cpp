#include "packager/compile/kernel_key.h"

#include <bit>
#include <unordered_map>

#include "packager/ir/context.h"

namespace mlc::compile {
namespace {

class KeyWriter {
 public:
  explicit KeyWriter(const loop::Kernel& kernel) {
    for (const ir::Sym* sym : kernel.scalars) syms_.emplace(sym, syms_.size());
    for (const loop::Param& param : kernel.params) number(static_cast<int64_t>(param.dtype)), number(param.written);
    out_ += '|';
    for (const loop::LocalArray& local : kernel.locals) number(static_cast<int64_t>(local.dtype)), expression(local.count);
    out_ += '|';
    number(static_cast<int64_t>(kernel.hoisting));
    expression(kernel.tile_begin), expression(kernel.tile_end), expression(kernel.tiles);
    block(kernel.body);
  }
  std::string take() { return std::move(out_); }

 private:
  void number(int64_t value) { out_ += std::to_string(value) + ","; }

  // Writes the nodes of `e` that have not been written yet, then the number of `e`.
  void expression(const ir::Expr* e) {
    if (!e) {
      out_ += "-,";
      return;
    }
    ir::walk(e, [&](const ir::Expr* node) {
      if (!nodes_.emplace(node, nodes_.size()).second) return;
      out_ += '(';
      number(static_cast<int64_t>(node->op)), number(static_cast<int64_t>(node->type.dtype)), number(node->type.lanes);
      if (node->op == ir::Op::Var) {
        number(static_cast<int64_t>(vars_.emplace(node->i, vars_.size()).first->second));
      } else if (node->op == ir::Op::Sym) {
        number(static_cast<int64_t>(syms_.emplace(node->sym, syms_.size()).first->second));
      } else {
        number(static_cast<int64_t>(node->access)), number(node->array), number(node->i), number(std::bit_cast<int64_t>(node->f));
      }
      for (const ir::Expr* arg : node->args) number(static_cast<int64_t>(nodes_.at(arg)));
      out_ += ')';
    });
    number(static_cast<int64_t>(nodes_.at(e)));
  }

  void block(const std::vector<loop::StmtPtr>& statements) {
    out_ += '{';
    for (const loop::StmtPtr& s : statements) {
      number(static_cast<int64_t>(s->kind)), number(static_cast<int64_t>(s->for_kind)), number(s->step), number(s->array),
          number(s->fault);
      for (const ir::Expr* e : {s->var, s->begin, s->end, s->cond, s->bound, s->value}) expression(e);
      for (const ir::Expr* e : s->index) expression(e);
      block(s->body), block(s->orelse);
    }
    out_ += '}';
  }

  std::string out_;
  std::unordered_map<const ir::Expr*, size_t> nodes_;
  std::unordered_map<int64_t, size_t> vars_;
  std::unordered_map<const ir::Sym*, size_t> syms_;
};

}  // namespace

std::string kernel_key(const loop::Kernel& kernel) { return KeyWriter(kernel).take(); }

}  // namespace mlc::compile
