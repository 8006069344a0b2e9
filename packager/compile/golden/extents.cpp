#include "packager/compile/golden/extents.h"

#include <algorithm>

namespace mlc::compile {
namespace {

constexpr int kMaxRounds = 12;  // of changes to one choice of sizes
constexpr int64_t kExtentCandidates[] = {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128, 224, 256, 512, 1024, 2048, 4096, 16384, 131072};
constexpr int64_t kElementCandidates[] = {1, -1, 0, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 24, 32, 48, 64};

std::set<const ir::Sym*> batch_symbols(const nest::Function& function) {
  std::set<const ir::Sym*> batch;
  for (uint32_t input : function.inputs) {
    const nest::Array& array = function.arrays[input];
    // A picture is [height, width, channels]: no batch there.
    if (array.dtype != DType::U8 && !array.shape.empty() && array.shape[0]->op == ir::Op::Sym) batch.insert(array.shape[0]->sym);
  }
  // Integers in a row are places or members.
  for (uint32_t input : function.inputs) {
    const nest::Array& array = function.arrays[input];
    if (is_int(array.dtype) && array.shape.size() == 1 && array.shape[0]->op == ir::Op::Sym) batch.erase(array.shape[0]->sym);
  }
  return batch;
}

std::vector<const ir::Sym*> input_symbols(const nest::Function& function) {
  std::vector<const ir::Sym*> symbols;
  for (uint32_t input : function.inputs)
    for (const ir::Expr* extent : function.arrays[input].shape)
      if (extent->op == ir::Op::Sym && std::find(symbols.begin(), symbols.end(), extent->sym) == symbols.end()) symbols.push_back(extent->sym);
  return symbols;
}

// Conditions of the function and of its bodies that two extents are equal; also those that leave a choice, as of extents
// that are equal or broadcast: vectors show the usual case.
void equalities(const nest::Function& function, std::vector<const ir::Expr*>& out) {
  for (const auto& check : function.checks) {
    const ir::Expr* first = check.condition;
    while (first->op == ir::Op::Or) first = first->args[0];
    if (first->op == ir::Op::Eq) out.push_back(first);
  }
  for (const nest::Statement& s : function.body)
    if (s.control)
      for (const auto& body : s.control->bodies) equalities(*body, out);
}

// The input whose elements, in the same places, are those of `array` but for casts.
std::optional<uint32_t> cast_input(const nest::Function& function, uint32_t array) {
  for (size_t hops = 0; hops <= function.body.size(); ++hops) {
    if (function.arrays[array].kind == nest::Array::Kind::Input) return array;
    const nest::Write* only = nullptr;
    for (const nest::Statement& s : function.body) {
      if (!s.nest) continue;
      for (const nest::Write& write : s.nest->writes) {
        if (write.array != array) continue;
        if (only || write.push || s.nest->where || s.nest->scan_dim) return std::nullopt;
        only = &write;
      }
    }
    if (!only) return std::nullopt;
    const ir::Expr* value = only->value;
    while (value->op == ir::Op::Cast && !is_float(value->type.dtype)) value = value->args[0];
    if (value->op != ir::Op::Load || !std::equal(value->args.begin(), value->args.end(), only->index.begin(), only->index.end())) return std::nullopt;
    array = value->array;
  }
  return std::nullopt;
}

std::vector<nest::Function::Element> elements_of_inputs(const nest::Function& function) {
  std::vector<nest::Function::Element> all = function.elements;
  for (const nest::Statement& s : function.body) {
    if (!s.control || s.control->kind != StepOp::Read) continue;
    if (const auto input = cast_input(function, s.control->inputs[0]))
      for (size_t k = 0; k < s.control->symbols.size(); ++k) all.push_back({s.control->symbols[k], *input, k});
  }
  return all;
}

bool is_better(const ValueBounds& a, const ValueBounds& b) {
  return a.num_conflicts != b.num_conflicts ? a.num_conflicts < b.num_conflicts : a.excess < b.excess;
}

}  // namespace

int64_t admissible(const ir::Sym* sym, int64_t wanted) {
  const int64_t lo = std::max<int64_t>(sym->lo, 0), multiple = std::max<int64_t>(sym->multiple, 1);
  const int64_t clamped = std::clamp(wanted, lo, std::max(lo, sym->hi)), below = clamped / multiple * multiple;
  return below >= lo ? below : below + multiple;
}

SizeFinder::SizeFinder(const nest::Function& function) : extents_(input_symbols(function)), batch_(batch_symbols(function)), indices_(function) {
  equalities(function, equalities_);
  known_elements_ = elements_of_inputs(function);
  for (const auto& element : known_elements_) {
    elements_.push_back(element.sym);
    element_set_.insert(element.sym);
    if (function.arrays[element.input].dtype == DType::Bool) truths_.insert(element.sym);
  }
  for (const ir::Sym* sym : indices_.addressed()) batch_.erase(sym);
  free_ = extents_;
  free_.insert(free_.end(), elements_.begin(), elements_.end());
}

// Checks that two extents agree decide one of them, the batch last: a mask is as long as what came before and what is new
// together.
void SizeFinder::agree(Sizes& sizes, const ir::Sym* kept) const {
  const auto value_of = [&](const ir::Sym* sym) -> std::optional<int64_t> {
    auto found = sizes.find(sym);
    return found == sizes.end() ? std::nullopt : std::optional(found->second);
  };
  std::set<const ir::Sym*> decided;
  if (kept) decided.insert(kept);
  const auto decide = [&](const ir::Expr* one, const ir::Expr* other) {
    if (one->op != ir::Op::Sym || decided.count(one->sym) || std::find(extents_.begin(), extents_.end(), one->sym) == extents_.end()) return false;
    const auto value = ir::evaluate_extent(other, value_of);
    if (!value || *value < 0 || admissible(one->sym, *value) != *value) return false;
    sizes[one->sym] = *value;
    decided.insert(one->sym);
    return true;
  };
  for (const ir::Expr* check : equalities_) {
    const ir::Expr *first = check->args[0], *second = check->args[1];
    if (first->op == ir::Op::Sym && batch_.count(first->sym)) std::swap(first, second);
    if (!decide(first, second)) decide(second, first);
  }
}

SizeChoice SizeFinder::fitted(Sizes sizes) const {
  agree(sizes);
  ValueBounds bounds = indices_.bounds(sizes);
  return {std::move(sizes), std::move(bounds)};
}

SizeChoice SizeFinder::near(int64_t extent, int64_t batch, double& work) const {
  Sizes sizes;
  for (const ir::Sym* sym : extents_) sizes[sym] = admissible(sym, batch_.count(sym) ? batch : extent);
  // All different: a slice from 1 to 1 would be empty.
  for (size_t k = 0; k < elements_.size(); ++k) sizes[elements_[k]] = truths_.count(elements_[k]) ? 1 : admissible(elements_[k], static_cast<int64_t>(k) + 1);
  SizeChoice different = improved(fitted(sizes), work);
  if (different.bounds.num_conflicts == 0 || elements_.empty()) return different;
  for (const ir::Sym* sym : elements_) sizes[sym] = admissible(sym, 1);
  SizeChoice same = improved(fitted(std::move(sizes)), work);
  return is_better(same.bounds, different.bounds) ? same : different;
}

SizeChoice SizeFinder::unchanged(const SizeChoice& changed, int64_t extent, int64_t batch) const {
  Sizes sizes = changed.sizes;
  for (const ir::Sym* sym : extents_) sizes[sym] = admissible(sym, batch_.count(sym) ? batch : extent);
  return fitted(std::move(sizes));
}

SizeChoice SizeFinder::improved(SizeChoice best, double& work) const {
  for (int round = 0; round < kMaxRounds && best.bounds.num_conflicts > 0; ++round) {
    auto next = better(best, work);
    if (!next) break;
    best = std::move(*next);
  }
  return best;
}

std::vector<int64_t> SizeFinder::candidates(const SizeChoice& at, const ir::Sym* sym) const {
  std::vector<int64_t> all;
  if (truths_.count(sym)) return {0, 1};
  if (at.bounds.wanted == sym) all.push_back(at.bounds.wanted_value);
  if (element_set_.count(sym)) all.insert(all.end(), std::begin(kElementCandidates), std::end(kElementCandidates));
  else all.insert(all.end(), std::begin(kExtentCandidates), std::end(kExtentCandidates));
  for (const auto& [other, value] : at.sizes) {
    all.push_back(value);
    for (const auto& [third, more] : at.sizes)
      if (at.sizes.size() <= 8) all.push_back(value + more);
  }
  // Sizes stay what they are as far as they can; elements become small.
  if (const int64_t now = at.sizes.at(sym); !element_set_.count(sym))
    std::stable_sort(all.begin(), all.end(), [&](int64_t a, int64_t b) { return std::abs(a - now) < std::abs(b - now); });
  return all;
}

// The best change of one size, if one is better than what is there.
std::optional<SizeChoice> SizeFinder::better(const SizeChoice& at, double& work) const {
  std::optional<SizeChoice> best;
  for (const ir::Sym* sym : free_) {
    std::set<int64_t> tried;
    for (const int64_t value : candidates(at, sym)) {
      const bool fits = value >= sym->lo && value <= sym->hi && value % sym->multiple == 0;
      if (!fits || value == at.sizes.at(sym) || !tried.insert(value).second) continue;
      if (work <= 0) return best;
      work -= indices_.work();
      SizeChoice next = at;
      next.sizes[sym] = value;
      agree(next.sizes, sym);
      next.bounds = indices_.bounds(next.sizes);
      if (!is_better(next.bounds, best ? best->bounds : at.bounds)) continue;
      best = std::move(next);
      if (best->bounds.num_conflicts == 0) return best;
    }
  }
  return best;
}

}  // namespace mlc::compile
