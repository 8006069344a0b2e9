#include "packager/passes/segments/partition.h"

#include <algorithm>
#include <map>
#include <set>

#include "packager/nest/copy.h"
#include "packager/nest/facts/uses.h"
#include "packager/passes/segments/state_program.h"

namespace mlc::passes {
namespace {

using nest::Array;
using nest::Control;
using nest::Function;
using nest::kNoArray;
using nest::Program;
using nest::Statement;
using nest::Step;
using nest::SymbolSet;

// Where the value of a symbol is found once the array is there.
struct Source {
  enum class Kind : uint8_t { Axis, Element, Definition } kind = Kind::Axis;
  uint32_t array = 0;               // Axis, Element
  uint64_t place = 0;               // the axis, the element
  const ir::Expr* value = nullptr;  // Definition
  size_t level = 0;
};

// Whether it is a segment as it stands.
bool is_segment(const Function& f) {
  const auto is_list = [&](uint32_t a) { return f.arrays[a].list_depth > 0; };
  return std::none_of(f.body.begin(), f.body.end(), [](const Statement& s) { return s.control != nullptr; }) &&
         std::none_of(f.inputs.begin(), f.inputs.end(), is_list) && std::none_of(f.outputs.begin(), f.outputs.end(), is_list);
}

bool is_read(const Statement& s) { return s.control && s.control->kind == StepOp::Read; }

class Partitioner {
 public:
  Partitioner(ir::Context& ctx, Function function, Parts& parts) : ctx_(ctx), f_(std::move(function)), parts_(parts) {}

  Status run(bool is_entry) {
    if (is_segment(f_)) {
      parts_.segments.push_back(std::make_unique<Function>(std::move(f_)));
      return ok();
    }
    remove_unused();
    find_sources();
    for (Statement& s : f_.body)
      if (s.control) MLC_RETURN_IF_ERROR(hand_over(*s.control));
    if (is_entry) find_fixed();
    assign_levels();
    number_values();
    MLC_RETURN_IF_ERROR(write_program());
    std::vector<Function> bodies = std::move(bodies_);
    for (Function& body : bodies) MLC_RETURN_IF_ERROR(Partitioner(ctx_, std::move(body), parts_).run(false));
    return ok();
  }

  Status run_at(std::vector<size_t> level, std::string program, std::function<std::string(size_t)> name_of) {
    f_.name = std::move(program);
    name_of_ = std::move(name_of);
    find_sources();
    level_of_statement_ = std::move(level);
    level_of_array_.assign(f_.arrays.size(), 0);
    for (size_t k = 0; k < f_.body.size(); ++k)
      for (uint32_t a : nest::written(f_.body[k])) level_of_array_[a] = level_of_statement_[k];
    number_values();
    return write_program();
  }

 private:
  // Statements from which no output follows, and checks on symbols that are gone with them.
  void remove_unused() {
    std::set<uint32_t> arrays(f_.outputs.begin(), f_.outputs.end());
    SymbolSet symbols;
    const auto need = [&](uint32_t array) {
      if (array == kNoArray) return;
      arrays.insert(array);
      for (const ir::Expr* extent : f_.arrays[array].shape) nest::add_symbols(extent, symbols);
    };
    for (uint32_t output : f_.outputs) need(output);
    std::vector<Statement> kept;
    for (size_t k = f_.body.size(); k-- > 0;) {
      Statement& s = f_.body[k];
      bool needed = false;
      for (uint32_t a : nest::written(s)) {
        needed = needed || arrays.count(a);
        if (s.control)
          for (const ir::Expr* extent : f_.arrays[a].shape) needed = needed || (extent->op == ir::Op::Sym && symbols.count(extent->sym));
      }
      if (s.control)
        for (const ir::Sym* sym : s.control->symbols) needed = needed || symbols.count(sym);
      if (!needed) continue;
      for (uint32_t a : nest::read(s)) need(a);
      for (uint32_t a : nest::written(s)) need(a);
      nest::add_symbols(f_, s, symbols);
      kept.push_back(std::move(s));
    }
    std::reverse(kept.begin(), kept.end());
    f_.body = std::move(kept);
  }

