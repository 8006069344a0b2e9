// Integer tensors as symbols: values of small tensors follow from the texts of the operators that make them.
#include "tests/unit/lang/support.h"

using namespace mlc;
using namespace mlc::lang_test;

namespace {

// A graph of built-in operators, written down call by call.
struct Graph {
  Expanded x;
  lang::Library library = [] {
    auto r = lang::Library::parse(lang::Library::builtin_files());
    REQUIRE(r.ok());
    return std::move(r).value();
  }();
  int64_t opset = 17;

  lang::Value input(std::vector<std::string> axes, DType t = DType::F32) {
    nest::Array a;
    a.name = "x" + std::to_string(x.function.arrays.size());
    a.kind = nest::Array::Kind::Input;
    a.dtype = t;
    for (const auto& s : axes)
      a.shape.push_back(std::isdigit(s[0]) ? x.ctx.integer(std::stoll(s)) : x.ctx.sym(x.ctx.declare_sym(s, 1)));
    x.function.arrays.push_back(a);
    x.function.inputs.push_back(static_cast<uint32_t>(x.function.arrays.size() - 1));
    return {x.function.inputs.back(), {}};
  }
  lang::Value constant(std::vector<int64_t> shape, const std::vector<int64_t>& values) {
    nest::Array a;
    a.name = "c" + std::to_string(x.function.arrays.size());
    a.kind = nest::Array::Kind::Const;
    a.dtype = DType::I64;
    for (int64_t n : shape) a.shape.push_back(x.ctx.integer(n));
    auto owner = std::make_shared<std::vector<int64_t>>(values);
    auto data = std::make_shared<nest::ConstData>();
    data->bytes = std::as_bytes(std::span<const int64_t>(*owner));
    data->owner = owner;
    a.data = data;
    x.function.arrays.push_back(a);
    return {static_cast<uint32_t>(x.function.arrays.size() - 1), {}};
  }
  lang::Value call(const std::string& name, std::vector<lang::Value> inputs, std::map<std::string, lang::Attribute> attributes = {}) {
    lang::Call c;
    c.name = name;
    c.opset = opset;
    c.source = name + std::to_string(x.function.body.size());
    c.attributes = std::move(attributes);
    for (auto& v : inputs) c.inputs.push_back(v);
    auto r = library.expand(x.ctx, x.function, c);
    REQUIRE_MESSAGE(r.ok(), (r.ok() ? "" : r.status().text()));
    return r->at(0);
  }
  std::string text(const lang::Value& v) {
    std::string s;
    for (const auto* e : v.elements) s += (s.empty() ? "" : " ") + ir::to_string(e);
    return s;
  }
  std::string shape(const lang::Value& v) {
    std::string s;
    for (const auto* e : x.function.arrays[v.array].shape) s += (s.empty() ? "" : " ") + ir::to_string(e);
    return s;
  }
};

}  // namespace

TEST_CASE("Shape, Gather, Unsqueeze, Concat, Reshape fold on symbols") {
  Graph g;
  auto x = g.input({"batch", "seq", "384"});
  auto s = g.call("Shape", {x});
  CHECK(g.text(s) == "$batch $seq 384");
  auto b = g.call("Gather", {s, g.constant({}, {0})});
  auto q = g.call("Gather", {s, g.constant({}, {1})});
  CHECK(g.text(b) == "$batch");
  CHECK(g.shape(b) == "");
  auto b1 = g.call("Unsqueeze", {b, g.constant({1}, {0})});
  auto q1 = g.call("Unsqueeze", {q, g.constant({1}, {0})});
  auto target = g.call("Concat", {b1, q1, g.constant({2}, {12, 32})}, {{"axis", int64_t{0}}});
  CHECK(g.text(target) == "$batch $seq 12 32");
  auto y = g.call("Reshape", {x, target});
  CHECK(g.shape(y) == "$batch $seq 12 32");
  CHECK(g.x.function.checks.empty());  // the products cancel: nothing is left to check
  auto z = g.call("Reshape", {y, g.constant({3}, {0, 0, -1})});
  CHECK(g.shape(z) == "$batch $seq 384");
  CHECK(g.x.function.checks.empty());
}

