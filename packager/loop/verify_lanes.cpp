#include "packager/loop/verify_lanes.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <string>
#include <unordered_set>

#include "packager/ir/context.h"
#include "packager/loop/ops.h"

namespace mlc::loop {
namespace {

using ir::Expr;
using ir::Op;

using Visit = std::function<void(const Stmt&)>;
void each(const std::vector<StmtPtr>& block, const Visit& visit) {
  for (const StmtPtr& s : block) {
    visit(*s);
    each(s->body, visit);
    each(s->orelse, visit);
  }
}

// Lanes side by side do it together.
bool is_of_warps(StmtKind kind) { return kind == StmtKind::Mma || kind == StmtKind::LoadMatrices || kind == StmtKind::GroupMma || kind == StmtKind::Matrix; }

// Which variables may differ between the lanes of a block. A lane's number does; what is computed from it, what is loaded from memory
// that lanes write, and what changes under a condition that differs does too.
class Uniformity {
 public:
  Uniformity(const Kernel& k, const Stmt& lanes) : k_(k) {
    varying_.insert(lanes.var);
    for (size_t before = 0; before != varying_.size();) {  // loops carry values around
      before = varying_.size();
      mark(lanes.body, false);
    }
  }

  bool differs(const Expr* root) const {
    bool found = false;
    ir::walk(root, [&](const Expr* e) {
      found |= e->op == Op::Var && varying_.contains(e);
      found |= e->op == Op::Load && (e->array >= k_.params.size() || k_.params[e->array].written);
    });
    return found;
  }

  // Whether the lanes of a block may part at this statement.
  bool parts(const Stmt& s) const {
    for (const Expr* e : {s.begin, s.end, s.kind == StmtKind::Store ? nullptr : s.cond, s.bound})
      if (e && differs(e)) return true;
    return false;
  }

 private:
  void mark(const std::vector<StmtPtr>& block, bool apart) {
    for (const StmtPtr& s : block) {
      const bool inside = apart || parts(*s);
      if (s->kind == StmtKind::For && inside) varying_.insert(s->var);
      for (const Expr* sum : s->sums) varying_.insert(sum);
      if ((is_of_warps(s->kind) && s->var) || s->kind == StmtKind::Peer || (s->kind == StmtKind::FoldLanes && (apart || !folds_all(*s)))) varying_.insert(s->var);
      const bool binds = s->kind == StmtKind::Let || s->kind == StmtKind::Local || s->kind == StmtKind::Assign;
      if (binds && (apart || differs(s->value))) varying_.insert(s->var);
      mark(s->body, inside);
      mark(s->orelse, inside);
    }
  }

  bool folds_all(const Stmt& s) const { return s.step == 1 || s.step == k_.lanes; }

  const Kernel& k_;
  std::unordered_set<const Expr*> varying_;
};

bool is_meeting(StmtKind kind) { return kind == StmtKind::Barrier || kind == StmtKind::ClusterBarrier; }

bool is_about_copies(const Stmt& s) { return s.kind == StmtKind::Copy || s.kind == StmtKind::CloseCopies || s.kind == StmtKind::WaitCopies; }

// The order of copies and of what reads where they go, as far as statements alone tell it: which places of an array a copy is about, and how many groups a
// wait leaves, they do not. An array that is copied to is read behind a wait and a barrier after that; in a loop that begins copies, in each of its turns.
class CopyOrder {
 public:
  explicit CopyOrder(const Kernel& k) : k_(k) {}

  // What is wrong; empty: nothing.
  std::string run(const std::vector<StmtPtr>& lanes) {
    block(lanes);
    for (const auto& [array, a] : arrays_)
      if (wrong_.empty() && (a.stage == Stage::Begun || a.stage == Stage::Closed)) wrong_ = "copies to " + name(array) + " that no lane waits for";
    return wrong_;
  }

 private:
  enum class Stage : uint8_t { None, Begun, Closed, Waited };
  struct Array {
    Stage stage = Stage::None;        // of the youngest copies
    bool readable = true, new_in_turn = false;  // new_in_turn: since a barrier of this turn of the innermost loop
  };

  std::string name(uint32_t array) const { return k_.locals[array - k_.params.size()].name; }

  void block(const std::vector<StmtPtr>& stmts) {
    for (const StmtPtr& s : stmts) {
      if (!wrong_.empty()) return;
      for (const Expr* e : {s->begin, s->end, s->cond, s->bound, s->value}) reads(e);
      for (const Expr* e : s->index) reads(e);
      if (s->kind == StmtKind::GroupMma || (s->kind == StmtKind::Matrix && s->matrix_op == MatrixOp::Add)) reads(s->array);
      switch (s->kind) {
        case StmtKind::Copy: begin(arrays_[s->array]); break;
        case StmtKind::CloseCopies: advance(Stage::Begun, Stage::Closed); break;
        case StmtKind::WaitCopies: wait(); break;
        case StmtKind::Barrier: case StmtKind::ClusterBarrier: publish(); break;
        case StmtKind::For: case StmtKind::While: loop(*s); break;
        default: block(s->body), block(s->orelse);
      }
    }
  }

