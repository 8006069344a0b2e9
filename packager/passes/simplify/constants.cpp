// Statements that read only constants are computed now, with the interpreter; loads of single constants become numbers.
//
// Bounds: a result may be larger than what it is made of only by a quarter, or by kGrowth bytes (Expand of a scalar stays a map), or
// kCostlyGrowth where each run would compute long for an element (a sum, a sine), and the work is limited: for a group of
// statements and, counted by the interpreter, for all functions of a model. What fails to compute (an index out of range, say)
// stays and fails at run time with its name; what there is no work left for stays as well.
#include <algorithm>

#include "packager/ir/numeric.h"
#include "packager/nest/interpret/interpret.h"
#include "packager/nest/proc.h"
#include "packager/passes/all.h"
#include "packager/passes/util.h"

namespace mlc::passes {
namespace {

using ir::Op;

constexpr double kGrowth = 1 << 16, kCostlyGrowth = 1 << 20, kCostly = 32, kWork = 4e9;

bool is_costly(const Expr* e) {
  return e->op == Op::Exp || e->op == Op::Log || e->op == Op::Sin || e->op == Op::Cos || e->op == Op::Tanh || e->op == Op::Pow;
}

bool constant_extents(const nest::Array& a) {
  return std::all_of(a.shape.begin(), a.shape.end(), [](const Expr* e) { return e->is_const(); });
}

// Reads nothing that is known only at run time; `work` counts the points of its loops.
bool computable(const nest::Function& f, const nest::Statement& s, double& work, double& input_bytes) {
  bool good = true;
  for (uint32_t a : read(s)) {
    good = good && f.arrays[a].kind == nest::Array::Kind::Const;
    if (f.arrays[a].data) input_bytes += static_cast<double>(f.arrays[a].data->bytes.size());
  }
  for (uint32_t a : written(s)) good = good && f.arrays[a].kind == nest::Array::Kind::Temp && constant_extents(f.arrays[a]);
  if (!good) return false;
  auto dims = [&](const std::vector<const ir::Dim*>& list) {
    double n = 1;
    for (const ir::Dim* d : list) {
      good = good && d->extent->is_const();
      n *= static_cast<double>(std::max<int64_t>(1, d->extent->i));
    }
    return n;
  };
  double points = dims(s.nest ? s.nest->dims : s.proc->dims), inner = 1;
  for_roots(s, [&](const Expr* root) {
    ir::walk(root, [&](const Expr* e) {
      if (e->op == Op::Sym) good = false;
      if (e->op == Op::Fold) inner = std::max(inner, dims(e->fold->dims));
    });
  });
  work += points * inner * (s.proc ? 1000 : 1);
  return good;
}

// Rough number of operations that an element of the results of these statements costs.
double cost_of_element(const nest::Statement& s) {
  double cost = 0;
  for_roots(s, [&](const Expr* root) {
    ir::walk(root, [&](const Expr* e) {
      if (is_costly(e)) cost += 16;
      if (e->op == Op::FloorDiv || e->op == Op::FloorMod) cost += 8;
      if (e->op != Op::Fold) return;
      double points = 1;
      for (const ir::Dim* d : e->fold->dims) points *= static_cast<double>(d->extent->is_const() ? d->extent->i : 1);
      cost += points;
    });
  });
  return cost;
}

// The statements `taken` of a function as one of their own, which has no other arrays: what is done about a few statements
// must not cost what the whole function does.
class Excerpt {
 public:
  Excerpt(ir::Context& ctx, nest::Function& whole, const std::vector<size_t>& taken, const std::vector<uint32_t>& results)
      : ctx_(ctx), whole_(whole), taken_(taken) {
    for (size_t i : taken) {
      nest::renumber(ctx, whole.body[i], [this](uint32_t array) { return number_of(array); });
      part_.body.push_back(std::move(whole.body[i]));
    }
    for (uint32_t result : results) part_.outputs.push_back(number_of(result));
  }
  // The statements return.
  ~Excerpt() {
    for (size_t k = 0; k < taken_.size(); ++k) {
      nest::renumber(ctx_, part_.body[k], [this](uint32_t array) { return arrays_[array]; });
      whole_.body[taken_[k]] = std::move(part_.body[k]);
    }
  }
  Excerpt(const Excerpt&) = delete;
  const nest::Function& function() const { return part_; }

 private:
  uint32_t number_of(uint32_t array) {
    auto [found, is_new] = numbers_.emplace(array, static_cast<uint32_t>(arrays_.size()));
    if (is_new) {
      arrays_.push_back(array);
      part_.arrays.push_back(whole_.arrays[array]);
    }
    return found->second;
  }

