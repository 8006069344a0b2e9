// Several nests in one kernel (nest/facts/group.h). Blocks of rows go through all of them, one nest after the other, so that what is
// local stays in the cache of a core.
//
//   tile of the launch     a point of the outer rows, a range of blocks of the innermost rows
//     block
//       stage              a nest over the rows of the block, as its template writes it
//
// A block is a quantum of the launch, whatever the number of workers. How many rows it has the schedule says, or it follows from what a
// row keeps in local arrays: enough for the register tiles of a product, few enough for the cache.
#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>

#include "packager/lower/walk/templates.h"
#include "packager/nest/facts/contraction.h"
#include "packager/nest/proc.h"

namespace mlc::lower {

using ir::Expr;
using ir::Op;

namespace {

constexpr int64_t kShortRow = 4;  // lines: shorter rows lie behind each other
constexpr unsigned kManyRegisters = 32;  // an exponential beside four sums: with 16 of AVX2 that is slower than two passes
constexpr int64_t kMostBlockRows = 1024;
constexpr int64_t kMostBlocks = 8;       // local arrays of a block are at most so many times what the machine's blocks have

class GroupLowering {
 public:
  GroupLowering(const Job& job, const nest::Function& f, const nest::Group& group)
      : job_(job), f_(f), g_(group), ctx_(job.ctx), k_(job), params_(f) {}

  // The stages at the rows of a block, and what may be done with them. `rows` of a block: 0, as many as the rule says. False: local arrays
  // have sizes that only the run knows, and the target has none of these.
  Result<bool> prepare(int64_t rows) {
    // Before sizes are computed with it: a schedule may come from a file.
    if (rows < 0 || rows > kMostBlockRows) return Status(Code::Malformed, "schedule refused: a block has 1 to " + std::to_string(kMostBlockRows) + " rows");
    for (size_t k = 0; k < g_.locals.size(); ++k) memory_.push_back(take_over(k));
    choose_block(rows);
    if (!job_.target.has_sized_locals && !block_bytes_->is_const()) return false;
    bind_rows();
    place_locals();
    for (const nest::Nest* nest : g_.nests) {
      MLC_ASSIGN(FlatNest flat, flatten(ctx_, f_, *nest, params_));
      MLC_RETURN_IF_ERROR(pack_columns(job_, flat, kernels_));
      params_.list = std::move(flat.params);
      stages_.push_back(std::move(flat));
    }
    for (size_t k = 0; k < stages_.size(); ++k) at_one_block(stages_[k], k);
    if (job_.target.vector_registers >= kManyRegisters) join_folds(ctx_, stages_, params_.list.size());
    best_.family = space_.family = schedule::Family::Group;
    best_.blocks.rows = rows;
    best_.vector_bytes = job_.vector_bytes();
    for (const FlatNest& flat : stages_) {
      ways_.push_back(schedules_of(job_, flat));
      space_.stages.push_back(ways_.back().space);
      best_.stages.push_back(ways_.back().ranked.front());
    }
    return true;
  }

  Result<Kernels> kernels(const schedule::Schedule& how) {
    MLC_RETURN_IF_ERROR(schedule::verify(how, space_));
    MLC_ASSIGN(loop::Kernel kernel, kernel_of_stages(how));
    kernels_.push_back(std::move(kernel));
    return std::move(kernels_);
  }

  // The best one with these rows.
  const schedule::Schedule& best() const { return best_; }
  // Of each stage.
  const std::vector<Schedules>& ways() const { return ways_; }
  // Rows that blocks may have as well.
  std::vector<int64_t> other_rows() const {
    const int64_t usual = block_->is_const() ? block_->i : job_.processor().product_rows;
    std::vector<int64_t> rows;
    for (const int64_t n : {usual / 2, usual * 2})
      if (n >= 1 && n <= space_.most_rows) rows.push_back(n);
    return rows;
  }

 private:
  const Expr* extent_of(size_t row) const { return g_.rows[row].dims[0]->extent; }
  size_t innermost() const { return g_.rows.size() - 1; }

