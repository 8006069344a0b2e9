// Maps that read an array across its grain: the write is contiguous along `across`, a load of it along `along`. Blocks of
// both are read in the order in which they lie and turned in registers, or taken the other way from scratch memory, which stays in L1,
// so that every cache line is read and written once. One at a time, such loads touch a line per element, and lines a power of
// two apart push each other out.
#include <algorithm>

#include "packager/lower/walk/templates.h"

namespace mlc::lower {

using ir::Expr;
using ir::Op;

namespace {

// Loads of neighbours along `d` whose next element along `across` lies elsewhere.
std::vector<const Expr*> crossed_loads(ir::Context& ctx, Facts& facts, const FlatNest& nest, const ir::Dim* across, const ir::Dim* d) {
  const auto coefficient = [&](const Expr* address, const ir::Dim* of) {
    const Expr* leaf[] = {ctx.dim(of)};
    const auto linear = ir::linear_in(ctx, address, leaf);
    return linear && facts.dims(linear->coefficients[0]) == 0 ? linear->coefficients[0] : nullptr;
  };
  std::vector<const Expr*> found;
  ir::walk(nest.writes[0].value, [&](const Expr* e) {
    if (e->op != Op::Load || e->access != ir::Access::Clamped || e->args.size() != 1 || facts.needs_guard(e->args[0])) return;
    const Expr *step = coefficient(e->args[0], d), *stride = coefficient(e->args[0], across);
    if (step && step->is_int(1) && stride && !stride->is_int(0) && !stride->is_int(1)) found.push_back(e);
  });
  return found;
}

class Transpose final : public Stage {
 public:
  Transpose(const Job& job, const FlatNest& nest, Skeleton& k, const Crossed& c, const schedule::Schedule& how, const DimNames& names)
      : Stage(job, nest, k), across_(c.across), along_(c.along), loads_(c.loads) {
    schedule = schedule::print(how);
    std::vector<const Expr*> extents;
    for (const schedule::Loop& l : how.loops) {
      const ir::Dim* d = names.dim(l.dim);
      if (l.bind == schedule::Bind::Lanes) lanes_ = static_cast<unsigned>(l.step);
      if (l.bind == schedule::Bind::Serial && l.step > 1) height_ = l.step;
      if (l.bind != schedule::Bind::Cut) continue;
      extents.push_back(d->extent);
      if (d != across_ && d != along_) {
        batch.push_back(d);
        continue;
      }
      axes.push_back({ctx_.ceildiv(d->extent, ctx_.integer(l.step))});
      axis_.push_back({d, l.step});
    }
    for (const Expr* load : loads_)
      scratch_.push_back(k_.scratch("block" + std::to_string(scratch_.size() + 1), load->type.dtype, ctx_.integer(height_ * lanes_)));
    work = k_.takes(job_.operation_ns() / lanes_, extents, k_.operations(n_.writes[0].value));
  }

 private:
  void part(const std::vector<Range>& ranges) override {
    Range rows{ctx_.integer(0), across_->extent}, columns{ctx_.integer(0), along_->extent};
    for (size_t k = 0; k < axis_.size(); ++k)
      (axis_[k].first == across_ ? rows : columns) = points_of(k_, ranges[k], axis_[k].second, axis_[k].first->extent);
    blocks(rows.begin, rows.end, columns.begin, columns.end);
  }

  const Expr* whole(const Expr* lo, const Expr* hi, int64_t size) {
    const Expr* n = ctx_.integer(size);
    return k_.b.let(ctx_.add(lo, ctx_.mul(ctx_.floordiv(ctx_.max(ctx_.sub(hi, lo), ctx_.integer(0)), n), n)));
  }

  void blocks(const Expr* row, const Expr* row_end, const Expr* column, const Expr* column_end) {
    const Expr *full_rows = whole(row, row_end, height_), *full_columns = whole(column, column_end, lanes_);
    k_.b.with_for(row, full_rows, height_, [&](const Expr* first) {
      k_.b.with_for(column, full_columns, lanes_, [&](const Expr* at) { block(first, nullptr, at, nullptr); });
      rest(full_columns, column_end, [&] { block(first, ctx_.add(first, ctx_.integer(height_)), full_columns, column_end); });
    });
    rest(full_rows, row_end, [&] {
      k_.b.with_for(column, full_columns, lanes_, [&](const Expr* at) {
        block(full_rows, row_end, at, ctx_.add(at, ctx_.integer(lanes_)));
      });
      rest(full_columns, column_end, [&] { block(full_rows, row_end, full_columns, column_end); });
    });
  }

