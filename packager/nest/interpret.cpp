#include "packager/nest/interpret.h"

#include <algorithm>
#include <bit>
#include <thread>

#include "packager/nest/block.h"
#include "packager/nest/evaluate.h"
#include "packager/nest/lists.h"
#include "packager/nest/strings.h"

namespace mlc::nest {
namespace {

bool sums_floats(const ir::Expr* value) {
  bool found = false;
  ir::walk(value, [&](const ir::Expr* e) { found = found || (e->op == ir::Op::Fold && e->fold->combiner->join == ir::Join::Sum && is_float(e->type.dtype)); });
  return found;
}

using ir::Scalar;

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string s = "[";
  for (int64_t d : shape) s += (s.size() == 1 ? "" : ", ") + std::to_string(d);
  return s + "]";
}

class Interpreter {
 public:
  Interpreter(const Function& f, const InterpretOptions& options, int depth = 0) : f_(f), depth_(depth), options_(options) {
    at_.function = &f_;
    at_.arrays = &arrays_;
    at_.symbols = &symbols_;
    at_.deadline = options.deadline;
  }

  // May be called again: a body runs many times. `around`: values of the symbols of the function around this one.
  Result<std::vector<Tensor>> run(std::vector<Tensor> inputs, const std::unordered_map<const ir::Sym*, int64_t>& around) {
    MLC_RETURN_IF_ERROR(start());
    symbols_ = around;
    MLC_RETURN_IF_ERROR(bind(std::move(inputs)));
    checked_.assign(f_.checks.size(), false);
    MLC_RETURN_IF_ERROR(checks());
    for (size_t i = 0; i < f_.body.size(); ++i) {
      const Statement& s = f_.body[i];
      if (has_passed(options_.deadline)) return too_late(s.source);
      MLC_RETURN_IF_ERROR(s.nest ? nest(s) : s.proc ? proc(s) : control(s));
      if (s.control) MLC_RETURN_IF_ERROR(checks());
      if (options_.after_statement && depth_ == 0) options_.after_statement(i, arrays_);
    }
    std::vector<Tensor> outputs;
    for (uint32_t o : f_.outputs) {
      if (arrays_[o].dtype == DType::None) return Status(Code::Internal, "output '" + f_.arrays[o].name + "' is never written");
      outputs.push_back(arrays_[o]);
    }
    return outputs;
  }

 private:
  // Constants are there from the first run on, everything else is as new.
  Status start() {
    if (depth_ > kMaxDepth) return Status(Code::Resource, "bodies are nested deeper than " + std::to_string(kMaxDepth));
    const bool first = arrays_.empty();
    arrays_.resize(f_.arrays.size());
    if (first) constants_ = 0, used_ = 0;
    else used_ = constants_;
    for (size_t i = 0; i < f_.arrays.size(); ++i) {
      if (f_.arrays[i].kind != Array::Kind::Const) arrays_[i] = Tensor();
      else if (first) MLC_RETURN_IF_ERROR(constant(i));
    }
    if (first) constants_ = used_;
    return ok();
  }

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

  static Status too_late(const std::string& where) { return Status(Code::Cancelled, "there was no time for more than what comes before '" + where + "'"); }

  Status failed(const std::string& where) {
    if (!at_.fault.failed) return ok();
    if (at_.fault.late) return too_late(where);
    return Status(at_.fault.bug ? Code::Internal : Code::InputMismatch, where + ": " + at_.fault.message);
  }

