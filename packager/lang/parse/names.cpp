// Checks of a definition by itself, before any call: names, targets, element types, cases of matches.
#include <algorithm>
#include <set>

#include "packager/lang/parse/parser.h"

namespace mlc::lang {
namespace {

const std::set<std::string>& builtin_functions() {
  static const std::set<std::string> names = {
      "abs",    "floor",     "ceil",   "trunc",   "rint",   "sqrt",     "isnan",  "isinf",     "exp",         "log",
      "sin",    "cos",       "tan",    "asin",    "acos",   "atan",     "sinh",   "cosh",      "tanh",        "asinh",
      "acosh",  "atanh",     "erf",    "bnot",    "min",    "max",      "tdiv",   "tmod",      "band",        "bor",
      "bxor",   "shl",       "shr",    "int",     "real",   "sq",       "rsqrt",  "cdiv",      "pow",         "clamp",
      "fma",    "present",   "count",  "rank",    "len",    "before",   "prod",   "total",     "assume",      "known",
      "all",    "any",       "rev",    "pick",    "drop",   "put",      "slice",  "has",       "find",        "hash_table", "order", "prefixes",
      "unique", "broadcast", "flat",   "unflat",  "same",   "is_float", "is_int", "is_signed", "is_unsigned", "is_bool",
      "bits",   "site",      "lowest", "highest", "bottom", "top"};
  return names;
}
const std::set<std::string>& builtin_combiners() {
  static const std::set<std::string> names = {"sum", "prod", "min", "max", "any", "all", "last"};
  return names;
}
const std::set<std::string>& constants() {
  static const std::set<std::string> names = {"lowest", "highest", "bottom", "top", "true", "false", "pi", "nan", "inf"};
  return names;
}
bool is_class(const std::string& n) {
  return n == "any" || n == "num" || n == "float" || n == "int" || n == "signed" || n == "unsigned" || dtype_named(n).has_value();
}

class Checker {
 public:
  Checker(const Module& module, const std::string& domain) : module_(module), domain_(domain) {}

  std::set<std::string> names;       // of values
  std::set<std::string> dims;
  std::set<std::string> types;
  std::set<std::string> arrays;
  std::set<std::string> cases;       // of enumerations
  const OpDef* op = nullptr;
  bool declared_dims_only = true;

  void expr(const Node* n) {
    if (!n) return;
    switch (n->kind) {
      case NodeKind::Name:
        if (!known(n->text)) fail_at(n->pos, "unknown name '" + n->text + "'" + nearest(n->text));
        return;
      case NodeKind::Extent:
        if (!dims.count(n->text) && !arrays.count(n->text) && !names.count(n->text)) fail_at(n->pos, "there is no dim '" + n->text + "'");
        return;
      case NodeKind::Let: {
        auto saved = names;
        for (size_t k = 0; k < n->names.size(); ++k) {
          expr(n->kids[k]);
          names.insert(n->names[k]);
        }
        expr(n->kids.back());
        names = std::move(saved);
        return;
      }
      case NodeKind::Comprehension: {
        for (size_t k = 1; k < n->kids.size(); ++k)
          if (!(n->has_filter && k + 1 == n->kids.size())) expr(n->kids[k]);
        auto saved = names;
        names.insert(n->text);
        expr(n->kids[0]);
        if (n->has_filter) expr(n->kids.back());
        names = std::move(saved);
        return;
      }
      case NodeKind::Match: {
        expr(n->kids[0]);
        check_match(n);
        for (size_t k = 1; k < n->kids.size(); ++k) expr(n->kids[k]);
        return;
      }
      case NodeKind::Call: {
        const bool type = types.count(n->text) || dtype_named(n->text);
        const FnDef* fn = module_.fn(domain_, n->text);
        if (!type && !fn && !builtin_functions().count(n->text)) fail_at(n->pos, "unknown function '" + n->text + "'");
        if (fn && fn->params.size() != n->kids.size())
          fail_at(n->pos, n->text + " takes " + std::to_string(fn->params.size()) + " arguments, not " + std::to_string(n->kids.size()));
        const bool by_name = op && (n->text == "present" || n->text == "count");
        for (const Node* kid : n->kids)
          if (!(by_name && kid->kind == NodeKind::Name && (op->result(kid->text) || is_graph(kid->text)))) expr(kid);
        return;
      }
      case NodeKind::SatCast:
      case NodeKind::BitCast:
      case NodeKind::WideCast:
        if (!types.count(n->text) && !dtype_named(n->text)) fail_at(n->pos, "unknown element type '" + n->text + "'");
        break;
      case NodeKind::Fold:
        if (!builtin_combiners().count(n->text) && !module_.combiner(domain_, n->text)) fail_at(n->pos, "unknown combiner '" + n->text + "'");
        for (const auto& d : n->names)
          if (!dims.count(d)) fail_at(n->pos, "the fold runs over '" + d + "', which is no dim");
        expr(n->where);
        expr(n->exclusive);
        expr(n->reverse);
        break;
      default: break;
    }
    for (const Node* kid : n->kids) expr(kid);
  }