  // The shape of a local array that has so many rows. What a row has is stored in whole lines of the cache, an odd number of them:
  // vectors lie in one line each, and the lines of a register tile's rows in different sets of the cache. What is reshaped lies as it is.
  std::vector<const Expr*> shape_of(const nest::Group::Local& local, const Expr* rows) {
    const nest::Array& array = f_.arrays[local.array];
    std::vector<const Expr*> shape = array.shape;
    for (size_t axis : local.axes) shape[axis] = ctx_.integer(1);
    shape[local.axes.back()] = rows;
    const bool plain = array.layout.pieces.empty() || array.layout.is_row_major();
    if (!plain || std::find(local.axes.begin(), local.axes.end(), shape.size() - 1) != local.axes.end() || is_reshaped(local.array)) return shape;
    const Expr*& last = shape.back();
    const int64_t line = job_.processor().line_bytes / bytes_of(array.dtype);
    if (last->is_const() && last->i < kShortRow * line) return shape;
    const Expr* pairs = ctx_.floordiv(ctx_.ceildiv(last, ctx_.integer(line)), ctx_.integer(2));
    last = ctx_.add(ctx_.mul(pairs, ctx_.integer(2 * line)), ctx_.integer(line));
    return shape;
  }

  bool is_reshaped(uint32_t array) const {
    bool found = false;
    for (const nest::Nest* nest : g_.nests)
      for (const nest::Write& w : nest->writes)
        ir::walk(w.value, [&](const Expr* e) {
          if (e->op != Op::Load || e->array != array) return;
          for (size_t k = 1; k < e->args.size(); ++k) found |= is_taken_apart(e->args[k - 1], e->args[k]) && !e->args[k]->args[1]->is_const();
        });
    return found;
  }

  // Elements of a local array for one row.
  const Expr* per_row(const nest::Group::Local& local) {
    return nest::stored_elements(ctx_, f_.arrays[local.array].layout, shape_of(local, ctx_.integer(1)));
  }

  // The number of a local array as memory. What is read for the last time where something of its size is written, element by
  // element, is overwritten.
  uint32_t take_over(size_t number) {
    const nest::Group::Local& local = g_.locals[number];
    const nest::Array& array = f_.arrays[local.array];
    const nest::Nest& writer = *g_.nests[local.writer];
    for (size_t k = 0; k < number && writer.writes.size() == 1; ++k) {
      const nest::Group::Local& old = g_.locals[k];
      const nest::Array& before = f_.arrays[old.array];
      if (old.last_reader != local.writer || old.axes != local.axes) continue;
      if (before.dtype != array.dtype || before.shape != array.shape || !(before.layout == array.layout)) continue;
      bool same_place = true;
      ir::walk(writer.writes[0].value, [&](const Expr* e) {
        same_place &= e->op != Op::Fold;
        if (e->op == Op::Load && e->array == old.array)
          same_place &= std::equal(e->args.begin(), e->args.end(), writer.writes[0].index.begin(), writer.writes[0].index.end());
      });
      if (same_place) return memory_[k];
    }
    return num_memories_++;
  }

  void choose_block(int64_t rows_of_block) {
    bool product = false;
    for (const nest::Nest* nest : g_.nests)
      for (const nest::Write& w : nest->writes)
        ir::walk(w.value, [&](const Expr* e) { product |= nest::contraction_of(ctx_, nest->dims, e).has_value(); });
    const targets::ProcessorRow& machine = job_.processor();
    const Expr* most = ctx_.integer(product ? machine.product_rows : machine.block_rows);
    const Expr* least = ctx_.integer(product ? machine.block_rows : 1);
    const Expr* bytes = ctx_.integer(0);
    uint32_t counted = 0;
    for (size_t k = 0; k < g_.locals.size(); ++k)
      if (memory_[k] == counted) {
        bytes = ctx_.add(bytes, ctx_.mul(per_row(g_.locals[k]), ctx_.integer(bytes_of(f_.arrays[g_.locals[k].array].dtype))));
        ++counted;
      }
    const Expr* fit = ctx_.floordiv(ctx_.integer(machine.block_bytes), ctx_.max(bytes, ctx_.integer(1)));
    if (const double again = product ? 0 : read_again(); again > 0) fit = ctx_.min(fit, ctx_.integer(static_cast<int64_t>(machine.reread_bytes / again)));
    block_ = rows_of_block ? ctx_.integer(rows_of_block) : ctx_.max(ctx_.min(fit, most), least);
    space_.most_rows = kMostBlockRows;
    if (bytes->is_const()) space_.most_rows = std::min(space_.most_rows, std::max<int64_t>(1, kMostBlocks * machine.block_bytes / std::max<int64_t>(1, bytes->i)));
    // All rows in one block is all there are; heights that are constants are better code.
    const Expr* rows = extent_of(innermost());
    if (block_->is_const() && rows->is_const()) {
      block_ = ctx_.integer(std::max<int64_t>(1, std::min(block_->i, rows->i)));
      exact_ = rows->i % block_->i == 0;
    }
    block_bytes_ = ctx_.mul(bytes, block_);
  }