  Status bind(std::vector<Tensor> inputs) {
    if (inputs.size() != f_.inputs.size())
      return Status(Code::InputMismatch, std::to_string(inputs.size()) + " inputs given, " +
                                             std::to_string(f_.inputs.size()) + " expected");
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Array& a = f_.arrays[f_.inputs[i]];
      const Tensor& t = inputs[i];
      if (a.list_depth || t.list_depth) {
        if (!is_list(t, a.dtype, a.list_depth)) return Status(Code::InputMismatch, "input '" + a.name + "' is not the list that is expected");
        continue;
      }
      uint64_t bytes = t.dtype == DType::Str ? 1 : bytes_of(t.dtype);
      bool valid = t.dtype == a.dtype && t.shape.size() == a.shape.size();
      for (int64_t d : t.shape) {
        auto n = d < 0 ? std::nullopt : checked_mul(bytes, static_cast<uint64_t>(d));
        valid = valid && n;
        bytes = n.value_or(0);
      }
      if (!valid || bytes != (t.dtype == DType::Str ? t.strings.size() : t.bytes.size()))
        return Status(Code::InputMismatch, "input '" + a.name + "' is " + std::string(name_of(t.dtype)) +
                                               shape_text(t.shape) + ", which does not fit");
      for (size_t k = 0; k < a.shape.size(); ++k)
        if (a.shape[k]->op == ir::Op::Sym) symbols_.try_emplace(a.shape[k]->sym, t.shape[k]);
    }
    for (const Function::Element& e : f_.elements)
      for (size_t i = 0; i < inputs.size(); ++i)
        if (f_.inputs[i] == e.input) MLC_RETURN_IF_ERROR(read_symbol(e.sym, inputs[i], e.element));
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
      if (!a.list_depth && shape != inputs[i].shape)
        return Status(Code::InputMismatch, "input '" + a.name + "' has shape " + shape_text(inputs[i].shape) +
                                               ", expected " + shape_text(shape));
      MLC_RETURN_IF_ERROR(account(inputs[i].bytes.size()));
      arrays_[f_.inputs[i]] = std::move(inputs[i]);
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

  // A list of this depth all the way down, its arrays as large as they say.
  static bool is_list(const Tensor& t, DType dtype, uint8_t depth) {
    if (t.list_depth != depth || t.dtype != dtype || depth > kMaxDepth) return false;
    if (depth == 0) {
      uint64_t bytes = bytes_of(dtype);
      for (int64_t d : t.shape) bytes = d < 0 ? UINT64_MAX : checked_mul(bytes, static_cast<uint64_t>(d)).value_or(UINT64_MAX);
      return bytes == t.bytes.size();
    }
    return std::all_of(t.items.begin(), t.items.end(), [&](const Tensor& item) { return is_list(item, dtype, depth - 1); });
  }

  Status read_symbol(const ir::Sym* sym, const Tensor& t, uint64_t element) {
    if (t.list_depth || !(is_int(t.dtype) || t.dtype == DType::Bool) || element >= static_cast<uint64_t>(t.elements()))
      return Status(Code::Internal, "'" + sym->name + "' is read where there is no integer");
    const int64_t value = ir::load_element(t.dtype, t.bytes.data(), element).i;
    return set_symbol(sym, value);
  }
  Status set_symbol(const ir::Sym* sym, int64_t value) {
    if (value < sym->lo || value > sym->hi || value % sym->multiple != 0)
      return Status(Code::InputMismatch, "'" + sym->name + "' is " + std::to_string(value) + ", outside of " + std::to_string(sym->lo) +
                                             ".." + std::to_string(sym->hi));
    symbols_[sym] = value;
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
    if (!a.is_result()) return Status(Code::Internal, "'" + a.name + "' is written but not a result");
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
    run_block(*program, arrays_, f_, threads, options_.deadline, at_.fault);
    if (options_.jitter != 0)
      for (const Write& w : s.nest->writes)
        if (sums_floats(w.value)) shake(arrays_[w.array]);
    return failed(s.source);
  }