  ir::Context& ctx_;
  nest::Function& whole_;
  const std::vector<size_t>& taken_;
  nest::Function part_;
  std::vector<uint32_t> arrays_;  // by number in the part
  std::unordered_map<uint32_t, uint32_t> numbers_;
};

// Computes the results of these statements; false if that does not work out. Of the work that is `left` it takes half at
// most: statements that are given up leave something to others.
bool compute(ir::Context& ctx, nest::Function& f, const std::vector<size_t>& statements, const std::vector<uint32_t>& results, double& left) {
  const Excerpt excerpt(ctx, f, statements, results);
  const double share = left / 2;
  double work = share;
  auto values = nest::interpret(excerpt.function(), {}, {.work = &work});
  left -= std::min(share - work, share);
  if (!values.ok()) return false;
  for (size_t k = 0; k < results.size(); ++k) {
    auto bytes = std::make_shared<std::vector<std::byte>>(std::move((*values)[k].bytes));
    nest::Array& a = f.arrays[results[k]];
    a.kind = nest::Array::Kind::Const;
    a.data = std::make_shared<nest::ConstData>(nest::ConstData{Bytes(*bytes), bytes});
  }
  return true;
}

const Expr* literal(ir::Context& ctx, const nest::Function& f, const Expr* load) {
  if (load->array >= f.arrays.size()) return nullptr;
  const nest::Array& a = f.arrays[load->array];
  if (a.kind != nest::Array::Kind::Const || !a.data || !constant_extents(a)) return nullptr;
  int64_t element = 0;
  bool single = true;
  for (const Expr* e : a.shape) single = single && e->i == 1;
  for (size_t k = 0; k < load->args.size(); ++k) {
    const Expr* e = load->args[k];
    if (single && load->access != ir::Access::Checked) continue;
    if (!e->is_const() || e->i < 0 || e->i >= a.shape[k]->i) return nullptr;
    element = element * a.shape[k]->i + e->i;
  }
  ir::Scalar v = ir::load_element(a.dtype, a.data->bytes.data(), static_cast<uint64_t>(element));
  return is_float(a.dtype) ? ctx.number(v.f, a.dtype) : ctx.integer(v.i, a.dtype);
}

}  // namespace

Status fold_constants(ir::Context& ctx, nest::Function& f, double& left) {
  auto literals = [&](nest::Statement& s) {
    map_roots(s, [&](const Expr* root) {
      return ctx.rewrite(root, [&](const Expr* e) { return e->op == Op::Load ? literal(ctx, f, e) : nullptr; });
    });
    if (!s.proc) return;
    s.proc->reads.clear();
    s.proc->reads = read(s);
  };
  Uses uses = uses_of(f);
  std::vector<bool> gone(f.body.size(), false);
  for (size_t i = 0; i < f.body.size(); ++i) {
    if (gone[i]) continue;
    literals(f.body[i]);
    // All statements that write one of the results belong together; each is looked at when the last one is reached.
    std::vector<size_t> group{i};
    std::vector<uint32_t> results;
    bool possible = true;
    for (size_t k = 0; possible && k < group.size(); ++k)
      for (uint32_t a : written(f.body[group[k]])) {
        if (std::find(results.begin(), results.end(), a) != results.end()) continue;
        results.push_back(a);
        possible = possible && !uses.output[a] && uses.writers[a].back() <= i;
        if (!possible) break;
        for (size_t w : uses.writers[a])
          if (std::find(group.begin(), group.end(), w) == group.end()) group.push_back(w);
      }
    if (!possible) continue;
    double work = 0, input_bytes = 0, output_bytes = 0, cost = 0;
    for (size_t k : group) {
      possible = possible && computable(f, f.body[k], work, input_bytes);
      cost = std::max(cost, cost_of_element(f.body[k]));
    }
    if (!possible) continue;
    for (uint32_t a : results) {
      double n = bytes_of(f.arrays[a].dtype);
      for (const Expr* e : f.arrays[a].shape) n *= static_cast<double>(std::max<int64_t>(0, e->i));
      output_bytes += n;
    }
    if (work > std::min(kWork, left) || output_bytes > input_bytes + std::max(input_bytes / 4, cost >= kCostly ? kCostlyGrowth : kGrowth)) continue;
    std::sort(group.begin(), group.end());
    if (!compute(ctx, f, group, results, left)) continue;
    for (size_t k : group) gone[k] = true;
  }
  std::vector<nest::Statement> kept;
  for (size_t i = 0; i < f.body.size(); ++i)
    if (!gone[i]) kept.push_back(std::move(f.body[i]));
  f.body = std::move(kept);
  for (nest::Statement& s : f.body) literals(s);
  remove_dead(f);
  return ok();
}

}  // namespace mlc::passes
