// The rules about programs: which function may call which, what each step reads and writes, when a value is read for the last time.
#include <algorithm>
#include <utility>

#include "base/compose.h"
#include "schema/plan/plan.h"

namespace mlc::exec {
namespace {

struct Type {
  DType dtype = DType::None;  // None: not written yet, or an operand that is absent
  uint8_t depth = 0;
  bool operator==(const Type&) const = default;
};
Type type_of(const Port& p) { return {p.dtype, p.list_depth}; }
bool is_condition(Type t) { return t == Type{DType::Bool, 0}; }
bool is_position(Type t) { return t == Type{DType::I64, 0} || t == Type{DType::I32, 0}; }

// Steps that take functions check them first; operands of all others are counted here.
constexpr size_t kAnyNumber = SIZE_MAX;
size_t operands_of(StepOp op) {
  switch (op) {
    case StepOp::ListInsert: return 3;
    case StepOp::ListErase: case StepOp::ListAt: case StepOp::ListSplit: case StepOp::StringsMake:
    case StepOp::StringConcat: case StepOp::StringSplit: case StepOp::StringNormalize: case StepOp::StringMatch:
    case StepOp::StringTokens: return 2;
    case StepOp::ListLength: case StepOp::ListConcat: case StepOp::StringsIn: case StepOp::StringsOut:
    case StepOp::StringFromNumber: case StepOp::NumberFromString: case StepOp::StringRank: return 1;
    default: return kAnyNumber;
  }
}
uint32_t functions_of(StepOp op) {
  return op == StepOp::Branch ? 2 : op == StepOp::Call || op == StepOp::Loop ? 1 : 0;
}
bool may_be_absent(StepOp op, size_t operand) {
  return op == StepOp::Loop         ? operand < 2
         : op == StepOp::ListInsert ? operand == 2
                                    : (op == StepOp::ListErase || op == StepOp::ListSplit) && operand == 1;
}

class Checker {
 public:
  Checker(const Plan& plan, uint32_t index, Function& f) : plan_(plan), index_(index), f_(f) {}

  Status run() {
    types_.assign(f_.num_values, {});
    if (f_.inputs.size() > types_.size()) return bad("more inputs than values");
    for (size_t i = 0; i < f_.inputs.size(); ++i) types_[i] = type_of(f_.inputs[i]);
    for (at_ = 0; at_ < f_.steps.size(); ++at_) MLC_RETURN_IF_ERROR(check_step(f_.steps[at_]));
    for (const Port& p : f_.outputs)
      if (p.value >= types_.size() || types_[p.value] != type_of(p))
        return bad(compose("output '{}' is no value of its type", p.name));
    for (const Type& t : types_)
      if (t.dtype == DType::None) return bad("values that nothing writes");
    find_last_reads();
    find_fixed();
    return ok();
  }

 private:
  Status bad(std::string what) const {
    return Status(Code::Malformed, compose("plan: '{}': {}", f_.name, what));
  }
  Status bad_step(const char* what) const {
    const std::string& name = f_.steps[at_].name;
    return bad(compose("step {}{}{}{}: {}", at_, name.empty() ? "" : " (", name, name.empty() ? "" : ")", what));
  }

  // Whether operands from `first` on are what the function takes from its input `skip` on.
  bool takes(const Function& callee, size_t skip, size_t first) const {
    if (callee.inputs.size() - skip != in_.size() - first || callee.inputs.size() < skip) return false;
    for (size_t i = 0; first + i < in_.size(); ++i)
      if (type_of(callee.inputs[skip + i]) != in_[first + i]) return false;
    return true;
  }
  static bool same_results(const Function& a, const Function& b) {
    return std::equal(a.outputs.begin(), a.outputs.end(), b.outputs.begin(), b.outputs.end(),
                      [](const Port& x, const Port& y) { return type_of(x) == type_of(y); });
  }
  void gives(const Function& callee, size_t first) {
    for (size_t i = first; i < callee.outputs.size(); ++i) out_.push_back(type_of(callee.outputs[i]));
  }

  Status check_step(Step& s) {
    in_.clear();
    out_.clear();
    for (size_t k = 0; k < s.inputs.size(); ++k) {
      const uint32_t v = s.inputs[k];
      if (v == kNoValue ? !may_be_absent(s.op, k) : v >= types_.size() || types_[v].dtype == DType::None)
        return bad_step("reads a value before it is written");
      in_.push_back(v == kNoValue ? Type{} : types_[v]);
    }
    if (s.functions.size() != functions_of(s.op)) return bad_step("number of functions");
    for (uint32_t f : s.functions)
      if (f <= index_ || f >= plan_.functions.size()) return bad_step("calls a function that does not come after its own");
    const size_t operands = operands_of(s.op);
    if (operands != kAnyNumber && in_.size() != operands) return bad_step("number of operands");
    MLC_RETURN_IF_ERROR(check_types(s));
    if (s.outputs.size() != out_.size()) return bad_step("number of results");
    for (size_t k = 0; k < out_.size(); ++k) {
      const uint32_t v = s.outputs[k];
      if (v == kNoValue) continue;
      if (v >= types_.size() || types_[v].dtype != DType::None) return bad_step("writes a value twice, or none");
      types_[v] = out_[k];
    }
    return ok();
  }

