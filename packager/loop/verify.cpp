#include "packager/loop/verify.h"

#include <unordered_set>

#include "packager/ir/context.h"
#include "packager/loop/index_bounds.h"
#include "packager/loop/ops.h"
#include "packager/loop/verify_lanes.h"

namespace mlc::loop {

using ir::Expr;
using ir::Op;
using ir::Type;

namespace {

class Verifier {
 public:
  explicit Verifier(const Kernel& k) : k_(k) {}

  Status run() {
    for (const Param& p : k_.params)
      if (bits_of(p.dtype) == 0) return bad("parameter " + p.name + " has no element type");
    for (const LocalArray& l : k_.locals)
      if (!l.count || (l.count->is_const() ? l.count->i < 0 || l.count->i > kMaxLocalElements : ir::divisor_of(l.count) % kLocalUnit != 0))
        return bad("local array " + l.name + " needs a size: a constant, or a multiple of " + std::to_string(kLocalUnit));
      else if (!l.count->is_const()) MLC_RETURN_IF_ERROR(expr(l.count, true));
    if (!k_.tiles || k_.tiles->type != kIndex) return bad("no tile count");
    // `tiles` is evaluated by the plan: no variables, no loads.
    MLC_RETURN_IF_ERROR(expr(k_.tiles, true));
    for (const Param& p : k_.params)
      if ((p.role != Role::Array) != (p.elements != nullptr))
        return bad("parameter " + p.name + ": size of a workspace");
      else if (p.elements) MLC_RETURN_IF_ERROR(expr(p.elements, true));
    if (!k_.tile_begin || k_.tile_begin->op != Op::Var || !k_.tile_end || k_.tile_end->op != Op::Var)
      return bad("tile range is not a pair of variables");
    bound_.insert(k_.tile_begin);
    bound_.insert(k_.tile_end);
    for (const Cut& cut : k_.cuts) {
      if (!cut.chunk || cut.chunk->op != Op::Var || cut.chunk->type != kIndex || !bound_.insert(cut.chunk).second)
        return bad("the chunk of a cut is no variable of its own");
      if (!cut.units || cut.units->type != kIndex) return bad("a cut without units");
      if (cut.in_turns && (&cut != k_.cuts.data() || k_.cuts.size() != 2)) return bad("turns are not the first of two cuts");
      MLC_RETURN_IF_ERROR(expr(cut.units, true));
    }
    MLC_RETURN_IF_ERROR(block(k_.body, 0));
    return verify_lanes(k_);
  }

 private:
  Status bad(std::string what) const { return Status(Code::Internal, "kernel " + k_.name + ": " + std::move(what)); }

  Status typed(const Expr* e, Type want, const char* what) {
    if (!e) return bad(std::string(what) + " is missing");
    if (e->type != want) return bad(std::string(what) + " has the wrong type in " + ir::to_string(e));
    return expr(e, false);
  }

  Status expr(const Expr* root, bool extent) {
    Status result;
    ir::walk(root, [&](const Expr* e) {
      if (!result.ok() || (!extent && checked_.contains(e))) return;
      result = node(e, extent);
      if (!extent && e->op != Op::Var && e->args.empty()) checked_.insert(e);
    });
    return result;
  }

