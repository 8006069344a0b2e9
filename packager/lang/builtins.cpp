// Built-in functions that are answered while building: of names, lists and element types. spec/operator-language.md has them.
#include <algorithm>
#include <set>
#include <unordered_map>

#include "packager/lang/expander.h"

namespace mlc::lang {

// One call of such a function.
class BuiltinCall {
 public:
  BuiltinCall(Expander& expander, const Node* n) : x_(expander), ctx_(expander.ctx_), n_(n), name_(n->text) {}
  std::optional<Val> answer();

 private:
  struct Entry {
    size_t arguments;
    Val (BuiltinCall::*function)();
    bool is_overloaded = false;  // with another number of arguments it is another function
  };
  static const std::unordered_map<std::string, Entry>& table();

  // Of names.
  Val present();
  Val count();
  Val rank();
  Val before();
  Val site();
  // What is settled.
  Val assume();
  Val known();
  // Of one list.
  Val len() { return soft_int(list_of(0).size()); }
  Val fold();
  Val extreme();
  Val all() { return x_.scalar(x_.conjunction(argument(0), n_->pos), true); }
  Val any();
  Val rev();
  Val order();
  Val unique();
  // Of a list and something else.
  Val pick();
  Val drop();
  Val put();
  Val slice();
  Val has();
  Val find();
  Val broadcast();
  Val flat() { return x_.flat(list_of(0), list_of(1), n_->pos); }
  Val unflat();
  Val same();
  // Of element types.
  Val is_of_class();
  Val bits() { return soft_int(static_cast<size_t>(bits_of(type_of()))); }
  Val limit();

  [[noreturn]] void fail(const std::string& message) { x_.fail_here(n_->pos, message); }
  const Node* kid(size_t k) { return n_->kids[k]; }
  Val argument(size_t k) { return x_.eval(kid(k)); }
  Val soft_int(size_t v) { return x_.soft_int(static_cast<int64_t>(v)); }
  Val truth(bool v) { return x_.scalar(ctx_.boolean(v), true); }
  const std::vector<Input>& items_of(const Param& p) { return x_.inputs_[static_cast<size_t>(&p - x_.op_.params.data())]; }
  std::string name_of();
  std::vector<Val> list_of(size_t k);
  std::vector<size_t> places(size_t k, size_t count);
  std::vector<Ex> numbers_of(size_t k);
  DType type_of();