  // Bytes of one row of arrays in memory that nests before the last one read: those behind them find these in the cache. 0: not known.
  double read_again() {
    std::map<uint32_t, double> arrays;
    for (size_t k = 0; k + 1 < g_.nests.size(); ++k)
      for (const nest::Write& w : g_.nests[k]->writes)
        ir::walk(w.value, [&](const Expr* e) {
          if (e->op != Op::Load || is_local(e->array) || !ir::depends_on(e, ctx_.dim(g_.rows.back().dims[k]))) return;
          std::set<const ir::Dim*> dims;
          for (const Expr* index : e->args)
            ir::walk(index, [&](const Expr* x) {
              if (x->op == Op::Dim && !is_row(x->dim, k)) dims.insert(x->dim);
            });
          double bytes = bytes_of(e->type.dtype);
          for (const ir::Dim* d : dims) bytes *= d->extent->is_const() ? static_cast<double>(d->extent->i) : 0;
          arrays[e->array] = bytes;
        });
    double all = 0;
    for (const auto& [array, bytes] : arrays) all += bytes;
    return all;
  }
  bool is_row(const ir::Dim* d, size_t nest) const {
    return std::any_of(g_.rows.begin(), g_.rows.end(), [&](const nest::Group::Row& row) { return row.dims[nest] == d; });
  }

  void bind_rows() {
    for (size_t row = 0; row < innermost(); ++row) at_.push_back(ctx_.fresh_var({DType::I64, 1}));
    at_.push_back(ctx_.fresh_var({DType::I64, 1}));  // the first row of the block
    height_ = exact_ ? block_ : ctx_.fresh_var({DType::I64, 1});
  }

  void place_locals() {
    for (size_t k = 0; k < g_.locals.size(); ++k) {
      const nest::Group::Local& local = g_.locals[k];
      const nest::Array& array = f_.arrays[local.array];
      LocalRows rows{memory_[k], std::vector<const Expr*>(array.shape.size(), ctx_.integer(0)), shape_of(local, block_)};
      for (size_t row = 0; row < g_.rows.size(); ++row) rows.origin[local.axes[row]] = at_[row];
      const Expr* count = nest::stored_elements(ctx_, array.layout, rows.shape);
      if (!count->is_const()) {
        const Expr* unit = ctx_.integer(loop::kLocalUnit);
        count = ctx_.mul(ctx_.ceildiv(count, unit), unit);
      }
      if (memory_[k] == k_.kernel.locals.size()) k_.kernel.locals.push_back({array.name, array.dtype, count, {}});
      params_.locals.emplace(local.array, std::move(rows));
    }
  }