  void find_sources() {
    for (uint32_t input : f_.inputs)
      if (f_.arrays[input].dtype != DType::Str) add_axes(input);  // kernels see what StringsIn makes of those
    for (const Function::Element& e : f_.elements)
      sources_.try_emplace(e.sym, Source{Source::Kind::Element, e.input, e.element, nullptr, 0});
    for (const Function::Definition& d : f_.definitions) sources_.try_emplace(d.sym, Source{Source::Kind::Definition, 0, 0, d.value, 0});
    for (const Statement& s : f_.body) {
      if (!s.control) continue;
      for (size_t k = 0; k < s.control->symbols.size(); ++k)
        sources_.try_emplace(s.control->symbols[k], Source{Source::Kind::Element, s.control->inputs[0], k, nullptr, 0});
      for (uint32_t output : s.control->outputs)
        if (output != kNoArray) add_axes(output);
    }
    std::erase_if(f_.checks, [&](const Function::Check& check) {
      SymbolSet symbols;
      nest::add_symbols(check.condition, symbols);
      return std::any_of(symbols.begin(), symbols.end(), [&](const ir::Sym* sym) { return !sources_.count(sym); });
    });
  }

  void add_axes(uint32_t array) {
    const auto& shape = f_.arrays[array].shape;
    for (size_t axis = 0; axis < shape.size(); ++axis)
      if (shape[axis]->op == ir::Op::Sym) sources_.try_emplace(shape[axis]->sym, Source{Source::Kind::Axis, array, axis, nullptr, 0});
  }

  // Everything that bodies need from here becomes an argument of theirs; constants move into them.
  Status hand_over(Control& control) {
    if (control.bodies.empty()) return ok();
    const size_t fixed = control.kind == StepOp::Loop ? 2 + control.carried : 1;  // operands before the arguments
    const size_t skipped = control.kind == StepOp::Loop ? 0 : 1;                  // of them, those that bodies do not get
    for (size_t k = control.inputs.size(); k-- > fixed;) {
      const Array& given = f_.arrays[control.inputs[k]];
      if (given.kind != Array::Kind::Const) continue;
      control.inputs.erase(control.inputs.begin() + static_cast<std::ptrdiff_t>(k));
      for (auto& body : control.bodies) {
        const uint32_t input = static_cast<uint32_t>(k - skipped);
        Array& array = body->arrays[body->inputs[input]];
        array.kind = Array::Kind::Const;
        array.data = given.data;
        array.shape = given.shape;
        body->inputs.erase(body->inputs.begin() + input);
      }
    }
    SymbolSet needed;
    for (const auto& body : control.bodies) needed.merge(nest::foreign_symbols(*body));
    std::vector<const ir::Sym*> todo(needed.begin(), needed.end());
    std::vector<Function::Definition> definitions;
    for (size_t k = 0; k < todo.size(); ++k) {
      auto found = sources_.find(todo[k]);
      if (found == sources_.end()) return Status(Code::Internal, "'" + todo[k]->name + "' has no value in '" + f_.name + "'");
      if (found->second.kind != Source::Kind::Definition) continue;
      definitions.insert(definitions.begin(), {todo[k], found->second.value});
      SymbolSet more;
      nest::add_symbols(found->second.value, more);
      for (const ir::Sym* sym : more)
        if (needed.insert(sym).second) todo.push_back(sym);
    }
    for (const ir::Sym* sym : todo) {
      const Source& source = sources_.at(sym);
      if (source.kind == Source::Kind::Definition) continue;
      control.inputs.push_back(source.array);
      for (auto& body : control.bodies) {
        const auto input = static_cast<uint32_t>(body->arrays.size());
        body->inputs.push_back(input);
        body->arrays.push_back(carrier(*body, f_.arrays[source.array], source, sym));
        if (source.kind == Source::Kind::Element) body->elements.push_back({sym, input, source.place});
      }
    }
    for (auto& body : control.bodies) body->definitions.insert(body->definitions.begin(), definitions.begin(), definitions.end());
    return ok();
  }