  Status node(const Expr* e, bool extent) {
    unsigned lanes = e->type.lanes;
    if (lanes == 0 || lanes > kMaxLanes || (lanes & (lanes - 1)))
      return bad("vector of " + std::to_string(lanes) + " lanes");
    if (bits_of(e->type.dtype) == 0) return bad("expression without type");
    auto arg = [&](size_t i) { return e->args[i]->type; };
    switch (e->op) {
      case Op::Const: return lanes == 1 ? ok() : bad("vector constant");
      case Op::Sym:
        for (const ir::Sym* s : k_.scalars)
          if (s == e->sym) return ok();
        return bad("symbol " + e->sym->name + " is not a scalar of the kernel");
      case Op::Var:
        if (extent) return bad("variable in an extent");
        return bound_.contains(e) ? ok() : bad("variable " + std::to_string(e->i) + " is not bound here");
      default: break;
    }
    const OpInfo* info = op_info(e->op);
    if (!info) return bad("operation " + std::to_string(int(e->op)) + " is not allowed: " + ir::to_string(e));
    int n = static_cast<int>(e->args.size());
    if (n < info->min_args || n > info->max_args) return bad("operand count of " + std::string(info->name));
    auto wrong = [&] { return bad("operand types of " + std::string(info->name) + " in " + ir::to_string(e)); };
    switch (e->op) {
      case Op::Load:
        if (extent || e->array >= k_.params.size() + k_.locals.size()) return bad("load from an unknown buffer");
        if (buffer_type(e->array) != e->type.dtype) return bad("load of another element type than the buffer's");
        if (arg(0).dtype != DType::I64 || (arg(0).lanes != 1 && arg(0).lanes != lanes)) return wrong();
        if (n == 2 && arg(1) != Type{DType::Bool, e->type.lanes}) return wrong();
        return ok();
      case Op::Splat:
        return arg(0).dtype == e->type.dtype && arg(0).lanes < lanes && lanes % arg(0).lanes == 0 ? ok() : wrong();
      case Op::Ramp: return arg(0) == Type{e->type.dtype, 1} && is_int(e->type.dtype) && lanes > 1 ? ok() : wrong();
      case Op::Extract:
        return arg(0).dtype == e->type.dtype && lanes == 1 && e->i >= 0 && e->i < arg(0).lanes ? ok() : wrong();
      case Op::SumLanes: case Op::ProdLanes: case Op::MinLanes: case Op::MaxLanes:
        return arg(0).dtype == e->type.dtype && lanes == 1 && arg(0).lanes > 1 ? ok() : wrong();
      case Op::Widen: {
        for (const Expr* a : e->args)
          if (a->type != arg(0)) return wrong();
        return arg(0).dtype == e->type.dtype && arg(0).lanes * e->args.size() == lanes ? ok() : wrong();
      }
      case Op::Dot: {
        const DType a = arg(1).dtype, b = arg(2).dtype;
        if (arg(0) != e->type || dot_sum(a, b) != e->type.dtype || arg(1).lanes != arg(2).lanes) return wrong();
        return arg(1).lanes * bits_of(a) == lanes * bits_of(e->type.dtype) ? ok() : wrong();
      }
      case Op::Cast: case Op::SatCast: return arg(0).lanes == lanes ? ok() : wrong();
      case Op::Bitcast:
        if (is_cells_of_codes(arg(0), e->type) || is_cells_of_codes(e->type, arg(0))) return ok();
        return arg(0).lanes == lanes && bits_of(arg(0).dtype) == bits_of(e->type.dtype) ? ok() : wrong();
      case Op::IsNan: case Op::IsInf:
        return e->type.dtype == DType::Bool && arg(0).lanes == lanes && is_float(arg(0).dtype) ? ok() : wrong();
      case Op::Not: case Op::And: case Op::Or:
        for (const Expr* a : e->args)
          if (a->type != e->type || a->type.dtype != DType::Bool) return wrong();
        return ok();
      case Op::Lt: case Op::Le: case Op::Eq: case Op::Ne:
        return e->type.dtype == DType::Bool && arg(0) == arg(1) && arg(0).lanes == lanes ? ok() : wrong();
      case Op::Select:
        return arg(0) == Type{DType::Bool, e->type.lanes} && arg(1) == e->type && arg(2) == e->type ? ok() : wrong();
      case Op::Div: case Op::Floor: case Op::Ceil: case Op::Trunc: case Op::Rint: case Op::Sqrt: case Op::Fma:
        if (!is_float(e->type.dtype)) return wrong();
        break;
      case Op::Tf32: case Op::Exp2:
        if (e->type.dtype != DType::F32) return wrong();
        break;
      case Op::BitAnd: case Op::BitOr: case Op::BitXor: case Op::BitNot: case Op::Shl: case Op::Shr: case Op::Pow:
        if (is_float(e->type.dtype)) return wrong();
        break;
      default: break;
    }
    for (const Expr* a : e->args)
      if (a->type != e->type) return wrong();
    return ok();
  }