  void shake(Tensor& t) const {
    if (!is_float(t.dtype)) return;
    const uint64_t count = static_cast<uint64_t>(t.elements());
    for (uint64_t k = 0; k < count; ++k) {
      Scalar v = ir::load_element(t.dtype, t.bytes.data(), k);
      v.f *= std::popcount(k) % 2 == 0 ? 1 + options_.jitter : 1 - options_.jitter;  // neighbours along any axis differ
      v.f = ir::round_to(t.dtype, v.f);
      ir::store_element(t.dtype, t.bytes.data(), k, v);
    }
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
    Status status = c.kind == Control::Kind::Read     ? read(c)
                    : c.kind == Control::Kind::Branch ? branch(c)
                    : c.kind == Control::Kind::Loop   ? loop(c)
                    : c.kind == Control::Kind::Host   ? host(c)
                    : is_about_strings(c.kind)        ? strings(c)
                                                      : list(c);
    if (status.code == Code::Cancelled) return too_late(s.source);
    return status.ok() ? ok() : std::move(status).note(s.source);
  }

  // The array or list `number` once it has been computed; null for kNoArray.
  Result<const Tensor*> operand(uint32_t number) {
    if (number == kNoArray) return static_cast<const Tensor*>(nullptr);
    if (number >= arrays_.size() || arrays_[number].dtype == DType::None) return Status(Code::Internal, "array %" + std::to_string(number) + " is read before it is written");
    return static_cast<const Tensor*>(&arrays_[number]);
  }
  // One integer or truth value; `absent` for kNoArray.
  Result<int64_t> single(uint32_t number, int64_t absent) {
    MLC_ASSIGN(const Tensor* t, operand(number));
    if (!t) return absent;
    if (t->list_depth || !(is_int(t->dtype) || t->dtype == DType::Bool) || t->elements() != 1)
      return Status(Code::InputMismatch, "'" + f_.arrays[number].name + "' is not one number");
    return ir::load_element(t->dtype, t->bytes.data(), 0).i;
  }
  // A result of a control. Symbols of its shape that have no value yet get it from here.
  Status receive(uint32_t number, Tensor value) {
    if (number == kNoArray) return ok();
    if (number >= arrays_.size()) return Status(Code::Internal, "no array %" + std::to_string(number));
    const Array& a = f_.arrays[number];
    if (a.kind != Array::Kind::Temp) return Status(Code::Internal, "'" + a.name + "' is written but not a result");
    if (value.dtype != a.dtype || value.list_depth != a.list_depth || (!a.list_depth && value.shape.size() != a.shape.size()))
      return Status(Code::Internal, "the result '" + a.name + "' is of another type than declared");
    if (!a.list_depth) {
      for (size_t k = 0; k < a.shape.size(); ++k)
        if (a.shape[k]->op == ir::Op::Sym && !symbols_.count(a.shape[k]->sym)) MLC_RETURN_IF_ERROR(set_symbol(a.shape[k]->sym, value.shape[k]));
      std::vector<int64_t> shape;
      MLC_RETURN_IF_ERROR(shape_of(a, shape));
      if (shape != value.shape)
        return Status(Code::InputMismatch, "'" + a.name + "' has the shape " + shape_text(value.shape) + ", expected " + shape_text(shape));
      MLC_RETURN_IF_ERROR(account(value.bytes.size()));
    }
    arrays_[number] = std::move(value);
    return ok();
  }
  InterpretOptions inner_options() const {
    InterpretOptions o;
    o.threads = options_.threads;
    o.point_by_point = options_.point_by_point;
    o.max_iterations = options_.max_iterations;
    o.deadline = options_.deadline;
    o.host = options_.host;
    o.jitter = options_.jitter;
    o.memory_limit = options_.memory_limit - std::min(used_, options_.memory_limit);
    return o;
  }
  Result<const Function*> body(const Control& c, size_t k, size_t inputs, size_t outputs) {
    if (k >= c.bodies.size() || !c.bodies[k] || c.bodies[k]->inputs.size() != inputs || c.bodies[k]->outputs.size() != outputs)
      return Status(Code::Internal, "a body does not fit its control");
    return static_cast<const Function*>(c.bodies[k].get());
  }
  Status append(std::vector<Tensor>& values, const std::vector<uint32_t>& numbers, size_t from, size_t to) {
    for (size_t k = from; k < to; ++k) {
      MLC_ASSIGN(const Tensor* t, operand(numbers[k]));
      if (!t) return Status(Code::Internal, "an argument of a body is absent");
      values.push_back(*t);
    }
    return ok();
  }