  static void begin(Array& a) {
    a.stage = Stage::Begun;
    a.readable &= a.new_in_turn;
  }
  void advance(Stage from, Stage to) {
    for (auto& [array, a] : arrays_)
      if (a.stage == from) a.stage = to;
  }
  void wait() {
    for (const auto& [array, a] : arrays_)
      if (a.stage == Stage::Begun) wrong_ = "a wait while copies to " + name(array) + " are in no group";
    advance(Stage::Closed, Stage::Waited);
  }
  void publish() {
    for (auto& [array, a] : arrays_)
      if (a.stage == Stage::None || a.stage == Stage::Waited) a = {Stage::None, true, true};
  }
  // Twice: the second turn finds what the first one left.
  void loop(const Stmt& s) {
    for (int turn = 0; turn < 2; ++turn) {
      for (auto& [array, a] : arrays_) a.new_in_turn = false;
      block(s.body);
      for (auto& [array, a] : arrays_) a.readable &= a.stage == Stage::None, a.new_in_turn = false;
    }
  }
  void reads(const Expr* root) {
    if (!root) return;
    ir::walk(root, [&](const Expr* e) {
      if (e->op == Op::Load) reads(e->array);
    });
  }
  void reads(uint32_t array) {
    const auto at = arrays_.find(array);
    if (at != arrays_.end() && !at->second.readable && wrong_.empty()) wrong_ = "a load of " + name(array) + " while copies to it may be under way";
  }

  const Kernel& k_;
  std::map<uint32_t, Array> arrays_;  // that copies went to
  std::string wrong_;
};

class LanesVerifier {
 public:
  explicit LanesVerifier(const Kernel& k) : k_(k) {}

  Status run() {
    if (k_.lanes == 0) return processor();
    if (k_.lanes > kMaxBlockLanes) return bad("a block of " + std::to_string(k_.lanes) + " lanes");
    if (k_.cluster < 1 || k_.cluster > kMaxClusterBlocks) return bad("a cluster of " + std::to_string(k_.cluster) + " blocks");
    if (k_.resident * k_.lanes > kMostResidentLanes) return bad(std::to_string(k_.resident) + " blocks of a multiprocessor");
    if (!k_.tiles || ir::divisor_of(k_.tiles) % k_.cluster != 0) return bad("tiles that are no whole clusters");
    if (!k_.cuts.empty()) return bad("a cut in a kernel for devices");
    MLC_RETURN_IF_ERROR(team());
    MLC_RETURN_IF_ERROR(memories());
    MLC_ASSIGN(const Stmt* lanes, outer_loops());
    MLC_RETURN_IF_ERROR(inner_loops(*lanes));
    const Uniformity uniformity(k_, *lanes);
    MLC_RETURN_IF_ERROR(barriers(lanes->body, uniformity, false));
    return copies(*lanes);
  }

 private:
  Status bad(const std::string& what) const { return Status(Code::Internal, "kernel " + k_.name + ": " + what); }

  Status processor() const {
    for (const LocalArray& l : k_.locals)
      if (l.space != Space::Scratch) return bad("local array " + l.name + " lies in the memory of a block");
    bool found = false;
    each(k_.body, [&](const Stmt& s) {
      found |= is_meeting(s.kind) || s.kind == StmtKind::Peer || s.kind == StmtKind::FoldLanes || is_of_warps(s.kind) || is_about_copies(s) || (s.kind == StmtKind::For && s.for_kind == ForKind::Lanes);
    });
    return found || k_.cluster != 1 || k_.resident != 0 || k_.team.lanes != 0 ? bad("lanes or a barrier in a kernel for processors") : ok();
  }

  Status team() const {
    const Team& t = k_.team;
    if (t.lanes == 0) return t.side || t.rows || t.columns ? bad("matrices of no lanes") : ok();
    if (!fits(t.lanes) || t.lanes < kLeastTeamLanes || t.lanes > kMostTeamLanes) return bad("teams of " + std::to_string(t.lanes) + " lanes in a block of " + std::to_string(k_.lanes));
    if (t.side != 8 && t.side != 16) return bad("matrices of " + std::to_string(t.side) + " rows, expected 8 or 16");
    const uint64_t sums = uint64_t{t.rows} * t.columns;
    return sums < 1 || sums > kMostTeamSums ? bad(std::to_string(sums) + " matrices of sums, expected 1 to " + std::to_string(kMostTeamSums)) : ok();
  }

  Status memories() const {
    for (const LocalArray& l : k_.locals) {
      if (l.space == Space::Scratch) return bad("local array " + l.name + " lies in the scratch of a processor");
      if (!l.count->is_const()) return bad("local array " + l.name + " has a size that only the run knows");
    }
    return ok();
  }