  // An input that is there for the sake of one symbol: nothing is said of its other extents.
  Array carrier(const Function& user, const Array& like, const Source& source, const ir::Sym* sym) {
    Array array;
    array.name = sym->name + " of " + like.name + "#" + std::to_string(user.arrays.size());
    array.kind = Array::Kind::Input;
    array.dtype = like.dtype;
    array.list_depth = like.list_depth;
    for (size_t axis = 0; axis < like.shape.size(); ++axis) {
      const bool wanted = source.kind == Source::Kind::Axis && axis == source.place;
      array.shape.push_back(wanted                         ? ctx_.sym(sym)
                            : like.shape[axis]->is_const() ? like.shape[axis]
                                                           : ctx_.sym(ctx_.declare_sym(array.name + "." + user.name + "." + std::to_string(axis))));
    }
    return array;
  }

  // What follows from no input is the same in every run, so that a session does it once (runtime/plan/execute/program.h): strings made of
  // constants, what is computed from these, and what they are made of. It has levels of its own, before all others. Other
  // statements on constants stay where they are: passes derive them with the code that reads them.
  void find_fixed() {
    const auto is_string = [](const Statement& s) { return s.control && is_about_strings(s.control->kind); };
    if (std::none_of(f_.body.begin(), f_.body.end(), is_string)) return;
    is_fixed_.assign(f_.body.size(), true);
    std::vector<bool> varies(f_.arrays.size());
    for (size_t a = 0; a < varies.size(); ++a) varies[a] = f_.arrays[a].kind == Array::Kind::Input;
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t k = 0; k < f_.body.size(); ++k) {
        const Control* c = f_.body[k].control.get();
        const bool once = !c || (c->kind != StepOp::Host && c->bodies.empty());
        if (!is_fixed_[k] || (once && !touches(f_.body[k], varies))) continue;
        changed = true;
        is_fixed_[k] = false;
        for (uint32_t a : nest::written(f_.body[k])) varies[a] = true;
      }
    }
    std::vector<bool> of_strings(f_.arrays.size()), needed(f_.arrays.size());
    std::vector<bool> chosen(f_.body.size());
    const auto choose = [&](size_t k) {
      chosen[k] = true;
      for (uint32_t a : nest::written(f_.body[k])) of_strings[a] = true;
      for_touched(f_.body[k], [&](uint32_t a) { needed[a] = true; });
    };
    for (size_t k = 0; k < f_.body.size(); ++k) {
      if (is_fixed_[k] && (is_string(f_.body[k]) || touches(f_.body[k], of_strings))) choose(k);
    }
    for (size_t k = f_.body.size(); k-- > 0;) {
      const Statement& s = f_.body[k];
      const std::vector<uint32_t> arrays = is_read(s) ? nest::read(s) : nest::written(s);
      if (is_fixed_[k] && std::any_of(arrays.begin(), arrays.end(), [&](uint32_t a) { return needed[a]; })) choose(k);
    }
    is_fixed_ = std::move(chosen);
  }

  // Arrays that a statement reads or writes, and those that the symbols come from which it needs.
  void for_touched(const Statement& s, const std::function<void(uint32_t)>& visit) const {
    for (uint32_t a : nest::read(s)) visit(a);
    for (uint32_t a : nest::written(s)) visit(a);
    SymbolSet symbols;
    nest::add_symbols(f_, s, symbols);
    std::vector<const ir::Sym*> todo(symbols.begin(), symbols.end());
    for (size_t k = 0; k < todo.size(); ++k) {
      const auto found = sources_.find(todo[k]);
      if (found == sources_.end()) continue;
      if (found->second.kind != Source::Kind::Definition) {
        visit(found->second.array);
        continue;
      }
      SymbolSet more;
      nest::add_symbols(found->second.value, more);
      for (const ir::Sym* sym : more)
        if (symbols.insert(sym).second) todo.push_back(sym);
    }
  }
  bool touches(const Statement& s, const std::vector<bool>& arrays) const {
    bool any = false;
    for_touched(s, [&](uint32_t a) { any = any || arrays[a]; });
    return any;
  }
  bool is_fixed(size_t k) const { return !is_fixed_.empty() && is_fixed_[k]; }

  // How many levels there are of what is fixed: constants that steps about strings read are as well.
  size_t fixed_levels() const {
    size_t levels = 0;
    for (size_t k = 0; k < is_fixed_.size(); ++k) {
      const Control* c = f_.body[k].control.get();
      if (is_fixed_[k]) levels = std::max(levels, level_of_statement_[k] + 1);
      if (!c || !is_about_strings(c->kind)) continue;
      for (uint32_t a : c->inputs)
        if (a != kNoArray && f_.arrays[a].kind == Array::Kind::Const) levels = std::max<size_t>(levels, 1);
    }
    return levels;
  }

