// Small floats are rounded where a result is stored, not before. Arithmetic of the language sees to that (operations.cpp);
// what a text can still do is to write T(...) too early. All texts are searched for that here.
#include <cmath>
#include <functional>
#include <set>

#include "packager/ir/expr.h"
#include "packager/ir/numeric.h"
#include "packager/lang/parse/parser.h"
#include "tests/unit/lang/support.h"

using namespace mlc;
using namespace mlc::lang_test;
using lang::Node;
using lang::NodeKind;
using lang::OpDef;
using lang::Stmt;
using lang::StmtKind;

namespace {

// What a definition may round early, and why.
struct Allowed {
  std::string op, type, reason;
};
const std::vector<Allowed>& allowed() {
  static const std::vector<Allowed> list = {
      {"Attention", "T", "keys and values are what a cache would hold"},
      {"QAttention", "T", "keys and values are what a cache would hold"},
      {"FlexAttention", "S", "graphs of the model take scores and weights in this type"},
      {"MatMulNBits", "T", "weights are elements of T, and stored as such"},
      {"MatMulBnb4", "T", "weights are elements of T, and stored as such"},
      {"Cast", "U", "says itself where it rounds"},
      {"CastLike", "U", "says itself where it rounds"},
      {"ManifoldConstrainedHyperConnectionPostMix", "T", "a result of its own"},
  };
  return list;
}

// One definition: conversions to what may be a small float that are neither the value of a result nor of a literal, in
// a definition that adds up or multiplies over dims.
class Search {
 public:
  explicit Search(const OpDef& op) : op_(op) {
    for (const auto& v : op.type_variables)
      for (const std::string& c : v.classes) may_be_small(v.name, c);
    for (const auto& a : op.attrs)
      if (a.kind == lang::AttrDecl::Kind::Type) small_.insert(a.type_variable);
    for (const char* name : {"f16", "bf16", "f8e4m3", "f8e5m2"}) small_.insert(name);
  }

  std::vector<std::string> run() {
    for (const Stmt& s : op_.body) collect(s);
    if (!folds_) return {};
    for (const Stmt& s : op_.body) statement(s);
    return {found_.begin(), found_.end()};
  }

 private:
  void may_be_small(const std::string& variable, const std::string& cls) {
    if (cls == "float" || cls == "num" || cls == "any" || cls == "f16" || cls == "bf16") small_.insert(variable);
  }

  void collect(const Stmt& s) {
    if (s.kind == StmtKind::Let)
      for (const std::string& name : s.names) lets_[name] = s.value;
    const std::function<void(const Node*)> look = [&](const Node* n) {
      if (!n) return;
      if (n->kind == NodeKind::Fold && n->text != "max" && n->text != "min" && n->text != "any" && n->text != "all" && n->text != "last") folds_ = true;
      for (const Node* kid : n->kids) look(kid);
    };
    look(s.value);
    for (const Stmt& inner : s.body) collect(inner);
    for (const Stmt& inner : s.orelse) collect(inner);
  }

  void statement(const Stmt& s) {
    switch (s.kind) {
      case StmtKind::Map: case StmtKind::Each: {
        // Statements below go on with a temporary; a result is the end.
        bool is_result = true;
        for (const auto& t : s.targets) is_result = is_result && op_.result(t.array);
        visit(s.value, is_result);
        break;
      }
      case StmtKind::Push: case StmtKind::Store: visit(s.value, op_.result(s.targets[0].array)); break;
      case StmtKind::Var: case StmtKind::Assign: visit(s.value, false); break;
      default: break;
    }
    for (const Stmt& inner : s.body) statement(inner);
    for (const Stmt& inner : s.orelse) statement(inner);
  }

  static bool is_literal(const Node* n) {
    if (n->kind == NodeKind::Neg) return is_literal(n->kids[0]);
    const bool end = n->kind == NodeKind::Name && (n->text == "lowest" || n->text == "highest" || n->text == "bottom" || n->text == "top");
    return end || n->kind == NodeKind::Number;
  }

