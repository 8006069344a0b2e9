// The texts of ops/math.mlop against the host's library, in units in the last place, as their comments state.
#include <doctest/doctest.h>

#include <cfenv>
#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "packager/lang/lang.h"
#include "packager/nest/interpret/interpret.h"

using namespace mlc;

namespace {

lang::Library& library() {
  static lang::Library l = [] {
    auto r = lang::Library::parse(lang::Library::builtin_files());
    REQUIRE_MESSAGE(r.ok(), (r.ok() ? "" : r.status().text()));
    return std::move(r).value();
  }();
  return l;
}

// Evaluates the expansion of op at every x (and y for Pow).
template <class T>
std::vector<T> evaluate(ir::Op op, const std::vector<T>& x, const std::vector<T>& y = {}) {
  const DType t = sizeof(T) == 4 ? DType::F32 : DType::F64;
  ir::Context ctx;
  nest::Function f;
  const auto* n = ctx.integer(static_cast<int64_t>(x.size()));
  const auto* d = ctx.declare_dim("d", n);
  auto add = [&](const char* name, nest::Array::Kind kind) {
    nest::Array a;
    a.name = name;
    a.kind = kind;
    a.dtype = t;
    a.shape = {n};
    f.arrays.push_back(a);
    if (kind == nest::Array::Kind::Input) f.inputs.push_back(static_cast<uint32_t>(f.arrays.size() - 1));
  };
  add("x", nest::Array::Kind::Input);
  if (!y.empty()) add("y", nest::Array::Kind::Input);
  add("r", nest::Array::Kind::Temp);
  const auto* a = ctx.load(0, {t, 1}, {ctx.dim(d)});
  const auto* b = y.empty() ? nullptr : ctx.load(1, {t, 1}, {ctx.dim(d)});
  const auto* e = library().expand_math(ctx, op, a, b);
  REQUIRE(e != nullptr);
  ir::walk(e, [&](const ir::Expr* v) {
    CHECK_FALSE((v->op >= ir::Op::Exp && v->op <= ir::Op::Erf));
    CHECK(v->op != ir::Op::Pow);
  });
  nest::Statement s;
  s.source = "math";
  s.nest = std::make_unique<nest::Nest>();
  s.nest->dims = {d};
  nest::Write w;
  w.array = static_cast<uint32_t>(f.arrays.size() - 1);
  w.index = {ctx.dim(d)};
  w.value = e;
  s.nest->writes.push_back(w);
  f.body.push_back(std::move(s));
  f.outputs = {w.array};
  std::vector<nest::Tensor> in{nest::Tensor::of(t, {static_cast<int64_t>(x.size())}, x)};
  if (!y.empty()) in.push_back(nest::Tensor::of(t, {static_cast<int64_t>(y.size())}, y));
  auto r = nest::interpret(f, in, {.threads = 1});
  REQUIRE_MESSAGE(r.ok(), (r.ok() ? "" : r.status().text()));
  return r->at(0).template values<T>();
}

// Numbers spread evenly over [lo, hi], some at random, some tiny.
template <class T>
std::vector<T> samples(double lo, double hi, size_t count = 8000) {
  std::vector<T> r;
  std::mt19937 random(7);
  for (size_t k = 0; k < count; ++k) r.push_back(static_cast<T>(lo + (hi - lo) * static_cast<double>(k) / static_cast<double>(count - 1)));
  for (size_t k = 0; k < count / 4; ++k) {
    const double u = static_cast<double>(random()) / 4294967296.0;
    const double v = std::pow(10.0, -12 * u) * (random() % 2 ? 1 : -1);
    if (v >= lo && v <= hi) r.push_back(static_cast<T>(v));
  }
  return r;
}

template <class T>
double worst_ulp(ir::Op op, double lo, double hi, const std::function<long double(long double)>& exact) {
  const auto x = samples<T>(lo, hi);
  const auto got = evaluate<T>(op, x);
  double worst = 0, at = 0;
  for (size_t k = 0; k < x.size(); ++k) {
    const T want = static_cast<T>(exact(x[k]));
    const long double unit = std::max<long double>(std::abs(static_cast<long double>(std::nextafter(std::abs(want), std::numeric_limits<T>::infinity())) - std::abs(static_cast<long double>(want))),
                                                   std::numeric_limits<T>::denorm_min());
    const double error = static_cast<double>(std::abs(static_cast<long double>(got[k]) - exact(x[k])) / unit);
    if (!(error <= worst)) worst = error, at = x[k];
  }
  MESSAGE("worst error ", worst, " ulp at ", at);
  return worst;
}

template <class T>
T at(ir::Op op, T x) {
  return evaluate<T>(op, {x})[0];
}

}  // namespace