  void type(const TypeSpec& t, Pos pos) {
    if (!types.count(t.element) && !dtype_named(t.element)) fail_at(pos, "unknown element type '" + t.element + "'");
  }

  void statements(const std::vector<Stmt>& body, bool in_proc) {
    auto saved_names = names;
    auto saved_arrays = arrays;
    for (const Stmt& s : body) statement(s, in_proc);
    if (in_proc) {
      names = std::move(saved_names);
      arrays = std::move(saved_arrays);
    }
  }

 private:
  bool known(const std::string& n) const {
    return names.count(n) || dims.count(n) || arrays.count(n) || types.count(n) || dtype_named(n) || constants().count(n) || cases.count(n);
  }
  std::string nearest(const std::string& n) const {
    for (const auto* set : {&names, &dims, &arrays})
      for (const auto& m : *set)
        if (m.size() > 3 && n.size() > 3 && (m.starts_with(n) || n.starts_with(m))) return "; is '" + m + "' meant?";
    return "";
  }

  bool is_graph(const std::string& name) const {
    const AttrDecl* a = op->attr(name);
    return a && a->kind == AttrDecl::Kind::Graph;
  }

  // Exhaustive over the attribute's cases, save those that `when` excludes.
  void check_match(const Node* n) {
    if (!op || n->kids[0]->kind != NodeKind::Name) return;
    const AttrDecl* a = op->attr(n->kids[0]->text);
    if (!a || a->kind != AttrDecl::Kind::Enum) return;
    for (const auto& arm : n->names)
      if (std::find(a->enumerators.begin(), a->enumerators.end(), arm) == a->enumerators.end())
        fail_at(n->pos, "'" + arm + "' is no case of " + a->name);
    for (const auto& e : a->enumerators) {
      if (std::find(n->names.begin(), n->names.end(), e) != n->names.end()) continue;
      bool excluded = false;
      for (const Stmt& s : op->body)
        if (s.kind == StmtKind::When) excluded = excluded || excludes(s.value, a->name, e);
      if (!excluded) fail_at(n->pos, "'match' on " + a->name + " has no case for " + e);
    }
  }
  // Does `c` fail whatever else holds, if attribute `name` is `value`?
  static bool excludes(const Node* c, const std::string& name, const std::string& value) {
    if (c->kind == NodeKind::And) return excludes(c->kids[0], name, value) || excludes(c->kids[1], name, value);
    if (c->kind == NodeKind::Or) return excludes(c->kids[0], name, value) && excludes(c->kids[1], name, value);
    if (c->kind != NodeKind::Compare || c->ops.size() != 1 || c->kids[0]->kind != NodeKind::Name || c->kids[1]->kind != NodeKind::Name) return false;
    if (c->kids[0]->text != name) return false;
    return c->ops[0] == "==" ? c->kids[1]->text != value : c->ops[0] == "!=" && c->kids[1]->text == value;
  }

  void target(const Target& t, bool in_proc) {
    if (op->param(t.array)) fail_at(t.pos, "input " + t.array + " cannot be written");
    if (in_proc && !op->result(t.array) && !local_arrays_.count(t.array))
      fail_at(t.pos, "a proc stores to results and to allocated arrays; " + t.array + " is neither");
    for (const Node* n : t.index) expr(n);
  }

