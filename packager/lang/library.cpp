#include <algorithm>
#include <exception>
#include <filesystem>

#include "base/files/regular_file.h"
#include "packager/lang/einsum.h"
#include "packager/lang/expand/expander.h"
#include "packager/lang/expand/explain.h"
#include "packager/lang/lang.h"
#include "packager/lang/parse/ast.h"
#include "packager/lang/parse/embedded.h"
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
  // One definition of an operator, parsed already or to be parsed.
  struct Version {
    int64_t since;
    size_t file;  // its place in the order of the files
    const OpDef* op;
    const Embedded::Definition* embedded;
  };
  Module module;
  // Definitions of one operator, by falling `since`; siblings of one version in the order they are tried.
  std::map<std::pair<std::string, std::string>, std::vector<Version>> ops;

  const std::vector<Version>* find(std::string_view domain, std::string_view name) const {
    auto it = ops.find({std::string(domain.empty() ? "ai.onnx" : domain), std::string(name)});
    return it == ops.end() ? nullptr : &it->second;
  }
  const OpDef& op(const Version& v) const { return v.op ? *v.op : module.embedded->parsed(*v.embedded).ops.front(); }

  void read(const std::vector<SourceFile>& files, size_t num_embedded);
  bool changes_embedded() const;
  Result<std::vector<const OpDef*>> siblings(const std::vector<Version>& of, int64_t since) const;
};

// In the order in which they are tried.
Result<std::vector<const OpDef*>> Library::Impl::siblings(const std::vector<Version>& of, int64_t since) const {
  std::vector<const OpDef*> r;
  try {
    for (const Version& version : of)
      if (version.since == since) r.push_back(&op(version));
  } catch (Failure& f) {
    return std::move(f.status);
  } catch (const std::exception& e) {
    return Status(Code::Internal, std::string("operator texts: ") + e.what());
  }
  return r;
}

// Parses all files but the first few, whose definitions are only found.
void Library::Impl::read(const std::vector<SourceFile>& files, size_t num_embedded) {
  if (num_embedded) module.embedded = std::make_unique<Embedded>(Library::builtin_files(), module);
  std::map<std::string, size_t> order;
  for (size_t k = 0; k < files.size(); ++k) {
    order[files[k].name] = order.size();
    if (k >= num_embedded) parse_file(module, files[k].name, files[k].text);
  }
  put_clauses(module);
  check_names(module);
  if (module.embedded)
    for (const Embedded::Definition& d : module.embedded->operators())
      ops[{d.domain, d.name}].push_back({d.since, order[*d.file], nullptr, &d});
  for (const OpDef& op : module.ops) ops[{op.domain, op.name}].push_back({op.since, order[op.file], &op, nullptr});
  for (auto& [key, list] : ops)
    std::stable_sort(list.begin(), list.end(), [](const Version& a, const Version& b) {
      return a.since != b.since ? a.since > b.since : a.file > b.file;  // a user's file comes before the built-in ones
    });
}

// Could a name of the user's be what a text of ops/ means by it? Then those are read and checked with it.
bool Library::Impl::changes_embedded() const {
  const auto used = [&](const auto& table, auto name_of) {
    return std::any_of(table.begin(), table.end(), [&](const auto& entry) { return module.embedded->has_word(name_of(entry)); });
  };
  const auto name = [](const auto& entry) { return entry.second.name; };
  return used(module.fns, name) || used(module.combiners, name) || used(module.clauses, [](const auto& entry) { return entry.first; });
}

Library::Library(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Library::Library(Library&&) noexcept = default;
Library& Library::operator=(Library&&) noexcept = default;
Library::~Library() = default;

Result<Library> Library::parse(const std::vector<SourceFile>& files, Reading reading) {
  const std::vector<SourceFile>& ours = builtin_files();
  const auto same = [](const SourceFile& a, const SourceFile& b) { return a.name == b.name && a.text == b.text; };
  const bool embedded = reading == Reading::AsAsked && files.size() >= ours.size() && std::equal(ours.begin(), ours.end(), files.begin(), same);
  auto impl = std::make_unique<Impl>();
  try {
    impl->read(files, embedded ? ours.size() : 0);
    if (embedded && impl->changes_embedded()) return parse(files, Reading::Whole);
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
  return std::any_of(list->begin(), list->end(), [&](const auto& d) { return d.since <= opset; }) ? Known::Yes : Known::OpsetTooOld;
}

std::vector<int64_t> Library::versions(std::string_view domain, std::string_view name) const {
  std::vector<int64_t> r;
  if (const auto* list = impl_->find(domain, name))
    for (const Impl::Version& version : *list) r.push_back(version.since);
  return r;
}

std::vector<OpInfo> Library::operators() const {
  std::vector<OpInfo> r;
  for (const auto& [key, list] : impl_->ops)
    for (const Impl::Version& version : list) {
      const OpDef& d = impl_->op(version);
      r.push_back({d.domain, d.name, d.since, d.file, d.pos.line, d.text});
    }
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
  auto first = std::find_if(list->begin(), list->end(), [&](const auto& d) { return d.since <= call.opset; });
  if (first == list->end())
    return Status(Code::Unsupported, node + name + " is defined from opset " + std::to_string(list->back().since) +
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
  MLC_ASSIGN(const std::vector<const OpDef*> siblings, impl_->siblings(*list, first->since));
  std::vector<Failure> failures;
  for (const OpDef* op : siblings) {
    Expander expander(impl_->module, ctx, function, call, *op);
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
  if (const OpDef& op = *siblings.front(); is_builtin(op.file)) return not_covered(function, call, op.file, op.pos.line, errors);
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
