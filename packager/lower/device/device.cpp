// What a device needs that a processor does not: a lane has one point and computes all of it, so what many points share is a
// kernel of its own, launched before, and so are the chunks of a long fold that few points have; a product is kernels for few rows and
// for many, and its fold in parts where its points are few blocks (product/parts.cpp); and a launch takes a number of
// buffers at most, so what reads more is cut. What passes between such kernels is in workspaces.
#include <algorithm>
#include <set>

#include "packager/lower/device/product/parts.h"

namespace mlc::lower {

using ir::Access;
using ir::Expr;
using ir::Op;

namespace {

// From so many points that share a fold, and so many of the fold, a launch costs less than computing it again.
constexpr double kLeastShared = 4, kLeastFolded = 4;
constexpr int kMostRounds = 200;
// A fold of so many points is cut into chunks, each for a lane of its own, where fewer lanes than these would be at work.
constexpr int64_t kChunk = 256;

// Numbers that all parts of a statement share.
struct Numbers {
  uint32_t workspaces = 0, parts = 0;
};

void buffers_in(const Expr* e, std::set<uint32_t>& out) {
  if (!e) return;
  ir::walk(e, [&](const Expr* x) {
    if (x->op == Op::Load) out.insert(x->array);
    if (x->op == Op::Fold && x->fold->where) buffers_in(x->fold->where, out);
  });
}

std::set<uint32_t> buffers_of(const FlatNest& nest) {
  std::set<uint32_t> all;
  buffers_in(nest.where, all);
  for (const FlatWrite& w : nest.writes) {
    all.insert(w.buffer);
    for (const Expr* e : {w.address, w.value, w.in_range}) buffers_in(e, all);
    for (const Expr* e : w.index) buffers_in(e, all);
  }
  return all;
}

class Splitting {
 public:
  Splitting(const Job& job, FlatNest& nest, Numbers& numbers) : job_(job), ctx_(job.ctx), n_(nest), numbers_(numbers) {}

  Result<Kernels> run() {
    const bool lines = device_lines(job_, n_).has_value();  // those fold together what the points of a row share
    if (!lines) MLC_RETURN_IF_ERROR(shared_folds());
    if (device_products(job_, n_)) MLC_RETURN_IF_ERROR(products());
    else if (!lines) MLC_RETURN_IF_ERROR(long_folds());
    const unsigned most = job_.target.most_buffers();
    for (int round = 0; most && buffers_of(n_).size() > most; ++round) {
      if (round == kMostRounds) return too_many();
      MLC_RETURN_IF_ERROR(fewer_buffers(most));
    }
    MLC_RETURN_IF_ERROR(into_cluster());
    drop_unused_params();
    return std::move(kernels_);
  }

 private:
  Status too_many() const {
    return Status(Code::Unsupported, "it takes " + std::to_string(buffers_of(n_).size()) + " buffers at once, a launch has at most " +
                                         std::to_string(job_.target.most_buffers()));
  }

  // ---- folds that many points share ----

  // Visits what is evaluated for every point, whatever conditions hold: `visit` says whether its operands are of interest.
  void for_unconditional(const Expr* root, const std::function<bool(const Expr*)>& visit) {
    std::vector<const Expr*> stack{root};
    std::set<const Expr*> seen;
    while (!stack.empty()) {
      const Expr* e = stack.back();
      stack.pop_back();
      if (!seen.insert(e).second || !visit(e)) continue;
      if (e->op == Op::Load) continue;
      size_t always = e->op == Op::Select || e->op == Op::And || e->op == Op::Or ? 1 : e->args.size();
      for (size_t k = 0; k < always; ++k)
        if (e->op != Op::Fold || !facts_.needs_guard(e->args[k])) stack.push_back(e->args[k]);
    }
  }

  double points(const std::vector<const ir::Dim*>& dims) const {
    double product = 1;
    for (const ir::Dim* d : dims) product *= estimate(d->extent);
    return product;
  }

