// A statement that reads hundreds of arrays (Sum of 600 operands) becomes several that read a few each. A kernel keeps an address
// for each of its arrays, and machine code with hundreds of them runs out of registers, then of stack.
//
// An operand of the expression goes into an array of its own when what reads it would read more than kMany arrays otherwise. The
// operations and their order stay, so the results are the same bit by bit. Only operands that every point computes are moved:
// not what stands behind a choice, which may guard an index, nor what stands in a fold, which has more points.
#include <algorithm>

#include "packager/nest/text/names.h"
#include "packager/passes/all.h"
#include "packager/passes/util.h"

namespace mlc::passes {
namespace {

using ir::Op;

constexpr size_t kTooManyReads = 32;  // arrays that a statement reads
constexpr size_t kMany = 8;      // of each that it becomes: fusion then puts what makes them beside (kMaxArrays in fuse.cpp)

// How many of its arguments a node computes whatever their values are.
size_t always_computed(const Expr* e) {
  switch (e->op) {
    case Op::Load: case Op::Fold: return 0;
    case Op::Select: case Op::And: case Op::Or: return 1;
    default: return e->args.size();
  }
}

using Arrays = std::vector<uint32_t>;  // ascending

class Narrower {
 public:
  Narrower(ir::Context& ctx, nest::Function& f) : ctx_(ctx), f_(f) {}

  void run() {
    std::vector<nest::Statement> body = std::move(f_.body);
    f_.body.clear();
    for (nest::Statement& s : body) {
      if (s.nest && !s.nest->where && read(s).size() > kTooManyReads) {
        of_ = &s;
        moved_.clear();
        for (nest::Write& w : s.nest->writes) w.value = narrow(w.value);
      }
      f_.body.push_back(std::move(s));
    }
  }

 private:
  struct Part {
    const Expr* now = nullptr;  // with loads of the arrays that were made
    Arrays arrays;
  };

  const Expr* narrow(const Expr* root) {
    std::unordered_map<const Expr*, Part> parts;
    std::vector<const Expr*> open{root};
    while (!open.empty()) {
      const Expr* e = open.back();
      open.pop_back();
      if (parts.try_emplace(e).second) open.insert(open.end(), e->args.begin(), e->args.begin() + static_cast<ptrdiff_t>(always_computed(e)));
    }
    std::vector<const Expr*> order;  // arguments first
    ir::walk(root, [&](const Expr* e) {
      if (parts.count(e)) order.push_back(e);
    });
    for (const Expr* e : order) parts[e] = narrowed(e, parts);
    return parts[root].now;
  }

  Part narrowed(const Expr* e, std::unordered_map<const Expr*, Part>& parts) {
    const size_t always = always_computed(e);
    Arrays behind;
    if (always < e->args.size() || e->op == Op::Fold || e->op == Op::Load)
      ir::walk(e, [&](const Expr* x) {
        if (x->op == Op::Load && (always == 0 || !ir::depends_on(e->args[0], x))) behind.push_back(x->array);
      });
    std::sort(behind.begin(), behind.end());
    behind.erase(std::unique(behind.begin(), behind.end()), behind.end());
    const auto all = [&] {
      Arrays arrays = behind;
      for (size_t k = 0; k < always; ++k) {
        const Arrays& more = parts[e->args[k]].arrays;
        Arrays joined;
        std::set_union(arrays.begin(), arrays.end(), more.begin(), more.end(), std::back_inserter(joined));
        arrays = std::move(joined);
      }
      return arrays;
    };
    Part part{nullptr, all()};
    while (part.arrays.size() > kMany) {
      const auto largest = std::max_element(e->args.begin(), e->args.begin() + static_cast<ptrdiff_t>(always),
                                            [&](const Expr* a, const Expr* b) { return parts[a].arrays.size() < parts[b].arrays.size(); });
      if (always == 0 || parts[*largest].arrays.size() < 2) break;
      Part& operand = parts[*largest];
      operand.now = stored(operand.now);
      operand.arrays = {operand.now->array};
      part.arrays = all();
    }
    part.now = ctx_.rewrite(e, [&](const Expr* x) -> const Expr* {
      if (x == e) return nullptr;
      for (size_t k = 0; k < always; ++k)
        if (x == e->args[k]) return parts[x].now;
      return x;
    });
    return part;
  }

  // A load of an array that holds `value` at each point of the statement.
  const Expr* stored(const Expr* value) {
    if (const auto found = moved_.find(value); found != moved_.end()) return found->second;
    nest::Array array;
    array.name = nest::unique_name(f_, f_.arrays[of_->nest->writes[0].array].name + ".part", of_->source);
    array.dtype = value->type.dtype;
    nest::Nest n;
    std::vector<const Expr*> there, here;
    std::unordered_map<const Expr*, const Expr*> renamed;
    for (const ir::Dim* d : of_->nest->dims) {
      array.shape.push_back(d->extent);
      n.dims.push_back(ctx_.declare_dim(d->name, d->extent));
      here.push_back(ctx_.dim(d));
      there.push_back(ctx_.dim(n.dims.back()));
      renamed[here.back()] = there.back();
    }
    const uint32_t number = static_cast<uint32_t>(f_.arrays.size());
    f_.arrays.push_back(std::move(array));
    n.writes.push_back({number, there, ctx_.substitute(value, renamed), false, ir::Join::Last});
    nest::Statement s;
    s.source = of_->source;
    s.nest = std::make_unique<nest::Nest>(std::move(n));
    f_.body.push_back(std::move(s));
    return moved_[value] = ctx_.load(number, {value->type.dtype, 1}, here, ir::Access::Proved);
  }

  ir::Context& ctx_;
  nest::Function& f_;
  const nest::Statement* of_ = nullptr;                       // the statement at hand
  std::unordered_map<const Expr*, const Expr*> moved_;        // out of it: the loads
};

}  // namespace

Status narrow(ir::Context& ctx, nest::Function& f) {
  const bool any = std::any_of(f.body.begin(), f.body.end(), [](const nest::Statement& s) { return s.nest && read(s).size() > kTooManyReads; });
  if (any) Narrower(ctx, f).run();
  return ok();
}

}  // namespace mlc::passes
