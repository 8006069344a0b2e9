#include "packager/nest/interpret.h"

#include <algorithm>
#include <thread>

#include "packager/nest/block.h"
#include "packager/nest/evaluate.h"

namespace mlc::nest {
namespace {

using ir::Scalar;

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string s = "[";
  for (int64_t d : shape) s += (s.size() == 1 ? "" : ", ") + std::to_string(d);
  return s + "]";
}

class Interpreter {
 public:
  Interpreter(const Function& f, const InterpretOptions& options) : f_(f), options_(options), symbols_(options.symbols) {
    at_.function = &f_;
    at_.arrays = &arrays_;
    at_.symbols = &symbols_;
  }

  Result<std::vector<Tensor>> run(const std::vector<Tensor>& inputs) {
    arrays_.resize(f_.arrays.size());
    MLC_RETURN_IF_ERROR(bind(inputs));
    checked_.assign(f_.checks.size(), false);
    MLC_RETURN_IF_ERROR(checks());
    for (size_t i = 0; i < f_.arrays.size(); ++i)
      if (f_.arrays[i].kind == Array::Kind::Const) MLC_RETURN_IF_ERROR(constant(i));
    for (size_t i = 0; i < f_.body.size(); ++i) {
      const Statement& s = f_.body[i];
      MLC_RETURN_IF_ERROR(s.nest ? nest(s) : s.proc ? proc(s) : control(s));
      if (s.control) MLC_RETURN_IF_ERROR(checks());
      if (options_.after_statement) options_.after_statement(i, arrays_);
    }
    std::vector<Tensor> outputs;
    for (uint32_t o : f_.outputs) outputs.push_back(arrays_[o]);
    return outputs;
  }

 private:
  // Each check once, as soon as all its symbols have values: those that a control sets come late.
  Status checks() {
    for (size_t k = 0; k < f_.checks.size(); ++k) {
      if (checked_[k]) continue;
      bool known = true;
      ir::walk(f_.checks[k].condition, [&](const ir::Expr* e) { known = known && (e->op != ir::Op::Sym || symbols_.count(e->sym)); });
      if (!known) continue;
      checked_[k] = true;
      bool holds = at_.truth(f_.checks[k].condition);
      MLC_RETURN_IF_ERROR(failed("check"));
      if (!holds) return Status(Code::InputMismatch, f_.checks[k].message);
    }
    return ok();
  }

  Status failed(const std::string& where) {
    if (!at_.fault.failed) return ok();
    return Status(at_.fault.bug ? Code::Internal : Code::InputMismatch, where + ": " + at_.fault.message);
  }

  Status bind(const std::vector<Tensor>& inputs) {
    if (inputs.size() != f_.inputs.size())
      return Status(Code::InputMismatch, std::to_string(inputs.size()) + " inputs given, " +
                                             std::to_string(f_.inputs.size()) + " expected");
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Array& a = f_.arrays[f_.inputs[i]];
      const Tensor& t = inputs[i];
      uint64_t bytes = bytes_of(t.dtype);
      bool valid = t.dtype == a.dtype && t.shape.size() == a.shape.size();
      for (int64_t d : t.shape) {
        auto n = d < 0 ? std::nullopt : checked_mul(bytes, static_cast<uint64_t>(d));
        valid = valid && n;
        bytes = n.value_or(0);
      }
      if (!valid || bytes != t.bytes.size())
        return Status(Code::InputMismatch, "input '" + a.name + "' is " + std::string(name_of(t.dtype)) +
                                               shape_text(t.shape) + ", which does not fit");
      for (size_t k = 0; k < a.shape.size(); ++k)
        if (a.shape[k]->op == ir::Op::Sym) symbols_.try_emplace(a.shape[k]->sym, t.shape[k]);
    }
    for (const Function::Definition& d : f_.definitions) {
      auto value = ir::evaluate_extent(d.value, [&](const ir::Sym* s) -> std::optional<int64_t> {
        auto it = symbols_.find(s);
        return it == symbols_.end() ? std::nullopt : std::optional(it->second);
      });
      if (!value) return Status(Code::InputMismatch, "'" + d.sym->name + "' = " + ir::to_string(d.value) + " has no value");
      symbols_[d.sym] = *value;
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Array& a = f_.arrays[f_.inputs[i]];
      std::vector<int64_t> shape;
      MLC_RETURN_IF_ERROR(shape_of(a, shape));
      if (shape != inputs[i].shape)
        return Status(Code::InputMismatch, "input '" + a.name + "' has shape " + shape_text(inputs[i].shape) +
                                               ", expected " + shape_text(shape));
      MLC_RETURN_IF_ERROR(account(inputs[i].bytes.size()));
      arrays_[f_.inputs[i]] = inputs[i];
    }
    for (const auto& [sym, value] : symbols_)
      if (value < sym->lo || value > sym->hi || value % sym->multiple != 0)
        return Status(Code::InputMismatch, "'" + sym->name + "' is " + std::to_string(value) + ", outside of what the model takes");
    return ok();
  }

