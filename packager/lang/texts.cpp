#include "packager/lang/texts.h"

#include <algorithm>
#include <unordered_set>

#include "packager/nest/facts/uses.h"

namespace mlc::lang {
namespace {

using ir::Expr;
using ir::Op;
using nest::Function;

bool holds_texts(const Function& f, uint32_t array) { return array < f.arrays.size() && f.arrays[array].dtype == DType::Str; }

const char* in_expression(const Function& f, const Expr* root, std::unordered_set<const Expr*>& texts) {
  const char* wrong = nullptr;
  ir::walk(root, [&](const Expr* e) {  // arguments first
    const auto is_text = [&](const Expr* x) { return texts.count(x) > 0; };
    if (e->op == Op::Load) {
      if (holds_texts(f, e->array)) texts.insert(e);
      if (std::any_of(e->args.begin(), e->args.end(), is_text)) wrong = "takes them as positions";
      return;
    }
    if (!std::any_of(e->args.begin(), e->args.end(), is_text)) return;
    const bool last = e->op == Op::Fold && (e->fold->combiner->join == ir::Join::Last);
    if (e->op == Op::Select || e->op == Op::Field || last) texts.insert(e);
    else if (e->op == Op::Lt || e->op == Op::Le) wrong = "orders them";
    else if (e->op != Op::Eq && e->op != Op::Ne) wrong = "computes with them";
  });
  return wrong;
}

}  // namespace

const char* looks_into_texts(const Function& f, size_t first) {
  for (size_t k = first; k < f.body.size(); ++k) {
    const nest::Statement& s = f.body[k];
    std::unordered_set<const Expr*> texts;
    if (!s.nest) {
      const char* wrong = nullptr;
      nest::for_roots(s, [&](const Expr* e) {
        if (!wrong) wrong = in_expression(f, e, texts);
      });
      if (wrong) return wrong;
      continue;
    }
    for (const nest::Write& w : s.nest->writes) {
      if (const char* wrong = in_expression(f, w.value, texts)) return wrong;
      if (w.push && w.join != ir::Join::Last && (texts.count(w.value) || holds_texts(f, w.array))) return "computes with them";
    }
    if (s.nest->scan_combiner && std::any_of(s.nest->writes.begin(), s.nest->writes.end(), [&](const nest::Write& w) { return texts.count(w.value) > 0; }))
      return "computes with them";
  }
  return nullptr;
}

}  // namespace mlc::lang
