#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "packager/nest/verify/verify.h"
#include "packager/passes/segments/partition.h"
#include "tests/support/nests/nest_builder.h"

using namespace mlc;
using namespace mlc::ir;
using namespace mlc::nest;
using mlc::test::NestBuilder;

namespace {

struct Net : NestBuilder {
  const Sym* sym(const std::string& name, int64_t hi = INT64_MAX) { return ctx.declare_sym(name, 0, hi); }
  Control& control(StepOp kind, std::vector<uint32_t> inputs, std::vector<uint32_t> outputs) {
    Statement s;
    s.source = "control";
    s.control = std::make_unique<Control>();
    s.control->kind = kind;
    s.control->inputs = std::move(inputs);
    s.control->outputs = std::move(outputs);
    fn.body.push_back(std::move(s));
    return *fn.body.back().control;
  }
  // y[d] = x[d] + by
  void shifted(uint32_t y, uint32_t x, double by) {
    auto i = dim("i", fn.arrays[y].shape[0]);
    nest(fn.arrays[y].name, {i}, {{y, {d(i)}, ctx.binary(Op::Add, load(x, {d(i)}, Access::Checked), r(by)), false, Join::Last}});
  }
};

// The meaning of a program: what the runtime does with plans, over the interpreter.
struct Machine {
  const passes::Parts& parts;

  std::vector<Tensor> call(const std::string& name, const std::vector<Tensor>& inputs) {
    for (const auto& segment : parts.segments)
      if (segment->name == name) {
        auto r = interpret(*segment, inputs, {.threads = 1});
        REQUIRE_MESSAGE(r.ok(), (r.ok() ? "" : r.status().text()));
        return *r;
      }
    for (const auto& program : parts.programs)
      if (program->interface.name == name) return run(*program, inputs);
    FAIL("no function " << name);
    return {};
  }

  std::vector<Tensor> run(const Program& program, const std::vector<Tensor>& inputs) {
    std::map<uint32_t, Tensor> values;
    for (uint32_t k = 0; k < inputs.size(); ++k) values[k] = inputs[k];
    for (const Step& step : program.steps) {
      std::vector<Tensor> given;
      for (uint32_t v : step.inputs) {
        REQUIRE(values.count(v));  // written before it is read
        given.push_back(values[v]);
      }
      std::string callee = step.functions.at(0);
      CHECK(callee.rfind(program.interface.name + "/", 0) == 0);
      if (step.op != StepOp::Call) {
        REQUIRE(step.op == StepOp::Branch);
        if (given[0].bytes[0] == std::byte{0}) callee = step.functions.at(1);
        given.erase(given.begin());
      }
      const std::vector<Tensor> results = call(callee, given);
      REQUIRE(results.size() == step.outputs.size());
      for (size_t k = 0; k < results.size(); ++k) values[step.outputs[k]] = results[k];
    }
    std::vector<Tensor> outputs;
    for (uint32_t v : program.outputs) outputs.push_back(values.at(v));
    return outputs;
  }
};

passes::Parts parts_of(Net& b) {
  b.fn.name = "main";
  passes::Parts parts;
  const Status s = passes::partition(b.ctx, std::move(b.fn), parts);
  REQUIRE_MESSAGE(s.ok(), s.text());
  for (const auto& segment : parts.segments) {
    const auto errors = verify(b.ctx, *segment);
    CHECK_MESSAGE(errors.empty(), (errors.empty() ? "" : segment->name + ": " + errors[0]));
  }
  return parts;
}

Tensor floats(const std::vector<float>& v) { return Tensor::of(DType::F32, {static_cast<int64_t>(v.size())}, v); }
Tensor integers(const std::vector<int64_t>& v) { return Tensor::of(DType::I64, {static_cast<int64_t>(v.size())}, v); }

size_t calls(const Program& p) {
  return static_cast<size_t>(std::count_if(p.steps.begin(), p.steps.end(), [](const Step& s) { return s.op == StepOp::Call; }));
}

}  // namespace

TEST_CASE("a function that the run does not change is its own only segment") {
  Net b;
  auto x = b.input("x", DType::F32, {b.ctx.sym(b.sym("n"))});
  b.shifted(b.output("y", DType::F32, b.fn.arrays[x].shape), x, 1);
  const auto parts = parts_of(b);
  CHECK(parts.programs.empty());
  REQUIRE(parts.segments.size() == 1);
  CHECK(parts.segments[0]->name == "main");
}