  Status shape_of(const Array& a, std::vector<int64_t>& shape) {
    for (const ir::Expr* e : a.shape) {
      auto v = ir::evaluate_extent(e, [&](const ir::Sym* s) -> std::optional<int64_t> {
        auto it = symbols_.find(s);
        return it == symbols_.end() ? std::nullopt : std::optional(it->second);
      });
      if (!v || *v < 0) return Status(Code::InputMismatch, "extent " + ir::to_string(e) + " of '" + a.name + "' has no valid value");
      shape.push_back(*v);
    }
    return ok();
  }

  Status account(uint64_t bytes) {
    used_ += bytes;
    return used_ > options_.memory_limit ? Status(Code::Resource, "the model needs more memory than the interpreter may use") : ok();
  }

  // Zeros in the shape of the array, unless it exists: a later statement writes another part of it.
  Status allocate(uint32_t number) {
    if (number >= arrays_.size()) return Status(Code::Internal, "no array " + std::to_string(number));
    const Array& a = f_.arrays[number];
    if (a.kind != Array::Kind::Temp) return Status(Code::Internal, "'" + a.name + "' is written but not a result");
    if (arrays_[number].dtype != DType::None) return ok();
    std::vector<int64_t> shape;
    MLC_RETURN_IF_ERROR(shape_of(a, shape));
    uint64_t bytes = bytes_of(a.dtype);
    for (int64_t d : shape) {
      auto n = checked_mul(bytes, static_cast<uint64_t>(d));
      if (!n || *n > options_.memory_limit) return Status(Code::Resource, "'" + a.name + "' " + shape_text(shape) + " is too large");
      bytes = *n;
    }
    MLC_RETURN_IF_ERROR(account(bytes));
    arrays_[number] = Tensor::zeros(a.dtype, std::move(shape));
    return ok();
  }

  Status constant(size_t i) {
    const Array& a = f_.arrays[i];
    std::vector<int64_t> shape;
    MLC_RETURN_IF_ERROR(shape_of(a, shape));
    uint64_t bytes = bytes_of(a.dtype);
    for (int64_t d : shape) bytes = checked_mul(bytes, static_cast<uint64_t>(d)).value_or(UINT64_MAX);
    if (!a.data || a.data->bytes.size() != bytes) return Status(Code::Internal, "constant '" + a.name + "' lacks its data");
    MLC_RETURN_IF_ERROR(account(bytes));
    arrays_[i].dtype = a.dtype;
    arrays_[i].shape = std::move(shape);
    arrays_[i].bytes.assign(a.data->bytes.begin(), a.data->bytes.end());
    return ok();
  }

  Status nest(const Statement& s) {
    for (const Write& w : s.nest->writes) MLC_RETURN_IF_ERROR(allocate(w.array));
    if (s.nest->scan_dim) return scan(s);
    if (options_.point_by_point) {
      points(*s.nest);
      return failed(s.source);
    }
    auto program = compile_block(f_, s, at_);
    if (!program.ok()) return std::move(program).status();
    unsigned threads = options_.threads ? options_.threads : std::max(1u, std::thread::hardware_concurrency());
    run_block(*program, arrays_, f_, threads, at_.fault);
    return failed(s.source);
  }