  void statement(const Stmt& s, bool in_proc) {
    switch (s.kind) {
      case StmtKind::Push:
        for (const auto& d : s.names)
          if (!dims.count(d)) fail_at(s.pos, "the push runs over '" + d + "', which is no dim");
        target(s.targets[0], in_proc);
        expr(s.value);
        by(s.by);
        return;
      case StmtKind::Map: case StmtKind::Each: case StmtKind::Store:
        for (const Target& t : s.targets) target(t, in_proc);
        expr(s.value);
        if (!in_proc) for (const Target& t : s.targets) arrays.insert(t.array);
        return;
      case StmtKind::Graph:
        if (!is_graph(s.text)) fail_at(s.pos, "'" + s.text + "' is no attribute that holds a graph");
        for (const auto& name : s.names)
          if (!arrays.count(name)) fail_at(s.pos, "the graph is given '" + name + "', which is no array");
        for (const Target& t : s.targets) {
          target(t, false);
          if (op->result(t.array)) fail_at(t.pos, "a graph makes arrays of its own: write the result " + t.array + " in a statement behind it");
          arrays.insert(t.array);
        }
        return;
      case StmtKind::Dims: dim_list(s.value); return;
      case StmtKind::Proc:
        for (const auto& r : op->results) arrays.insert(r.name);  // a proc reads back what it wrote
        [[fallthrough]];
      case StmtKind::ForDims:
        for (const auto& d : s.names)
          if (!dims.count(d)) fail_at(s.pos, "the loop runs over '" + d + "', which is no dim");
        statements(s.body, true);
        return;
      case StmtKind::ForRange: {
        expr(s.value);
        expr(s.bound);
        auto saved = names;
        names.insert(s.names[0]);
        statements(s.body, true);
        names = std::move(saved);
        return;
      }
      case StmtKind::Alloc:
        type(s.type, s.pos);
        for (const auto& d : s.type.dims)
          if (d.kind != DimSpec::Kind::Literal && !d.name.empty() && !dims.count(d.name)) fail_at(d.pos, "there is no dim '" + d.name + "'");
        local_arrays_.insert(s.names[0]);
        arrays.insert(s.names[0]);
        return;
      default:
        expr(s.value);
        expr(s.bound);
        if (s.kind == StmtKind::Let || s.kind == StmtKind::Var) for (const auto& n : s.names) names.insert(n);
        statements_of(s);
    }
  }
  void statements_of(const Stmt& s) {
    if (!s.body.empty()) statements(s.body, true);
    if (!s.orelse.empty()) statements(s.orelse, true);
  }
  void by(const Node* n) {
    if (n->kind == NodeKind::Match) {
      expr(n->kids[0]);
      check_match(n);
      for (size_t k = 1; k < n->kids.size(); ++k) by(n->kids[k]);
      return;
    }
    if (n->kind != NodeKind::Name || !builtin_combiners().count(n->text))
      fail_at(n->pos, "a push combines by sum, prod, min, max, any, all or last");
  }
  void dim_list(const Node* n) {
    if (n->kind == NodeKind::Call && n->text == "put" && n->kids.size() == 3) {
      dim_list(n->kids[0]);
      expr(n->kids[1]);
      return;
    }
    expr(n);
  }