  std::vector<const ir::Dim*> dims_of(const Expr* e, bool others) {
    std::vector<const ir::Dim*> found;
    for (const ir::Dim* d : n_.dims)
      if (facts_.depends(e, d) != others) found.push_back(d);
    return found;
  }

  bool is_shared(const Expr* fold) {
    DimSet ours = 0;
    for (const ir::Dim* d : n_.dims) ours |= facts_.bit(d);
    if (facts_.dims(fold) & ~ours) return false;  // it is one of each point of another fold
    if (points(dims_of(fold, true)) < kLeastShared || points(fold->fold->dims) < kLeastFolded) return false;
    bool faults = false;  // where no point exists, no fault is reported
    ir::walk(fold, [&](const Expr* x) { faults |= x->op == Op::Load && x->access == Access::Checked; });
    return !faults;
  }

  Status shared_folds() {
    if (n_.where) return ok();
    std::vector<const Expr*> folds;
    for (const FlatWrite& w : n_.writes)
      for_unconditional(w.value, [&](const Expr* e) {
        if (e->op != Op::Fold || !is_shared(e)) return true;
        if (std::find(folds.begin(), folds.end(), e) == folds.end()) folds.push_back(e);
        return false;
      });
    for (const Expr* fold : folds) {
      std::vector<const Expr*> results;
      for (const FlatWrite& w : n_.writes)
        ir::walk(w.value, [&](const Expr* e) {
          const bool is_result = fold->args.size() == 1 ? e == fold : e->op == Op::Field && e->args[0] == fold;
          if (is_result && std::find(results.begin(), results.end(), e) == results.end()) results.push_back(e);
        });
      MLC_RETURN_IF_ERROR(replace_by_part(results, dims_of(fold, false), nullptr));
    }
    return ok();
  }

  // ---- products that a device is not filled by ----

  Status products() {
    const auto p = product_for_device(ctx_, n_);
    if (!p) return ok();
    MLC_RETURN_IF_ERROR(cases(*p));
    const FoldParts cut = fold_parts(job_, n_, *p);
    return cut.dim && !cut.in_cluster ? in_parts(*p, cut) : ok();
  }

  // The parts of the fold are blocks of a cluster, which add them up themselves. No other step may see the nest behind this: one of its dims is no index of the result.
  Status into_cluster() {
    const auto p = device_products(job_, n_) ? product_for_device(ctx_, n_) : std::nullopt;
    const FoldParts cut = p ? fold_parts(job_, n_, *p) : FoldParts{};
    if (!cut.dim || !cut.in_cluster) return ok();
    const Chunked c = chunked(p->fold, cut.dim, cut.dim->extent->i / cut.parts);
    replace({{p->fold, c.fold}});
    n_.dims.push_back(c.chunk);
    n_.cluster = c.chunk;
    n_.product.is_cut = true;
    return device_products(job_, n_) ? ok() : Status(Code::Internal, "a product in parts of a cluster is none any more");
  }

  // A kernel for each case but the last, which is what is left.
  Status cases(const DeviceProduct& p) {
    const std::vector<ProductCase> all = product_cases(job_, n_, p);
    if (all.size() == 1) n_.product = all[0];
    if (all.size() < 2) return ok();
    const Expr *free = (p.rows.points->is_const() ? p.columns : p.rows).points, *one = ctx_.integer(1), *none = ctx_.integer(0);
    int64_t fewer = 0;  // points have been taken care of; none need no blocks, not even of slices
    for (const ProductCase& c : all) {
      const Expr* is_case = ctx_.binary(Op::Lt, ctx_.integer(fewer), free);
      if (c.most) is_case = ctx_.logical_and(is_case, ctx_.binary(Op::Lt, free, ctx_.integer(c.most + 1)));
      FlatNest part = n_;
      part.product = c;
      part.dims.insert(part.dims.begin(), ctx_.declare_dim("any", ctx_.select(is_case, one, none)));
      fewer = c.most;
      if (!c.most) n_ = std::move(part);
      else MLC_RETURN_IF_ERROR(launch(std::move(part), ".upto" + std::to_string(c.most)));
    }
    return ok();
  }

