#include "packager/nest/facts/figures.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "targets/machines.h"

namespace mlc::nest {
namespace {

using ir::Expr;
using ir::Op;

constexpr double kMost = 4e18;    // that a figure says

// Dims are ordered by number, so that equal inputs give equal plans.
struct ById {
  bool operator()(const ir::Dim* a, const ir::Dim* b) const { return a->id < b->id; }
};
using Dims = std::vector<const ir::Dim*>;  // sorted, each once
struct Before {
  bool operator()(const Dims& a, const Dims& b) const { return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), ById()); }
};

Dims united(const Dims& a, const Dims& b) {
  Dims out;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(out), ById());
  return out;
}

Dims sorted(Dims dims) {
  std::sort(dims.begin(), dims.end(), ById());
  dims.erase(std::unique(dims.begin(), dims.end()), dims.end());
  return dims;
}

double operations_of(const Expr* e) {
  if (e->type.dtype == DType::Bool) return 0;
  switch (e->op) {
    case Op::Neg: case Op::Abs: case Op::Floor: case Op::Ceil: case Op::Trunc: case Op::Rint: case Op::Sqrt: case Op::Add: case Op::Sub:
    case Op::Mul: case Op::Div: case Op::FloorDiv: case Op::FloorMod: case Op::TruncDiv: case Op::TruncMod: case Op::Min: case Op::Max:
    case Op::BitAnd: case Op::BitOr: case Op::BitXor: case Op::Shl: case Op::Shr: return 1;
    case Op::Fma: return 2;
    case Op::Pow: return targets::kAnyProcessor.function_operations;
    default: return e->op >= Op::Exp && e->op <= Op::Erf ? targets::kAnyProcessor.function_operations : 0;
  }
}

// sum(a * b) in i32 of values that come from arrays of 8 bits.
bool is_product_of_bytes(const Expr* fold) {
  if (fold->fold->combiner->join != ir::Join::Sum || fold->type.dtype != DType::I32) return false;
  bool product = false, bytes = true;
  ir::walk_past_extents(fold->args[0], [&](const Expr* e) {
    product = product || e->op == Op::Mul;
    bytes = bytes && (e->op != Op::Load || bits_of(e->type.dtype) <= 8);
  });
  return product && bytes;
}

class Counter {
 public:
  Counter(ir::Context& ctx, const Function& f, const std::vector<uint32_t>& locals) : ctx_(ctx), f_(f), locals_(locals.begin(), locals.end()) {}

  void add(const Nest& nest) {
    const Dims all = sorted(nest.dims);
    if (nest.where) loads(nest.where);
    for (const Write& write : nest.writes) {
      loads(write.value);
      for (const Expr* e : write.index) loads(e);
      count(write.value);
      if (nest.scan_dim || write.push) points_[all] += 1;
      if (!locals_.contains(write.array)) written_[write.array][all] += 1;
      if (write.push && !locals_.contains(write.array)) read_[write.array][all] += 1;
    }
  }

  Figures figures() {
    Figures out;
    out.operations = total(sum(points_));
    out.read = bytes(read_);
    out.written = bytes(written_);
    out.of_bytes = bytewise_;
    return out;
  }

 private:
  using Points = std::map<Dims, double, Before>;

  // The dims that each node depends on.
  const Dims& dims(const Expr* root) {
    ir::walk_past_extents(root, [&](const Expr* e) {
      if (dims_.contains(e)) return;
      Dims all;
      if (e->op == Op::Dim) all = {e->dim};
      for (const Expr* a : e->args) all = united(all, dims_[a]);
      if (e->op == Op::Fold) {
        if (e->fold->where) all = united(all, dims_[e->fold->where]);
        inside_[e] = united(all, sorted(e->fold->dims));
        std::erase_if(all, [&](const ir::Dim* d) { return std::find(e->fold->dims.begin(), e->fold->dims.end(), d) != e->fold->dims.end(); });
      }
      dims_[e] = std::move(all);
    });
    return dims_[root];
  }

