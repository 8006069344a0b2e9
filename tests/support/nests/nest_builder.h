// Builds small Nest functions in tests.
#pragma once

#include <random>

#include "packager/nest/interpret/interpret.h"

namespace mlc::test {

using namespace mlc::ir;
using namespace mlc::nest;

struct NestBuilder {
  Context ctx;
  Function fn;
  const Expr* k(int64_t v) { return ctx.integer(v); }
  const Expr* r(double v, DType t = DType::F32) { return ctx.number(v, t); }
  uint32_t array(std::string name, DType t, std::vector<const Expr*> shape, Array::Kind kind = Array::Kind::Temp) {
    fn.arrays.push_back({std::move(name), kind, t, std::move(shape), nullptr, {}});
    uint32_t n = static_cast<uint32_t>(fn.arrays.size()) - 1;
    if (kind == Array::Kind::Input) fn.inputs.push_back(n);
    return n;
  }
  uint32_t input(std::string name, DType t, std::vector<const Expr*> shape) {
    return array(std::move(name), t, std::move(shape), Array::Kind::Input);
  }
  uint32_t output(std::string name, DType t, std::vector<const Expr*> shape) {
    uint32_t n = array(std::move(name), t, std::move(shape));
    fn.outputs.push_back(n);
    return n;
  }
  const Dim* dim(const char* name, const Expr* extent) { return ctx.declare_dim(name, extent); }
  const Dim* dim(const char* name, int64_t extent) { return dim(name, k(extent)); }
  const Expr* d(const Dim* x) { return ctx.dim(x); }
  const Expr* load(uint32_t a, std::vector<const Expr*> index, Access access = Access::Proved) {
    return ctx.load(a, {fn.arrays[a].dtype, 1}, std::move(index), access);
  }
  Nest& nest(std::string source, std::vector<const Dim*> dims, std::vector<Write> writes, const Expr* where = nullptr) {
    Statement s;
    s.source = std::move(source);
    s.nest = std::make_unique<Nest>();
    s.nest->dims = std::move(dims);
    s.nest->where = where;
    s.nest->writes = std::move(writes);
    fn.body.push_back(std::move(s));
    return *fn.body.back().nest;
  }
  Result<std::vector<Tensor>> run(const std::vector<Tensor>& inputs, bool points = false) {
    InterpretOptions o;
    o.point_by_point = points;
    return interpret(fn, inputs, o);
  }
};

inline std::vector<float> numbers(size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> range(-1, 1);
  std::vector<float> v(n);
  for (float& x : v) x = range(random);
  return v;
}

}  // namespace mlc::test