  Status read(const Control& c) {
    if (c.inputs.size() != 1) return Status(Code::Internal, "a Read has one input");
    MLC_ASSIGN(const Tensor* t, operand(c.inputs[0]));
    if (!t) return Status(Code::Internal, "a Read has no input");
    for (size_t k = 0; k < c.symbols.size(); ++k) MLC_RETURN_IF_ERROR(read_symbol(c.symbols[k], *t, k));
    return ok();
  }

  Status branch(const Control& c) {
    if (c.inputs.empty()) return Status(Code::Internal, "a Branch has a condition");
    MLC_ASSIGN(const int64_t condition, single(c.inputs[0], 0));
    MLC_ASSIGN(const Function* taken, body(c, condition ? 0 : 1, c.inputs.size() - 1, c.outputs.size()));
    std::vector<Tensor> arguments;
    MLC_RETURN_IF_ERROR(append(arguments, c.inputs, 1, c.inputs.size()));
    const InterpretOptions inner = inner_options();
    MLC_ASSIGN(std::vector<Tensor> results, Interpreter(*taken, inner, depth_ + 1).run(std::move(arguments), symbols_));
    for (size_t k = 0; k < results.size(); ++k) MLC_RETURN_IF_ERROR(receive(c.outputs[k], std::move(results[k])));
    return ok();
  }

  Status loop(const Control& c) {
    const size_t carried = c.carried;
    if (c.inputs.size() < 2 + carried || c.outputs.size() < carried) return Status(Code::Internal, "a Loop lacks inputs or results");
    MLC_ASSIGN(const int64_t trips, single(c.inputs[0], INT64_MAX));
    MLC_ASSIGN(int64_t condition, single(c.inputs[1], 1));
    MLC_ASSIGN(const Function* f, body(c, 0, c.inputs.size(), c.outputs.size() + 1));
    const InterpretOptions inner = inner_options();
    Interpreter iteration(*f, inner, depth_ + 1);
    std::vector<Tensor> state;
    MLC_RETURN_IF_ERROR(append(state, c.inputs, 2, 2 + carried));
    std::vector<std::vector<Tensor>> scanned(c.outputs.size() - carried);
    for (int64_t i = 0; i < trips && condition; ++i) {
      if (static_cast<uint64_t>(i) >= options_.max_iterations)
        return Status(Code::Resource, "the loop runs more than " + std::to_string(options_.max_iterations) + " times");
      std::vector<Tensor> inputs{Tensor::of<int64_t>(DType::I64, {}, {i}), Tensor::of<uint8_t>(DType::Bool, {}, {1})};
      for (Tensor& t : state) inputs.push_back(std::move(t));
      MLC_RETURN_IF_ERROR(append(inputs, c.inputs, 2 + carried, c.inputs.size()));
      MLC_ASSIGN(std::vector<Tensor> results, iteration.run(std::move(inputs), symbols_));
      if (results[0].list_depth || results[0].dtype != DType::Bool || results[0].elements() != 1) return Status(Code::Internal, "the condition of a loop is not one truth value");
      condition = static_cast<int64_t>(results[0].bytes[0]) != 0;
      for (size_t k = 0; k < carried; ++k) state[k] = std::move(results[1 + k]);
      for (size_t k = 0; k < scanned.size(); ++k) {
        MLC_RETURN_IF_ERROR(account(results[1 + carried + k].bytes.size()));
        scanned[k].push_back(std::move(results[1 + carried + k]));
      }
    }
    for (size_t k = 0; k < carried; ++k) MLC_RETURN_IF_ERROR(receive(c.outputs[k], std::move(state[k])));
    for (size_t k = 0; k < scanned.size(); ++k) {
      const uint32_t out = c.outputs[carried + k];
      if (out == kNoArray) continue;
      Tensor none;
      if (scanned[k].empty()) MLC_RETURN_IF_ERROR(no_runs(f_.arrays.at(out), none));
      MLC_ASSIGN(Tensor all, stack(scanned[k], std::move(none)));
      MLC_RETURN_IF_ERROR(receive(out, std::move(all)));
    }
    return ok();
  }
  // What a scanned result is without a single run: extents that nothing tells are 0.
  Status no_runs(const Array& a, Tensor& out) {
    std::vector<int64_t> shape;
    for (size_t k = 0; k < a.shape.size(); ++k) {
      auto v = ir::evaluate_extent(a.shape[k], [&](const ir::Sym* s) -> std::optional<int64_t> {
        auto it = symbols_.find(s);
        return it == symbols_.end() ? std::nullopt : std::optional(it->second);
      });
      shape.push_back(k == 0 ? 0 : std::max<int64_t>(v.value_or(0), 0));
    }
    out = Tensor{a.dtype, std::move(shape), {}};
    return ok();
  }