  DType buffer_type(uint32_t array) const {
    return array < k_.params.size() ? k_.params[array].dtype : k_.locals[array - k_.params.size()].dtype;
  }

  Status block(const std::vector<StmtPtr>& stmts, int depth) {
    if (depth > 200) return bad("blocks nested too deeply");
    std::vector<const Expr*> opened;
    const int64_t bytes_of_tiles = bytes_of_tiles_;
    const bool has_matrices = has_matrices_;
    for (const StmtPtr& s : stmts) {
      Status st = stmt(*s, depth, opened);
      if (!st.ok()) return st;
    }
    // What follows, and the next turn of a loop, would find tiles of either size.
    if (bytes_of_tiles != 0 && bytes_of_tiles_ != bytes_of_tiles) return bad("a block that leaves tiles of another size");
    bytes_of_tiles_ = bytes_of_tiles;
    has_matrices_ = has_matrices;
    for (const Expr* v : opened) {
      bound_.erase(v);
      mutable_.erase(v);
    }
    return ok();
  }

  Status open(const Expr* var, std::vector<const Expr*>& opened) {
    if (!var || var->op != Op::Var) return bad("binding without a variable");
    if (!bound_.insert(var).second) return bad("variable bound twice");
    opened.push_back(var);
    return ok();
  }