  void rest(const Expr* from, const Expr* to, const std::function<void()>& body) {
    const Expr* more = ctx_.binary(Op::Lt, from, to);
    if (more->is_const() && !more->i) return;
    k_.b.with_if(more, [&] { s_.scoped(body); });
  }

  // Rows row .. row_end of columns column .. column_end; ends are null for a whole block.
  void block(const Expr* row, const Expr* row_end, const Expr* column, const Expr* column_end) {
    if (row_end && !job_.target.has_masks) return one_by_one(row, row_end, column, column_end);
    if (!row_end && !column_end && in_registers()) return turn(row, column);
    const Expr* last_row = row_end ? row_end : ctx_.add(row, ctx_.integer(height_));
    const Expr* last_column = column_end ? column_end : ctx_.add(column, ctx_.integer(lanes_));
    s_.scoped([&] {
      s_.bind(along_, column);
      const Expr* exists = column_end ? lanes_below(column, column_end) : nullptr;
      s_.with_for(across_, row, last_row, 1, [&] {
        const Expr* at = ctx_.mul(ctx_.sub(s_.bound(across_), row), ctx_.integer(lanes_));
        s_.vectorised(along_, lanes_, exists, [&] {
          for (size_t k = 0; k < loads_.size(); ++k) k_.b.store(scratch_[k], at, s_.value(loads_[k]));
        });
      });
    });
    s_.scoped([&] {
      s_.with_for(along_, column, last_column, 1, [&] {
        const Expr* place = k_.b.let(ctx_.sub(s_.bound(along_), column));
        for (int64_t part = 0; part < height_; part += lanes_) {
          const Expr* first = ctx_.add(row, ctx_.integer(part));
          const auto write = [&] { vector_of_rows(first, part, row_end, place); };
          if (!row_end || part == 0) write();
          else rest(first, row_end, write);
        }
      });
    });
  }

  // An interpreter takes as long for an element of a vector as for one of memory.
  bool in_registers() const { return job_.target.machine != Machine::None; }

  // A whole block: squares of vectors are turned in registers, one after another. Where vectors are scalars, there are many squares in a block,
  // whose loads and stores are code each: a loop goes over these.
  void turn(const Expr* row, const Expr* column) {
    const auto square = [&](const Expr* first) { turn_square(first, column); };
    if (!job_.target.has_vectors) return k_.b.with_for(row, ctx_.add(row, ctx_.integer(height_)), lanes_, square);
    for (int64_t part = 0; part < height_; part += lanes_) square(k_.b.let(ctx_.add(row, ctx_.integer(part))));
  }

  // As many rows, from `first` on, as a vector has lanes. What is written is computed from these at once if that is little code.
  void turn_square(const Expr* first, const Expr* column) {
    const bool at_once = loads_.size() == 1 && is_little(n_.writes[0].value);
    std::vector<std::vector<const Expr*>> turned;
    for (const Expr* load : loads_) turned.push_back(columns_of(load, first, column));
    for (unsigned c = 0; c < lanes_; ++c) {
      if (at_once) write_column(first, ctx_.add(column, ctx_.integer(c)), [&](size_t k) { return turned[k][c]; });
      for (size_t k = 0; !at_once && k < loads_.size(); ++k) k_.b.store(scratch_[k], ctx_.integer(c * lanes_), turned[k][c]);
    }
    if (at_once) return;
    s_.scoped([&] {
      s_.with_for(along_, column, ctx_.add(column, ctx_.integer(lanes_)), 1, [&] {
        const Expr* at = k_.b.let(ctx_.mul(ctx_.sub(s_.bound(along_), column), ctx_.integer(lanes_)));
        write_column(first, s_.bound(along_), [&](size_t k) { return k_.b.let(loop::vec_load(ctx_, scratch_[k], {loads_[k]->type.dtype, static_cast<uint16_t>(lanes_)}, at)); });
      });
    });
  }

  static bool is_little(const Expr* value) {
    constexpr size_t kLittle = 8;
    size_t nodes = 0;
    ir::walk(value, [&](const Expr* e) { nodes += e->op != Op::Load && e->type.dtype != DType::I64; });
    return nodes <= kLittle;
  }

