// Built-in functions that are answered while building: of names, lists and element types. spec/operator-language.md has them.
#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>
#include <unordered_map>

#include "packager/lang/expand/expander.h"

namespace mlc::lang {

// One call of such a function.
class BuiltinCall {
 public:
  BuiltinCall(Expander& expander, const Node* n) : x_(expander), ctx_(expander.ctx_), n_(n), name_(n->text) {}
  std::optional<ExprValue> answer();

 private:
  struct Entry {
    size_t arguments;
    ExprValue (BuiltinCall::*function)();
    bool is_overloaded = false;  // with another number of arguments it is another function
  };
  static const std::unordered_map<std::string, Entry>& table();

  // Of names.
  ExprValue present();
  ExprValue count();
  ExprValue rank();
  ExprValue before();
  ExprValue site();
  // What is settled.
  ExprValue assume();
  ExprValue known();
  // Of one list.
  ExprValue len() { return soft_int(whole_list(0).length()); }
  ExprValue fold();
  ExprValue extreme();
  ExprValue all() { return x_.scalar(x_.conjunction(argument(0), n_->pos), true); }
  ExprValue any();
  ExprValue rev();
  ExprValue order();
  ExprValue unique();
  // Of a list and something else.
  ExprValue pick();
  ExprValue drop();
  ExprValue put();
  ExprValue slice();
  ExprValue has();
  ExprValue find();
  ExprValue hash_table();
  ExprValue prefixes();
  ExprValue broadcast();
  ExprValue flat() { return x_.flat(list_of(0), list_of(1), n_->pos); }
  ExprValue unflat();
  ExprValue same();
  // Of element types.
  ExprValue is_of_class();
  ExprValue bits() { return soft_int(static_cast<size_t>(bits_of(type_of()))); }
  ExprValue limit();

  [[noreturn]] void fail(const std::string& message) { x_.fail_here(n_->pos, message); }
  const Node* kid(size_t k) { return n_->kids[k]; }
  ExprValue argument(size_t k) { return x_.eval(kid(k)); }
  ExprValue soft_int(size_t v) { return x_.soft_int(static_cast<int64_t>(v)); }
  ExprValue truth(bool v) { return x_.scalar(ctx_.boolean(v), true); }
  const std::vector<Input>& items_of(const Param& p) { return x_.inputs_[static_cast<size_t>(&p - x_.op_.params.data())]; }
  std::string name_of();
  ExprValue whole_list(size_t k);
  std::vector<ExprValue> list_of(size_t k) { return x_.as_list(whole_list(k)); }
  std::vector<size_t> places(size_t k, size_t count);
  // Numbers that are known while building, their type, and their positions by ascending value, equal ones as they stand.
  struct Constants {
    DType type = DType::I64;
    std::vector<ir::Scalar> values;

    bool before(const ir::Scalar& a, const ir::Scalar& b) const;
    std::vector<size_t> order() const;
  };
  Constants constants_of(size_t k);
  Constants integers_of(size_t k);
  const nest::Array* constant_array(const Node* n);
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
      {"slice", {3, &B::slice}}, {"has", {2, &B::has}}, {"find", {2, &B::find}}, {"hash_table", {1, &B::hash_table}}, {"prefixes", {2, &B::prefixes}}, {"broadcast", {2, &B::broadcast}},
      {"flat", {2, &B::flat}}, {"unflat", {2, &B::unflat}}, {"same", {2, &B::same}}, {"is_float", {1, &B::is_of_class}},
      {"is_int", {1, &B::is_of_class}}, {"is_signed", {1, &B::is_of_class}}, {"is_unsigned", {1, &B::is_of_class}},
      {"is_bool", {1, &B::is_of_class}}, {"bits", {1, &B::bits}}, {"lowest", {1, &B::limit}}, {"highest", {1, &B::limit}},
      {"bottom", {1, &B::limit}}, {"top", {1, &B::limit}}};
  return entries;
}