  void loads(const Expr* root) {
    dims(root);
    ir::walk_past_extents(root, [&](const Expr* e) {
      if (e->op == Op::Load && !locals_.contains(e->array) && loaded_.insert(e).second) read_[e->array][dims_[e]] += 1;
    });
  }

  // Addresses and conditions are not looked into.
  void count(const Expr* root) {
    dims(root);
    std::vector<const Expr*> stack{root};
    while (!stack.empty()) {
      const Expr* e = stack.back();
      stack.pop_back();
      if (!counted_.insert(e).second || e->op == Op::Load) continue;
      if (e->op == Op::Fold) {
        points_[inside_[e]] += static_cast<double>(e->args.size());
        bytewise_ = bytewise_ || is_product_of_bytes(e);
      } else if (const double n = operations_of(e); n > 0) {
        points_[dims_[e]] += n;
      }
      const size_t first = e->op == Op::Select ? 1 : 0;
      stack.insert(stack.end(), e->args.begin() + static_cast<ptrdiff_t>(first), e->args.end());
    }
  }

  const Expr* number(double n) { return ctx_.number(n, DType::F64); }

  // The points of these dims, each as often as it counts.
  const Expr* sum(const Points& points) {
    const Expr* all = number(0);
    for (const auto& [dims, times] : points) {
      const Expr* product = number(times);
      for (const ir::Dim* d : dims) {
        const Expr* extent = ir::with_value(ctx_, d->extent);
        if (!extent) return nullptr;
        product = ctx_.binary(Op::Mul, product, ctx_.cast(DType::F64, extent));
      }
      all = ctx_.binary(Op::Add, all, product);
    }
    return all;
  }

  const Expr* total(const Expr* e) { return e ? ctx_.cast(DType::I64, ctx_.binary(Op::Min, e, number(kMost))) : nullptr; }

  const Expr* bytes(const std::map<uint32_t, Points>& arrays) {
    const Expr* all = number(0);
    for (const auto& [array, points] : arrays) {
      const Expr* stored = stored_bytes(ctx_, f_.arrays[array]);
      const Expr* touched = sum(points);
      if (!stored || !touched) return nullptr;
      touched = ctx_.binary(Op::Mul, touched, number(bits_of(f_.arrays[array].dtype) / 8.0));
      all = ctx_.binary(Op::Add, all, ctx_.binary(Op::Min, stored, touched));
    }
    return total(all);
  }

  ir::Context& ctx_;
  const Function& f_;
  const std::unordered_set<uint32_t> locals_;
  std::unordered_map<const Expr*, Dims> dims_, inside_;  // inside_: of folds, with those folded over
  std::unordered_set<const Expr*> counted_, loaded_;
  Points points_;  // operations
  std::map<uint32_t, Points> read_, written_;
  bool bytewise_ = false;
};

}  // namespace

const Expr* stored_bytes(ir::Context& ctx, const Array& array) {
  if (array.list_depth > 0) return nullptr;
  const Expr* all = ctx.number(bits_of(array.dtype) / 8.0, DType::F64);
  for (const Expr* e : piece_extents(ctx, array.layout, array.shape)) {
    const Expr* extent = ir::with_value(ctx, e);
    if (!extent) return nullptr;
    all = ctx.binary(Op::Mul, all, ctx.cast(DType::F64, extent));
  }
  return all;
}

Figures moved(ir::Context& ctx, const std::vector<const Expr*>& read, const std::vector<const Expr*>& written) {
  const auto total = [&](const std::vector<const Expr*>& parts) -> const Expr* {
    const Expr* all = ctx.number(0, DType::F64);
    for (const Expr* e : parts) {
      if (!e) return nullptr;
      all = ctx.binary(Op::Add, all, e);
    }
    return ctx.cast(DType::I64, ctx.binary(Op::Min, all, ctx.number(kMost, DType::F64)));
  };
  return {ctx.integer(0), total(read), total(written), false};
}

Figures figures_of(ir::Context& ctx, const Function& f, std::span<const Nest* const> nests, const std::vector<uint32_t>& locals) {
  Counter counter(ctx, f, locals);
  for (const Nest* nest : nests) counter.add(*nest);
  return counter.figures();
}

}  // namespace mlc::nest