  // A vector of rows from `first` on.
  void write_column(const Expr* first, const Expr* column, const std::function<const Expr*(size_t)>& value) {
    s_.scoped([&] {
      s_.bind(across_, first);
      s_.bind(along_, column);
      s_.vectorised(across_, lanes_, nullptr, [&] {
        for (size_t k = 0; k < loads_.size(); ++k) s_.define(loads_[k], value(k));
        emit_writes(s_, k_.b, n_, nullptr);
      });
    });
  }

  // As many rows of a vector as it has lanes, read along and given as columns. Shuffles within 16 bytes come first, then those of 16
  // bytes as a whole: both take one instruction on two vectors.
  std::vector<const Expr*> columns_of(const Expr* load, const Expr* row, const Expr* column) {
    constexpr size_t kUnit = 16;
    std::vector<const Expr*> rows;
    for (unsigned r = 0; r < lanes_; ++r)
      s_.scoped([&] {
        s_.bind(across_, ctx_.add(row, ctx_.integer(r)));
        s_.bind(along_, column);
        s_.vectorised(along_, lanes_, nullptr, [&] { rows.push_back(k_.b.let(loop::splat(ctx_, s_.value(load), lanes_))); });
      });
    const size_t unit = std::min<size_t>(kUnit / static_cast<size_t>(bytes_of(load->type.dtype)), lanes_), units = lanes_ / unit;
    for (size_t group = 0; group < lanes_; group += unit) zip(rows, group, unit);
    std::vector<const Expr*> columns(lanes_);
    for (size_t c = 0; c < unit; ++c) {
      std::vector<const Expr*> same;
      for (size_t group = 0; group < units; ++group) same.push_back(rows[group * unit + c]);
      collect(same, unit);
      for (size_t u = 0; u < units; ++u) columns[u * unit + c] = same[u];
    }
    return columns;
  }

  // Turns squares of `unit` elements: of vectors from `first` on, all that lie `unit` lanes apart. Two halves zipped, again and again.
  void zip(std::vector<const Expr*>& v, size_t first, size_t unit) {
    for (size_t step = 1; step < unit; step *= 2) {
      std::vector<const Expr*> next;
      for (size_t k = 0; k < unit; ++k) {
        const Expr *a = v[first + k / 2], *b = v[first + k / 2 + unit / 2];
        std::vector<const Expr*> lanes;
        for (size_t l = 0; l < lanes_; ++l) {
          const size_t in_unit = k % 2 * (unit / 2) + l % unit / 2, from = l / unit * unit + in_unit;
          lanes.push_back(loop::extract(ctx_, l % 2 ? b : a, static_cast<unsigned>(from)));
        }
        next.push_back(k_.b.let(loop::widen(ctx_, std::move(lanes))));
      }
      std::copy(next.begin(), next.end(), v.begin() + static_cast<ptrdiff_t>(first));
    }
  }

  // The same of units as a whole: the even ones of two vectors, then the odd ones, again and again.
  void collect(std::vector<const Expr*>& v, size_t unit) {
    const size_t n = v.size();
    for (size_t step = 1; step < n; step *= 2) {
      std::vector<const Expr*> next(n);
      for (size_t k = 0; k < n; ++k) {
        std::vector<const Expr*> lanes;
        for (size_t l = 0; l < lanes_; ++l) {
          const size_t at = l / unit, from = (at * 2 + k % 2) % n;
          lanes.push_back(loop::extract(ctx_, v[k / 2 * 2 + (at * 2 >= n)], static_cast<unsigned>(from * unit + l % unit)));
        }
        next[k / 2 + k % 2 * (n / 2)] = k_.b.let(loop::widen(ctx_, std::move(lanes)));
      }
      v = std::move(next);
    }
  }

  void vector_of_rows(const Expr* first, int64_t part, const Expr* row_end, const Expr* place) {
    s_.scoped([&] {
      s_.bind(across_, first);
      s_.vectorised(across_, lanes_, row_end ? lanes_below(first, row_end) : nullptr, [&] {
        for (size_t k = 0; k < loads_.size(); ++k) {
          std::vector<const Expr*> elements;
          for (unsigned lane = 0; lane < lanes_; ++lane)
            elements.push_back(loop::vec_load(ctx_, scratch_[k], loads_[k]->type, ctx_.add(place, ctx_.integer((part + lane) * lanes_))));
          s_.define(loads_[k], loop::widen(ctx_, std::move(elements)));
        }
        emit_writes(s_, k_.b, n_, nullptr);
      });
    });
  }