  void visit(const Node* n, bool last) {
    if (!n) return;
    switch (n->kind) {
      case NodeKind::Cond:  // of whole numbers or of others
        for (size_t k = 1; k < n->kids.size(); ++k) visit(n->kids[k], last);
        return;
      case NodeKind::Match:
        for (size_t k = 1; k < n->kids.size(); ++k) visit(n->kids[k], last);
        return;
      case NodeKind::Let:
        for (size_t k = 0; k + 1 < n->kids.size(); ++k) visit(n->kids[k], false);
        return visit(n->kids.back(), last);
      case NodeKind::Tuple:
        for (const Node* kid : n->kids) visit(kid, last);
        return;
      case NodeKind::Name:
        if (auto it = lets_.find(n->text); it != lets_.end() && inside_.insert(n->text).second) {
          visit(it->second, last);
          inside_.erase(n->text);
        }
        return;
      case NodeKind::Index:  // places are no elements
      case NodeKind::Compare: return;
      case NodeKind::Call:
        if (small_.count(n->text) && n->kids.size() == 1 && !last && !is_literal(n->kids[0]) && !is_allowed(n->text))
          found_.insert(op_.file + ":" + std::to_string(n->pos.line) + ": " + op_.name + ": " + n->text + "(...)");
        break;
      default: break;
    }
    for (const Node* kid : n->kids) visit(kid, false);
  }

  bool is_allowed(const std::string& type) const {
    for (const Allowed& a : allowed())
      if (a.op == op_.name && a.type == type) return true;
    return false;
  }

  const OpDef& op_;
  std::set<std::string> small_, inside_, found_;
  std::map<std::string, const Node*> lets_;
  bool folds_ = false;
};

std::vector<std::string> early_roundings(const std::vector<lang::SourceFile>& files, const std::string& only = "") {
  lang::Module module;
  for (const auto& f : files) lang::parse_file(module, f.name, f.text);
  lang::put_clauses(module);
  std::vector<std::string> all;
  for (const OpDef& op : module.ops)
    if (only.empty() || op.file == only)
      for (std::string& found : Search(op).run()) all.push_back(std::move(found));
  return all;
}

// Conversions to a small float whose value something else than a store takes.
size_t inner_roundings(const nest::Function& f) {
  size_t count = 0;
  for (const nest::Statement& s : f.body) {
    if (!s.nest) continue;
    for (const nest::Write& w : s.nest->writes)
      ir::walk(w.value, [&](const ir::Expr* e) {
        const DType t = e->type.dtype;
        count += e != w.value && e->op != ir::Op::Load && !e->is_const() && is_float(t) && bits_of(t) < 32;
      });
  }
  return count;
}

Input f16(std::vector<int64_t> shape, const std::vector<float>& values) {
  Input in{nest::Tensor::of(DType::F16, shape, std::vector<uint16_t>(values.size())), false, false, {}};
  for (size_t k = 0; k < values.size(); ++k) ir::store_element(DType::F16, in.tensor.bytes.data(), k, {0, values[k]});
  return in;
}
double element(const nest::Tensor& t, size_t k) { return ir::load_element(t.dtype, t.bytes.data(), k).f; }

}  // namespace

TEST_CASE("no text rounds a small float before arithmetic that follows or goes on") {
  for (const std::string& found : early_roundings(lang::Library::builtin_files())) FAIL_CHECK(found);
}

TEST_CASE("texts that divide by a rounded count, or round a sum before it is used, are found") {
  const auto found = [](const std::string& text) { return early_roundings({{"test.mlop", "domain test\n" + text}}).size(); };
  CHECK(found("op A@1<T: float>(x: T[n]) -> y: T[]\n  y[] = sum(x[n] for n) / T(|n|)\n") == 1);
  CHECK(found("op A@1<T: float>(x: T[n]) -> y: T[]\n  let count = T(|n|)\n  y[] = sum(x[n] for n) / count\n") == 1);
  CHECK(found("op A@1<T: float>(x: T[n]) -> y: T[n]\n  m[] = T(sum(f32(x[n]) for n) / |n|)\n  y[n] = x[n] - m[]\n") == 1);
  CHECK(found("op A@1<T: float>(x: T[n], s: T[n]) -> y: T[n]\n  y[n] = T(f32(x[n]) * sum(f32(x[n]) for n)) * s[n]\n") == 1);
  CHECK(found("op A@1<T: float>(x: T[n]) -> y: T[]\n  proc {\n    var all = T(0)\n    for n { all = T(f32(all) + f32(x[n])) }\n    y[] = all }\n") == 0);  // no fold: not its subject
  CHECK(found("op A@1<T: float>(x: T[n]) -> y: T[]\n  y[] = sum(x[n] for n) / wide<T>(|n|)\n") == 0);
  CHECK(found("op A@1<T: float>(x: T[n]) -> y: T[]\n  y[] = T(sum(f32(x[n]) for n) / |n|)\n") == 0);
}

