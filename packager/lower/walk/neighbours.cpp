// How many neighbouring points a lane of a device takes. Memory is read and written there by up to 16 bytes at once: elements that lie
// side by side and begin at a multiple of that are one instruction, and a lane has four times as much under way.
#include <numeric>

#include "packager/lower/walk/templates.h"

namespace mlc::lower {

using ir::Access;
using ir::Expr;
using ir::Op;

namespace {

constexpr unsigned kMostNeighbours = 8;
constexpr unsigned kLeastBytes = 2;  // of an element: emitters do not join bytes

// What addresses say of a number of neighbours: all are contiguous along `d`, and begin at multiples of `divisor`.
class Neighbours {
 public:
  Neighbours(const Job& job, Facts& facts, const ir::Dim* d) : ctx_(job.ctx), facts_(facts), d_(d), divisor_(ir::divisor_of(d->extent)) {}

  void access(const Expr* address, DType t) {
    if (!facts_.depends(address, d_)) return;
    const Expr* leaf[] = {ctx_.dim(d_)};
    const auto linear = ir::linear_in(ctx_, address, leaf);
    fits_ = fits_ && linear && linear->coefficients[0]->is_int(1) && bits_of(t) >= 8;
    if (!fits_) return;
    divisor_ = std::gcd(divisor_, ir::divisor_of(linear->rest));
    bytes_ = std::max(bytes_, bytes_of(t));
  }

  void value(const Expr* root) {
    fits_ &= !facts_.needs_guard(root);
    ir::walk(root, [&](const Expr* e) {
      if (e->op == Op::Fold) fits_ &= !facts_.depends(e, d_);
      if (e->op != Op::Load) return;
      fits_ &= e->access != Access::Checked && e->args.size() == 1;
      if (fits_) access(e->args[0], e->type.dtype);
    });
  }

  int64_t count(unsigned most_bytes) const {
    if (!fits_ || bytes_ < kLeastBytes) return 1;
    int64_t n = std::min(kMostNeighbours, most_bytes / bytes_);
    while (n > 1 && divisor_ % n != 0) n /= 2;
    return std::max<int64_t>(n, 1);
  }

 private:
  ir::Context& ctx_;
  Facts& facts_;
  const ir::Dim* d_;
  int64_t divisor_;
  unsigned bytes_ = 0;
  bool fits_ = true;
};

}  // namespace

int64_t neighbours_in_writes(const Job& job, const FlatNest& nest, const ir::Dim* d) {
  Facts facts;
  Neighbours n(job, facts, d);
  if (job.target.access_bytes == 0 || nest.where) return 1;
  for (const FlatWrite& w : nest.writes) {
    if (w.push || w.in_range || !facts.depends(w.address, d)) return 1;
    n.access(w.address, w.dtype);
    n.value(w.value);
  }
  return n.count(job.target.access_bytes);
}

int64_t neighbours_in_fold(const Job& job, const Expr* fold) {
  if (job.target.access_bytes == 0 || fold->fold->where) return 1;
  Facts facts;
  Neighbours n(job, facts, fold->fold->dims.back());
  for (const Expr* body : fold->args) n.value(body);
  return n.count(job.target.access_bytes);
}

int64_t neighbours_in_loads(const Job& job, const std::vector<const Expr*>& loads, const ir::Dim* d) {
  if (job.target.access_bytes == 0) return 1;
  Facts facts;
  Neighbours n(job, facts, d);
  for (const Expr* load : loads) n.value(load);
  return n.count(job.target.access_bytes);
}

}  // namespace mlc::lower