std::optional<ExprValue> BuiltinCall::answer() {
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

ExprValue BuiltinCall::whole_list(size_t k) {
  ExprValue v = argument(k);
  if (!v.is_list()) x_.fail_here(kid(k)->pos, name_ + " wants a list here");
  return v;
}

// Positions in a list of `count`; negative ones count from its end.
std::vector<size_t> BuiltinCall::places(size_t k, size_t count) {
  const int64_t size = static_cast<int64_t>(count);
  std::vector<size_t> r;
  const ExprValue all = argument(k);
  const bool plain = all.numbers && all.numbers->dtype == DType::I64;
  x_.spend(all.is_list() ? all.length() : 0);
  for (size_t j = 0; j < (all.is_list() ? all.length() : 1); ++j) {
    const int64_t given = plain ? all.numbers->values[j] : x_.as_number(all.is_list() ? x_.item(all, j) : all, kid(k)->pos, "a position");
    const int64_t at = given < 0 ? given + size : given;
    if (at < 0 || at >= size) x_.mismatch("position " + std::to_string(given) + " in a list of " + std::to_string(count));
    r.push_back(static_cast<size_t>(at));
  }
  return r;
}

// The array that a name stands for, if that is a tensor attribute or an array; it must be constant.
const nest::Array* BuiltinCall::constant_array(const Node* n) {
  if (n->kind != NodeKind::Name || x_.in_function() || x_.find_local(n->text) || x_.lets_.count(n->text)) return nullptr;
  const AttrDecl* a = x_.op_.attr(n->text);
  if (a && a->kind != AttrDecl::Kind::Tensor) return nullptr;
  const ArrayInfo* given = a ? nullptr : x_.find_array(n->text);
  if (!a && !given) return nullptr;
  const nest::Array& array = x_.function_.arrays[given ? given->id : static_cast<uint32_t>(x_.attribute(*a).items.at(0).e->i)];
  if (array.kind != nest::Array::Kind::Const || !array.data || bytes_of(array.dtype) == 0) x_.fail_call(n->pos, n->text + " must be known while building");
  return &array;
}

BuiltinCall::Constants BuiltinCall::constants_of(size_t k) {
  Constants r;
  if (const nest::Array* array = constant_array(kid(k))) {
    r.type = array->dtype;
    const size_t count = array->data->bytes.size() / bytes_of(r.type);
    x_.spend(count / Expander::kNumbersPerStep);
    for (size_t j = 0; j < count; ++j) r.values.push_back(ir::load_element(r.type, array->data->bytes.data(), j));
    return r;
  }
  const ExprValue v = whole_list(k);
  bool real = v.numbers && v.numbers->dtype == DType::F64;
  for (const ExprValue& item : v.items) real = real || (item.is_const() && is_float(item.e->type.dtype));
  r.type = real ? DType::F64 : DType::I64;
  x_.spend(v.length() / Expander::kNumbersPerStep);
  for (size_t j = 0; v.numbers && j < v.length(); ++j) r.values.push_back(v.numbers->at(j));
  for (const ExprValue& item : v.items) {
    if (!item.is_const()) x_.fail_here(kid(k)->pos, name_ + " wants numbers that are known while building");
    r.values.push_back(real && !is_float(item.e->type.dtype) ? ir::Scalar{0, static_cast<double>(item.e->i)} : ir::Scalar{item.e->i, item.e->f});
  }
  return r;
}

BuiltinCall::Constants BuiltinCall::integers_of(size_t k) {
  Constants r = constants_of(k);
  if (is_float(r.type) && !r.values.empty()) x_.fail_here(kid(k)->pos, name_ + " wants integers");
  return r;
}

bool BuiltinCall::Constants::before(const ir::Scalar& a, const ir::Scalar& b) const {
  if (is_float(type)) return a.f < b.f || (b.f != b.f && a.f == a.f);
  return type == DType::U64 ? static_cast<uint64_t>(a.i) < static_cast<uint64_t>(b.i) : a.i < b.i;
}

std::vector<size_t> BuiltinCall::Constants::order() const {
  std::vector<size_t> at(values.size());
  std::iota(at.begin(), at.end(), size_t{0});
  std::stable_sort(at.begin(), at.end(), [&](size_t a, size_t b) { return before(values[a], values[b]); });
  return at;
}

DType BuiltinCall::type_of() {
  const ExprValue v = argument(0);
  if (v.kind != ExprValue::Kind::Type) fail(name_ + " takes an element type");
  return v.dtype;
}

ExprValue BuiltinCall::present() {
  const std::string name = name_of();
  if (const Param* p = x_.op_.param(name)) {
    const auto& items = items_of(*p);
    return truth(!items.empty() && items[0].present);
  }
  if (const ResultDecl* r = x_.op_.result(name)) {
    const size_t k = static_cast<size_t>(r - x_.op_.results.data());
    return truth(k < x_.call_.outputs.size() && x_.call_.outputs[k]);
  }
  if (const AttrDecl* a = x_.op_.attr(name)) return truth(x_.has_attribute(*a));
  fail("'" + name + "' is neither input, output nor attribute");
}

ExprValue BuiltinCall::count() {
  const std::string name = name_of();
  if (const Param* p = x_.op_.param(name)) return soft_int(items_of(*p).size());
  if (const ResultDecl* r = x_.op_.result(name); r && r->many)
    return x_.soft_int(static_cast<int64_t>(x_.call_.outputs.size()) - (r - x_.op_.results.data()));
  fail("'" + name + "' is no 'many' input or output");
}

// Of an input or of a pack of dims, else the length of a list.
ExprValue BuiltinCall::rank() {
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
ExprValue BuiltinCall::site() {
  uint32_t h = 2166136261u;
  auto take = [&](const std::string& text) {
    for (const char c : text) h = (h ^ static_cast<uint8_t>(c)) * 16777619u;
    h *= 16777619u;  // an end of text, or "ab", "c" would read as "a", "bc"
  };
  take(x_.call_.source);
  for (const std::string& name : x_.call_.output_names) take(name);
  return soft_int(h);
}

ExprValue BuiltinCall::before() {
  const std::string name = name_of();
  const auto it = x_.before_.find(name);
  if (it == x_.before_.end()) fail("before(" + name + ") belongs into 'for each'");
  return x_.scalar(it->second, true);
}

// assume(c): c, where it is settled. A condition on dims that is not is taken as true, and checked at run time; one
// on values read at run time stays open.
ExprValue BuiltinCall::assume() {
  ExprValue v = argument(0);
  Ex c = x_.conjunction(v, n_->pos);
  if (auto known = x_.settle(c)) return truth(*known);
  bool dims_only = true;
  ir::walk(c, [&](Ex e) { dims_only = dims_only && e->op != ir::Op::Load && e->op != ir::Op::Dim && (e->op != ir::Op::Sym || e->sym->lo >= 0); });
  if (!dims_only) return v;
  x_.require(c, "it is assumed that " + x_.shown(c));
  return truth(true);
}

// known(v): whether numbers are settled while building.
ExprValue BuiltinCall::known() {
  bool settled = true;
  for (const ExprValue& v : x_.as_list(argument(0))) settled = settled && v.is_const();
  return truth(settled);
}

ExprValue BuiltinCall::fold() {
  const bool is_product = name_ == "prod";
  const ExprValue neutral = x_.soft_int(is_product ? 1 : 0);
  const ExprValue v = kid(0)->kind == NodeKind::Comprehension ? x_.eval_comprehension(kid(0), &neutral) : argument(0);
  ExprValue r = neutral;
  bool first = true;
  for (const ExprValue& item : x_.as_list(v)) {
    r = first ? item : x_.binary(is_product ? "*" : "+", r, item, n_->pos);
    first = false;
  }
  return r;
}

ExprValue BuiltinCall::extreme() {
  const ExprValue all = argument(0);
  if (all.is_list() && all.length() == 0) fail(name_ + " of an empty list");
  if (all.numbers && all.numbers->dtype == DType::I64) {
    x_.spend(all.length() / Expander::kNumbersPerStep);
    const auto [lowest, highest] = std::minmax_element(all.numbers->values.begin(), all.numbers->values.end());
    return x_.soft_int(name_ == "min" ? *lowest : *highest);
  }
  const auto items = x_.as_list(all);
  ExprValue r = items[0];
  for (size_t k = 1; k < items.size(); ++k) r = *x_.call_scalar_function(name_, {r, items[k]}, n_->pos);
  return r;
}

ExprValue BuiltinCall::any() {
  ExprValue r = truth(false);
  for (const ExprValue& item : x_.as_list(argument(0))) r = x_.logic(false, r, item, n_->pos);
  return r;
}

ExprValue BuiltinCall::rev() {
  auto v = list_of(0);
  std::reverse(v.begin(), v.end());
  return x_.list(std::move(v));
}

// Joins of lists by value, for operators whose attributes are tables: by sorting, which no choice of numbers makes slow.
// Positions by ascending value, NaN last, equal ones as they stand.
ExprValue BuiltinCall::order() {
  const auto at = constants_of(0).order();
  return x_.list(Numbers{DType::I64, {at.begin(), at.end()}});
}

// Each value once, as they first appear.
ExprValue BuiltinCall::unique() {
  const Constants v = integers_of(0);
  const auto at = v.order();
  std::vector<size_t> first;
  for (size_t k = 0; k < at.size(); ++k)
    if (k == 0 || v.values[at[k - 1]].i != v.values[at[k]].i) first.push_back(at[k]);
  std::sort(first.begin(), first.end());
  Numbers r;
  for (size_t k : first) r.values.push_back(v.values[k].i);
  return x_.list(std::move(r));
}

ExprValue BuiltinCall::pick() {
  const ExprValue v = whole_list(0);
  const auto at = places(1, v.length());
  if (v.numbers) {
    Numbers r{v.numbers->dtype, {}};
    for (size_t k : at) r.values.push_back(v.numbers->values[k]);
    return x_.list(std::move(r));
  }
  ListBuilder r(ctx_);
  for (size_t k : at) r.add(v.items[k]);
  return r.done();
}

ExprValue BuiltinCall::drop() {
  const auto v = list_of(0);
  std::vector<bool> stays(v.size(), true);
  for (size_t k : places(1, v.size())) stays[k] = false;
  std::vector<ExprValue> r;
  for (size_t k = 0; k < v.size(); ++k)
    if (stays[k]) r.push_back(v[k]);
  return x_.list(std::move(r));
}

// put(list, positions, values): one value may serve for all positions.
ExprValue BuiltinCall::put() {
  auto v = list_of(0);
  const auto at = places(1, v.size());
  const ExprValue given = argument(2);
  if (given.is_list() && given.length() != at.size()) fail("put: as many values as positions");
  for (size_t k = 0; k < at.size(); ++k) v[at[k]] = given.is_list() ? x_.item(given, k) : given;
  return x_.list(std::move(v));
}

// slice(list, from, to)
ExprValue BuiltinCall::slice() {
  const auto v = list_of(0);
  const int64_t size = static_cast<int64_t>(v.size());
  const int64_t lo = std::clamp<int64_t>(x_.as_number(argument(1), n_->pos, "a position"), 0, size);
  const int64_t hi = std::clamp<int64_t>(x_.as_number(argument(2), n_->pos, "a position"), lo, size);
  return x_.list(std::vector<ExprValue>(v.begin() + lo, v.begin() + hi));
}

ExprValue BuiltinCall::has() {
  const auto v = list_of(0);
  const ExprValue wanted = argument(1);
  ExprValue r = truth(false);
  for (const ExprValue& item : v) r = x_.logic(false, r, x_.compare("==", item, wanted, n_->pos), n_->pos);
  return r;
}

// find(list, values): where each value stands first, -1 if nowhere.
ExprValue BuiltinCall::find() {
  const Constants v = integers_of(0), wanted = integers_of(1);
  const auto at = v.order();
  Numbers r;
  for (const ir::Scalar& one : wanted.values) {
    const auto found = std::lower_bound(at.begin(), at.end(), one, [&](size_t k, const ir::Scalar& value) { return v.before(v.values[k], value); });
    r.values.push_back(found != at.end() && v.values[*found].i == one.i ? static_cast<int64_t>(*found) : -1);
  }
  return x_.list(std::move(r));
}

// Places of keys by open addressing, -1 where there is none; `key_slot` of ops/common.mlop is the same function of a key.
ExprValue BuiltinCall::hash_table() {
  const Constants v = constants_of(0);
  const bool real = is_float(v.type);
  size_t size = 2;
  while (size < 2 * v.values.size()) size *= 2;
  x_.spend(size);
  const auto word = [&](const ir::Scalar& s) -> uint64_t {
    if (!real) return static_cast<uint64_t>(s.i);
    return std::isnan(s.f) ? 0x7FF8000000000000u : s.f == 0 ? 0 : std::bit_cast<uint64_t>(s.f);
  };
  Numbers r{DType::I64, std::vector<int64_t>(size, -1)};
  for (size_t k = 0; k < v.values.size(); ++k) {
    const uint64_t key = word(v.values[k]);
    size_t at = (((key ^ (key >> 32)) * 0x9E3779B97F4A7C15u) >> 32) & (size - 1);
    for (size_t probes = 1; r.values[at] >= 0 && word(v.values[static_cast<size_t>(r.values[at])]) != key; ++probes) {
      at = (at + 1) & (size - 1);
      if (probes % 64 == 0) x_.spend(64);  // keys may be chosen to meet
    }
    r.values[at] = static_cast<int64_t>(k);
  }
  return x_.list(std::move(r));
}

// prefixes(items, sizes): of rows that are contiguous, a number for each prefix that ends at an item. Equal prefixes
// have equal numbers, from 0 on in the order in which they appear.
ExprValue BuiltinCall::prefixes() {
  const Constants items = integers_of(0), sizes = integers_of(1);
  x_.spend(items.values.size() + sizes.values.size());
  std::map<std::pair<int64_t, int64_t>, int64_t> known;  // a tree: no choice of items makes it slow
  Numbers r;
  size_t at = 0;
  for (const ir::Scalar& size : sizes.values) {
    if (size.i < 0 || static_cast<uint64_t>(size.i) > items.values.size() - at) fail("prefixes: the sizes do not add up to the number of items");
    int64_t before = -1;
    for (const size_t end = at + static_cast<size_t>(size.i); at < end; ++at) {
      before = known.try_emplace({before, items.values[at].i}, static_cast<int64_t>(known.size())).first->second;
      r.values.push_back(before);
    }
  }
  if (at != items.values.size()) fail("prefixes: the sizes do not add up to the number of items");
  return x_.list(std::move(r));
}

ExprValue BuiltinCall::broadcast() {
  const auto a = list_of(0), b = list_of(1);
  const size_t rank = std::max(a.size(), b.size());
  auto extent = [&](const std::vector<ExprValue>& shape, size_t k) {
    return k + shape.size() >= rank ? x_.as_index(shape[k + shape.size() - rank], n_->pos) : ctx_.integer(1);
  };
  std::vector<ExprValue> r;
  for (size_t k = 0; k < rank; ++k)
    r.push_back(x_.scalar(x_.broadcast(extent(a, k), extent(b, k), "broadcast", "first shape", "second shape"), true));
  return x_.list(std::move(r));
}

ExprValue BuiltinCall::unflat() {
  const ExprValue place = argument(0);
  return x_.unflat(place, list_of(1), n_->pos);
}

// same(a, b): lists of equal length and, while building, equal items.
ExprValue BuiltinCall::same() {
  const auto a = list_of(0), b = list_of(1);
  bool equal = a.size() == b.size();
  for (size_t k = 0; equal && k < a.size(); ++k) equal = x_.as_index(a[k], n_->pos) == x_.as_index(b[k], n_->pos);
  return truth(equal);
}

ExprValue BuiltinCall::is_of_class() {
  const DType t = type_of();
  return truth(name_ == "is_float" ? is_float(t) : name_ == "is_int" ? is_int(t) : name_ == "is_signed" ? is_signed_int(t)
               : name_ == "is_unsigned" ? is_unsigned_int(t) : t == DType::Bool);
}

ExprValue BuiltinCall::limit() {
  using S = ExprValue::Special;
  const S special = name_ == "lowest" ? S::Lowest : name_ == "highest" ? S::Highest : name_ == "bottom" ? S::Bottom : S::Top;
  return x_.scalar(x_.special_number(special, type_of(), n_->pos), false);
}

std::optional<ExprValue> Expander::call_builtin(const Node* n) { return BuiltinCall(*this, n).answer(); }

}  // namespace mlc::lang