  Status check_types(Step& s) {
    const Function* f = s.functions.empty() ? nullptr : &plan_.functions[s.functions[0]];
    bool good = true;
    switch (s.op) {
      case StepOp::None: break;
      case StepOp::Call:
        good = takes(*f, 0, 0);
        gives(*f, 0);
        break;
      case StepOp::Branch: {
        const Function& other = plan_.functions[s.functions[1]];
        good = !in_.empty() && is_condition(in_[0]) && takes(*f, 0, 1) && takes(other, 0, 1) && same_results(*f, other);
        gives(*f, 0);
        break;
      }
      case StepOp::Loop: good = loop_fits(s, *f); break;
      case StepOp::ListMake: {
        if (in_.empty()) out_.push_back({s.dtype, s.list_depth});
        else out_.push_back({in_[0].dtype, static_cast<uint8_t>(in_[0].depth + 1)});
        good = out_[0].dtype != DType::None && bytes_of(out_[0].dtype) > 0 && out_[0].depth > 0 &&
               out_[0].depth <= kMaxListDepth;
        for (const Type& t : in_) good = good && t == in_[0];
        s.dtype = out_[0].dtype;
        s.list_depth = out_[0].depth;
        break;
      }
      case StepOp::ListInsert:
        good = in_[0] == Type{in_[1].dtype, static_cast<uint8_t>(in_[1].depth + 1)} && position_or_none(in_[2]);
        out_.push_back(in_[0]);
        break;
      case StepOp::ListErase:
        good = in_[0].depth > 0 && position_or_none(in_[1]);
        out_.push_back(in_[0]);
        break;
      case StepOp::ListAt:
        good = in_[0].depth > 0 && is_position(in_[1]);
        out_.push_back({in_[0].dtype, static_cast<uint8_t>(in_[0].depth - 1)});
        break;
      case StepOp::ListLength:
        good = in_[0].depth > 0;
        out_.push_back({DType::I64, 0});
        break;
      case StepOp::ListConcat:
        good = in_[0].depth == 1;
        out_.push_back({in_[0].dtype, 0});
        break;
      case StepOp::ListSplit:
        good = in_[0].depth == 0 && position_or_none(in_[1]);
        out_.push_back({in_[0].dtype, 1});
        break;
      case StepOp::Host: good = host_fits(s); break;
      default: good = strings_fit(s); break;
    }
    // Strings come in and go out, nothing else is done with them.
    const auto has_strings = [](const std::vector<Type>& types) {
      return std::any_of(types.begin(), types.end(), [](Type t) { return t.dtype == DType::Str; });
    };
    if ((s.op != StepOp::StringsIn && has_strings(in_)) || (s.op != StepOp::StringsOut && has_strings(out_))) good = false;
    return good ? ok() : bad_step("its operands are not what it takes");
  }
  bool host_fits(const Step& s) {
    for (const Type& t : in_)
      if (t.depth > 0) return false;
    for (size_t at = 0; at < s.results.size();) {
      const int64_t dtype = s.results[at++], rank = at < s.results.size() ? s.results[at++] : -1;
      if (dtype <= 0 || dtype > static_cast<int64_t>(kLastDType) || rank < 0 || rank > format::kMaxRank ||
          static_cast<size_t>(rank) > s.results.size() - at)
        return false;
      out_.push_back({static_cast<DType>(dtype), 0});
      for (int64_t k = 0; k < rank; ++k)
        if (s.results[at++] < -1) return false;
    }
    return s.options.find('\0') == s.options.npos;
  }
  bool strings_fit(const Step& s) {
    const auto takes = [&](size_t operand, DType t) { return in_[operand] == Type{t, 0}; };
    DType result = DType::U64, first = DType::U64;
    bool good = true;
    switch (s.op) {
      case StepOp::StringsIn: case StepOp::StringsOut: {
        const bool in = s.op == StepOp::StringsIn;
        out_.push_back({in ? DType::U64 : DType::Str, in_[0].depth});
        return in_[0].dtype == (in ? DType::Str : DType::U64);
      }
      case StepOp::StringsMake:
        first = DType::U8;
        good = takes(1, DType::I64);
        break;
      case StepOp::StringTokens: good = takes(1, DType::I32); break;
      case StepOp::StringRank: result = DType::I64; break;
      case StepOp::StringMatch:
        result = DType::Bool;
        good = takes(1, DType::I32);
        break;
      case StepOp::StringFromNumber:
        first = in_[0].dtype;
        good = bits_of(first) >= 8 && (!is_float(first) || bits_of(first) >= 32);
        break;
      case StepOp::NumberFromString: result = s.integers ? DType::I64 : DType::F64; break;
      default: good = takes(1, DType::U64); break;  // concat, split, normalize
    }
    out_.push_back({result, 0});
    if (s.op == StepOp::StringSplit || s.op == StepOp::StringTokens) out_.push_back({DType::I64, 0});
    return good && takes(0, first);
  }
  static bool position_or_none(Type t) { return t.dtype == DType::None || is_position(t); }