  // The parts are a batch of products; each of their sums has the points of the product, in the order of what is written.
  Status in_parts(const DeviceProduct& p, const FoldParts& cut) {
    std::vector<const ir::Dim*> dims = dims_of(p.fold, false);
    order_as_written(ctx_, n_, dims);
    for (const ir::Dim* d : n_.dims)
      if (ir::interval_of(d->extent).hi <= 1 && std::find(dims.begin(), dims.end(), d) == dims.end()) dims.insert(dims.begin(), d);
    ProductCase product = n_.product;
    product.is_cut = true;
    return in_chunks(p.fold, cut.dim, cut.dim->extent->i / cut.parts, std::move(dims), product);
  }

  // ---- folds of few lanes ----

  // The chunks of a fold are folds of a launch before, and what is left is a fold over chunks.
  Status long_folds() {
    if (n_.where) return ok();
    for (int round = 0; round < kMostRounds; ++round) {
      if (device_folds(job_, n_)) return ok();
      const Expr* fold = nullptr;
      for (const FlatWrite& w : n_.writes)
        for_unconditional(w.value, [&](const Expr* e) {
          if (!fold && e->op == Op::Fold && is_long(e)) fold = e;
          return !fold;
        });
      if (!fold) return ok();
      MLC_RETURN_IF_ERROR(in_chunks(fold, longest(fold), kChunk, dims_of(fold, false), {}));
    }
    return ok();
  }

  const ir::Dim* longest(const Expr* fold) const {
    const auto& dims = fold->fold->dims;
    return *std::max_element(dims.begin(), dims.end(), [](const ir::Dim* a, const ir::Dim* b) { return estimate(a->extent) < estimate(b->extent); });
  }

  bool is_long(const Expr* fold) {
    const ir::Combiner& c = *fold->fold->combiner;
    if (!c.commutative || c.join == ir::Join::Last || points(n_.dims) >= job_.device().busy_points || points(fold->fold->dims) < job_.device().cut_fold_points) return false;
    if (estimate(longest(fold)->extent) < 2 * kChunk) return false;
    DimSet ours = 0;
    for (const ir::Dim* d : n_.dims) ours |= facts_.bit(d);
    if (facts_.dims(fold) & ~ours) return false;
    bool plain = true;  // what faults does so once, and what is nested is evaluated with its own point
    for (const Expr* body : fold->args)
      ir::walk(body, [&](const Expr* x) { plain &= x->op != Op::Fold && (x->op != Op::Load || x->access != Access::Checked); });
    return plain;
  }

  // The fold of `length` points of its dim `k`, of one chunk after the other.
  struct Chunked {
    const ir::Dim* chunk = nullptr;
    const Expr* fold = nullptr;
  };
  Chunked chunked(const Expr* fold, const ir::Dim* k, int64_t length) {
    const Expr* size = ctx_.integer(length);
    const ir::Dim *chunk = ctx_.declare_dim(k->name + "1", ctx_.ceildiv(k->extent, size)), *inner = ctx_.declare_dim(k->name + "0", size);
    const Expr* at = ctx_.add(ctx_.mul(ctx_.dim(chunk), size), ctx_.dim(inner));
    const bool exact = k->extent->is_const() && k->extent->i % length == 0;
    const auto moved = [&](const Expr* e) { return ctx_.substitute(exact ? e : guarded(ctx_, facts_, e, k), {{ctx_.dim(k), at}}); };
    ir::Fold part = *fold->fold;
    std::replace(part.dims.begin(), part.dims.end(), k, inner);
    const Expr* where = exact ? nullptr : ctx_.binary(Op::Lt, at, k->extent);
    part.where = part.where ? ctx_.logical_and(where, moved(part.where)) : where;
    std::vector<const Expr*> bodies;
    for (const Expr* body : fold->args) bodies.push_back(moved(body));
    return {chunk, ctx_.fold(std::move(part), std::move(bodies))};
  }

