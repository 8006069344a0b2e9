// One pass over a function that collects what breaks the rules of verify.h.
//
//   verify.cpp             arrays, symbols, the order of statements
//   verify_expressions.cpp types and names below an expression
//   verify_ranges.cpp      proofs that indices lie in range
//   verify_statements.cpp  nests and procs
//   verify_controls.cpp    controls and their bodies
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "packager/loop/loop.h"
#include "packager/nest/verify/verify.h"

namespace mlc::nest {

class Verifier {
 public:
  // `body_depth`: bodies around this function; `around`: conditions that hold where it runs.
  Verifier(ir::Context& ctx, const Function& function, const VerifyOptions& options, int body_depth = 0,
           std::vector<const ir::Expr*> around = {})
      : ctx_(ctx), function_(function), options_(options), body_depth_(body_depth), around_(std::move(around)) {}

  // One sentence per violation. Called once.
  std::vector<std::string> run();

 private:
  using Dims = std::set<const ir::Dim*>;

  void say(std::string text) { say_at(place_ + ": ", std::move(text)); }
  void say_at(const std::string& place, std::string text);
  bool known(uint32_t array);

  // --- the function ---
  void interface();
  void array(const Array& a, std::set<std::string>& names);
  void layout(const Array& a);
  void part(const Array& a);
  void extent(const ir::Expr* root, const std::string& what);  // made of symbols alone
  void finish(const std::vector<uint32_t>& results);

  // --- expressions, where `bound` are the dims that have values ---
  void check(std::vector<const ir::Expr*> roots, const Dims& bound);
  void fold_dims(const ir::Expr* fold, const Dims& bound);
  void node(const ir::Expr* e, const Dims& bound);
  void load(const ir::Expr* e);
  void fold(const ir::Expr* e);
  void misfit(const ir::Expr* e);

  // --- ranges. A path stands for the conditions that hold on the way to a node; -1: none ---
  struct Path {
    int parent = -1;
    const ir::Expr* condition = nullptr;
  };
  int under(int path, const ir::Expr* condition);
  std::vector<const ir::Expr*> conditions(int path);
  void ranges(const ir::Expr* root, int path);  // of all loads below
  void in_range(const std::vector<const ir::Expr*>& index, const Array& a, int path, const std::string& what);
  bool place_in_range(const std::vector<const ir::Expr*>& index, const Array& a, size_t axis, const std::vector<const ir::Expr*>& given);

  // --- nests and procs ---
  Dims bind(const std::vector<const ir::Dim*>& dims);
  void result(uint32_t number, bool may_be_derived);
  void nest(const Nest& n);
  void write(const Nest& n, const Write& w, const Dims& bound);
  void proc(const Proc& p);
  void block(const std::vector<loop::StmtPtr>& body, const Proc& p, const Dims& bound);
  void statement(const loop::Stmt& s, const Proc& p);
  void store(const loop::Stmt& s, const Proc& p);

  // --- controls ---
  using Operands = std::vector<const Array*>;  // null: absent or unknown
  const Array* operand(uint32_t number);
  void control(const Control& c);
  bool fits(const Control& c, const Operands& in, const Operands& out);
  void body(const Control& c, const Function& body, const Operands& in, const Operands& out);
  const Array* inner_array(const Function& body, uint32_t number);

  static constexpr int kMaxDepth = 64;  // of bodies, of lists, of folds
  struct State {
    bool written = false, read = false;
  };

  ir::Context& ctx_;
  const Function& function_;
  const VerifyOptions options_;
  const int body_depth_;
  const std::vector<const ir::Expr*> around_;
  std::string place_;  // the statement that is looked at
  std::vector<std::string> problems_;
  std::vector<State> state_;           // of arrays
  std::set<const ir::Sym*> set_symbols_;
  // Of the proc that is looked at: its results, which it may read back, and its own arrays (null: no proc).
  std::set<uint32_t> own_results_;
  const std::vector<loop::LocalArray>* locals_ = nullptr;
  int fold_depth_ = 0;
  std::vector<Path> paths_;
  std::map<std::pair<int, const ir::Expr*>, int> path_of_;
};

}  // namespace mlc::nest