  bool loop_fits(const Step& s, const Function& body) {
    const uint64_t carried = s.carried;
    if (in_.size() < 2 + carried || body.inputs.size() != in_.size() || body.outputs.size() < 1 + carried) return false;
    if (!position_or_none(in_[0]) || (in_[1].dtype != DType::None && !is_condition(in_[1]))) return false;
    // Iteration number and condition come as scalars.
    if (type_of(body.inputs[0]) != Type{DType::I64, 0} || !is_condition(type_of(body.inputs[1])) ||
        body.inputs[0].axes() + body.inputs[1].axes() > 0 || !takes(body, 2, 2) || !is_condition(type_of(body.outputs[0])))
      return false;
    for (size_t i = 0; i < carried; ++i)
      if (type_of(body.outputs[1 + i]) != in_[2 + i]) return false;
    for (size_t i = 1 + carried; i < body.outputs.size(); ++i)
      if (body.outputs[i].list_depth > 0) return false;
    gives(body, 1);
    return true;
  }

  void find_last_reads() {
    std::vector<bool> read(f_.num_values, false);  // by what comes after
    for (const Port& p : f_.outputs) read[p.value] = true;
    for (size_t i = f_.steps.size(); i-- > 0;) {
      Step& s = f_.steps[i];
      s.wanted.resize(s.outputs.size());
      s.last.resize(s.inputs.size());
      for (size_t k = 0; k < s.outputs.size(); ++k) s.wanted[k] = s.outputs[k] != kNoValue && read[s.outputs[k]];
      for (size_t k = s.inputs.size(); k-- > 0;) {
        if (s.inputs[k] == kNoValue) continue;
        s.last[k] = !read[s.inputs[k]];
        read[s.inputs[k]] = true;
      }
    }
  }

  // Calls of segments without a state, and steps about strings, of operands that follow from no input.
  void find_fixed() {
    std::vector<bool> fixed(f_.num_values, false), wanted(f_.num_values, false);
    for (const Port& p : f_.outputs) wanted[p.value] = true;
    for (Step& s : f_.steps) {
      bool is_function = s.op >= StepOp::StringsMake && s.op <= StepOp::StringRank;
      if (s.op == StepOp::Call) {
        const Function& callee = plan_.functions[s.functions[0]];
        is_function = !callee.is_program() && std::none_of(callee.buffers.begin(), callee.buffers.end(),
                                                           [](const Buffer& b) { return b.kind == BufferKind::State; });
      }
      s.fixed = is_function && std::all_of(s.inputs.begin(), s.inputs.end(), [&](uint32_t v) { return v != kNoValue && fixed[v]; });
      for (const uint32_t v : s.outputs)
        if (v != kNoValue) fixed[v] = s.fixed;
      for (const uint32_t v : s.inputs)
        if (!s.fixed && v != kNoValue) wanted[v] = true;
    }
    for (uint32_t v = 0; v < f_.num_values; ++v)
      if (fixed[v] && wanted[v]) f_.kept.push_back(v);
    for (Step& s : f_.steps)  // they are done before the others
      for (size_t k = 0; s.fixed && k < s.inputs.size(); ++k)
        if (wanted[s.inputs[k]]) s.last[k] = false;
  }

  const Plan& plan_;
  const uint32_t index_;
  Function& f_;
  size_t at_ = 0;
  std::vector<Type> types_, in_, out_;
};

}  // namespace

Status check_programs(Plan& plan) {
  std::vector<uint32_t> depth(plan.functions.size(), 0);
  plan.call_depth = 0;
  for (size_t i = plan.functions.size(); i-- > 0;) {  // callees come after their callers
    Function& f = plan.functions[i];
    if (!f.is_program()) continue;
    MLC_RETURN_IF_ERROR(Checker(plan, static_cast<uint32_t>(i), f).run());
    for (const Step& s : f.steps)
      for (uint32_t callee : s.functions) depth[i] = std::max(depth[i], depth[callee]);
    if (++depth[i] > kMaxCallDepth)
      return Status(Code::Malformed, compose("plan: '{}': calls nest deeper than {}", f.name, kMaxCallDepth));
    plan.call_depth = std::max(plan.call_depth, depth[i]);
  }
  return ok();
}

}  // namespace mlc::exec