TEST_CASE("a reshape that splits or merges dims reads by renaming") {
  Graph g;
  auto x = g.input({"n", "6", "m"});
  auto y = g.call("Reshape", {x, g.constant({4}, {0, 2, 3, -1})});
  CHECK(g.shape(y) == "$n 2 3 $m");
  const auto& nest = *g.x.function.body.back().nest;
  REQUIRE(nest.writes.size() == 1);
  const auto* load = nest.writes[0].value;
  REQUIRE(load->op == ir::Op::Load);
  CHECK(load->access == ir::Access::Proved);
  CHECK(load->args[0]->op == ir::Op::Dim);
  CHECK(load->args[2]->op == ir::Op::Dim);
  ir::walk(load, [](const ir::Expr* e) { CHECK(e->op != ir::Op::FloorDiv); });
}

TEST_CASE("arithmetic, comparisons and choices on extents stay symbolic") {
  Graph g;
  auto x = g.input({"h", "w"});
  auto s = g.call("Shape", {x});
  CHECK(g.text(g.call("Mul", {s, g.constant({}, {2})})) == "$h * 2 $w * 2");
  CHECK(g.text(g.call("Div", {g.call("Mul", {s, g.constant({}, {4})}), g.constant({1}, {2})})) == "$h * 2 $w * 2");
  CHECK(g.text(g.call("ReduceProd", {s}, {{"keepdims", int64_t{0}}})) == "$h * $w");
  auto cond = g.call("Equal", {s, g.constant({2}, {-1, -1})});
  CHECK(g.text(g.call("Where", {cond, g.constant({2}, {7, 8}), s})) == "$h $w");  // no extent is negative
  CHECK(g.text(g.call("Cast", {s}, {{"to", int64_t{6}}})) == "$h $w");
  CHECK(g.text(g.call("Slice", {s, g.constant({1}, {1}), g.constant({1}, {2})})) == "$w");
  CHECK(g.text(g.call("Squeeze", {g.call("Slice", {s, g.constant({1}, {0}), g.constant({1}, {1})}), g.constant({1}, {0})})) == "$h");
  auto filled = g.call("ConstantOfShape", {g.constant({1}, {3})}, {});
  CHECK(g.text(filled) == "0.0 0.0 0.0");
}

TEST_CASE("Range over a symbol, Expand by a computed shape") {
  Graph g;
  auto x = g.input({"b", "n"});
  auto s = g.call("Shape", {x});
  auto n = g.call("Gather", {s, g.constant({}, {1})});
  auto r = g.call("Range", {g.constant({}, {0}), n, g.constant({}, {1})});
  CHECK(g.shape(r) == "$n");
  CHECK(g.shape(g.call("Expand", {r, s})) == "$b $n");
}

TEST_CASE("a value read at run time becomes a symbol that a statement yields") {
  Graph g;
  auto x = g.input({"2", "6"});
  auto shape = g.input({"2"}, DType::I64);
  auto y = g.call("Reshape", {x, shape});
  g.x.function.outputs = {y.array};
  std::vector<float> values{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  auto at = [&](std::vector<int64_t> target) {
    return nest::interpret(g.x.function, {f32({2, 6}, values).tensor, i64({2}, target).tensor}, {.threads = 1});
  };
  auto r = at({3, 4});
  REQUIRE_MESSAGE(r.ok(), (r.ok() ? "" : r.status().text()));
  CHECK(r->at(0).shape == std::vector<int64_t>{3, 4});
  CHECK(r->at(0).values<float>() == values);
  r = at({-1, 3});
  REQUIRE_MESSAGE(r.ok(), (r.ok() ? "" : r.status().text()));
  CHECK(r->at(0).shape == std::vector<int64_t>{4, 3});
  CHECK_FALSE(at({5, 3}).ok());
}

TEST_CASE("what is not known while building is said to be wanted") {
  Expanded x;
  expand_text(x, "op A@1(x: f32[d], k: const i64[]) -> y: f32[d]\n  check k > 0\n  y[d] = x[d]\n", "A",
              {f32({2}, {1, 2}), i64({}, {1}, false)});
  REQUIRE_FALSE(x.status.ok());
  CHECK(x.status.message.find("input k must be known while building") != std::string::npos);
  CHECK(x.function.arrays.size() == 2);
  CHECK(x.function.body.empty());
}
