// Lowers scalar bodies to Loop expressions and the statements they need: folds become loops over accumulators, checked
// indices become faults, transcendental functions their texts. One dim may be the vector dim: what depends on it has
// `lanes` lanes, everything else stays scalar.
//
// Scopes follow the blocks of the builder: what was computed in a block is reused inside it, and forgotten at its end.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "packager/loop/build.h"
#include "packager/lower/flat/facts.h"
#include "packager/lower/flat/flat.h"
#include "packager/lower/lower.h"

namespace mlc::lower {

class Body {
 public:
  // No vector has more bytes than `vector_bytes`.
  Body(ir::Context& ctx, const targets::Target& target, unsigned vector_bytes, const MathExpander& expand, loop::Builder& builder)
      : ctx(ctx), target(target), vector_bytes(vector_bytes), expand_(expand), b(builder) {
    scopes_.emplace_back();
  }

  // ---- where we are ----
  void bind(const ir::Dim* d, const ir::Expr* value);  // in the current scope; the base, for the vector dim
  const ir::Expr* bound(const ir::Dim* d) const { return env_.at(d); }
  // Runs `body` with `d` as vector dim; `tail` masks lanes beyond its end (null: all lanes exist).
  void vectorised(const ir::Dim* d, unsigned lanes, const ir::Expr* tail, const std::function<void()>& body);
  // Runs `body` with a scope of its own; pairs with a block of the builder.
  void scoped(const std::function<void()>& body);
  // for dim in begin .. end step step, with the dim bound and a scope.
  void with_for(const ir::Dim* d, const ir::Expr* begin, const ir::Expr* end, int64_t step,
                const std::function<void()>& body);
  // Runs `body` where these broadcast steps (ir/broadcast.h) are all 1, or where at least one is not: two blocks. The first
  // needs no branch at its loads.
  void by_steps(const std::vector<const ir::Expr*>& steps, const std::function<void()>& body);
  // A node that is known to have this value in the current scope (an accumulator for a fold).
  void define(const ir::Expr* node, const ir::Expr* value) { scopes_.back().memo[{node, nullptr}] = value; }
  // Folds that write on their way. Must outlive this.
  void keep(const std::vector<Kept>& kept) { kept_ = kept; }

  // ---- expressions ----
  // `guard`: lowered Bool under which the value is needed (null: always).
  const ir::Expr* value(const ir::Expr* e, const ir::Expr* guard = nullptr);
  const ir::Expr* scalar(const ir::Expr* e, const ir::Expr* guard = nullptr);  // with the vector dim at its base
  // Evaluates folds below `e` that do not depend on `inner` dims, here and now, so that inner loops find them.
  void hoist(const ir::Expr* e, DimSet inner);
  const ir::Expr* both(const ir::Expr* a, const ir::Expr* b);  // lowered conjunction; null: true
  const ir::Expr* any_lane(const ir::Expr* mask);
  // What holds of one value for all lanes: a lane that exists needs it. Null: always.
  const ir::Expr* needed_by_any(const ir::Expr* guard);

  // Lowered join of lowered tuples; of vectors lane by lane.
  std::vector<const ir::Expr*> join(const ir::Combiner& c, const std::vector<const ir::Expr*>& left,
                                    std::vector<const ir::Expr*> right);

  // One value per field out of vectors of partial results.
  std::vector<const ir::Expr*> across_lanes(const ir::Combiner& c, std::vector<const ir::Expr*> fields);

  unsigned lanes() const { return lanes_; }
  const ir::Dim* vector_dim() const { return vdim_; }
  const ir::Expr* tail() const { return tail_; }

  // The first thing that could not be lowered; empty: all well.
  const std::string& error() const { return error_; }
  Status status() const;
  void fail(std::string what) {
    if (error_.empty()) error_ = std::move(what);
  }

  ir::Context& ctx;
  const targets::Target& target;
  const unsigned vector_bytes;
  Facts facts;

 private:
  struct Key {
    const ir::Expr *e, *guard;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& k) const {
      return reinterpret_cast<size_t>(k.e) * 31 + reinterpret_cast<size_t>(k.guard);
    }
  };
  struct Scope {
    std::unordered_map<Key, const ir::Expr*, Hash> memo;
    std::unordered_map<Key, std::vector<const ir::Expr*>, Hash> folds;
    DimSet hidden = 0;  // dims that mean something else here: values of outer scopes that depend on them are not valid
    bool isolated = false; // no value of an outer scope is
    std::vector<std::pair<const ir::Dim*, const ir::Expr*>> rebound;  // what outer scopes had, put back at the end
  };