  Status stmt(const Stmt& s, int depth, std::vector<const Expr*>& opened) {
    std::vector<const Expr*> inner;
    switch (s.kind) {
      case StmtKind::For:
        MLC_RETURN_IF_ERROR(typed(s.begin, kIndex, "begin of a for"));
        MLC_RETURN_IF_ERROR(typed(s.end, kIndex, "end of a for"));
        if (s.step <= 0) return bad("step of a for is not positive");
        if (s.for_kind == ForKind::Unroll && (!s.begin->is_const() || !s.end->is_const()))
          return bad("unroll without constant bounds");
        if (!s.var || s.var->type != kIndex) return bad("loop variable is not an i64");
        MLC_RETURN_IF_ERROR(open(s.var, inner));
        MLC_RETURN_IF_ERROR(block(s.body, depth + 1));
        bound_.erase(s.var);
        return ok();
      case StmtKind::While:
        MLC_RETURN_IF_ERROR(typed(s.cond, {DType::Bool, 1}, "condition of a while"));
        MLC_RETURN_IF_ERROR(typed(s.bound, kIndex, "bound of a while"));
        return block(s.body, depth + 1);
      case StmtKind::If:
        MLC_RETURN_IF_ERROR(typed(s.cond, {DType::Bool, 1}, "condition of an if"));
        MLC_RETURN_IF_ERROR(block(s.body, depth + 1));
        return block(s.orelse, depth + 1);
      case StmtKind::Let:
      case StmtKind::Local:
        if (!s.var) return bad("binding without a variable");
        MLC_RETURN_IF_ERROR(typed(s.value, s.var->type, "value of a binding"));
        if (s.kind == StmtKind::Local) mutable_.insert(s.var);
        return open(s.var, opened);
      case StmtKind::FoldLanes: {
        if (!s.var || s.var->type.lanes != 1) return bad("a fold of lanes without a variable for one number");
        MLC_RETURN_IF_ERROR(typed(s.value, s.var->type, "value of a fold of lanes"));
        const bool logical = s.combine == Op::And || s.combine == Op::Or;
        const bool known = logical || s.combine == Op::Add || s.combine == Op::Mul || s.combine == Op::Min || s.combine == Op::Max;
        if (!known || logical != (s.var->type.dtype == DType::Bool)) return bad("a fold of lanes by another operation");
        return open(s.var, opened);
      }
      case StmtKind::Mma: {
        const bool of_codes = is_code(s.factors);
        if (!s.var || s.var->type != Type{of_codes ? DType::I32 : DType::F32, 4}) return bad("a product of tiles without a variable for four sums");
        if (!of_codes && s.factors != DType::F32 && s.factors != DType::F16 && s.factors != DType::BF16) return bad("a product of tiles of another type");
        if (of_codes ? !is_code(s.b_factors) : s.b_factors != DType::None) return bad("a product of tiles whose factors do not fit together");
        if (s.index.size() != 2) return bad("a product of tiles needs two factors");
        MLC_RETURN_IF_ERROR(typed(s.value, s.var->type, "sums of a product of tiles"));
        MLC_RETURN_IF_ERROR(typed(s.index[0], {DType::U32, 4}, "first factor of a product of tiles"));
        MLC_RETURN_IF_ERROR(typed(s.index[1], {DType::U32, 2}, "second factor of a product of tiles"));
        return open(s.var, opened);
      }
      case StmtKind::GroupMma: return group_mma(s);
      case StmtKind::Matrix: return matrix(s);
      case StmtKind::Tiles: return tiles(s);
      case StmtKind::Assign:
        if (!s.var || !bound_.contains(s.var) || !mutable_.contains(s.var))
          return bad("assignment to what is not a visible local");
        return typed(s.value, s.var->type, "value of an assignment");
      case StmtKind::Store: {
        if (s.array >= k_.params.size() + k_.locals.size()) return bad("store to an unknown buffer");
        if (s.array < k_.params.size() && !k_.params[s.array].written)
          return bad("store to " + k_.params[s.array].name + ", which is read only");
        if (s.index.size() != 1 || !s.value) return bad("store needs one index and a value");
        if (s.value->type.dtype != buffer_type(s.array)) return bad("store of another element type than the buffer's");
        uint16_t lanes = s.value->type.lanes;
        if (s.index[0]->type != kIndex && s.index[0]->type != Type{DType::I64, lanes}) return bad("index of a store");
        MLC_RETURN_IF_ERROR(expr(s.index[0], false));
        MLC_RETURN_IF_ERROR(expr(s.value, false));
        return s.cond ? typed(s.cond, {DType::Bool, lanes}, "mask of a store") : ok();
      }
      case StmtKind::Barrier: case StmtKind::ClusterBarrier: case StmtKind::CloseCopies: return ok();
      case StmtKind::WaitCopies: return s.step < 0 ? bad("a wait for fewer groups of copies than none") : ok();
      case StmtKind::Copy: return copy(s);
      case StmtKind::LoadMatrices:
        MLC_RETURN_IF_ERROR(load_matrices(s));
        return open(s.var, opened);
      case StmtKind::Peer:
        MLC_RETURN_IF_ERROR(peer(s));
        return open(s.var, opened);
      case StmtKind::Prefetch:
        if (s.array >= k_.params.size() + k_.locals.size()) return bad("prefetch from an unknown buffer");
        if (s.index.size() != 1) return bad("prefetch needs one index");
        return typed(s.index[0], kIndex, "index of a prefetch");
      case StmtKind::Fault:
        if (s.fault < 0 || !s.cond || s.cond->type.dtype != DType::Bool) return bad("fault without a condition");
        return expr(s.cond, false);
    }
    return bad("unknown statement");
  }