  Status list(const Control& c) {
    if (c.outputs.size() != 1) return Status(Code::Internal, "a list operation has one result");
    if (c.outputs[0] == kNoArray) return ok();
    if (c.outputs[0] >= f_.arrays.size()) return Status(Code::Internal, "no array %" + std::to_string(c.outputs[0]));
    MLC_ASSIGN(const std::vector<const Tensor*> inputs, operands(c));
    MLC_ASSIGN(Tensor result, run_list(c, f_.arrays[c.outputs[0]], inputs));
    return receive(c.outputs[0], std::move(result));
  }

  Result<std::vector<const Tensor*>> operands(const Control& c) {
    std::vector<const Tensor*> inputs;
    for (uint32_t number : c.inputs) {
      MLC_ASSIGN(const Tensor* t, operand(number));
      inputs.push_back(t);
    }
    return inputs;
  }
  Status receive_all(const Control& c, std::vector<Tensor> results) {
    if (results.size() != c.outputs.size()) return Status(Code::Internal, "a control has another number of results");
    for (size_t k = 0; k < results.size(); ++k) MLC_RETURN_IF_ERROR(receive(c.outputs[k], std::move(results[k])));
    return ok();
  }
  Status strings(const Control& c) {
    MLC_ASSIGN(const std::vector<const Tensor*> inputs, operands(c));
    MLC_ASSIGN(std::vector<Tensor> results, run_strings(c, inputs));
    return receive_all(c, std::move(results));
  }
  Status host(const Control& c) {
    if (!options_.host) return Status(Code::Unsupported, "there is no service '" + c.service + "' here");
    MLC_ASSIGN(const std::vector<const Tensor*> inputs, operands(c));
    for (const Tensor* t : inputs)
      if (!t) return Status(Code::Internal, "a service lacks an operand");
    MLC_ASSIGN(std::vector<Tensor> results, options_.host(c, inputs));
    for (const Tensor& t : results) {
      uint64_t bytes = bytes_of(t.dtype);
      for (int64_t d : t.shape)
        bytes = d < 0 ? UINT64_MAX : checked_mul(bytes, static_cast<uint64_t>(d)).value_or(UINT64_MAX);
      if (t.bytes.size() != bytes)
        return Status(Code::InputMismatch, "'" + c.service + "' gives a result that lacks bytes");
    }
    return receive_all(c, std::move(results));
  }

  static constexpr int kMaxDepth = 64;

  const Function& f_;
  int depth_;
  std::vector<bool> checked_;
  const InterpretOptions& options_;
  std::unordered_map<const ir::Sym*, int64_t> symbols_;
  std::vector<Tensor> arrays_;
  Evaluator at_;
  uint64_t used_ = 0, constants_ = 0;
};

}  // namespace

Result<std::vector<Tensor>> interpret(const Function& f, const std::vector<Tensor>& inputs, const InterpretOptions& options) {
  return Interpreter(f, options).run(inputs, options.symbols);
}

}  // namespace mlc::nest