TEST_CASE("an extent that is an element of an input is known when the segment is called") {
  Net b;
  auto x = b.input("x", DType::F32, {b.ctx.sym(b.sym("n"))});
  auto size = b.input("size", DType::I64, {b.k(1)});
  const Sym* k = b.sym("k", 100);
  b.control(StepOp::Read, {size}, {}).symbols = {k};
  b.shifted(b.output("y", DType::F32, {b.ctx.sym(k)}), x, 1);
  auto parts = parts_of(b);
  REQUIRE(parts.programs.size() == 1);
  CHECK(calls(*parts.programs[0]) == 1);
  CHECK(parts.segments.at(0)->elements.size() == 1);
  Machine machine{parts};
  CHECK(machine.call("main", {floats({1, 2, 3}), integers({2})}).at(0).values<float>() == std::vector<float>{2, 3});
}

TEST_CASE("what needs no control comes first, and controls that are ready together share a level") {
  Net b;
  auto x = b.input("x", DType::F32, {b.ctx.sym(b.sym("n"))});
  auto first = b.array("first", DType::I64, {b.k(1)}), second = b.array("second", DType::I64, {b.k(1)});
  const Sym *p = b.sym("p", 100), *q = b.sym("q", 100);
  auto one = b.dim("one", 1);
  b.nest("first", {one}, {{first, {b.d(one)}, b.k(2), false, Join::Last}});
  b.control(StepOp::Read, {first}, {}).symbols = {p};
  auto u = b.array("u", DType::F32, {b.ctx.sym(p)});
  b.shifted(u, x, 1);
  b.nest("second", {one}, {{second, {b.d(one)}, b.k(3), false, Join::Last}});
  b.control(StepOp::Read, {second}, {}).symbols = {q};
  auto v = b.output("v", DType::F32, {b.ctx.sym(q)});
  b.shifted(v, x, 2);
  auto w = b.output("w", DType::F32, {b.ctx.sym(p)});
  b.shifted(w, u, 10);
  auto parts = parts_of(b);
  CHECK(parts.segments.size() == 2);
  Machine machine{parts};
  const auto r = machine.call("main", {floats({1, 2, 3, 4})});
  CHECK(r.at(0).values<float>() == std::vector<float>{3, 4, 5});
  CHECK(r.at(1).values<float>() == std::vector<float>{12, 13});
}

TEST_CASE("bodies get the symbols around them, and constants move into them") {
  Net b;
  const Sym* n = b.sym("n");
  auto x = b.input("x", DType::F32, {b.ctx.sym(n)});
  auto flag = b.input("flag", DType::Bool, {});
  auto table = b.array("table", DType::F32, {b.k(2)}, Array::Kind::Const);
  auto bytes = std::make_shared<std::vector<std::byte>>(8);
  const float numbers[] = {5, 7};
  std::memcpy(bytes->data(), numbers, 8);
  b.fn.arrays[table].data = std::make_shared<ConstData>(ConstData{Bytes(*bytes), bytes});
  const Sym* length = b.sym("length");
  auto y = b.output("y", DType::F32, {b.ctx.sym(length)});
  std::vector<std::unique_ptr<Function>> bodies;
  for (int side = 0; side < 2; ++side) {  // table repeated over n elements; x.size() twos
    NestBuilder body;
    auto arg = static_cast<uint32_t>(0);
    body.fn.arrays.push_back({"t", Array::Kind::Input, DType::F32, {b.k(2)}, nullptr, {}});
    body.fn.inputs = {arg};
    const Expr* extent = side == 0 ? b.ctx.sym(n) : b.ctx.add(b.ctx.sym(n), b.k(1));
    body.fn.arrays.push_back({"r", Array::Kind::Temp, DType::F32, {extent}, nullptr, {}});
    const Dim* i = b.dim("i", extent);
    Statement s;
    s.source = "repeat";
    s.nest = std::make_unique<Nest>();
    s.nest->dims = {i};
    const Expr* value = side == 0 ? b.ctx.load(0, {DType::F32, 1}, {b.ctx.floormod(b.d(i), b.k(2))}, Access::Checked) : b.r(2);
    s.nest->writes = {{1, {b.d(i)}, value, false, Join::Last}};
    body.fn.body.push_back(std::move(s));
    body.fn.outputs = {1};
    bodies.push_back(std::make_unique<Function>(std::move(body.fn)));
  }
  b.control(StepOp::Branch, {flag, table}, {y}).bodies = std::move(bodies);
  (void)x;
  auto parts = parts_of(b);
  REQUIRE(parts.programs.size() == 1);
  REQUIRE(parts.programs[0]->steps.size() == 1);
  CHECK(parts.programs[0]->steps[0].inputs == std::vector<uint32_t>{1, 0});  // the flag, and x for the sake of n
  Machine machine{parts};
  const Tensor yes = Tensor::of<uint8_t>(DType::Bool, {}, {1}), no = Tensor::of<uint8_t>(DType::Bool, {}, {0});
  CHECK(machine.call("main", {floats({0, 0, 0}), yes}).at(0).values<float>() == std::vector<float>{5, 7, 5});
  CHECK(machine.call("main", {floats({0, 0}), no}).at(0).values<float>() == std::vector<float>{2, 2, 2});
}

