// Folds over so much, for so few points, that one worker would do all of it, are cut along what they fold: a statement before
// folds each piece, and what is left is a fold over pieces.
//
//   y[] = max(x[i, j] for i, j)    becomes    part[i] = max(x[i, j] for j);  y[] = max(part[i] for i)
//
// Pieces are the outermost dims as the array is stored in memory, whole where that leaves enough of a piece, else chunks of them. They
// follow from shapes alone: results do not depend on how many workers there are. Sums round otherwise than in one piece, like
// any other order. Rows of an array are pieces that its producer can fold beside writing them (group.cpp), and folds over the
// same rows (the range of a tensor: its least and its greatest number) are one statement.
#include <algorithm>
#include <optional>

#include "packager/nest/facts/contraction.h"
#include "packager/nest/text/names.h"
#include "packager/passes/all.h"
#include "packager/passes/util.h"
#include "targets/machines.h"

namespace mlc::passes {
namespace {

using ir::Join;
using ir::Op;

constexpr const targets::ProcessorRow& kMachine = targets::kAnyProcessor;
// Chunks of the longest folds: so many that the largest device has four blocks on each multiprocessor, if their size is rounded up to twice
// what it could be.
constexpr int64_t kChunks = 2 * 4 * static_cast<int64_t>(targets::most_multiprocessors());
constexpr int64_t kLeastLanes = 4;

class Splitter {
 public:
  Splitter(ir::Context& ctx, nest::Function& f) : ctx_(ctx), f_(f) {}

  void run() {
    std::vector<nest::Statement> body = std::move(f_.body);
    f_.body.clear();
    for (nest::Statement& s : body) {
      if (is_map(s)) split_all(s);
      f_.body.push_back(std::move(s));
    }
  }

 private:
  // Folds of one statement that were put before it, or can be.
  struct Pieces {
    std::vector<const ir::Dim*> dims;  // of the nest, which the fold knows
    std::vector<const ir::Dim*> kept;  // of the fold
    const ir::Dim* chunked = nullptr;  // of the fold; its chunks are pieces too
    int64_t chunk = 0;
    std::vector<const ir::Dim*> inside;
    const ir::Dim* neighbours = nullptr;  // of the nest: points along it are contiguous in what is folded, and are lanes
  };

  static bool is_map(const nest::Statement& s) {
    return s.nest && !s.nest->where && !s.nest->scan_dim &&
           std::none_of(s.nest->writes.begin(), s.nest->writes.end(), [](const nest::Write& w) { return w.push; });
  }

  void split_all(nest::Statement& s) {
    std::vector<const Expr*> folds;
    for (const nest::Write& w : s.nest->writes) unconditional_folds(w.value, folds);
    for (const Expr* fold : folds)
      if (const auto pieces = pieces_of(*s.nest, fold)) split(s, fold, *pieces);
  }

  // Those that every point evaluates, and none inside of others.
  static void unconditional_folds(const Expr* root, std::vector<const Expr*>& out) {
    std::vector<const Expr*> stack{root};
    std::unordered_map<const Expr*, bool> seen;
    while (!stack.empty()) {
      const Expr* e = stack.back();
      stack.pop_back();
      if (!seen.emplace(e, true).second || e->op == Op::Load) continue;
      if (e->op == Op::Fold) {
        if (std::find(out.begin(), out.end(), e) == out.end()) out.push_back(e);
        continue;
      }
      const bool lazy = e->op == Op::Select || e->op == Op::And || e->op == Op::Or;
      for (size_t k = 0; k < (lazy ? 1 : e->args.size()); ++k) stack.push_back(e->args[k]);
    }
  }

  // What rounds in memory but not in a sum has no place between.
  static bool keeps_its_numbers(const Expr* fold) {
    const Join join = fold->fold->combiner->join;
    if (join == Join::Min || join == Join::Max) return true;
    return std::none_of(fold->args.begin(), fold->args.end(), [](const Expr* e) { return is_float(e->type.dtype) && bits_of(e->type.dtype) < 32; });
  }

  std::optional<Pieces> pieces_of(const nest::Nest& nest, const Expr* fold) {
    const ir::Combiner& c = *fold->fold->combiner;
    if (!c.commutative || c.join == Join::Last || !keeps_its_numbers(fold) || nest::contraction_of(ctx_, nest.dims, fold)) return std::nullopt;
    const Expr* load = nullptr;  // the one that knows most of the dims
    size_t known = 0;
    bool plain = true;
    const auto look = [&](const Expr* e) {
      plain &= e->op != Op::Fold && (e->op != Op::Load || e->access != ir::Access::Checked);
      if (e->op != Op::Load) return;
      const auto knows = static_cast<size_t>(std::count_if(fold->fold->dims.begin(), fold->fold->dims.end(), [&](const ir::Dim* d) { return ir::depends_on(e, ctx_.dim(d)); }));
      if (knows > known) load = e, known = knows;
    };
    for (const Expr* body : fold->args) ir::walk(body, look);
    if (fold->fold->where) ir::walk(fold->fold->where, look);
    if (!plain || !load) return std::nullopt;

    Pieces p;
    double points = 1, inside = 1;
    bool is_batched = false;
    for (const ir::Dim* d : nest.dims)
      if (ir::depends_on(fold, ctx_.dim(d))) {
        if (d->extent->is_const()) points *= estimate(d->extent);
        else if (is_batch(d->extent)) is_batched = true;
        else return std::nullopt;
        p.dims.push_back(d);
      }
    bool is_known = true;
    for (const ir::Dim* d : fold->fold->dims) is_known &= d->extent->is_const(), inside *= estimate(d->extent);
    if (points > kMachine.split_fold_points || (is_known && points * inside < kMachine.launch_points)) return std::nullopt;
    if (is_batched && inside < kMachine.fold_chunk_points) return std::nullopt;
    choose(p, in_memory_order(fold->fold->dims, load), points, inside);
    p.neighbours = innermost(p.dims, load);
    if (p.kept.empty() && !p.chunked) return std::nullopt;
    return p;
  }

