// Devices: what products read rounded is rounded where it is computed. A copy of an array in 16 bits (weights/precision.cpp) is fused with what writes the array where
// fusion may; norms that others read in f32 as well, and results of attention, are left with a launch of their own for it:
//
//   y[m, n] = norm(x[m, n]);  r[m, n] = f16(y[m, n])      become      y[m, n] = norm(x[m, n]), r[m, n] = f16(norm(x[m, n]))
//
// of one statement, whose lines hold their folds for both; without y, where nothing else reads it.
#include "packager/nest/facts/contraction.h"
#include "packager/passes/all.h"
#include "packager/passes/util.h"

namespace mlc::passes {
namespace {

using ir::Op;

constexpr double kLeastLine = 16;  // points that share folds: fewer are no lines of a device, whose statements write once

class RoundedStores {
 public:
  RoundedStores(ir::Context& ctx, nest::Function& f) : ctx_(ctx), f_(f), uses_(uses_of(f)) {}

  void run() {
    std::set<size_t> gone;
    for (size_t s = 0; s < f_.body.size(); ++s)
      if (is_alone(s) && store_with_writer(s)) gone.insert(s);
    std::vector<nest::Statement> body;
    for (size_t s = 0; s < f_.body.size(); ++s)
      if (!gone.contains(s)) body.push_back(std::move(f_.body[s]));
    f_.body = std::move(body);
  }

 private:
  bool is_alone(size_t s) const { return !f_.body[s].joins && (s + 1 == f_.body.size() || !f_.body[s + 1].joins); }

  bool store_with_writer(size_t s) {
    const auto array = rounded_array(f_.body[s]);
    if (!array || uses_.writers[*array].size() != 1) return false;
    const size_t writer = uses_.writers[*array][0];
    nest::Statement& from = f_.body[writer];
    if (writer >= s || !from.nest || from.part != f_.body[s].part || from.nest->where || from.nest->scan_dim) return false;
    nest::Nest& n = *from.nest;
    if (n.writes.size() != 1 || n.writes[0].push || n.writes[0].value->type.dtype != DType::F32) return false;
    const nest::Write& copy = f_.body[s].nest->writes[0];
    const uint32_t rounded = copy.array;
    const DType type = copy.value->type.dtype;
    nest::Write& w = n.writes[0];
    if (uses_.readers[*array].size() == 1 && !uses_.output[*array] && !f_.arrays[*array].layout.is_part()) {
      w.array = rounded;
      w.value = ctx_.cast(type, w.value);
      return true;
    }
    if (!is_alone(writer) || !is_line(n)) return false;
    n.writes.push_back({rounded, w.index, ctx_.cast(type, w.value)});
    uses_.readers[*array].erase(s);
    return true;
  }

  // Whether it has folds, none of which is a product, that many of its points share.
  bool is_line(const nest::Nest& n) {
    bool any = false, is_product = false;
    std::set<const ir::Dim*> known;
    ir::walk(n.writes[0].value, [&](const Expr* e) {
      if (e->op != Op::Fold) return;
      any = true;
      is_product |= nest::contraction_of(ctx_, n.dims, e).has_value();
      for (const ir::Dim* d : n.dims)
        if (ir::depends_on(e, ctx_.dim(d))) known.insert(d);
    });
    double line = 1;
    for (const ir::Dim* d : n.dims)
      if (!known.contains(d)) line *= estimate(d->extent);
    return any && !is_product && line >= kLeastLine;
  }

  ir::Context& ctx_;
  nest::Function& f_;
  Uses uses_;
};

}  // namespace

Status store_rounded(ir::Context& ctx, nest::Function& f) {
  RoundedStores(ctx, f).run();
  return ok();
}

}  // namespace mlc::passes
