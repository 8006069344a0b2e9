// Compiles a nest into a block program (block.h): values that read nothing are computed as far out as their dims allow, and
// what depends on no lane is computed once for all of them.
//
//   block_compile.cpp       the nest, registers, expressions
//   block_facts.cpp         what is known of every node before; indices that are affine in the dims
//   block_compile_fold.cpp  folds, sums of products, groups of rows
//   block_phases.cpp        nests of which a number divides something, in parts without that condition
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "packager/nest/block/block.h"

namespace mlc::nest {

// False if it overflows; then `a` is worth nothing.
[[nodiscard]] bool scale(Affine& a, int64_t by);
[[nodiscard]] bool add(Affine& a, const Affine& b);

// Of a dim every `step`-th value, the first of them `first`.
struct Phase {
  int64_t step = 1, first = 0;
};
using Phases = std::unordered_map<const ir::Dim*, Phase>;

class BlockCompiler {
 public:
  // `evaluator` knows the symbols and the arrays, and must outlive the compiler. Of dims that have a phase only that is computed.
  BlockCompiler(const Statement& statement, Evaluator& evaluator, Phases phases = {})
      : statement_(statement), evaluator_(evaluator), phases_(std::move(phases)) {}
  Result<BlockProgram> run();
  // The phases that make up all of the nest (block_phases.cpp); none, if there is nothing to be gained by them.
  Result<std::vector<Phases>> phases();

 private:
  using Expr = ir::Expr;

  struct Facts {
    uint64_t dims = 0;    // that it depends on, by slot
    bool reads = false;   // contains a load
    bool vars = false;    // contains a Var, of a combiner
    std::optional<Affine> affine;
    std::optional<ir::Scalar> constant;  // it follows from symbols alone
  };
  // Where instructions go. Scopes nest: the arm of a Select (other mask, same list), the body of a fold (own list).
  struct Scope {
    Scope* parent = nullptr;
    std::vector<Instr>* code = nullptr;
    int mask = -1;
    uint64_t fold_dims = 0;  // not zero: the list runs once per point of these
    bool join = false;       // list of a combiner: its Vars live here
    std::unordered_map<const Expr*, int> done = {};
    std::unordered_map<const Expr*, std::vector<int>> folds = {};  // results by field
    std::unordered_map<int, int> widened = {};  // uniform register -> one per lane
  };

  // The first failure stays; what is compiled after it means nothing.
  void fail(std::string text);
  Status failure() const;
  bool failed() const { return !error_.empty(); }

  // --- facts ---
  void add_dim(const ir::Dim* d);
  uint64_t bit(const ir::Dim* d) const { return uint64_t{1} << slot_.at(d); }
  void analyse(const Expr* root);
  void analyse_join(const Expr* root);
  void merge(Facts& facts, const Expr* operand) const;
  std::optional<ir::Scalar> constant_of(const Expr* e);
  std::optional<Affine> affine(const Expr* e);
  std::pair<__int128, __int128> range(const Affine& a) const;
  bool inside(const Affine& a, int64_t extent) const;
  bool affine_conditions(const Expr* where, std::vector<Affine>& out) const;
  int64_t lane_step(const Affine& a) const;
  void choose_lane();

  // --- registers ---
  static Register::Class class_of(DType t);
  int new_register(Register::Class kind, bool uniform);
  bool uniform(int r) const { return program_.registers[static_cast<size_t>(r)].uniform; }
  Register::Class kind(int r) const { return program_.registers[static_cast<size_t>(r)].kind; }
  int constant(DType t, ir::Scalar v, bool is_uniform = true);
  int wide(int r, Scope& scope);
  bool level(std::initializer_list<int*> operands, Scope& scope);
  int mask_of(int condition, Scope& scope, int outer, bool negate);

  // --- expressions ---
  int compile(const Expr* e, Scope& scope);
  int compile_masked(const Expr* e, Scope& scope, int condition, bool negate);
  int emit(const Expr* e, Scope& scope);
  int in_phase(int r, const Phase& phase, Scope& scope);
  int operation(const Expr* e, Scope& scope);
  int load(const Expr* e, Scope& scope);
  AccessCode access(uint32_t array, std::span<const Expr* const> index, Scope& scope);

  // --- folds ---
  const std::vector<int>& fold(const Expr* e, Scope& scope);
  void general_fold(const Expr* e, Scope& scope, FoldCode& code);
  void custom_join(const Expr* e, Scope& scope, FoldCode& code);
  bool is_sum_of_products(const Expr* e, const Scope& scope, FoldCode& code) const;
  bool is_plain_factor(const Expr* e) const;
  bool is_inside(const Expr* load) const;
  FactorCode factor_code(const Expr* e, Scope& scope);
  bool varies(const FactorCode& f, size_t slot) const;
  void sum_of_products(const Expr* e, Scope& scope, FoldCode& code);
  void group(FoldCode& code);

  // --- phases ---
  // A map dim and a folded one of which s divides a sum: along_o*o + along_k*k + c.
  struct Split {
    const ir::Dim *o = nullptr, *k = nullptr;
    int64_t s = 1, along_o = 0, along_k = 0, c = 0;
  };
  Status analyse_all();
  Phase phase_of(const ir::Dim* d) const;
  const Expr* only_fold() const;
  std::optional<Split> split_of(const Expr* term, const Expr* fold) const;

  const Statement& statement_;
  Evaluator& evaluator_;
  const Phases phases_;
  BlockProgram program_;
  std::unordered_map<const ir::Dim*, int> slot_;
  std::unordered_map<const Expr*, Facts> facts_;
  std::unordered_map<int, ir::Scalar> constant_;  // registers that hold one
  std::unordered_map<int, int> wide_constants_;
  std::string error_;
  int depth_ = 0;
};

}  // namespace mlc::nest