TEST_CASE("strings of constants, and what follows from them alone, have functions of their own that come first") {
  Net b;
  const Sym* n = b.sym("n");
  auto x = b.input("x", DType::Str, {b.ctx.sym(n)});
  auto constant = [&](const char* name, DType t, size_t count, size_t size) {
    const uint32_t a = b.array(name, t, {b.k(static_cast<int64_t>(count))}, Array::Kind::Const);
    auto bytes = std::make_shared<std::vector<std::byte>>(count * size);
    b.fn.arrays[a].data = std::make_shared<ConstData>(ConstData{Bytes(*bytes), bytes});
    return a;
  };
  auto text = constant("text", DType::U8, 6, 1), ends = constant("ends", DType::I64, 2, 8), weight = constant("weight", DType::F32, 2, 4);
  auto inside = b.array("inside", DType::U64, {b.ctx.sym(n)}), words = b.array("words", DType::U64, {b.k(2)});
  b.control(StepOp::StringsIn, {x}, {inside});
  b.control(StepOp::StringsMake, {text, ends}, {words});
  auto sum = b.array("sum", DType::U64, {b.k(2)}), y = b.output("y", DType::Bool, {b.ctx.sym(n)}), z = b.output("z", DType::F32, {b.k(2)});
  auto i = b.dim("i", b.k(2)), j = b.dim("j", b.ctx.sym(n));
  b.nest("sum", {i}, {{sum, {b.d(i)}, b.ctx.binary(Op::Add, b.load(words, {b.d(i)}), b.load(words, {b.d(i)})), false, Join::Last}});
  b.nest("y", {j}, {{y, {b.d(j)}, b.ctx.binary(Op::Eq, b.load(inside, {b.d(j)}, Access::Checked), b.load(sum, {b.k(0)})), false, Join::Last}});
  b.shifted(z, weight, 1);
  auto parts = parts_of(b);
  REQUIRE(parts.programs.size() == 1);
  const Program& p = *parts.programs[0];
  REQUIRE(p.steps.size() == 6);
  CHECK((p.steps[0].op == StepOp::Call && p.steps[0].inputs.empty() && p.steps[0].outputs.size() == 2));  // text and ends
  CHECK(p.steps[1].op == StepOp::StringsMake);
  CHECK((p.steps[2].op == StepOp::Call && p.steps[2].inputs == p.steps[1].outputs));                      // the sum
  CHECK((p.steps[3].op == StepOp::Call && p.steps[3].inputs.empty() && p.steps[3].outputs.size() == 1));  // z stays with what passes know
  CHECK(p.steps[4].op == StepOp::StringsIn);
  CHECK((p.steps[5].op == StepOp::Call && p.steps[5].inputs.size() == 2));
}

TEST_CASE("what no output follows from is left out, with its checks") {
  Net b;
  auto x = b.input("x", DType::F32, {b.ctx.sym(b.sym("n"))});
  auto size = b.input("size", DType::I64, {b.k(1)});
  const Sym* k = b.sym("k", 100);
  b.control(StepOp::Read, {size}, {}).symbols = {k};
  b.shifted(b.array("unused", DType::F32, {b.ctx.sym(k)}), x, 1);
  b.fn.checks.push_back({b.ctx.binary(Op::Le, b.ctx.sym(k), b.k(3)), "too many"});
  const Sym* m = b.sym("m", 100);
  b.control(StepOp::Read, {size}, {}).symbols = {m};
  b.shifted(b.output("y", DType::F32, {b.ctx.sym(m)}), x, 1);
  auto parts = parts_of(b);
  REQUIRE(parts.segments.size() == 1);
  CHECK(parts.segments[0]->body.size() == 1);
  CHECK(parts.segments[0]->checks.empty());
  CHECK(parts.segments[0]->elements.size() == 1);
}