  // The leading axis of all inputs.
  bool is_batch(const Expr* extent) const {
    if (extent->op != Op::Sym || f_.inputs.empty()) return false;
    return std::all_of(f_.inputs.begin(), f_.inputs.end(), [&](uint32_t input) {
      const nest::Array& a = f_.arrays[input];
      return a.list_depth == 0 && !a.shape.empty() && a.shape[0] == extent;
    });
  }

  // Outermost first, as the array is stored in memory.
  std::vector<const ir::Dim*> in_memory_order(std::vector<const ir::Dim*> dims, const Expr* load) {
    const nest::Layout& layout = f_.arrays[load->array].layout;
    const auto place = [&](const ir::Dim* d) {
      const size_t count = layout.pieces.empty() ? load->args.size() : layout.pieces.size();
      size_t at = 0;
      while (at < count && !ir::depends_on(load->args[layout.pieces.empty() ? at : layout.pieces[at].axis], ctx_.dim(d))) ++at;
      return at;
    };
    std::stable_sort(dims.begin(), dims.end(), [&](const ir::Dim* a, const ir::Dim* b) { return place(a) < place(b); });
    return dims;
  }

  // The one along which the array is contiguous, if enough of its points are contiguous to be worth lanes.
  const ir::Dim* innermost(const std::vector<const ir::Dim*>& dims, const Expr* load) {
    const nest::Layout& layout = f_.arrays[load->array].layout;
    if (load->args.empty()) return nullptr;
    const Expr* index = load->args[layout.pieces.empty() ? load->args.size() - 1 : static_cast<size_t>(layout.pieces.back().axis)];
    for (const ir::Dim* d : dims)
      if (index == ctx_.dim(d) && d->extent->is_const() && d->extent->i >= kLeastLanes) return d;
    return nullptr;
  }

  void choose(Pieces& p, const std::vector<const ir::Dim*>& dims, double pieces, double inside) {
    size_t k = 0;
    const double points = pieces;
    for (; k < dims.size(); ++k) {
      const double n = estimate(dims[k]->extent);
      if (pieces * n > kMachine.most_fold_pieces || inside / n < kMachine.fold_piece_points) break;
      p.kept.push_back(dims[k]);
      pieces *= n;
      inside /= n;
    }
    p.inside.assign(dims.begin() + static_cast<ptrdiff_t>(k), dims.end());
    const bool few = pieces / points < kMachine.few_fold_pieces && std::all_of(p.kept.begin(), p.kept.end(), [](const ir::Dim* d) { return d->extent->is_const(); });
    if (!few || p.inside.empty()) return;
    const ir::Dim* d = p.inside[0];
    const double rest = inside / estimate(d->extent);
    int64_t chunk = std::max<int64_t>(1, static_cast<int64_t>(kMachine.fold_chunk_points / rest));
    if (d->extent->is_const()) {
      const int64_t n = d->extent->i;
      chunk = std::max(chunk, (n + kChunks - 1) / kChunks);
      for (int64_t size = chunk; size <= 2 * chunk && size < n; ++size)
        if (n % size == 0) {  // no piece is shorter than the others
          chunk = size;
          break;
        }
      if (chunk >= n) return;
    }
    p.chunked = d;
    p.chunk = chunk;
  }

