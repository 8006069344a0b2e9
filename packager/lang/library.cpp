#include <algorithm>
#include <exception>
#include <filesystem>

#include "base/files/regular_file.h"
#include "packager/lang/einsum.h"
#include "packager/lang/expand/expander.h"
#include "packager/lang/expand/explain.h"
#include "packager/lang/lang.h"
#include "packager/lang/parse/ast.h"
#include "packager/lang/parse/parser.h"
#include "packager/lang/texts.h"

namespace mlc::lang {

constexpr size_t kMaxFolder = 16u << 20;  // bytes of all texts, as many as a container holds

Status error_at(Pos pos, std::string message) {
  const std::string file = pos.file ? *pos.file : "";
  return Status(Code::Malformed, file + ":" + std::to_string(pos.line) + ":" + std::to_string(pos.column) + ": " + std::move(message));
}
void fail(Status status) { throw Failure{std::move(status)}; }

namespace {
Status told_to_user(Failure&& failure, const nest::Function& function, const Call& call) {
  if (!failure.file.empty() && is_builtin(failure.file)) {
    std::vector<Status> reasons;
    if (!failure.reason.empty()) reasons.emplace_back(Code::Malformed, std::move(failure.reason));
    return not_covered(function, call, failure.file, failure.line, reasons);
  }
  return std::move(failure.status);
}
}  // namespace

void fail_at(Pos pos, std::string message) { fail(error_at(pos, std::move(message))); }

struct Library::Impl {
  Module module;
  // Definitions of one operator, by falling `since`; siblings of one version in the order they are tried.
  std::map<std::pair<std::string, std::string>, std::vector<const OpDef*>> ops;