  void one_by_one(const Expr* row, const Expr* row_end, const Expr* column, const Expr* column_end) {
    s_.with_for(across_, row, row_end, 1, [&] {
      s_.with_for(along_, column, column_end, 1, [&] { emit_writes(s_, k_.b, n_, nullptr); });
    });
  }

  const Expr* lanes_below(const Expr* first, const Expr* limit) {
    return k_.b.let(loop::vec_binary(ctx_, Op::Lt, loop::ramp(ctx_, first, lanes_), loop::splat(ctx_, limit, lanes_)));
  }

  const ir::Dim *across_, *along_;
  const std::vector<const Expr*> loads_;
  unsigned lanes_ = 1;
  int64_t height_ = 16;  // of a block along `across_`; its width is a vector
  std::vector<std::pair<const ir::Dim*, int64_t>> axis_;
  std::vector<uint32_t> scratch_;  // one per load
};

class Transposes {
 public:
  Transposes(const Job& job, const FlatNest& nest) : job_(job), n_(nest), ctx_(job.ctx) {}

  bool recognise() {
    lanes_ = std::min(16u, natural_lanes(job_, n_));
    auto c = lanes_ < 4 ? std::nullopt : crossed(ctx_, n_, lanes_);
    if (c) c_ = std::move(*c);
    return c.has_value();
  }

  Schedules run() {
    Schedules s;
    s.space.family = schedule::Family::Transpose;
    s.space.needs_lanes = true;
    s.space.needed_places = s.space.places = {"loads"};
    schedule::Schedule best{.family = schedule::Family::Transpose};
    best.places = {{"loads"}};
    best.vector_bytes = job_.vector_bytes();
    for (const ir::Dim* d : n_.dims)
      if (d != c_.across && d != c_.along) add(s.space, best, d, 1).serial = false;
    // Whole cache lines of the write.
    const int64_t line = job_.processor().line_bytes / bytes_of(n_.writes[0].dtype), height = (std::max<int64_t>(line, lanes_) + lanes_ - 1) / lanes_ * lanes_;
    add(s.space, best, c_.across, height).block = true;
    const std::string across = s.space.dims.back().name;
    auto& along = add(s.space, best, c_.along, lanes_);
    along.lanes = lanes_;
    along.masked = true;
    along.serial = false;
    best.loops.push_back({.dim = across, .step = height});
    best.loops.push_back({.dim = along.name, .step = lanes_, .bind = schedule::Bind::Lanes});
    best.loops.push_back({.dim = across});
    s.ranked.push_back(std::move(best));
    s.build = [&job = job_, &nest = n_, c = c_, names = names_](Skeleton& k, const schedule::Schedule& how) -> StagePtr {
      return std::make_unique<Transpose>(job, nest, k, c, how, names);
    };
    return s;
  }

 private:
  schedule::Space::Dim& add(schedule::Space& space, schedule::Schedule& how, const ir::Dim* d, int64_t quantum) {
    schedule::Space::Dim& dim = space.dims.emplace_back();
    dim.name = names_.add(d);
    dim.extent = d->extent->is_const() ? d->extent->i : -1;
    dim.cut = true;
    how.loops.push_back({.dim = dim.name, .step = quantum, .bind = schedule::Bind::Cut});
    return dim;
  }

  const Job& job_;
  const FlatNest& n_;
  ir::Context& ctx_;
  Crossed c_;
  unsigned lanes_ = 1;
  DimNames names_;
};

}  // namespace

std::optional<Crossed> crossed(ir::Context& ctx, const FlatNest& nest, double least) {
  if (nest.writes.size() != 1 || nest.writes[0].push || nest.writes[0].in_range || nest.scan_dim || nest.where) return std::nullopt;
  Facts facts;
  Crossed c;
  c.across = contiguous_dim(ctx, nest);
  if (!c.across || facts.has_fold(nest.writes[0].value)) return std::nullopt;
  double longest = 0;
  for (const ir::Dim* d : nest.dims)
    if (d != c.across && crossed_loads(ctx, facts, nest, c.across, d).size() > 0 && estimate(d->extent) > longest) {
      longest = estimate(d->extent);
      c.along = d;
    }
  if (!c.along || longest < least || estimate(c.across->extent) < least) return std::nullopt;
  c.loads = crossed_loads(ctx, facts, nest, c.across, c.along);
  return c;
}

std::optional<Schedules> transposes(const Job& job, const FlatNest& nest) {
  Transposes t(job, nest);
  if (!t.recognise()) return std::nullopt;
  return t.run();
}

}  // namespace mlc::lower