  void split(nest::Statement& s, const Expr* fold, const Pieces& p) {
    std::vector<const ir::Dim*> dims = p.dims;  // of the pieces: of the nest, then of the fold
    dims.insert(dims.end(), p.kept.begin(), p.kept.end());
    ir::Fold part = *fold->fold;
    part.dims = p.inside;
    std::unordered_map<const Expr*, const Expr*> moved;
    if (p.chunked) {
      const Expr *n = p.chunked->extent, *size = ctx_.integer(p.chunk);
      const ir::Dim *outer = ctx_.declare_dim(p.chunked->name + "1", ctx_.ceildiv(n, size)), *inner = ctx_.declare_dim(p.chunked->name + "0", size);
      const Expr* at = ctx_.add(ctx_.mul(ctx_.dim(outer), size), ctx_.dim(inner));
      moved.emplace(ctx_.dim(p.chunked), at);
      part.dims[0] = inner;
      const bool exact = n->is_const() && n->i % p.chunk == 0;
      if (part.where) part.where = ctx_.substitute(part.where, moved);
      if (!exact) part.where = ctx_.logical_and(ctx_.binary(Op::Lt, at, n), part.where);
      dims.push_back(outer);
    }
    std::vector<const Expr*> bodies;
    for (const Expr* body : fold->args) bodies.push_back(ctx_.substitute(body, moved));
    const Expr* of_piece = ctx_.fold(std::move(part), std::move(bodies));
    // Lanes are neighbours in what is written: those of what is read, where points are.
    if (const auto last = std::find(dims.begin(), dims.end(), p.neighbours); last != dims.end()) std::rotate(last, last + 1, dims.end());
    // The statement folds over pieces of its own: dims that it does not share with the one before.
    std::vector<const Expr*> at;
    std::vector<const ir::Dim*> over;
    for (const ir::Dim* d : dims) {
      const bool is_point = std::find(p.dims.begin(), p.dims.end(), d) != p.dims.end();
      if (!is_point) over.push_back(ctx_.declare_dim(d->name, d->extent));
      at.push_back(ctx_.dim(is_point ? d : over.back()));
    }
    std::vector<const Expr*> loads;
    for (size_t field = 0; field < fold->args.size(); ++field) {
      const Expr* value = fold->args.size() == 1 ? of_piece : ctx_.field(of_piece, static_cast<unsigned>(field));
      loads.push_back(ctx_.load(computed_before(s, dims, value), value->type, at));
    }
    const Expr* whole = ctx_.fold({fold->fold->combiner, over, nullptr}, std::move(loads));
    map_roots(s, [&](const Expr* root) { return ctx_.substitute(root, {{fold, whole}}); });
  }

  // An array of `value` for all points of `dims`, computed by the statement before, which may have others of the same points.
  uint32_t computed_before(const nest::Statement& s, const std::vector<const ir::Dim*>& dims, const Expr* value) {
    nest::Array a;
    a.name = nest::unique_name(f_, s.source + ", pieces", "");
    a.dtype = value->type.dtype;
    for (const ir::Dim* d : dims) a.shape.push_back(d->extent);
    const auto array = static_cast<uint32_t>(f_.arrays.size());
    f_.arrays.push_back(std::move(a));
    nest::Statement* to = statement_of(s.part, dims, value);
    if (!to) {
      made_.push_back(f_.body.size());
      to = &f_.body.emplace_back();
      to->source = s.source;
      to->part = s.part;
      to->nest = std::make_unique<nest::Nest>();
      for (const ir::Dim* d : dims) to->nest->dims.push_back(ctx_.declare_dim(d->name, d->extent));
    }
    std::unordered_map<const Expr*, const Expr*> here;
    std::vector<const Expr*> index;
    for (size_t k = 0; k < dims.size(); ++k) {
      index.push_back(ctx_.dim(to->nest->dims[k]));
      here.emplace(ctx_.dim(dims[k]), index.back());
    }
    to->nest->writes.push_back({array, std::move(index), ctx_.substitute(value, here)});
    return array;
  }

  // One of those made before in the same part that has these points, and behind which nothing is written that `value` reads.
  nest::Statement* statement_of(uint32_t part, const std::vector<const ir::Dim*>& dims, const Expr* value) {
    std::vector<uint32_t> reads;
    ir::walk(value, [&](const Expr* e) {
      if (e->op == Op::Load) reads.push_back(e->array);
    });
    size_t first = 0;  // statement before which it cannot stand
    for (size_t k = f_.body.size(); k-- > 0 && first == 0;)
      for (const uint32_t array : written(f_.body[k]))
        if (std::find(reads.begin(), reads.end(), array) != reads.end()) first = k + 1;
    for (size_t k = made_.size(); k-- > 0 && made_[k] >= first;) {
      nest::Nest& nest = *f_.body[made_[k]].nest;
      const bool same = f_.body[made_[k]].part == part && nest.dims.size() == dims.size() && nest.writes.size() < kMostWrites &&
                        std::equal(dims.begin(), dims.end(), nest.dims.begin(), [](const ir::Dim* a, const ir::Dim* b) { return a->extent == b->extent; });
      if (same && reads_of(nest) == std::set<uint32_t>(reads.begin(), reads.end())) return &f_.body[made_[k]];
    }
    return nullptr;
  }
  static std::set<uint32_t> reads_of(const nest::Nest& nest) {
    std::set<uint32_t> reads;
    for (const nest::Write& w : nest.writes)
      ir::walk(w.value, [&](const Expr* e) {
        if (e->op == Op::Load) reads.insert(e->array);
      });
    return reads;
  }

  static constexpr size_t kMostWrites = 4;
  ir::Context& ctx_;
  nest::Function& f_;
  std::vector<size_t> made_;  // statements of pieces
};

}  // namespace

Status split_folds(ir::Context& ctx, nest::Function& f) {
  Splitter(ctx, f).run();
  return ok();
}

}  // namespace mlc::passes