  const std::vector<const OpDef*>* find(std::string_view domain, std::string_view name) const {
    auto it = ops.find({std::string(domain.empty() ? "ai.onnx" : domain), std::string(name)});
    return it == ops.end() ? nullptr : &it->second;
  }
};

Library::Library(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Library::Library(Library&&) noexcept = default;
Library& Library::operator=(Library&&) noexcept = default;
Library::~Library() = default;

Result<Library> Library::parse(const std::vector<SourceFile>& files) {
  auto impl = std::make_unique<Impl>();
  try {
    std::map<std::string, size_t> order;
    for (const auto& f : files) {
      order[f.name] = order.size();
      parse_file(impl->module, f.name, f.text);
    }
    put_clauses(impl->module);
    check_names(impl->module);
    for (const OpDef& op : impl->module.ops) impl->ops[{op.domain, op.name}].push_back(&op);
    for (auto& [key, list] : impl->ops)
      std::stable_sort(list.begin(), list.end(), [&](const OpDef* a, const OpDef* b) {
        if (a->since != b->since) return a->since > b->since;
        return order[a->file] > order[b->file];  // a user's file comes before the built-in ones
      });
  } catch (Failure& f) {
    return std::move(f.status);
  } catch (const std::exception& e) {  // nothing leaves this library: a bug, or no memory
    return Status(Code::Internal, std::string("operator texts: ") + e.what());
  }
  return Library(std::move(impl));
}

Result<std::vector<SourceFile>> Library::read_directory(const std::string& path) {
  std::error_code ec;
  std::vector<std::string> names;
  for (auto it = std::filesystem::directory_iterator(path, ec); !ec && it != std::filesystem::directory_iterator(); it.increment(ec))
    if (it->path().extension() == ".mlop") names.push_back(it->path().string());
  if (ec) return Status(Code::NotFound, "cannot list the directory " + path + ": " + ec.message());
  std::sort(names.begin(), names.end());
  std::vector<SourceFile> files;
  size_t left = kMaxFolder;
  for (const auto& name : names) {
    auto text = read_regular_file(name, std::min(kMaxFile, left));
    if (!text.ok() && left < kMaxFile && text.status().code == Code::Malformed)
      return Status(Code::Malformed, "the operator texts in " + path + " have more than " + std::to_string(kMaxFolder) + " bytes");
    if (!text.ok()) return std::move(text).status();
    left -= text->size();
    files.push_back({name, std::move(text).value()});
  }
  return files;
}

Library::Known Library::knows(std::string_view domain, std::string_view name, int64_t opset) const {
  if ((domain.empty() || domain == "ai.onnx") && name == "Einsum") return opset < 12 ? Known::OpsetTooOld : Known::Yes;
  const auto* list = impl_->find(domain, name);
  if (!list) return Known::NoSuchOperator;
  return std::any_of(list->begin(), list->end(), [&](const OpDef* d) { return d->since <= opset; }) ? Known::Yes : Known::OpsetTooOld;
}

std::vector<OpInfo> Library::operators() const {
  std::vector<OpInfo> r;
  for (const auto& [key, list] : impl_->ops)
    for (const OpDef* d : list) r.push_back({d->domain, d->name, d->since, d->file, d->pos.line, d->text});
  return r;
}

Result<std::vector<Value>> Library::expand(ir::Context& ctx, nest::Function& function, const Call& given) const {
  Call call = given;
  if (call.domain.empty()) call.domain = "ai.onnx";
  const std::string name = call.domain + "." + call.name;
  if (call.domain == "ai.onnx" && call.name == "Einsum") return expand_einsum(ctx, function, call);
  const auto* list = impl_->find(call.domain, call.name);
  const std::string node = call.source.empty() ? "" : call.source + ": ";
  if (!list) return Status(Code::Unsupported, node + "unknown operator " + name);
  auto first = std::find_if(list->begin(), list->end(), [&](const OpDef* d) { return d->since <= call.opset; });
  if (first == list->end())
    return Status(Code::Unsupported, node + name + " is defined from opset " + std::to_string(list->back()->since) +
                                         " on, the model uses opset " + std::to_string(call.opset));
  const size_t arrays = function.arrays.size(), body = function.body.size(), checks = function.checks.size();
  auto undo = [&] {
    function.arrays.resize(arrays);
    function.body.erase(function.body.begin() + static_cast<long>(body), function.body.end());
    function.checks.resize(checks);
  };
  const bool texts = std::any_of(call.inputs.begin(), call.inputs.end(), [&](const auto& v) {
    return v && v->array < function.arrays.size() && function.arrays[v->array].dtype == DType::Str;
  });
  std::vector<Failure> failures;
  for (auto it = first; it != list->end() && (*it)->since == (*first)->since; ++it) {
    Expander expander(impl_->module, ctx, function, call, **it);
    try {
      if (expander.run() == Expander::Applies::Yes) {
        if (const char* what = texts ? looks_into_texts(function, body) : nullptr) {
          undo();
          return Status(Code::Unsupported, node + name + ": strings are only moved and compared by an operator text, this one " + what);
        }
        return expander.outputs();
      }
      failures.push_back({expander.why_not});
    } catch (Failure& f) {
      undo();
      if (expander.committed()) return told_to_user(std::move(f), function, call);
      failures.push_back(std::move(f));
    } catch (const std::exception& e) {
      undo();
      return Status(Code::Internal, node + name + ": " + e.what());
    }
    undo();
  }
  if (failures.size() == 1) return told_to_user(std::move(failures[0]), function, call);
  // A definition that failed by itself says more than one that did not mean this case.
  std::vector<Status> errors;
  std::vector<Failure*> telling;
  for (Failure& f : failures) {
    if (f.is_other_case || f.status.code == Code::Unsupported) continue;
    if (!f.file.empty() && is_builtin(f.file) && f.reason.empty()) continue;
    errors.push_back(f.reason.empty() ? f.status : Status(Code::Malformed, f.reason));
    telling.push_back(&f);
  }
  if (telling.size() == 1) return told_to_user(std::move(*telling[0]), function, call);
  if (is_builtin((*first)->file)) return not_covered(function, call, (*first)->file, (*first)->pos.line, errors);
  Status s(Code::Malformed, node + "no definition of " + name + " at opset " + std::to_string(call.opset) + " applies");
  for (const Failure& f : failures)
    if (std::find(s.facts.begin(), s.facts.end(), f.status.message) == s.facts.end()) s.facts.push_back(f.status.message);
  return s;
}

Result<std::vector<Value>> Library::expand_einsum(ir::Context& ctx, nest::Function& function, const Call& call) const {
  const std::string node = call.source + " (ai.onnx.Einsum): ";
  auto equation = call.attributes.find("equation");
  const auto* text = equation == call.attributes.end() ? nullptr : std::get_if<std::string>(&equation->second);
  if (!text) return Status(Code::Malformed, node + "attribute 'equation' is missing or no string");
  auto definition = einsum_text(*text, call.inputs.size());
  if (!definition.ok()) return Status(Code::Malformed, node + "equation '" + *text + "': " + definition.status().message);
  const size_t arrays = function.arrays.size(), body = function.body.size(), checks = function.checks.size();
  try {
    Module module;
    parse_file(module, "einsum", definition.value());
    check_names(module);
    Expander expander(module, ctx, function, call, module.ops.front());
    (void)expander.run();
    return expander.outputs();
  } catch (Failure& f) {
    function.arrays.resize(arrays);
    function.body.erase(function.body.begin() + static_cast<long>(body), function.body.end());
    function.checks.resize(checks);
    return with_operands(std::move(f.status), function, call);
  } catch (const std::exception& e) {
    function.arrays.resize(arrays);
    function.body.erase(function.body.begin() + static_cast<long>(body), function.body.end());
    function.checks.resize(checks);
    return Status(Code::Internal, node + e.what());
  }
}

const ir::Expr* Library::expand_math(ir::Context& ctx, ir::Op op, const ir::Expr* arg, const ir::Expr* second) const {
  const char* name = nullptr;
  switch (op) {
    case ir::Op::Exp: name = "exp"; break;
    case ir::Op::Log: name = "log"; break;
    case ir::Op::Sin: name = "sin"; break;
    case ir::Op::Cos: name = "cos"; break;
    case ir::Op::Tan: name = "tan"; break;
    case ir::Op::Asin: name = "asin"; break;
    case ir::Op::Acos: name = "acos"; break;
    case ir::Op::Atan: name = "atan"; break;
    case ir::Op::Sinh: name = "sinh"; break;
    case ir::Op::Cosh: name = "cosh"; break;
    case ir::Op::Tanh: name = "tanh"; break;
    case ir::Op::Asinh: name = "asinh"; break;
    case ir::Op::Acosh: name = "acosh"; break;
    case ir::Op::Atanh: name = "atanh"; break;
    case ir::Op::Erf: name = "erf"; break;
    case ir::Op::Pow: name = "pow"; break;
    default: return nullptr;
  }
  const DType t = arg->type.dtype;
  if (!is_float(t) || (op == ir::Op::Pow) != (second != nullptr)) return nullptr;
  const DType work = t == DType::F64 ? DType::F64 : DType::F32;
  const FnDef* fn = impl_->module.fn("mlc.math", name + std::string(work == DType::F64 ? "_f64" : "_f32"));
  if (!fn) return nullptr;
  std::vector<Ex> args;
  for (Ex a : {arg, second})
    if (a) args.push_back(a->type.dtype == work ? a : ctx.convert(ir::Op::Cast, {work, a->type.lanes}, a));
  try {
    Ex r = Expander::evaluate_fn(impl_->module, ctx, *fn, args);
    return t == work ? r : ctx.convert(ir::Op::Cast, {t, arg->type.lanes}, r);
  } catch (Failure&) {
    return nullptr;
  }
}

// The text is evaluated on scalar variables, then lifted to the lanes of the arguments.
Ex Expander::evaluate_fn(const Module& module, ir::Context& ctx, const FnDef& fn, const std::vector<Ex>& args) {
  static const OpDef no_op;
  static const Call no_call;
  nest::Function no_function;
  Expander x(module, ctx, no_function, no_call, no_op);
  std::vector<ExprValue> vals;
  const uint16_t lanes = args[0]->type.lanes;
  std::unordered_map<Ex, Ex> map;
  for (Ex a : args) {
    Ex v = lanes == 1 ? a : ctx.fresh_var({a->type.dtype, 1});
    map[v] = a;
    vals.push_back(scalar(v, false));
  }
  ExprValue r = x.call_fn(fn, vals, fn.pos);
  if (!r.is_scalar() || r.special != ExprValue::Special::None) fail_at(fn.pos, fn.name + " does not give a number");
  if (lanes == 1) return r.e;
  // Bottom-up with every node widened.
  std::vector<Ex> order;
  ir::walk(r.e, [&](Ex e) { order.push_back(e); });
  for (Ex e : order) {
    if (map.count(e)) continue;
    if (e->args.empty()) {
      map[e] = ctx.convert(ir::Op::Splat, {e->type.dtype, lanes}, e);
      continue;
    }
    std::vector<Ex> a;
    for (Ex arg : e->args) a.push_back(map.at(arg));
    switch (e->op) {
      case ir::Op::Cast: case ir::Op::SatCast: case ir::Op::Bitcast: map[e] = ctx.convert(e->op, {e->type.dtype, lanes}, a[0]); break;
      case ir::Op::Select: map[e] = ctx.select(a[0], a[1], a[2]); break;
      case ir::Op::Fma: map[e] = ctx.fma(a[0], a[1], a[2]); break;
      default: map[e] = a.size() == 1 ? ctx.unary(e->op, a[0]) : ctx.binary(e->op, a[0], a[1]); break;
    }
  }
  return map.at(r.e);
}

}  // namespace mlc::lang