  Status copy(const Stmt& s) {
    if (!is_shared(s.array)) return bad("a copy to what lanes do not share");
    const Expr* from = s.value;
    if (!from || from->op != Op::Load || from->args.size() != 1 || from->type.lanes != 1) return bad("a copy of what is no load of one element");
    if (from->array >= k_.params.size() || k_.params[from->array].written) return bad("a copy of what the kernel may write");
    if (!may_copy(s.step)) return bad("a copy of " + std::to_string(s.step) + " bytes");
    for (const DType t : {buffer_type(s.array), from->type.dtype})
      if (bits_of(t) < 8 || t == DType::Bool) return bad("a copy of bits");
    if (s.index.size() != 1) return bad("a copy needs one index");
    MLC_RETURN_IF_ERROR(typed(s.index[0], kIndex, "index of a copy"));
    MLC_RETURN_IF_ERROR(expr(from, false));
    return s.cond ? typed(s.cond, {DType::Bool, 1}, "condition of a copy") : ok();
  }

  bool is_shared(uint32_t array) const {
    const size_t local = array - k_.params.size();
    return array >= k_.params.size() && local < k_.locals.size() && k_.locals[local].space == Space::Shared;
  }

  Status load_matrices(const Stmt& s) {
    const Type cells{DType::U32, 4};
    if (!s.value || s.value->op != Op::Load || s.value->args.size() != 1 || s.value->type != cells) return bad("rows of matrices are no loads of four cells");
    if (!is_shared(s.value->array) || buffer_type(s.value->array) != DType::U32) return bad("rows of matrices lie where lanes share no cells");
    if (!s.var || s.var->type != cells) return bad("what a lane has of matrices is four cells");
    return typed(s.value, cells, "a row of a matrix");
  }

  Status peer(const Stmt& s) {
    const Expr* from = s.value;
    if (!from || from->op != Op::Load || from->args.size() != 1) return bad("what another block has is no load");
    if (!is_shared(from->array)) return bad("another block has what lanes do not share");
    if (bits_of(from->type.dtype) != 32) return bad("another block has elements of other than 32 bits");
    if (s.step < 0 || s.step >= k_.cluster) return bad("block " + std::to_string(s.step) + " of a cluster of " + std::to_string(k_.cluster));
    if (!s.var) return bad("binding without a variable");
    return typed(from, s.var->type, "what another block has");
  }

  // Places are counted in units of kGroupCells, so that no factor lies at another place.
  Status group_mma(const Stmt& s) {
    const bool of_codes = is_code(s.factors);
    if (!of_codes && s.factors != DType::F16 && s.factors != DType::BF16) return bad("a product of a group of lanes of another type");
    if (of_codes ? !is_code(s.b_factors) || s.transposed || s.b_transposed : s.b_factors != DType::None) return bad("a product of a group of lanes whose factors do not fit together");
    if (!is_shared(s.array) || buffer_type(s.array) != DType::U32) return bad("factors of a group of lanes lie where lanes share no cells");
    const size_t sums = s.sums.size(), whole = s.b_transposed ? 8 : 1;
    if (sums == 0 || sums > kMostGroupSums || sums % whole != 0) return bad("a product of a group of lanes with " + std::to_string(sums) + " sums");
    std::unordered_set<const Expr*> distinct;
    for (const Expr* sum : s.sums) {
      if (!sum || !bound_.contains(sum) || !mutable_.contains(sum) || !distinct.insert(sum).second) return bad("a sum of a group of lanes is no visible local of its own");
      if (sum->type != Type{of_codes ? DType::I32 : DType::F32, 4}) return bad("a sum of a group of lanes has another type");
    }
    if (s.index.size() != 2) return bad("a product of a group of lanes needs two factors");
    for (const Expr* place : s.index) MLC_RETURN_IF_ERROR(typed(place, kIndex, "place of a factor of a group of lanes"));
    return ok();
  }