  Expander& x_;
  ir::Context& ctx_;
  const Node* n_;
  const std::string& name_;
};

const std::unordered_map<std::string, BuiltinCall::Entry>& BuiltinCall::table() {
  using B = BuiltinCall;
  static const std::unordered_map<std::string, Entry> entries = {
      {"present", {1, &B::present}}, {"count", {1, &B::count}}, {"rank", {1, &B::rank}}, {"before", {1, &B::before}},
      {"site", {0, &B::site}}, {"assume", {1, &B::assume}}, {"known", {1, &B::known}}, {"len", {1, &B::len}},
      {"prod", {1, &B::fold}}, {"total", {1, &B::fold}}, {"min", {1, &B::extreme, true}}, {"max", {1, &B::extreme, true}},
      {"all", {1, &B::all, true}}, {"any", {1, &B::any, true}}, {"rev", {1, &B::rev}}, {"order", {1, &B::order}},
      {"unique", {1, &B::unique}}, {"pick", {2, &B::pick}}, {"drop", {2, &B::drop}}, {"put", {3, &B::put}},
      {"slice", {3, &B::slice}}, {"has", {2, &B::has}}, {"find", {2, &B::find}}, {"broadcast", {2, &B::broadcast}},
      {"flat", {2, &B::flat}}, {"unflat", {2, &B::unflat}}, {"same", {2, &B::same}}, {"is_float", {1, &B::is_of_class}},
      {"is_int", {1, &B::is_of_class}}, {"is_signed", {1, &B::is_of_class}}, {"is_unsigned", {1, &B::is_of_class}},
      {"is_bool", {1, &B::is_of_class}}, {"bits", {1, &B::bits}}, {"lowest", {1, &B::limit}}, {"highest", {1, &B::limit}},
      {"bottom", {1, &B::limit}}, {"top", {1, &B::limit}}};
  return entries;
}

std::optional<Val> BuiltinCall::answer() {
  const auto found = table().find(name_);
  if (found == table().end()) return {};
  const Entry& entry = found->second;
  if (n_->kids.size() != entry.arguments) {
    if (entry.is_overloaded) return {};
    fail(name_ + " takes " + std::to_string(entry.arguments) + " arguments, not " + std::to_string(n_->kids.size()));
  }
  return (this->*entry.function)();
}

std::string BuiltinCall::name_of() {
  if (kid(0)->kind != NodeKind::Name) fail(name_ + " takes a name");
  return kid(0)->text;
}

std::vector<Val> BuiltinCall::list_of(size_t k) {
  Val v = argument(k);
  if (!v.is_list()) x_.fail_here(kid(k)->pos, name_ + " wants a list here");
  return std::move(v.items);
}

// Positions in a list of `count`; negative ones count from its end.
std::vector<size_t> BuiltinCall::places(size_t k, size_t count) {
  const int64_t size = static_cast<int64_t>(count);
  std::vector<size_t> r;
  for (const Val& v : x_.as_list(argument(k))) {
    const int64_t given = x_.as_number(v, kid(k)->pos, "a position");
    const int64_t at = given < 0 ? given + size : given;
    if (at < 0 || at >= size) x_.mismatch("position " + std::to_string(given) + " in a list of " + std::to_string(count));
    r.push_back(static_cast<size_t>(at));
  }
  return r;
}

// For joins of lists by value, of operators whose attributes are tables. Equal constants are one expression.
std::vector<Ex> BuiltinCall::numbers_of(size_t k) {
  std::vector<Ex> r;
  for (const Val& v : list_of(k)) {
    Ex e = x_.as_index(v, n_->pos);
    if (!e->is_const()) x_.fail_here(kid(k)->pos, name_ + " wants numbers that are known while building");
    r.push_back(e);
  }
  return r;
}

DType BuiltinCall::type_of() {
  const Val v = argument(0);
  if (v.kind != Val::Kind::Type) fail(name_ + " takes an element type");
  return v.dtype;
}

Val BuiltinCall::present() {
  const std::string name = name_of();
  if (const Param* p = x_.op_.param(name)) {
    const auto& items = items_of(*p);
    return truth(!items.empty() && items[0].present);
  }
  if (const Result_* r = x_.op_.result(name)) {
    const size_t k = static_cast<size_t>(r - x_.op_.results.data());
    return truth(k < x_.call_.outputs.size() && x_.call_.outputs[k]);
  }
  if (const AttrDecl* a = x_.op_.attr(name)) return truth(x_.has_attribute(*a));
  fail("'" + name + "' is neither input, output nor attribute");
}

Val BuiltinCall::count() {
  const std::string name = name_of();
  if (const Param* p = x_.op_.param(name)) return soft_int(items_of(*p).size());
  if (const Result_* r = x_.op_.result(name); r && r->many)
    return x_.soft_int(static_cast<int64_t>(x_.call_.outputs.size()) - (r - x_.op_.results.data()));
  fail("'" + name + "' is no 'many' input or output");
}

// Of an input or of a pack of dims, else the length of a list.
Val BuiltinCall::rank() {
  if (kid(0)->kind == NodeKind::Name && !x_.in_function() && !x_.find_local(kid(0)->text)) {
    const std::string& name = kid(0)->text;
    if (const Param* p = x_.op_.param(name)) {
      const Input& in = items_of(*p).at(0);
      if (!in.present) x_.fail_call(n_->pos, "input " + name + " is absent");
      return soft_int(x_.function_.arrays[in.array].shape.size());
    }
    if (x_.dims_.count(name)) {
      if (auto r = x_.rank_of_pack(name)) return soft_int(*r);
      return soft_int(x_.extents_of(name, n_->pos).size());
    }
  }
  return len();
}

// site(): FNV-1a of the node's and its results' names, so that two nodes without a seed do not draw the same numbers.
Val BuiltinCall::site() {
  uint32_t h = 2166136261u;
  auto take = [&](const std::string& text) {
    for (const char c : text) h = (h ^ static_cast<uint8_t>(c)) * 16777619u;
    h *= 16777619u;  // an end of text, or "ab", "c" would read as "a", "bc"
  };
  take(x_.call_.source);
  for (const std::string& name : x_.call_.output_names) take(name);
  return soft_int(h);
}

Val BuiltinCall::before() {
  const std::string name = name_of();
  const auto it = x_.before_.find(name);
  if (it == x_.before_.end()) fail("before(" + name + ") belongs into 'for each'");
  return x_.scalar(it->second, true);
}

// assume(c): c, where it is settled. A condition on dims that is not is taken as true, and checked at run time; one
// on values read at run time stays open.
Val BuiltinCall::assume() {
  Val v = argument(0);
  Ex c = x_.conjunction(v, n_->pos);
  if (auto known = x_.settle(c)) return truth(*known);
  bool dims_only = true;
  ir::walk(c, [&](Ex e) { dims_only = dims_only && e->op != ir::Op::Load && e->op != ir::Op::Dim && (e->op != ir::Op::Sym || e->sym->lo >= 0); });
  if (!dims_only) return v;
  x_.require(c, "it is assumed that " + x_.shown(c));
  return truth(true);
}

// known(v): whether numbers are settled while building.
Val BuiltinCall::known() {
  bool settled = true;
  for (const Val& v : x_.as_list(argument(0))) settled = settled && v.is_const();
  return truth(settled);
}

Val BuiltinCall::fold() {
  const bool is_product = name_ == "prod";
  const Val neutral = x_.soft_int(is_product ? 1 : 0);
  const Val v = kid(0)->kind == NodeKind::Comprehension ? x_.eval_comprehension(kid(0), &neutral) : argument(0);
  Val r = neutral;
  bool first = true;
  for (const Val& item : x_.as_list(v)) {
    r = first ? item : x_.binary(is_product ? "*" : "+", r, item, n_->pos);
    first = false;
  }
  return r;
}

Val BuiltinCall::extreme() {
  const auto items = x_.as_list(argument(0));
  if (items.empty()) fail(name_ + " of an empty list");
  Val r = items[0];
  for (size_t k = 1; k < items.size(); ++k) r = *x_.call_scalar_function(name_, {r, items[k]}, n_->pos);
  return r;
}

Val BuiltinCall::any() {
  Val r = truth(false);
  for (const Val& item : x_.as_list(argument(0))) r = x_.logic(false, r, item, n_->pos);
  return r;
}

Val BuiltinCall::rev() {
  auto v = list_of(0);
  std::reverse(v.begin(), v.end());
  return x_.list(std::move(v));
}

// Positions by ascending value, equal ones as they stand.
Val BuiltinCall::order() {
  const auto v = numbers_of(0);
  std::vector<size_t> at(v.size());
  for (size_t k = 0; k < v.size(); ++k) at[k] = k;
  std::stable_sort(at.begin(), at.end(), [&](size_t a, size_t b) { return v[a]->i < v[b]->i; });
  std::vector<Val> r;
  for (size_t k : at) r.push_back(soft_int(k));
  return x_.list(std::move(r));
}

// Each value once, as they first appear.
Val BuiltinCall::unique() {
  std::set<Ex> seen;
  std::vector<Val> r;
  for (Ex e : numbers_of(0))
    if (seen.insert(e).second) r.push_back(x_.scalar(e, true));
  return x_.list(std::move(r));
}

Val BuiltinCall::pick() {
  const auto v = list_of(0);
  std::vector<Val> r;
  for (size_t k : places(1, v.size())) r.push_back(v[k]);
  return x_.list(std::move(r));
}

Val BuiltinCall::drop() {
  const auto v = list_of(0);
  std::vector<bool> stays(v.size(), true);
  for (size_t k : places(1, v.size())) stays[k] = false;
  std::vector<Val> r;
  for (size_t k = 0; k < v.size(); ++k)
    if (stays[k]) r.push_back(v[k]);
  return x_.list(std::move(r));
}

// put(list, positions, values): one value may serve for all positions.
Val BuiltinCall::put() {
  auto v = list_of(0);
  const auto at = places(1, v.size());
  const Val given = argument(2);
  if (given.is_list() && given.items.size() != at.size()) fail("put: as many values as positions");
  for (size_t k = 0; k < at.size(); ++k) v[at[k]] = given.is_list() ? given.items[k] : given;
  return x_.list(std::move(v));
}

// slice(list, from, to)
Val BuiltinCall::slice() {
  const auto v = list_of(0);
  const int64_t size = static_cast<int64_t>(v.size());
  const int64_t lo = std::clamp<int64_t>(x_.as_number(argument(1), n_->pos, "a position"), 0, size);
  const int64_t hi = std::clamp<int64_t>(x_.as_number(argument(2), n_->pos, "a position"), lo, size);
  return x_.list({v.begin() + lo, v.begin() + hi});
}

Val BuiltinCall::has() {
  const auto v = list_of(0);
  const Val wanted = argument(1);
  Val r = truth(false);
  for (const Val& item : v) r = x_.logic(false, r, x_.compare("==", item, wanted, n_->pos), n_->pos);
  return r;
}

// find(list, values): where each value stands first, -1 if nowhere.
Val BuiltinCall::find() {
  std::unordered_map<Ex, int64_t> first;
  int64_t at = 0;
  for (Ex e : numbers_of(0)) first.emplace(e, at++);
  std::vector<Val> r;
  for (Ex e : numbers_of(1)) {
    const auto it = first.find(e);
    r.push_back(x_.soft_int(it == first.end() ? -1 : it->second));
  }
  return x_.list(std::move(r));
}

Val BuiltinCall::broadcast() {
  const auto a = list_of(0), b = list_of(1);
  const size_t rank = std::max(a.size(), b.size());
  auto extent = [&](const std::vector<Val>& shape, size_t k) {
    return k + shape.size() >= rank ? x_.as_index(shape[k + shape.size() - rank], n_->pos) : ctx_.integer(1);
  };
  std::vector<Val> r;
  for (size_t k = 0; k < rank; ++k)
    r.push_back(x_.scalar(x_.broadcast(extent(a, k), extent(b, k), "broadcast", "first shape", "second shape"), true));
  return x_.list(std::move(r));
}

Val BuiltinCall::unflat() {
  const Val place = argument(0);
  return x_.unflat(place, list_of(1), n_->pos);
}

// same(a, b): lists of equal length and, while building, equal items.
Val BuiltinCall::same() {
  const auto a = list_of(0), b = list_of(1);
  bool equal = a.size() == b.size();
  for (size_t k = 0; equal && k < a.size(); ++k) equal = x_.as_index(a[k], n_->pos) == x_.as_index(b[k], n_->pos);
  return truth(equal);
}

Val BuiltinCall::is_of_class() {
  const DType t = type_of();
  return truth(name_ == "is_float" ? is_float(t) : name_ == "is_int" ? is_int(t) : name_ == "is_signed" ? is_signed_int(t)
               : name_ == "is_unsigned" ? is_unsigned_int(t) : t == DType::Bool);
}

Val BuiltinCall::limit() {
  using S = Val::Special;
  const S special = name_ == "lowest" ? S::Lowest : name_ == "highest" ? S::Highest : name_ == "bottom" ? S::Bottom : S::Top;
  return x_.scalar(x_.special_number(special, type_of(), n_->pos), false);
}

std::optional<Val> Expander::call_builtin(const Node* n) { return BuiltinCall(*this, n).answer(); }

}  // namespace mlc::lang