  // The nest at the rows of one block; buffers get their numbers.
  void at_one_block(FlatNest& flat, size_t nest) {
    std::unordered_map<const Expr*, const Expr*> map;
    for (size_t row = 0; row < g_.rows.size(); ++row) {
      const ir::Dim* d = g_.rows[row].dims[nest];
      const auto place = std::find(flat.dims.begin(), flat.dims.end(), d);
      if (row < innermost()) {
        map.emplace(ctx_.dim(d), at_[row]);
        flat.dims.erase(place);
        continue;
      }
      *place = ctx_.declare_dim(d->name, height_);
      map.emplace(ctx_.dim(d), ctx_.add(at_[row], ctx_.dim(*place)));
    }
    substitute(ctx_, flat, map);
    flat.params = params_.list;
    const auto numbered = [&](uint32_t buffer) {
      return buffer < nest::kFirstLocal ? buffer : buffer - nest::kFirstLocal + static_cast<uint32_t>(params_.list.size());
    };
    std::function<const Expr*(const Expr*)> renumber = [&](const Expr* e) -> const Expr* {
      if (e->op != Op::Load || e->array < nest::kFirstLocal) return nullptr;
      Expr load = *e;
      load.array = numbered(e->array);
      std::vector<const Expr*> args;
      for (const Expr* a : e->args) args.push_back(ctx_.rewrite(a, renumber));
      return ctx_.raw(load, std::move(args));
    };
    for (FlatWrite& w : flat.writes) {
      w.buffer = numbered(w.buffer);
      w.value = ctx_.rewrite(w.value, renumber);
    }
    const std::unordered_set<uint32_t> weights = this->weights();
    for (const nest::Group::Local& local : g_.locals)
      if (weights.contains(local.array)) flat.weights.push_back(numbered(params_.locals.at(local.array).number + nest::kFirstLocal));
    collapse(ctx_, flat);
    short_indices(ctx_, flat);
  }

  // The locals to which exponentials are written, or what is made of those: products, quotients and choices.
  std::unordered_set<uint32_t> weights() const {
    std::unordered_set<uint32_t> found;
    for (const nest::Nest* nest : g_.nests)
      for (const nest::Write& w : nest->writes)
        if (is_local(w.array) && is_weight(w.value, found)) found.insert(w.array);
    return found;
  }
  static bool is_weight(const Expr* value, const std::unordered_set<uint32_t>& known) {
    std::unordered_set<const Expr*> seen;
    std::vector<const Expr*> open{value};
    while (!open.empty()) {
      const Expr* e = open.back();
      open.pop_back();
      if (!seen.insert(e).second) continue;
      if (e->op == Op::Exp || (e->op == Op::Load && known.contains(e->array))) return true;
      if (e->op == Op::Mul || e->op == Op::Div || e->op == Op::Select) open.insert(open.end(), e->args.begin(), e->args.end());
    }
    return false;
  }
  bool is_local(uint32_t array) const {
    return std::any_of(g_.locals.begin(), g_.locals.end(), [&](const nest::Group::Local& l) { return l.array == array; });
  }

  Result<loop::Kernel> kernel_of_stages(const schedule::Schedule& how) {
    k_.kernel.params = params_.list;
    k_.kernel.schedule = schedule::print(how);
    k_.kernel.hoisting = how.hoist;
    std::vector<StagePtr> made;
    for (size_t k = 0; k < ways_.size(); ++k) made.push_back(ways_[k].build(k_, how.stages[k]));
    const Expr* rows = extent_of(innermost());
    const Expr* blocks = ctx_.ceildiv(rows, block_);
    std::vector<const Expr*> outer, all;
    for (size_t row = 0; row < innermost(); ++row) outer.push_back(extent_of(row));
    k_.over_tiles(outer, {{blocks}}, [&](const std::vector<const Expr*>& at, const std::vector<Range>& ranges) {
      for (size_t row = 0; row < innermost(); ++row) name(at_[row], at[row]);
      k_.b.with_for(ranges[0].begin, ranges[0].end, 1, [&](const Expr* block) {
        name(at_.back(), ctx_.mul(block, block_));
        if (!exact_) name(height_, ctx_.min(block_, ctx_.sub(rows, at_.back())));
        for (const StagePtr& stage : made) emit_all(*stage, {});
      });
    });
    const Expr* work = ctx_.number(0, DType::F64);
    for (const StagePtr& stage : made) {
      MLC_RETURN_IF_ERROR(stage->status());
      work = ctx_.binary(Op::Add, work, stage->work);
    }
    all = outer;
    all.push_back(blocks);
    for (const Expr* e : all) work = ctx_.binary(Op::Mul, work, ctx_.cast(DType::F64, k_.for_plan(e)));
    return k_.finish(work);
  }