  void assign_levels() {
    level_of_array_.assign(f_.arrays.size(), 0);
    level_of_statement_.assign(f_.body.size(), 0);
    raise_levels(true);
    first_level_ = fixed_levels();
    for (auto& [sym, source] : sources_)
      if (source.kind != Source::Kind::Definition && f_.arrays[source.array].kind == Array::Kind::Input) source.level = first_level_;
    for (uint32_t input : f_.inputs) level_of_array_[input] = first_level_;
    raise_levels(false);
  }

  // Several statements may write parts of one array: they belong to one level, so levels rise until nothing changes.
  void raise_levels(bool fixed) {
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t k = 0; k < f_.body.size(); ++k) {
        if (is_fixed(k) != fixed) continue;
        const Statement& s = f_.body[k];
        SymbolSet symbols;
        nest::add_symbols(f_, s, symbols);
        size_t level = fixed ? 0 : first_level_;
        for (const ir::Sym* sym : symbols) level = std::max(level, level_of(sym));
        for (uint32_t a : nest::read(s)) level = std::max(level, level_of_array_[a]);
        if (s.control) ++level;
        for (uint32_t a : nest::written(s)) level = std::max(level, level_of_array_[a]);
        changed = changed || level != level_of_statement_[k];
        level_of_statement_[k] = level;
        for (uint32_t a : nest::written(s)) level_of_array_[a] = level;
        if (!s.control) continue;
        for (const ir::Sym* sym : s.control->symbols) sources_.at(sym).level = level;
        for (uint32_t a : nest::written(s))
          for (const ir::Expr* extent : f_.arrays[a].shape)
            if (extent->op == ir::Op::Sym && is_source(extent->sym, a)) sources_.at(extent->sym).level = level;
      }
    }
  }

  bool is_source(const ir::Sym* sym, uint32_t array) const {
    const Source& source = sources_.at(sym);
    return source.kind == Source::Kind::Axis && source.array == array;
  }

  size_t level_of(const ir::Sym* sym) const {
    auto found = sources_.find(sym);
    if (found == sources_.end()) return 0;
    if (found->second.kind != Source::Kind::Definition) return found->second.level;
    SymbolSet symbols;
    nest::add_symbols(found->second.value, symbols);
    size_t level = 0;
    for (const ir::Sym* s : symbols) level = std::max(level, level_of(s));
    return level;
  }

  // Inputs are values; so is all that a control or another level reads, and what is returned.
  void number_values() {
    for (uint32_t input : f_.inputs) value_of(input);
    for (size_t k = 0; k < f_.body.size(); ++k) {
      const Statement& s = f_.body[k];
      if (s.control) {
        for (uint32_t a : s.control->inputs)
          if (a != kNoArray) value_of(a);
        for (uint32_t a : s.control->outputs)
          if (a != kNoArray) value_of(a);
        continue;
      }
      for (uint32_t a : nest::read(s))
        if (f_.arrays[a].kind == Array::Kind::Temp && level_of_array_[a] != level_of_statement_[k]) value_of(a);
    }
    for (uint32_t output : f_.outputs) value_of(output);
  }

  uint32_t value_of(uint32_t array) {
    auto [found, is_new] = values_.emplace(array, static_cast<uint32_t>(program_.values.size()));
    if (is_new) {
      const Array& a = f_.arrays[array];
      program_.values.push_back({a.name, a.dtype, a.list_depth, static_cast<uint32_t>(a.shape.size())});
      value_order_.push_back(array);
    }
    return found->second;
  }

  Status write_program() {
    Function& interface = program_.interface;
    interface.name = f_.name;
    for (uint32_t input : f_.inputs) {
      interface.inputs.push_back(static_cast<uint32_t>(interface.arrays.size()));
      interface.arrays.push_back(f_.arrays[input]);
    }
    size_t levels = 1;
    for (size_t level : level_of_statement_) levels = std::max(levels, level + 1);
    for (size_t level = 0; level < levels; ++level) {
      for (size_t k = 0; k < f_.body.size(); ++k)
        if (f_.body[k].control && !is_read(f_.body[k]) && level_of_statement_[k] == level) add_control(f_.body[k]);
      MLC_RETURN_IF_ERROR(add_segment(level));
    }
    for (uint32_t output : f_.outputs) {
      program_.outputs.push_back(value_of(output));
      program_.output_names.push_back(f_.arrays[output].name);
    }
    parts_.programs.push_back(std::make_shared<const Program>(std::move(program_)));
    return ok();
  }

  std::string next_name() {
    const size_t number = num_callees_++;
    return name_of_ ? name_of_(number) : f_.name + "/" + std::to_string(number);
  }

  void add_control(Statement& s) {
    Control& c = *s.control;
    Step step;
    step.op = c.kind;
    step.carried = c.carried;
    step.set = c.set;
    step.service = c.service;
    step.options = c.options;
    if (c.kind == StepOp::Host)
      for (uint32_t a : c.outputs)
        for (const ir::Expr* extent : f_.arrays[a].shape) step.extents.push_back(extent->is_const() ? extent->i : -1);
    step.source = s.source;
    for (uint32_t a : c.inputs) step.inputs.push_back(a == kNoArray ? kNoArray : value_of(a));
    for (uint32_t a : c.outputs) step.outputs.push_back(a == kNoArray ? kNoArray : value_of(a));
    for (auto& body : c.bodies) {
      body->name = next_name();
      step.functions.push_back(body->name);
      bodies_.push_back(std::move(*body));
    }
    program_.steps.push_back(std::move(step));
  }

  // The statements of a level, and the checks whose symbols are known by then.
  Status add_segment(size_t level) {
    auto segment = std::make_unique<Function>();
    Step step;
    step.op = StepOp::Call;
    std::map<uint32_t, uint32_t> local;
    const auto local_of = [&](uint32_t number) {
      auto [found, is_new] = local.emplace(number, static_cast<uint32_t>(segment->arrays.size()));
      if (!is_new) return found->second;
      Array array = f_.arrays[number];
      if (array.kind != Array::Kind::Const && array.kind != Array::Kind::Derived) {
        const bool is_input = array.kind == Array::Kind::Input || level_of_array_[number] != level || is_written_by_control(number);
        array.kind = is_input ? Array::Kind::Input : Array::Kind::Temp;
        if (is_input) {
          segment->inputs.push_back(found->second);
          step.inputs.push_back(value_of(number));
        }
      }
      segment->arrays.push_back(std::move(array));
      return found->second;
    };
    SymbolSet needed;
    for (size_t k = 0; k < f_.body.size(); ++k) {
      Statement& s = f_.body[k];
      if (s.control || level_of_statement_[k] != level) continue;
      nest::add_symbols(f_, s, needed);
      nest::renumber(ctx_, s, local_of);
      if (step.source.empty()) step.source = s.source;
      segment->body.push_back(std::move(s));
    }
    for (Array& array : segment->arrays)
      if (array.layout.is_part()) array.whole = local.at(array.whole);  // a copy to it is here
    for (uint32_t array : value_order_) {
      const bool is_constant = f_.arrays[array].kind == Array::Kind::Const && level == 0;
      const bool is_result = f_.arrays[array].kind == Array::Kind::Temp && level_of_array_[array] == level && !is_written_by_control(array);
      if (!is_constant && !is_result) continue;
      segment->outputs.push_back(local_of(array));
      step.outputs.push_back(value_of(array));
    }
    for (Function::Check& check : f_.checks) {
      SymbolSet symbols;
      nest::add_symbols(check.condition, symbols);
      size_t at = 0;
      for (const ir::Sym* sym : symbols) at = std::max(at, level_of(sym));
      // Parts rely on what holds for the whole, each by itself: an extent of theirs may be negative else.
      const bool is_repeated = name_of_ && at < level && std::includes(needed.begin(), needed.end(), symbols.begin(), symbols.end(), nest::SymbolOrder());
      if (at != level && !is_repeated) continue;
      needed.merge(symbols);
      segment->checks.push_back(check);
    }
    if (segment->body.empty() && segment->outputs.empty() && segment->checks.empty()) return ok();
    MLC_RETURN_IF_ERROR(bind_symbols(*segment, step, needed, local_of));
    segment->name = next_name();
    step.functions = {segment->name};
    program_.steps.push_back(std::move(step));
    parts_.segments.push_back(std::move(segment));
    return ok();
  }

  // Every symbol that the segment needs: from an axis that one of its inputs has, or from an array handed to it for that.
  Status bind_symbols(Function& segment, Step& step, SymbolSet needed, const std::function<uint32_t(uint32_t)>& local_of) {
    SymbolSet bound;
    const auto bind_axes = [&](const Array& array) {
      for (const ir::Expr* extent : array.shape)
        if (extent->op == ir::Op::Sym) bound.insert(extent->sym);
    };
    for (uint32_t input : segment.inputs) bind_axes(segment.arrays[input]);
    std::vector<const ir::Sym*> todo(needed.begin(), needed.end());
    for (size_t k = 0; k < todo.size(); ++k) {
      const ir::Sym* sym = todo[k];
      if (bound.count(sym)) continue;
      auto found = sources_.find(sym);
      if (found == sources_.end()) return Status(Code::Internal, "'" + sym->name + "' has no value in '" + f_.name + "'");
      const Source& source = found->second;
      bound.insert(sym);
      if (source.kind == Source::Kind::Definition) {
        segment.definitions.insert(segment.definitions.begin(), {sym, source.value});
        SymbolSet more;
        nest::add_symbols(source.value, more);
        todo.insert(todo.end(), more.begin(), more.end());
      } else if (source.kind == Source::Kind::Element) {
        const uint32_t number = local_of(source.array);
        if (segment.arrays[number].kind != Array::Kind::Input) return Status(Code::Internal, "'" + sym->name + "' is read from a constant");
        segment.elements.push_back({sym, number, source.place});
        // The array may be new here, with extents of its own to be known.
        for (const ir::Expr* extent : segment.arrays[number].shape) {
          SymbolSet more;
          nest::add_symbols(extent, more);
          todo.insert(todo.end(), more.begin(), more.end());
        }
      } else {
        segment.inputs.push_back(static_cast<uint32_t>(segment.arrays.size()));
        segment.arrays.push_back(carrier(segment, f_.arrays[source.array], source, sym));
        step.inputs.push_back(value_of(source.array));
      }
    }
    return ok();
  }

  bool is_written_by_control(uint32_t array) {
    if (by_control_.empty()) {
      by_control_.resize(f_.arrays.size());
      for (const Statement& s : f_.body)
        if (s.control)
          for (uint32_t a : nest::written(s)) by_control_[a] = true;
    }
    return by_control_[array];
  }

  ir::Context& ctx_;
  Function f_;
  Parts& parts_;
  Program program_;
  std::map<const ir::Sym*, Source, nest::SymbolOrder> sources_;
  std::vector<size_t> level_of_array_, level_of_statement_;
  std::vector<bool> is_fixed_;  // by statement; empty: none is
  size_t first_level_ = 0;      // of what is not
  std::map<uint32_t, uint32_t> values_;  // array to value
  std::vector<uint32_t> value_order_;    // arrays, by value
  std::vector<bool> by_control_;
  std::vector<Function> bodies_;
  size_t num_callees_ = 0;
  std::function<std::string(size_t)> name_of_;  // null: the usual names
};

}  // namespace

Parts copy_of(const Parts& parts) {
  Parts copy;
  for (const auto& segment : parts.segments) copy.segments.push_back(std::make_unique<Function>(nest::copy_of(*segment)));
  copy.programs = parts.programs;
  copy.derive = parts.derive;
  copy.derived = parts.derived;
  copy.num_whole = parts.num_whole;
  return copy;
}

Status partition(ir::Context& ctx, nest::Function function, Parts& parts) {
  if (!function.states.empty() && !is_segment(function)) add_state_program(function, parts);
  return Partitioner(ctx, std::move(function), parts).run(true);
}

Status partition_at(ir::Context& ctx, nest::Function function, std::vector<size_t> level, std::string program,
                    std::function<std::string(size_t)> name_of, Parts& parts) {
  return Partitioner(ctx, std::move(function), parts).run_at(std::move(level), std::move(program), std::move(name_of));
}

}  // namespace mlc::passes