  void points(const Nest& nest) {
    at_.for_points(nest.dims, [&] {
      if (!at_.truth(nest.where)) return;
      for (const Write& w : nest.writes) put(w, at_.value(w.value));
    });
  }

  void put(const Write& w, Scalar v) {
    std::vector<int64_t> index;
    for (const ir::Expr* e : w.index) index.push_back(at_.integer(e));
    if (at_.fault.failed) return;
    int64_t element = at_.element(w.array, index, !w.push);
    if (element < 0) return;
    Tensor& t = arrays_[w.array];
    if (w.push && w.join != ir::Join::Last) {
      std::vector<Scalar> old{ir::load_element(t.dtype, t.bytes.data(), static_cast<uint64_t>(element))};
      ir::Combiner c;
      c.join = w.join;
      at_.combine(&c, t.dtype, old, {v});
      v = old[0];
    }
    ir::store_element(t.dtype, t.bytes.data(), static_cast<uint64_t>(element), v);
  }

  // Point by point along each line; prefix folds are small beside the rest of a model.
  Status scan(const Statement& s) {
    const Nest& n = *s.nest;
    std::vector<const ir::Dim*> outer;
    for (const ir::Dim* d : n.dims)
      if (d != n.scan_dim) outer.push_back(d);
    int64_t extent = at_.integer(n.scan_dim->extent);
    DType t = n.writes[0].value->type.dtype;
    bool narrow = n.scan_combiner->join == ir::Join::Sum && is_float(t) && bits_of(t) < 32;
    DType wide = narrow ? DType::F32 : t;
    at_.for_points(outer, [&] {
      std::vector<Scalar> total = at_.units(n.scan_combiner, wide);
      for (int64_t i = 0; i < extent && !at_.fault.failed; ++i) {
        at_.dims[n.scan_dim] = n.scan_reverse ? extent - 1 - i : i;
        if (!at_.truth(n.where)) continue;
        std::vector<Scalar> item, before = total;
        for (const Write& w : n.writes) item.push_back(at_.value(w.value));
        at_.combine(n.scan_combiner, wide, total, item);
        const std::vector<Scalar>& value = n.scan_exclusive ? before : total;
        for (size_t w = 0; w < n.writes.size() && w < value.size(); ++w) put(n.writes[w], value[w]);
      }
      at_.dims.erase(n.scan_dim);
    });
    return failed(s.source);
  }

  Status proc(const Statement& s) {
    const Proc& p = *s.proc;
    for (uint32_t w : p.writes) MLC_RETURN_IF_ERROR(allocate(w));
    at_.for_points(p.dims, [&] {
      at_.vars.clear();
      run_proc(at_, p);
    });
    MLC_RETURN_IF_ERROR(failed(s.source));
    return ok();
  }

  Status control(const Statement& s) {
    const Control& c = *s.control;
    if (c.kind != Control::Kind::Read) return Status(Code::Unsupported, s.source + ": control flow is not interpreted yet");
    const Tensor& from = arrays_[c.inputs[0]];
    if (static_cast<int64_t>(c.symbols.size()) > from.elements()) return Status(Code::Internal, s.source + ": reads beyond its array");
    for (size_t k = 0; k < c.symbols.size(); ++k) {
      const ir::Sym* sym = c.symbols[k];
      const int64_t value = ir::load_element(from.dtype, from.bytes.data(), k).i;
      if (value < sym->lo || value > sym->hi) return Status(Code::InputMismatch, s.source + ": '" + sym->name + "' is " + std::to_string(value));
      symbols_[sym] = value;
    }
    return ok();
  }

  const Function& f_;
  std::vector<bool> checked_;
  const InterpretOptions& options_;
  std::unordered_map<const ir::Sym*, int64_t> symbols_;
  std::vector<Tensor> arrays_;
  Evaluator at_;
  uint64_t used_ = 0;
};

}  // namespace

Result<std::vector<Tensor>> interpret(const Function& f, const std::vector<Tensor>& inputs, const InterpretOptions& options) {
  return Interpreter(f, options).run(inputs);
}

}  // namespace mlc::nest