  Scope& open_scope() { return scopes_.emplace_back(); }
  void close_scope();

  const ir::Expr* compute(const ir::Expr* e, const ir::Expr* guard);
  const ir::Expr* load(const ir::Expr* e, const ir::Expr* guard);
  static constexpr int64_t kMostNeighbours = 4;  // vectors from which lanes are picked
  bool by_neighbours(ir::Type type, int64_t stride, const ir::Expr* mask) const;
  const ir::Expr* every_nth(uint32_t array, ir::Type type, const ir::Expr* base, int64_t stride, const ir::Expr* mask);
  const ir::Expr* all_one(const std::vector<const ir::Expr*>& steps);  // the condition; null: true
  const ir::Expr* select(const ir::Expr* e, const ir::Expr* guard);
  const ir::Expr* divide(const ir::Expr* e, const ir::Expr* guard);
  const ir::Expr* power(const ir::Expr* e, const ir::Expr* guard);
  const ir::Expr* generic(const ir::Expr* e, const ir::Expr* guard);
  const ir::Expr* named(const ir::Expr* x, const ir::Expr* guard);
  const ir::Expr* transcendental(ir::Op op, const ir::Expr* arg);
  std::vector<const ir::Expr*> fold(const ir::Expr* e, const ir::Expr* guard);
  bool depends_on_lanes(const ir::Expr* e) { return vdim_ && facts.depends(e, vdim_); }
  bool is_short(const ir::Expr* e, const std::vector<const ir::Expr*>& args) const;

  friend class FoldLowering;
  const MathExpander& expand_;
  loop::Builder& b;
  std::unordered_map<const ir::Dim*, const ir::Expr*> env_;
  std::unordered_map<const ir::Expr*, const ir::Expr*> vars_;  // operands of a custom join while it is lowered
  const ir::Dim* vdim_ = nullptr;
  unsigned lanes_ = 1;
  const ir::Expr* tail_ = nullptr;
  std::vector<Scope> scopes_;
  std::string error_;
  std::span<const Kept> kept_;
  std::vector<const ir::Expr*> ones_;  // broadcast steps that are 1 here
  int depth_ = 0;
  static constexpr int kMaxDepth = 3000;  // fused chains are kept shorter than this by fusion
};

// ---- conditions as bounds (bounds.cpp) ----
constexpr int32_t kIndexFault = 1;  // of a launch: schema/module_abi.h

// The terms of a conjunction.
std::vector<const ir::Expr*> conjuncts(ir::Context& ctx, const ir::Expr* condition);
// What a term says about one dim: begin <= dim < end. Null: it says nothing on that side.
struct DimBound {
  const ir::Expr *begin = nullptr, *end = nullptr;
  bool exact = true;  // false: necessary only, the term must still be tested
};
// Nothing if the term is not affine in `d` with a constant coefficient.
std::optional<DimBound> bound_of(ir::Context& ctx, const ir::Expr* term, const ir::Dim* d);

// The points of `d` that terms leave: bounds that follow from some of them, and those still to be tested at each point.
// `is_bound`: whether a bound may be used (null: any).
struct PointsOf {
  const ir::Expr *begin = nullptr, *end = nullptr;
  std::vector<const ir::Expr*> tests;
};
PointsOf points_under(ir::Context& ctx, const ir::Dim* d, const std::vector<const ir::Expr*>& terms,
                      const std::function<bool(const ir::Expr* term, const DimBound& bound)>& is_bound);
// Calls `body` with each combination of values of dims of constant extent.
void for_each_tap(ir::Context& ctx, const std::vector<const ir::Dim*>& dims,
                  const std::function<void(const std::unordered_map<const ir::Expr*, const ir::Expr*>& at)>& body);

// The unit of a combiner's field; the join of two values of a built-in combiner (empty for custom ones).
const ir::Expr* unit_of(ir::Context& ctx, const ir::Combiner& c, unsigned field, DType type);
std::vector<const ir::Expr*> builtin_join(ir::Context& ctx, const ir::Combiner& c,
                                          const std::vector<const ir::Expr*>& left,
                                          const std::vector<const ir::Expr*>& right);

}  // namespace mlc::lower