  // Folds chunks of `length` points of `k` for all points of `dims` before; chunks of a product are its batches.
  Status in_chunks(const Expr* fold, const ir::Dim* k, int64_t length, std::vector<const ir::Dim*> dims, const ProductCase& product) {
    const auto [chunk, of_chunk] = chunked(fold, k, length);
    std::vector<const Expr*> results{of_chunk};
    if (fold->args.size() > 1) results.clear();
    for (unsigned field = 0; results.size() < fold->args.size(); ++field) results.push_back(ctx_.field(of_chunk, field));
    dims.insert(product.is_cut ? dims.begin() : dims.end(), chunk);
    MLC_ASSIGN(std::vector<const Expr*> loads, before(results, dims, nullptr, product));
    replace({{fold, ctx_.fold({fold->fold->combiner, {chunk}, nullptr}, std::move(loads))}});
    return ok();
  }

  // ---- fewer buffers ----

  Status fewer_buffers(unsigned most) {
    if (n_.writes.size() > 1) return n_.scan_dim ? too_many() : first_write();
    FlatWrite& w = n_.writes[0];
    const bool is_map = !n_.scan_dim && !w.push;
    if (is_map && w.value->op == Op::Select) return first_arm();
    // What is computed for all points and leaves the fewest buffers.
    const size_t all = buffers_of(n_).size();
    const Expr* best = nullptr;
    size_t least = all;
    for_unconditional(w.value, [&](const Expr* e) {
      if (is_map && e == w.value) return e->op != Op::Fold;  // all of it is no part
      std::set<uint32_t> of_part;
      buffers_in(e, of_part);
      if (of_part.size() < 2) return false;
      buffers_in(n_.where, of_part);
      if (of_part.size() + 1 > most && e->op != Op::Select) return e->op != Op::Fold;
      const size_t left = buffers_without(e);
      if (left < least) best = e, least = left;
      return false;
    });
    return best ? replace_by_part({best}, n_.dims, n_.where) : too_many();
  }

  size_t buffers_without(const Expr* part) {
    FlatNest rest = n_;
    const Expr* none = is_float(part->type.dtype) ? ctx_.number(0, part->type.dtype)
                       : part->type.dtype == DType::Bool ? ctx_.boolean(false) : ctx_.integer(0, part->type.dtype);
    rest.writes[0].value = ctx_.rewrite(rest.writes[0].value, [&](const Expr* e) { return e == part ? none : nullptr; });
    return buffers_of(rest).size() + 1;
  }

  // No write reads what another one writes, or writes to the same array: they may come one after the other.
  Status first_write() {
    std::set<uint32_t> written, read;
    for (const FlatWrite& w : n_.writes) {
      if (!written.insert(w.buffer).second) return too_many();
      for (const Expr* e : {w.address, w.value, w.in_range}) buffers_in(e, read);
    }
    for (const uint32_t buffer : written)
      if (read.contains(buffer)) return too_many();
    FlatNest first = n_;
    first.writes.resize(1);
    n_.writes.erase(n_.writes.begin());
    return launch(std::move(first));
  }

  Status first_arm() {
    FlatWrite& w = n_.writes[0];
    const Expr* condition = w.value->args[0];
    const auto where = [&](const Expr* e) { return n_.where ? ctx_.binary(Op::And, n_.where, e) : e; };
    FlatNest first = n_;
    first.where = where(condition);
    first.writes[0].value = w.value->args[1];
    n_.where = where(ctx_.logical_not(condition));
    w.value = w.value->args[2];
    return launch(std::move(first));
  }

  // ---- parts ----