  // The loop over the tiles, and in it nothing but the loop over lanes.
  Result<const Stmt*> outer_loops() const {
    const auto only = [](const std::vector<StmtPtr>& block, ForKind kind) -> const Stmt* {
      const bool is_one = block.size() == 1 && block[0]->kind == StmtKind::For && block[0]->for_kind == kind && block[0]->step == 1;
      return is_one ? block[0].get() : nullptr;
    };
    const Stmt* tiles = only(k_.body, ForKind::Serial);
    if (!tiles || tiles->begin != k_.tile_begin || tiles->end != k_.tile_end) return bad("the body is no loop over the tiles");
    const Stmt* lanes = only(tiles->body, ForKind::Lanes);
    if (!lanes || !lanes->begin->is_int(0) || !lanes->end->is_int(k_.lanes)) return bad("the loop over tiles holds no loop over the lanes alone");
    return lanes;
  }

  Status inner_loops(const Stmt& lanes) const {
    Status result;
    std::unordered_set<const Expr*> unrolled;
    const auto wrong = [&](const std::string& what) {
      if (result.ok()) result = bad(what);
    };
    const auto check = [&](const Expr* root) {
      if (!root) return;
      ir::walk(root, [&](const Expr* e) {
        if (e == k_.tile_begin || e == k_.tile_end) wrong("a lane knows nothing of other tiles");
        // Four codes of 8 bits are a lane of the words that they are taken from.
        const bool is_of_words = e->op == Op::Bitcast && is_cells_of_codes(e->args[0]->type, e->type);
        if (e->type.lanes > kMaxDeviceVector && !is_of_words) wrong("a vector of " + std::to_string(e->type.lanes) + " elements");
        if (e->op == Op::Load && is_private(e->array) && !is_constant(e->args[0], unrolled)) wrong("the place in an array of one lane is no constant");
      });
    };
    each(lanes.body, [&](const Stmt& s) {
      if (s.kind == StmtKind::For && s.for_kind == ForKind::Lanes) wrong("lanes in lanes");
      if (s.kind == StmtKind::For && s.for_kind == ForKind::Unroll) unrolled.insert(s.var);
      for (const Expr* e : {s.begin, s.end, s.cond, s.bound, s.value}) check(e);
      for (const Expr* e : s.index) check(e);
      if (s.kind == StmtKind::Store && is_private(s.array) && !is_constant(s.index[0], unrolled)) wrong("the place in an array of one lane is no constant");
    });
    return result;
  }

  bool is_private(uint32_t array) const { return array >= k_.params.size() && k_.locals[array - k_.params.size()].space == Space::Private; }

  // Once loops are unrolled.
  int64_t folded(const Stmt& s) const { return s.step == 1 ? k_.lanes : s.step; }
  bool fits(int64_t n) const { return n >= 1 && std::has_single_bit(static_cast<uint64_t>(n)) && k_.lanes % n == 0; }
  static bool is_constant(const Expr* index, const std::unordered_set<const Expr*>& unrolled) {
    bool constant = true;
    ir::walk(index, [&](const Expr* e) { constant &= e->op != Op::Load && e->op != Op::Sym && (e->op != Op::Var || unrolled.contains(e)); });
    return constant;
  }

  Status barriers(const std::vector<StmtPtr>& block, const Uniformity& uniformity, bool apart) const {
    for (const StmtPtr& s : block) {
      if (is_meeting(s->kind) && apart) return bad("a barrier that not all lanes may reach");
      if (s->kind == StmtKind::ClusterBarrier && k_.cluster == 1) return bad("a barrier of a cluster, which there is none of");
      if (s->kind == StmtKind::FoldLanes && apart) return bad("a fold of lanes that not all of them may reach");
      const std::string what = s->kind == StmtKind::LoadMatrices ? "a load of matrices" : s->kind == StmtKind::Matrix ? "matrices of a team" : "a product of tiles";
      const uint32_t together = s->kind == StmtKind::GroupMma ? kGroupLanes : s->kind == StmtKind::Matrix ? std::max(1u, k_.team.lanes) : kMmaLanes;
      if (is_of_warps(s->kind) && apart) return bad(what + " that not all lanes may reach");
      if (is_of_warps(s->kind) && k_.lanes % together != 0) return bad(what + " by a block of " + std::to_string(k_.lanes) + " lanes");
      if (s->kind == StmtKind::FoldLanes && !fits(folded(*s))) return bad("a fold of " + std::to_string(folded(*s)) + " lanes");
      const bool inside = apart || uniformity.parts(*s);
      MLC_RETURN_IF_ERROR(barriers(s->body, uniformity, inside));
      MLC_RETURN_IF_ERROR(barriers(s->orelse, uniformity, inside));
    }
    return ok();
  }

  Status copies(const Stmt& lanes) const {
    bool any = false;
    each(lanes.body, [&](const Stmt& s) { any |= is_about_copies(s); });
    const std::string wrong = any ? CopyOrder(k_).run(lanes.body) : "";
    return wrong.empty() ? ok() : bad(wrong);
  }

  const Kernel& k_;
};

}  // namespace

Status verify_lanes(const Kernel& kernel) { return LanesVerifier(kernel).run(); }

}  // namespace mlc::loop