  const Module& module_;
  const std::string domain_;
  std::set<std::string> local_arrays_;
};

void add_dims(std::set<std::string>& dims, const TypeSpec& t) {
  for (const auto& d : t.dims) {
    if (d.kind == DimSpec::Kind::Product) dims.insert(d.factors.begin(), d.factors.end());
    else if (d.kind != DimSpec::Kind::Literal) dims.insert(d.name);
  }
}

void check_op(const Module& module, const OpDef& op) {
  Checker c(module, op.domain);
  c.op = &op;
  for (const auto& v : op.type_variables) {
    for (const auto& cls : v.classes)
      if (!is_class(cls)) fail_at(op.pos, "'" + cls + "' is no class of element types");
    if (!v.fallback.empty() && !c.types.count(v.fallback) && !dtype_named(v.fallback))
      fail_at(op.pos, "'" + v.fallback + "' is no element type and no variable before " + v.name);
    c.types.insert(v.name);
  }
  for (const auto& a : op.attrs) {
    if (op.param(a.name)) fail_at(a.pos, "a second declaration of '" + a.name + "'");
    if (!a.type_variable.empty()) c.types.insert(a.type_variable);
  }
  std::set<std::string> seen;
  for (const auto& p : op.params) {
    if (!seen.insert(p.name).second) fail_at(p.pos, "a second parameter '" + p.name + "'");
    add_dims(c.dims, p.type);
    c.arrays.insert(p.name);
    for (const auto& d : p.type.dims) {
      if (d.axis.empty()) continue;
      const bool is_let = std::any_of(op.body.begin(), op.body.end(), [&](const Stmt& s) {
        return s.kind == StmtKind::Let && std::find(s.names.begin(), s.names.end(), d.axis) != s.names.end();
      });
      if (!op.attr(d.axis) && !op.param(d.axis) && !is_let) fail_at(d.pos, "'" + d.axis + "' is no attribute that could hold an axis");
    }
  }
  size_t rows_of_many = 0;
  for (size_t k = 0; k < op.params.size(); ++k) rows_of_many += op.params[k].many && (k == 0 || !op.params[k - 1].many);
  if (rows_of_many > 1) fail_at(op.pos, "the 'many' inputs stand apart: they take turns only where they follow one another");
  for (const auto& r : op.results) {
    if (!seen.insert(r.name).second) fail_at(r.pos, "a second parameter or result '" + r.name + "'");
    std::set<std::string> result_dims;
    add_dims(result_dims, r.type);
    c.dims.insert(result_dims.begin(), result_dims.end());
  }
  for (const auto& s : op.body)
    if (s.kind == StmtKind::Dim || s.kind == StmtKind::Dims || s.kind == StmtKind::Exists || s.kind == StmtKind::Rank) c.dims.insert(s.names[0]);
  for (const auto& a : op.attrs) {
    if (a.kind != AttrDecl::Kind::Graph) c.names.insert(a.name);
    c.cases.insert(a.enumerators.begin(), a.enumerators.end());
    if (a.kind == AttrDecl::Kind::Tensor) c.arrays.insert(a.name);
    if (a.list && a.shape.size() == 1 && a.shape[0]->kind == NodeKind::Name) c.dims.insert(a.shape[0]->text);
    if (a.kind == AttrDecl::Kind::Enum && a.fallback &&
        std::find(a.enumerators.begin(), a.enumerators.end(), a.fallback->text) == a.enumerators.end())
      fail_at(a.pos, "the default of " + a.name + " is none of its cases");
  }
  for (const auto& p : op.params) {
    c.type(p.type, p.pos);
    c.expr(p.fallback);
  }
  for (const auto& r : op.results) c.type(r.type, r.pos);
  for (const auto& a : op.attrs)
    if (a.kind != AttrDecl::Kind::Enum) c.expr(a.fallback);
  // Every result dim comes from an input or a clause.
  std::set<std::string> sources;
  for (const auto& p : op.params) add_dims(sources, p.type);
  for (const auto& s : op.body)
    if (s.kind == StmtKind::Dim || s.kind == StmtKind::Dims || s.kind == StmtKind::Exists) sources.insert(s.names[0]);
  for (const auto& r : op.results) {
    std::set<std::string> ds;
    add_dims(ds, r.type);
    for (const auto& d : ds)
      if (!sources.count(d)) fail_at(r.pos, "the extent of " + d + " of result " + r.name + " is never given");
    bool written = false;
    for (const auto& s : op.body) {
      if (s.kind == StmtKind::Proc) written = true;
      for (const auto& t : s.targets) written = written || (t.array == r.name && s.kind != StmtKind::Push);
    }
    if (!written && !r.optional) fail_at(r.pos, "result " + r.name + " is never written");
  }
  c.statements(op.body, false);
}

}  // namespace

void check_names(const Module& module) {
  for (const auto& [key, fn] : module.fns) {
    const std::string& name = fn.name;
    if (builtin_functions().count(name)) fail_at(fn.pos, name + " is a built-in function");
    Checker c(module, fn.domain);
    c.names.insert(fn.params.begin(), fn.params.end());
    c.expr(fn.body);
  }
  for (const auto& [key, combiner] : module.combiners) {
    const std::string& name = combiner.name;
    if (builtin_combiners().count(name)) fail_at(combiner.pos, name + " is a built-in combiner");
    Checker c(module, combiner.domain);
    for (const auto& v : combiner.type_variables) {
      if (!v.fallback.empty()) fail_at(combiner.pos, "the types of a combiner have no defaults");
      c.types.insert(v.name);
    }
    for (const auto& [field, type] : combiner.fields)
      if (!c.types.count(type) && !dtype_named(type)) fail_at(combiner.pos, "unknown element type '" + type + "'");
    for (const Node* u : combiner.units) c.expr(u);
    c.names = {combiner.left, combiner.right};
    c.expr(combiner.joins[0]);
  }
  for (const auto& op : module.ops) check_op(module, op);
}

}  // namespace mlc::lang