  // A block sees the Begin before it and those around it.
  Status matrix(const Stmt& s) {
    const Team& team = k_.team;
    if (team.lanes == 0) return bad("matrices of a team, which there is none of");
    if (s.matrix_op == MatrixOp::Begin) {
      has_matrices_ = true;
      return ok();
    }
    if (!has_matrices_) return bad("matrices before their sums are zero");
    if (!is_shared(s.array) || buffer_type(s.array) != DType::U32) return bad("matrices lie where lanes share no cells");
    const bool adds = s.matrix_op == MatrixOp::Add;
    if (adds && s.factors != DType::F16) return bad("a product of matrices of " + std::string(name_of(s.factors)));
    if (!adds && (s.step < 0 || s.step >= team.rows)) return bad("row " + std::to_string(s.step) + " of " + std::to_string(team.rows) + " rows of matrices");
    if (s.index.size() != (adds ? 4 : 2)) return bad("matrices need a place and a stride each");
    for (size_t k = 0; k < s.index.size(); ++k) MLC_RETURN_IF_ERROR(typed(s.index[k], kIndex, k % 2 ? "stride of matrices" : "place of matrices"));
    for (size_t k = 1; k < s.index.size(); k += 2)
      if (!s.index[k]->is_const() || s.index[k]->i < 1 || s.index[k]->i % kTeamCells != 0) return bad("a stride of matrices that is no constant, or no multiple of four");
    return ok();
  }

  static bool is_code(DType t) { return t == DType::I8 || t == DType::U8; }

  // A block sees the Begin before it and those around it.
  Status tiles(const Stmt& s) {
    if (k_.lanes) return bad("tiles of a processor in a kernel for devices");
    if (s.tile_op == TileOp::Begin) {
      if (s.step != 16 && s.step != 32 && s.step != 64) return bad("tiles of " + std::to_string(s.step) + " bytes");
      bytes_of_tiles_ = s.step;
      sums_of_tiles_ = DType::None;
      return ok();
    }
    if (bytes_of_tiles_ == 0) return bad("a tile before its sums are zero");
    if (s.tile >= kTiles) return bad("tile " + std::to_string(s.tile) + " of " + std::to_string(kTiles));
    if (s.tile_op == TileOp::Store) {
      if (s.index.size() != 1 || s.array >= k_.params.size() + k_.locals.size() || !is_sum_of_tiles(buffer_type(s.array))) return bad("store of a tile");
      if (s.array < k_.params.size() && !k_.params[s.array].written) return bad("store of a tile to " + k_.params[s.array].name + ", which is read only");
      return typed(s.index[0], kIndex, "index of a tile");
    }
    if (s.step != bytes_of_tiles_) return bad("a product of tiles of another size");
    if (s.index.size() != 3) return bad("a product of tiles needs two factors and a stride");
    MLC_RETURN_IF_ERROR(typed(s.index[1], kIndex, "stride of a tile"));
    for (const Expr* factor : {s.index[0], s.index[2]}) {
      if (!factor || factor->op != Op::Load || factor->args.size() != 1 || factor->type.lanes != 1) return bad("a factor of a product of tiles is no load");
      const DType t = factor->type.dtype;
      if ((!is_code(t) && t != DType::BF16) || !is_sum_of_tiles(is_code(t) ? DType::I32 : DType::F32)) return bad("a product of tiles of " + std::string(name_of(t)));
      sums_of_tiles_ = is_code(t) ? DType::I32 : DType::F32;
      MLC_RETURN_IF_ERROR(expr(factor, false));
    }
    return ok();
  }
  // Since the Begin before, as the statements stand.
  bool is_sum_of_tiles(DType t) const { return sums_of_tiles_ == DType::None ? t == DType::I32 || t == DType::F32 : t == sums_of_tiles_; }

  const Kernel& k_;
  std::unordered_set<const Expr*> bound_, mutable_, checked_;
  int64_t bytes_of_tiles_ = 0;  // 0: there was no Begin
  DType sums_of_tiles_ = DType::None;
  bool has_matrices_ = false;   // there was a Begin of theirs
};

}  // namespace

Status verify(const Kernel& kernel) { return Verifier(kernel).run(); }

}  // namespace mlc::loop