  // Computes these for all points of `dims` into workspaces; what reads them there.
  Result<std::vector<const Expr*>> before(const std::vector<const Expr*>& results, const std::vector<const ir::Dim*>& dims, const Expr* where,
                                          const ProductCase& product = {}) {
    FlatNest part;
    part.product = product;
    part.dims = dims;
    part.where = where;
    part.params = n_.params;
    for (loop::Param& p : part.params) p.written = false;
    const Expr *address = ctx_.integer(0), *elements = ctx_.integer(1);
    for (const ir::Dim* d : dims) {
      address = ctx_.add(ctx_.mul(address, d->extent), ctx_.dim(d));
      elements = ctx_.mul(elements, d->extent);
    }
    std::vector<const Expr*> loads;
    for (const Expr* result : results) {
      loop::Param workspace;
      workspace.name = "part";
      workspace.dtype = result->type.dtype;
      workspace.role = loop::Role::Workspace;
      workspace.array = numbers_.workspaces++;
      workspace.elements = elements;
      FlatWrite& w = part.writes.emplace_back();
      w.buffer = static_cast<uint32_t>(part.params.size());
      w.dtype = workspace.dtype;
      w.address = address;
      w.value = result;
      w.index = {address};
      Expr load;
      load.op = Op::Load;
      load.type = result->type;
      load.array = static_cast<uint32_t>(n_.params.size());
      load.access = where ? Access::Proved : Access::Clamped;
      loads.push_back(ctx_.raw(load, {address}));
      n_.params.push_back(workspace);
      workspace.written = true;
      part.params.push_back(std::move(workspace));
    }
    MLC_RETURN_IF_ERROR(launch(std::move(part)));
    return loads;
  }

  Status replace_by_part(const std::vector<const Expr*>& results, const std::vector<const ir::Dim*>& dims, const Expr* where) {
    MLC_ASSIGN(const std::vector<const Expr*> loads, before(results, dims, where));
    std::unordered_map<const Expr*, const Expr*> by;
    for (size_t k = 0; k < results.size(); ++k) by.emplace(results[k], loads[k]);
    replace(by);
    return ok();
  }

  void replace(const std::unordered_map<const Expr*, const Expr*>& by) {
    for (FlatWrite& w : n_.writes)
      w.value = ctx_.rewrite(w.value, [&](const Expr* e) {
        const auto at = by.find(e);
        return at == by.end() ? nullptr : at->second;
      });
  }

  Status launch(FlatNest part, const std::string& name = {}) {
    Job job = job_;
    job.name += name.empty() ? ".part" + std::to_string(numbers_.parts++) : name;
    MLC_ASSIGN(Kernels first, Splitting(name.empty() ? job_ : job, part, numbers_).run());
    for (loop::Kernel& kernel : first) kernels_.push_back(std::move(kernel));
    MLC_ASSIGN(loop::Kernel kernel, kernel_of(job, part));
    kernels_.push_back(std::move(kernel));
    return ok();
  }

  void drop_unused_params() {
    const std::set<uint32_t> used = buffers_of(n_);
    if (used.size() == n_.params.size()) return;
    std::vector<uint32_t> number(n_.params.size());
    std::vector<loop::Param> kept;
    for (const uint32_t k : used) {
      number[k] = static_cast<uint32_t>(kept.size());
      kept.push_back(n_.params[k]);
    }
    n_.params = std::move(kept);
    const auto renumbered = [&](const Expr* e) { return e ? with_numbers(e, number) : nullptr; };
    n_.where = renumbered(n_.where);
    for (FlatWrite& w : n_.writes) {
      w.buffer = number[w.buffer];
      for (const Expr** e : {&w.address, &w.value, &w.in_range}) *e = renumbered(*e);
      for (const Expr*& e : w.index) e = renumbered(e);
    }
  }

  const Expr* with_numbers(const Expr* e, const std::vector<uint32_t>& number) {
    return ctx_.rewrite(e, [&](const Expr* x) -> const Expr* {
      if (x->op != Op::Load) return nullptr;
      Expr load = *x;
      load.array = number[x->array];
      std::vector<const Expr*> args;
      for (const Expr* a : x->args) args.push_back(with_numbers(a, number));
      return ctx_.raw(load, std::move(args));
    });
  }

  const Job& job_;
  ir::Context& ctx_;
  FlatNest& n_;
  Numbers& numbers_;
  Facts facts_;
  Kernels kernels_;
};

}  // namespace

Result<Kernels> split_for_device(const Job& job, FlatNest& nest) {
  Numbers numbers;
  return Splitting(job, nest, numbers).run();
}

}  // namespace mlc::lower
