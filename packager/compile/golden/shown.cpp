#include "packager/compile/golden/shown.h"

#include <algorithm>
#include <cmath>

#include "packager/ir/numeric.h"
#include "packager/nest/proc.h"

namespace mlc::compile {
namespace {

constexpr size_t kMostStatements = 24;  // whose results are changed

double number(const nest::Tensor& t, uint64_t element) {
  const ir::Scalar v = ir::load_element(t.dtype, t.bytes.data(), element);
  return is_float(t.dtype) ? v.f : static_cast<double>(v.i);
}

double largest_of(const nest::Tensor& t) {
  double largest = 0;
  for (uint64_t i = 0; i < static_cast<uint64_t>(t.elements()); ++i)
    if (const double v = number(t, i); std::isfinite(v)) largest = std::max(largest, std::fabs(v));
  return largest;
}

bool moves(const GoldenVector& golden, const std::vector<nest::Tensor>& outputs, double tolerance) {
  for (size_t k = 0; k < outputs.size(); ++k)
    if (golden.tells(k) && !(spread_of(golden.outputs[k], outputs[k]) <= golden.tolerance_of(k, tolerance))) return true;
  return false;
}

// Statements that compute with numbers of the inputs. Shapes, indices and constants are left out: what becomes of them is known when
// the file is made. Of controls nothing is changed, as lists and lengths may come from them.
std::vector<size_t> computing(const nest::Function& function) {
  std::vector<bool> follows(function.arrays.size(), false);  // from an input
  for (uint32_t input : function.inputs) follows[input] = true;
  std::vector<size_t> all;
  for (size_t k = 0; k < function.body.size(); ++k) {
    const nest::Statement& s = function.body[k];
    bool reads = false, numbers = false;
    const auto see = [&](uint32_t array, bool is_read) {
      if (array >= follows.size()) return;
      reads = reads || (is_read && follows[array]);
      numbers = numbers || (function.arrays[array].dtype != DType::I64 && function.arrays[array].dtype != DType::I32);
    };
    const auto write = [&](uint32_t array) {
      if (array < follows.size() && reads) follows[array] = true;
    };
    if (s.nest) {
      for (const nest::Write& w : s.nest->writes) {
        const auto look = [&](const ir::Expr* root) { ir::walk(root, [&](const ir::Expr* e) { if (e->op == ir::Op::Load) see(e->array, true); }); };
        look(w.value);
        for (const ir::Expr* e : w.index) look(e);
        see(w.array, false);
      }
      for (const nest::Write& w : s.nest->writes) write(w.array);
    }
    const std::vector<uint32_t>* in = s.proc ? &s.proc->reads : s.control ? &s.control->inputs : nullptr;
    const std::vector<uint32_t>* out = s.proc ? &s.proc->writes : s.control ? &s.control->outputs : nullptr;
    if (in)
      for (uint32_t array : *in) see(array, true);
    if (out)
      for (uint32_t array : *out) write(array);
    if (!s.control && reads && numbers) all.push_back(k);
  }
  return all;
}

// At most so many, evenly spread.
std::vector<size_t> some_of(const std::vector<size_t>& all, size_t most) {
  std::vector<size_t> some;
  const size_t n = std::min(most, all.size());
  for (size_t k = 0; k < n; ++k) some.push_back(all[(2 * k + 1) * all.size() / (2 * n)]);
  return some;
}

}  // namespace

double spread_of(const nest::Tensor& a, const nest::Tensor& b) {
  if (!is_recorded(a)) return 0;
  if (a.shape != b.shape || a.dtype != b.dtype) return HUGE_VAL;
  double largest = 0, apart = 0;
  for (uint64_t i = 0; i < static_cast<uint64_t>(a.elements()); ++i) {
    const double u = number(a, i), v = number(b, i);
    if (!std::isfinite(u) || !std::isfinite(v)) continue;
    largest = std::max(largest, std::fabs(u));
    apart = std::max(apart, std::fabs(u - v));
  }
  return apart == 0 ? 0 : apart / (largest > 0 ? largest : apart);
}

double hidden_share(const GoldenVector& golden, double tolerance) {
  uint64_t all = 0, hidden = 0;
  for (size_t k = 0; k < golden.outputs.size(); ++k) {
    const nest::Tensor& t = golden.outputs[k];
    if (!golden.tells(k) || !is_float(t.dtype)) continue;
    const double least = largest_of(t) * golden.tolerance_of(k, tolerance);
    all += static_cast<uint64_t>(t.elements());
    for (uint64_t i = 0; i < static_cast<uint64_t>(t.elements()); ++i) {
      const double v = std::fabs(number(t, i));
      hidden += v > 0 && v <= least;
    }
  }
  return all == 0 ? 0 : static_cast<double>(hidden) / static_cast<double>(all);
}

Shown shown_by(const nest::Function& oracle, const GoldenVector& golden, double tolerance, double work_of_run, double& work) {
  Shown shown;
  // One run, and for each statement half of one on the average.
  const double affordable = 2 * (work / std::max(work_of_run, 1.0) - 1);
  if (affordable < 1) return shown;
  if (oracle.body.size() < 2) return shown;  // what it writes is the output
  const std::vector<size_t> statements = some_of(computing(oracle), static_cast<size_t>(std::min<double>(affordable, kMostStatements)));
  nest::InterpretOptions how;
  how.work = &work;
  const Status ran = nest::interpret_changed(oracle, golden.inputs, how, statements, [&](size_t statement, const Result<std::vector<nest::Tensor>>& outputs) {
    if (!outputs.ok() && outputs.status().code == Code::Cancelled) return false;
    ++shown.tried;
    if (outputs.ok() && !moves(golden, *outputs, tolerance)) shown.hidden.push_back(oracle.body[statement].source);
    return true;
  });
  if (!ran.ok()) return {};  // too much work: nothing is known
  std::reverse(shown.hidden.begin(), shown.hidden.end());
  return shown;
}

}  // namespace mlc::compile
