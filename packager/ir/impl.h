// Inside of Context: nodes with cached facts, the table of all nodes, the normal form of integers. Private to packager/ir.
#pragma once

#include <deque>
#include <unordered_map>
#include <unordered_set>

#include "packager/ir/context.h"
#include "packager/ir/poly.h"

namespace mlc::ir {

constexpr size_t kPoints = 4;

// Every Expr of a Context is one of these; facts are computed from those of the arguments when it is made.
struct Node : Expr {
  Interval interval;      // integers and Bool; u64 always reads as unbounded
  int64_t divisor = 1;    // i64 only
  bool data = false;      // made of a load or a fold: i64 arithmetic with it may wrap
  bool running = false;   // holds a Dim
  bool choice = false;    // holds a Select
  bool extent = false;    // is_extent
  uint8_t points_known = 0;         // a bit for each
  int64_t points[kPoints] = {};     // its value where symbols, dims and variables have certain values (points.cpp); i64 and Bool only
  uint64_t hash = 0;
  uint64_t latest = 0;     // of its variables and dims, the one that was made last; 0: it has none
  mutable const Poly* poly = nullptr;
};
inline const Node* node(const Expr* e) { return static_cast<const Node*>(e); }

inline bool bounded(Interval v) { return v.lo != INT64_MIN && v.hi != INT64_MAX; }
// True if reasoning with integers of unlimited width is right for e.
inline bool exact(const Expr* e) { return !node(e)->data || bounded(node(e)->interval); }
inline bool is_index(const Expr* e) { return e->type == Type{DType::I64, 1}; }

Interval interval_of(const Monomial& m);
Interval interval_of(const Poly& p);

// points.cpp. False says nothing.
void set_points(Node& n);
bool is_negative_somewhere(const Poly& p);

// The nodes of a Context by structure: open addressing, as there are many and each is looked up often.
class NodeTable {
 public:
  // The node of this hash for which `is_it` holds, or null.
  template <class Test>
  const Node* find(uint64_t hash, const Test& is_it) const {
    for (size_t at = hash; ; ++at) {
      const Slot& slot = slots_[at & (slots_.size() - 1)];
      if (!slot.node || (slot.hash == hash && is_it(*slot.node))) return slot.node;
    }
  }
  void insert(const Node* node);

 private:
  struct Slot {
    uint64_t hash = 0;
    const Node* node = nullptr;
  };
  std::vector<Slot> slots_ = std::vector<Slot>(1024);  // a power of two, at most half of them taken
  size_t size_ = 0;
};

// Rows of arguments, which stay where they are and are given back together.
class ArgumentStore {
 public:
  std::span<const Expr* const> keep(std::span<const Expr* const> row);

 private:
  std::vector<std::unique_ptr<const Expr*[]>> blocks_;
  const Expr** end_ = nullptr;  // of the last block
  size_t left_ = 0;             // in it
};

struct Context::Impl {
  explicit Impl(Context& c) : ctx(c) {}
  Context& ctx;

  // Storage. Deques: addresses stay.
  std::deque<Node> nodes;
  ArgumentStore args;
  NodeTable table;
  std::deque<ir::Sym> syms;
  std::unordered_map<std::string, const ir::Sym*> sym_by_name;
  std::deque<ir::Dim> dims;
  std::deque<Combiner> combiners;
  const Combiner* builtins[8] = {};
  std::deque<Fold> folds;
  std::unordered_multimap<uint64_t, const Fold*> fold_table;
  std::deque<Poly> polys;
  int64_t next_var = 0;
  struct Key {
    Op op;
    const Expr *a, *b;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct KeyHash {
    size_t operator()(const Key& k) const {
      return ((static_cast<size_t>(k.a->id) << 32) ^ k.b->id) * 0x9e3779b97f4a7c15u + static_cast<size_t>(k.op);
    }
  };
  std::unordered_map<Key, const Expr*, KeyHash> simplified;  // i64 binary operations
  std::unordered_map<const Expr*, bool> non_negative;        // settled without conditions
  std::unordered_map<const Expr*, const Expr*> valued;       // with_value

  const Expr* make(Expr proto, std::span<const Expr* const> arguments);
  const Expr* make_binary(Op op, Type type, const Expr* a, const Expr* b);
  const Fold* intern(Fold fold);
  void set_facts(Node& n);

  // simplify.cpp: i64
  const Poly& poly_of(const Expr* e);
  const Expr* from_poly(Poly p);
  bool drop_steps(Monomial& m);
  void normalise(Poly& p);
  const Expr* monomial(const Monomial& m);
  const Expr* index_binary(Op op, const Expr* a, const Expr* b);
  const Expr* without_bits(Op op, const Expr* a, int64_t b);
  const Expr* floor_divide(const Expr* a, const Expr* b);
  const Expr* floor_modulo(const Expr* a, const Expr* b);
  const Expr* divide_constant(Poly p, int64_t c, bool modulo);
  const Expr* divide_symbolic(const Expr* a, const Expr* b, bool modulo);
  const Expr* divide_by_part(const Poly& p, const Poly& n, bool modulo);
  const Expr* compare(Op op, const Expr* a, const Expr* b);
  const Expr* min_max(Op op, const Expr* a, const Expr* b);
  std::optional<Poly> difference(const Expr* a, const Expr* b, int64_t plus);  // a - b + plus

  // prove.cpp
  // What a proof builds asks questions of its own (is this minimum settled?), whose proofs build in their turn. With an end of its own for
  // each, they multiply with the depth of the expression, so all draw on what the outermost question may cost. An answer that this cut
  // short is not remembered: asked alone, it may be another.
  class Question {
   public:
    explicit Question(Impl& impl) : impl_(impl) {
      if (impl_.questions++ == 0) impl_.steps_left = kStepsOfQuestion, impl_.charged = impl_.rewritten;
    }
    ~Question() { --impl_.questions; }
    Question(const Question&) = delete;
    Question& operator=(const Question&) = delete;

   private:
    Impl& impl_;
  };
  static constexpr int kStepsOfQuestion = 300;
  static constexpr uint64_t kNodesOfStep = 64;  // of what is rewritten: extents of detectors have hundreds, and each case rewrites all of them
  unsigned questions = 0;  // under way, one within the other
  int steps_left = 0;      // of the outermost one
  uint64_t rewritten = 0, charged = 0;  // nodes that Context::rewrite has seen, and those that questions have paid for
  bool step();                          // takes one, and what was rewritten since the last; false: none is left
  bool cut_short() const { return questions > 0 && steps_left < 0; }
  bool non_negative_poly(const Poly& p, int& fuel, int depth);
  std::optional<bool> non_negative_at_ends(const Poly& p, int& fuel, int depth);
  std::optional<bool> non_negative_in_cases(const Poly& p, int& fuel, int depth);
  bool non_negative_by_atoms(const Poly& p, int& fuel, int depth);
  bool is_non_negative(const Poly& p);  // with the fuel of one question, remembered
  // A lower bound of p: dims at the ends where it is least; nothing if none could go.
  std::optional<Poly> at_ends(Poly p);
};

}  // namespace mlc::ir