TEST_CASE("arithmetic on small floats is arithmetic on f32 until the result is stored") {
  const std::string text = R"(
domain ai.onnx
op Mean@1<T: float>(x: T[n]) -> y: T[]
  y[] = sum(x[n] for n) / |n|
op Norm@1<T: float>(x: T[n]) -> y: T[n]
  m[] = sum(x[n] for n) / |n|
  v[] = sum(sq(x[n] - m[]) for n) / |n|
  y[n] = (x[n] - m[]) / sqrt(v[] + 1e-5)
op Product@1<T: float>(x: T[n]) -> y: T[]
  y[] = prod(x[n] for n)
op Running@1<T: num>(x: T[n]) -> y: T[n]
  y[n] = scan sum(x[n] for n)
op Steps@1<T: float>(x: T[n]) -> y: T[]
  proc {
    var all = wide<T>(0)
    for n { all = all + x[n] }
    y[] = all / wide<T>(|n|) }
op Kept@1<T: float>(x: T[n]) -> y: T[n]
  proc {
    alloc square: wide<T>[n]; alloc rounded: T[n]
    for n { square[n] = x[n]*x[n]; rounded[n] = x[n]*x[n] }
    for n { y[n] = x[n] < 0 ? rounded[n] : square[n] / x[n] } }
)";
  const std::vector<float> many(6000, 40.0f);
  for (const char* name : {"Mean", "Norm", "Product", "Running"}) {
    Expanded x;
    expand_text(x, text, name, {f16({4}, {1, 2, 3, 4})});
    REQUIRE_MESSAGE(x.status.ok(), x.status.text());
    CHECK_MESSAGE(inner_roundings(x.function) == 0, name);
  }
  Expanded mean, norm, product, running, steps;
  expand_text(mean, text, "Mean", {f16({6000}, many)});
  CHECK(element(run(mean)[0], 0) == 40);
  expand_text(steps, text, "Steps", {f16({6000}, many)});
  CHECK(element(run(steps)[0], 0) == 40);
  Expanded kept;
  expand_text(kept, text, "Kept", {f16({2}, {300, -300})});
  CHECK(element(run(kept)[0], 0) == 300);
  CHECK(std::isinf(element(run(kept)[0], 1)));
  expand_text(norm, text, "Norm", {f16({4}, {300, -300, 300, -300})});
  CHECK(element(run(norm)[0], 1) == -1);
  expand_text(product, text, "Product", {f16({4}, {1000, 1000, 0.001f, 0.5f})});
  CHECK(element(run(product)[0], 0) == doctest::Approx(500).epsilon(1e-3));
  expand_text(running, text, "Running", {f16({3}, {2048, 1, 1})});
  const auto r = run(running);
  CHECK(element(r[0], 1) == 2048);
  CHECK(element(r[0], 2) == 2050);
}

TEST_CASE("a sum of f64 is not touched, nor is what only moves or compares small floats") {
  Expanded moved;
  expand_text(moved, "domain ai.onnx\nop A@1<T: float>(x: T[n]) -> y: T[n]\n  y[n] = x[n] > 0 ? max(x[n], 1) : -x[n]\n", "A", {f16({2}, {2, -3})});
  REQUIRE_MESSAGE(moved.status.ok(), moved.status.text());
  bool converts = false;
  for (const auto& s : moved.function.body)
    for (const auto& w : s.nest->writes) ir::walk(w.value, [&](const ir::Expr* e) { converts |= e->op == ir::Op::Cast; });
  CHECK_FALSE(converts);
  Expanded mean;
  expand_text(mean, "domain ai.onnx\nop A@1<T: float>(x: T[n]) -> y: T[]\n  y[] = sum(x[n] for n) / |n|\n", "A", {data<double>(DType::F64, {3}, {0.1, 0.2, 0.4})});
  CHECK(element(run(mean)[0], 0) == (0.1 + 0.2 + 0.4) / 3);
}