  // let var = value, for a variable that expressions mention already.
  void name(const Expr* var, const Expr* value) {
    loop::Stmt& s = k_.b.append(loop::StmtKind::Let);
    s.var = var;
    s.value = value;
  }

  void emit_all(Stage& stage, std::vector<const Expr*> at) {
    if (at.size() < stage.batch.size()) {
      k_.b.with_for(ctx_.integer(0), stage.batch[at.size()]->extent, 1, [&](const Expr* point) {
        std::vector<const Expr*> more = at;
        more.push_back(point);
        emit_all(stage, std::move(more));
      });
      return;
    }
    std::vector<Range> whole;
    for (const Axis& axis : stage.axes) whole.push_back({ctx_.integer(0), axis.units});
    stage.emit(at, whole);
  }

  const Job& job_;
  const nest::Function& f_;
  const nest::Group& g_;
  ir::Context& ctx_;
  Skeleton k_;
  Params params_;
  std::vector<FlatNest> stages_;
  std::vector<Schedules> ways_;        // of each stage
  schedule::Space space_;
  schedule::Schedule best_;
  Kernels kernels_;                    // that prepare what the stages read
  std::vector<uint32_t> memory_;       // of each local array; several may share one
  uint32_t num_memories_ = 0;
  const Expr *block_ = nullptr, *block_bytes_ = nullptr;  // rows; all local arrays together
  bool exact_ = false;                 // every block has `block_` rows
  std::vector<const Expr*> at_;        // variables: a point of the outer rows, the first row of the block
  const Expr* height_ = nullptr;       // rows of the block
};

}  // namespace

Result<std::optional<Kernels>> lower_group(ir::Context& ctx, const nest::Function& function, const nest::Group& group,
                                           const std::string& source, const targets::Target& target, const MathExpander& expand,
                                           const schedule::Schedule* how) {
  const Job job{ctx, target, expand, kernel_name(source), how ? std::optional(how->vector_bytes) : std::nullopt};
  if (target.is_device()) return lower_device_group(job, function, group, how);
  if (how && how->family != schedule::Family::Group) return Status(Code::Malformed, "schedule refused: it is of another family");
  GroupLowering lowering(job, function, group);
  MLC_ASSIGN(const bool is_possible, lowering.prepare(how ? how->blocks.rows : 0));
  if (!is_possible) return std::optional<Kernels>{};
  MLC_ASSIGN(Kernels kernels, lowering.kernels(how ? *how : lowering.best()));
  return std::optional<Kernels>(std::move(kernels));
}

Result<std::vector<schedule::Schedule>> group_alternatives(ir::Context& ctx, const nest::Function& function, const nest::Group& group,
                                                           const targets::Target& target) {
  const MathExpander none;
  const Job job{ctx, target, none, "group", {}};
  if (target.is_device()) return device_group_schedules(job, function, group);
  std::vector<schedule::Schedule> found;
  GroupLowering lowering(job, function, group);
  MLC_ASSIGN(const bool is_possible, lowering.prepare(0));
  if (!is_possible) return found;
  found.push_back(lowering.best());
  for (const int64_t rows : lowering.other_rows()) {
    GroupLowering other(job, function, group);
    MLC_ASSIGN(const bool is_legal, other.prepare(rows));
    if (is_legal) found.push_back(other.best());
  }
  // Then one stage by another of its schedules, the second best of each first.
  size_t most = 0;
  for (const Schedules& ways : lowering.ways()) most = std::max(most, ways.ranked.size());
  for (size_t rank = 1; rank < most; ++rank)
    for (size_t k = 0; k < lowering.ways().size() && found.size() < kMostAlternatives; ++k) {
      const Schedules& ways = lowering.ways()[k];
      if (rank >= ways.ranked.size() || !schedule::verify(ways.ranked[rank], ways.space).ok()) continue;
      found.push_back(lowering.best());
      found.back().stages[k] = ways.ranked[rank];
    }
  return found;
}

}  // namespace mlc::lower