TEST_CASE("each f32 function stays within the error that its text states") {
  using O = ir::Op;
  struct Row { O op; double lo, hi, ulp; long double (*exact)(long double); };
  const Row rows[] = {
      {O::Exp, -106, -86, 1, [](long double v) { return std::exp(v); }},  // below 2^-126
      {O::Exp, -87, 88.72, 1.5, [](long double v) { return std::exp(v); }},
      {O::Log, 1e-6, 1e6, 1.5, [](long double v) { return std::log(v); }},
      {O::Log, 1e-3, 3, 1.5, [](long double v) { return std::log(v); }},
      {O::Sin, -1000, 1000, 2, [](long double v) { return std::sin(v); }},
      {O::Cos, -1000, 1000, 2, [](long double v) { return std::cos(v); }},
      {O::Tan, -100, 100, 3, [](long double v) { return std::tan(v); }},
      {O::Asin, -1, 1, 3, [](long double v) { return std::asin(v); }},
      {O::Acos, -1, 1, 3, [](long double v) { return std::acos(v); }},
      {O::Atan, -50, 50, 3, [](long double v) { return std::atan(v); }},
      {O::Sinh, -89, 89, 4, [](long double v) { return std::sinh(v); }},
      {O::Cosh, -89, 89, 4, [](long double v) { return std::cosh(v); }},
      {O::Tanh, -12, 12, 6, [](long double v) { return std::tanh(v); }},
      {O::Erf, -6, 6, 7, [](long double v) { return std::erf(v); }},
      {O::Asinh, -3000, 3000, 4, [](long double v) { return std::asinh(v); }},
      {O::Asinh, -2, 2, 4, [](long double v) { return std::asinh(v); }},
      {O::Acosh, 1, 3000, 4, [](long double v) { return std::acosh(v); }},
      {O::Atanh, -0.999, 0.999, 4, [](long double v) { return std::atanh(v); }},
  };
  for (const Row& r : rows) {
    CAPTURE(static_cast<int>(r.op));
    CHECK(worst_ulp<float>(r.op, r.lo, r.hi, r.exact) <= r.ulp);
  }
}

TEST_CASE("each f64 function stays within some units in the last place") {
  using O = ir::Op;
  struct Row { O op; double lo, hi, ulp; long double (*exact)(long double); };
  const Row rows[] = {
      {O::Exp, -700, 700, 2, [](long double v) { return std::exp(v); }},
      {O::Log, 1e-6, 1e6, 2, [](long double v) { return std::log(v); }},
      {O::Sin, -1000, 1000, 2, [](long double v) { return std::sin(v); }},
      {O::Cos, -1000, 1000, 2, [](long double v) { return std::cos(v); }},
      {O::Tan, -100, 100, 4, [](long double v) { return std::tan(v); }},
      {O::Asin, -0.9999, 0.9999, 6, [](long double v) { return std::asin(v); }},
      {O::Acos, -0.9999, 0.9999, 6, [](long double v) { return std::acos(v); }},
      {O::Atan, -50, 50, 3, [](long double v) { return std::atan(v); }},
      {O::Sinh, -700, 700, 5, [](long double v) { return std::sinh(v); }},
      {O::Cosh, -700, 700, 5, [](long double v) { return std::cosh(v); }},
      {O::Tanh, -20, 20, 4, [](long double v) { return std::tanh(v); }},
      {O::Erf, -6, 6, 8, [](long double v) { return std::erf(v); }},
      {O::Asinh, -3000, 3000, 6, [](long double v) { return std::asinh(v); }},
      {O::Acosh, 1.001, 3000, 6, [](long double v) { return std::acosh(v); }},
      {O::Atanh, -0.999, 0.999, 6, [](long double v) { return std::atanh(v); }},
  };
  for (const Row& r : rows) {
    CAPTURE(static_cast<int>(r.op));
    CHECK(worst_ulp<double>(r.op, r.lo, r.hi, r.exact) <= r.ulp);
  }
}

