#include "packager/compile/golden/answer_facts.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "packager/ir/numeric.h"

namespace mlc::compile {

bool is_informative(const std::vector<nest::Tensor>& outputs) {
  bool differ = false;
  for (const nest::Tensor& output : outputs) {
    if (output.bytes.empty()) continue;  // the caches of a branch that was not taken
    if (is_float(output.dtype))
      for (uint64_t k = 0; k < static_cast<uint64_t>(output.elements()); ++k)
        if (!std::isfinite(ir::load_element(output.dtype, output.bytes.data(), k).f)) return false;
    const size_t width = bytes_of(output.dtype);
    for (size_t at = width; at < output.bytes.size(); at += width)
      differ |= std::memcmp(output.bytes.data(), output.bytes.data() + at, width) != 0;
    differ |= output.bytes.size() == width;
  }
  return differ;
}

size_t bytes_of(const std::vector<nest::Tensor>& tensors) {
  size_t bytes = 0;
  for (const nest::Tensor& tensor : tensors) bytes += tensor.bytes.size();
  return bytes;
}

bool asks_services(const nest::Function& function) {
  std::vector<const nest::Function*> open{&function};
  while (!open.empty()) {
    const nest::Function& f = *open.back();
    open.pop_back();
    for (const nest::Statement& s : f.body) {
      if (!s.control) continue;
      if (s.control->kind == StepOp::Host) return true;
      for (const auto& body : s.control->bodies) open.push_back(body.get());
    }
  }
  return false;
}

void shorten(std::vector<nest::Tensor>& outputs) {
  for (nest::Tensor& output : outputs) {
    if (output.dtype != DType::F32 || output.bytes.empty()) continue;
    const std::span<float> values(reinterpret_cast<float*>(output.bytes.data()), output.bytes.size() / sizeof(float));
    float largest = 0;
    for (float v : values)
      if (std::isfinite(v)) largest = std::max(largest, std::fabs(v));
    if (largest < 0x1p-100f) continue;  // what cannot be scaled
    const int step = std::ilogb(largest) - 14;
    for (float& v : values)
      if (std::isfinite(v)) v = std::ldexp(std::rint(std::ldexp(v, -step)), step);
  }
}

bool may_jump(const nest::Function& function) {
  bool differs = false, jumps = false;  // from target to target, in the last places
  for (const nest::Statement& s : function.body) {
    jumps = jumps || s.proc || s.control;
    if (!s.nest) continue;
    for (const nest::Write& w : s.nest->writes)
      ir::walk(w.value, [&](const ir::Expr* e) {
        const bool is_function = (e->op >= ir::Op::Exp && e->op <= ir::Op::Erf) || e->op == ir::Op::Pow;
        differs = differs || (is_float(e->type.dtype) && (e->op == ir::Op::Fold || is_function));
        const bool converts = e->op == ir::Op::SatCast || e->op == ir::Op::Cast;
        jumps = jumps || e->op == ir::Op::Rint || (converts && is_int(e->type.dtype) && is_float(e->args[0]->type.dtype));
        jumps = jumps || (e->op == ir::Op::Load && is_float(e->type.dtype) && !is_float(function.arrays[w.array].dtype));
      });
  }
  return differs && jumps;
}

bool has_sums(const nest::Function& function) {
  bool found = false;
  for (const nest::Statement& s : function.body) {
    if (s.control)
      for (const auto& body : s.control->bodies) found = found || has_sums(*body);
    if (!s.nest) continue;
    for (const nest::Write& w : s.nest->writes)
      ir::walk(w.value, [&](const ir::Expr* e) { found = found || (e->op == ir::Op::Fold && e->fold->combiner->join == ir::Join::Sum && is_float(e->type.dtype)); });
  }
  return found;
}

double coarsest_step(const nest::Function& function) {
  double step = 0;
  for (const nest::Array& a : function.arrays) {
    if (a.dtype == DType::F16) step = std::max(step, 0x1p-11);
    if (a.dtype == DType::BF16) step = std::max(step, 0x1p-8);
  }
  return step;
}

}  // namespace mlc::compile
