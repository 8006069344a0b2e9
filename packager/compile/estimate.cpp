#include "packager/compile/estimate.h"

#include <algorithm>
#include <set>
#include <vector>

#include "packager/ir/typical.h"
#include "packager/nest/proc.h"

namespace mlc::compile {
namespace {

class Estimator {
 public:
  Estimator(const nest::Function& function, const std::map<const ir::Sym*, int64_t>& extents) : f_(function), values_(extents) {}

  Estimate run() {
    for (const auto& definition : f_.definitions) values_[definition.sym] = extent(definition.value);
    std::vector<size_t> last(f_.arrays.size(), 0);
    for (size_t k = 0; k < f_.body.size(); ++k) each_use(f_.body[k], [&](uint32_t array) { last[array] = k; });
    for (uint32_t output : f_.outputs) last[output] = f_.body.size();
    std::vector<double> size(f_.arrays.size(), 0);
    double alive = 0;
    const auto begin = [&](uint32_t array) {
      if (size[array] > 0 || f_.arrays[array].kind == nest::Array::Kind::Const) return;
      alive += size[array] = bytes(f_.arrays[array]);
      sum_.activation_bytes = std::max(sum_.activation_bytes, alive);
    };
    for (uint32_t input : f_.inputs) begin(input);
    std::set<uint32_t> constants;
    for (size_t k = 0; k < f_.body.size(); ++k) {
      std::set<uint32_t> used;
      each_use(f_.body[k], [&](uint32_t array) { used.insert(array); });
      for (uint32_t array : used) {
        begin(array);
        if (f_.arrays[array].kind == nest::Array::Kind::Const) constants.insert(array);
      }
      const double before = sum_.operations;
      work(f_.body[k]);
      sum_.of_statement.push_back(sum_.operations - before);
      for (uint32_t array : used)
        if (last[array] == k) alive -= size[array];
    }
    for (uint32_t array : constants) sum_.constant_bytes += static_cast<double>(f_.arrays[array].data->bytes.size());
    return sum_;
  }

 private:
  int64_t extent(const ir::Expr* e) {
    const auto value = ir::evaluate_extent(e, [&](const ir::Sym* sym) -> std::optional<int64_t> {
      const auto found = values_.find(sym);
      if (found != values_.end()) return found->second;
      sum_.at_least = true;  // what the run tells
      return ir::typical(sym);
    });
    return value && *value > 0 ? *value : 0;
  }
  double points(const std::vector<const ir::Dim*>& dims) {
    double n = 1;
    for (const ir::Dim* dim : dims) n *= static_cast<double>(extent(dim->extent));
    return n;
  }
  double bytes(const nest::Array& array) {
    if (array.list_depth > 0) {
      sum_.at_least = true;
      return 0;
    }
    double n = bytes_of(array.dtype);
    for (const ir::Expr* e : array.shape) n *= static_cast<double>(extent(e));
    return n;
  }

  template <class Visit>
  void each_use(const nest::Statement& s, const Visit& visit) {
    const auto expression = [&](const ir::Expr* e) {
      if (e)
        ir::walk(e, [&](const ir::Expr* x) {
          if (x->op == ir::Op::Load && x->array < f_.arrays.size()) visit(x->array);
        });
    };
    if (s.nest) {
      expression(s.nest->where);
      for (const nest::Write& write : s.nest->writes) {
        visit(write.array);
        expression(write.value);
        for (const ir::Expr* e : write.index) expression(e);
      }
    }
    if (s.proc)
      for (const auto* list : {&s.proc->reads, &s.proc->writes})
        for (uint32_t array : *list) visit(array);
    if (s.control)
      for (const auto* list : {&s.control->inputs, &s.control->outputs})
        for (uint32_t array : *list)
          if (array != nest::kNoArray) visit(array);
  }

  // Of one instance of a block: what a loop's bounds do not tell is run once. Nesting follows the operator's text.
  double steps(const std::vector<loop::StmtPtr>& body) {
    double n = 0;
    for (const loop::StmtPtr& s : body) {
      double times = 1;
      if (s->kind == loop::StmtKind::For) {
        const int64_t end = extent(s->end), begin = extent(s->begin);
        times = std::max<double>(1, static_cast<double>(end - begin) / static_cast<double>(std::max<int64_t>(s->step, 1)));
      }
      n += s->body.empty() && s->orelse.empty() ? 1 : times * std::max(steps(s->body), steps(s->orelse));
    }
    return n;
  }

  void work(const nest::Statement& s) {
    if (s.proc) sum_.operations += points(s.proc->dims) * steps(s.proc->body);
    if (s.nest) {
      double per_point = 0;
      for (const nest::Write& write : s.nest->writes)
        ir::walk(write.value, [&](const ir::Expr* e) {
          if (e->op == ir::Op::Fold) per_point += 2 * points(e->fold->dims);
        });
      sum_.operations += points(s.nest->dims) * std::max(per_point, 1.0);
    }
    if (!s.control) return;
    sum_.at_least = sum_.at_least || s.control->kind == StepOp::Loop;
    double most = 0;
    for (const auto& body : s.control->bodies) {
      const Estimate inside = estimate(*body, values_);  // nesting of bodies is bounded by the importer
      sum_.operations += inside.operations;
      sum_.constant_bytes += inside.constant_bytes;
      sum_.at_least = sum_.at_least || inside.at_least;
      most = std::max(most, inside.activation_bytes);
    }
    sum_.activation_bytes += most;
  }

  const nest::Function& f_;
  std::map<const ir::Sym*, int64_t> values_;
  Estimate sum_;
};

}  // namespace

std::map<const ir::Sym*, int64_t> typical_extents(const nest::Function& function) {
  std::map<const ir::Sym*, int64_t> extents;
  for (uint32_t input : function.inputs) {
    const nest::Array& array = function.arrays[input];
    for (size_t axis = 0; axis < array.shape.size(); ++axis)
      if (array.shape[axis]->op == ir::Op::Sym) extents.emplace(array.shape[axis]->sym, ir::typical(array.shape[axis]->sym, axis == 0 ? ir::Guess::Batch : ir::Guess::Any));
  }
  return extents;
}

Estimate estimate(const nest::Function& function, const std::map<const ir::Sym*, int64_t>& extents) { return Estimator(function, extents).run(); }

}  // namespace mlc::compile