TEST_CASE("infinities, zeros and NaN go through as IEEE 754 has them") {
  using O = ir::Op;
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (O op : {O::Exp, O::Log, O::Sin, O::Cos, O::Tan, O::Asin, O::Acos, O::Atan, O::Sinh, O::Cosh, O::Tanh, O::Erf, O::Asinh, O::Acosh, O::Atanh}) {
    CAPTURE(static_cast<int>(op));
    CHECK(std::isnan(at<float>(op, nan)));
    CHECK(std::isnan(at<double>(op, static_cast<double>(nan))));
  }
  CHECK(at<float>(O::Exp, -inf) == 0.0f);
  CHECK(at<float>(O::Exp, inf) == inf);
  CHECK(at<float>(O::Exp, 1000.0f) == inf);
  CHECK(at<float>(O::Exp, -1000.0f) == 0.0f);
  CHECK(at<float>(O::Exp, -103.0f) > 0.0f);  // below the smallest normal number
  CHECK(at<float>(O::Exp, 0.0f) == 1.0f);
  CHECK(at<float>(O::Log, 0.0f) == -inf);
  CHECK(at<float>(O::Log, inf) == inf);
  CHECK(at<float>(O::Log, 1.0f) == 0.0f);
  CHECK(std::isnan(at<float>(O::Log, -1.0f)));
  CHECK(at<float>(O::Log, 1e-40f) == doctest::Approx(std::log(1e-40f)).epsilon(1e-6));
  CHECK(std::isnan(at<float>(O::Sin, inf)));
  CHECK(at<float>(O::Tanh, inf) == 1.0f);
  CHECK(at<float>(O::Tanh, -inf) == -1.0f);
  CHECK(at<float>(O::Erf, inf) == 1.0f);
  CHECK(at<float>(O::Atan, inf) == doctest::Approx(1.5707964f));
  CHECK(at<float>(O::Sinh, -inf) == -inf);
  CHECK(at<float>(O::Cosh, -inf) == inf);
  CHECK(at<float>(O::Asinh, -inf) == -inf);
  CHECK(at<float>(O::Acosh, inf) == inf);
  CHECK(std::isnan(at<float>(O::Acosh, 0.5f)));
  CHECK(at<float>(O::Atanh, 1.0f) == inf);
  CHECK(std::isnan(at<float>(O::Asin, 2.0f)));
  CHECK(at<double>(O::Exp, static_cast<double>(-inf)) == 0.0);
  CHECK(at<double>(O::Log, 0.0) == -static_cast<double>(inf));
  CHECK(at<double>(O::Tanh, static_cast<double>(inf)) == 1.0);
}

TEST_CASE("no argument gives a tanh or erf beyond one") {
  const auto x = samples<float>(-30, 30);
  for (ir::Op op : {ir::Op::Tanh, ir::Op::Erf})
    for (float v : evaluate<float>(op, x)) CHECK_FALSE(std::abs(v) > 1.0f);
}

TEST_CASE("pow agrees with the host's, special cases included") {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> x, y;
  for (float a : {0.0f, 0.5f, 1.0f, 2.0f, 3.7f, 1e10f, inf, -0.5f, -1.0f, -2.0f, -3.0f, -inf, nan})
    for (float b : {0.0f, 0.5f, 1.0f, 2.0f, 3.0f, -1.0f, -2.5f, 10.0f, inf, -inf, nan}) {
      x.push_back(a);
      y.push_back(b);
    }
  const auto got = evaluate<float>(ir::Op::Pow, x, y);
  for (size_t k = 0; k < x.size(); ++k) {
    CAPTURE(x[k]);
    CAPTURE(y[k]);
    const float want = std::pow(x[k], y[k]);
    if (std::isnan(want)) CHECK(std::isnan(got[k]));
    else if (std::isinf(want) || want == 0) CHECK(got[k] == want);
    else CHECK(got[k] == doctest::Approx(want).epsilon(1e-6));
  }
}

// A product that is rounded to zero takes a hundred cycles on many processors, and whole rows of a masked softmax are such.
template <class T>
void check_zero_without_underflow(const std::vector<T>& x) {
  std::feclearexcept(FE_ALL_EXCEPT);
  const std::vector<T> y = evaluate<T>(ir::Op::Exp, x);
  CHECK(std::fetestexcept(FE_UNDERFLOW) == 0);
  for (const T v : y) CHECK(v == 0);
}

TEST_CASE("exp of what a mask leaves is zero, and no product underflows") {
  check_zero_without_underflow<float>({-133, -1000, -10000, -65504, -1e9f, std::numeric_limits<float>::lowest(), -std::numeric_limits<float>::infinity()});
  check_zero_without_underflow<double>({-1419, -10000, -65504, -1e9, -3.4e38, std::numeric_limits<double>::lowest(), -std::numeric_limits<double>::infinity()});
}

TEST_CASE("a vector of lanes and f16 expand too") {
  ir::Context ctx;
  const auto* v = ctx.fresh_var({DType::F32, 8});
  const auto* e = library().expand_math(ctx, ir::Op::Exp, v);
  REQUIRE(e != nullptr);
  CHECK(e->type == ir::Type{DType::F32, 8});
  const auto* h = ctx.fresh_var({DType::F16, 4});
  e = library().expand_math(ctx, ir::Op::Tanh, h);
  REQUIRE(e != nullptr);
  CHECK(e->type == ir::Type{DType::F16, 4});
  CHECK(library().expand_math(ctx, ir::Op::Sqrt, v) == nullptr);
  CHECK(library().expand_math(ctx, ir::Op::Exp, ctx.fresh_var({DType::I32, 1})) == nullptr);
}
