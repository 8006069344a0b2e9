// Groups of nests on a device (nest/facts/group.h) are attention (attention/attention.h). Blocks of rows do not go through all nests there, as on a
// processor: a lane has no cache of its own to keep them in. Where only the run knows how many queries there are, few of them are a kernel of
// their own, as with products (product/parts.cpp), and so are few queries of many keys, which blocks of a cluster share; a launch whose case it is not has no blocks.
#include "packager/lower/device/attention/attention.h"

namespace mlc::lower {

using ir::Expr;
using ir::Op;

namespace {

// The attention of runs with so many queries; `is_case` says in the run whether they are.
Attention attention_of_case(ir::Context& ctx, const Attention& a, const ProductCase& c, const Expr* is_case) {
  Attention one = a;
  one.nest.product = c;
  if (is_case->is_int(1)) return one;
  const ir::Dim* any = ctx.declare_dim("any", ctx.select(is_case, ctx.integer(1), ctx.integer(0)));
  one.nest.dims.insert(one.nest.dims.begin(), any);
  one.product.batch.insert(one.product.batch.begin(), any);
  return one;
}

struct Case {
  Attention attention;
  std::string suffix;  // of the kernel's name
};

// Where keys are many and blocks are few, clusters of blocks.
void add_parts(const Job& job, Attention a, const std::string& suffix, std::vector<Case>& cases) {
  ir::Context& ctx = job.ctx;
  const KeyParts parts = key_parts(job, a);
  if (parts.blocks == 0) return cases.push_back({std::move(a), suffix});
  const Expr* queries = a.product.rows.points;
  for (const ir::Dim* d : a.product.batch) queries = ctx.mul(queries, d->extent);
  const Expr* is_case = ctx.logical_and(ctx.binary(Op::Lt, ctx.integer(parts.least_keys - 1), a.key->extent), ctx.binary(Op::Lt, queries, ctx.integer(parts.most_queries + 1)));
  if (!is_case->is_int(0)) {
    Attention shared = attention_in_cluster(ctx, attention_of_case(ctx, a, a.nest.product, is_case), parts.blocks);
    cases.push_back({std::move(shared), suffix + ".parts" + std::to_string(parts.blocks)});
  }
  if (!is_case->is_int(1)) cases.push_back({attention_of_case(ctx, a, a.nest.product, ctx.logical_not(is_case)), suffix});
}

// A kernel for each; of the last one are the schedules that can be chosen.
std::vector<Case> cases_of(const Job& job, Attention a) {
  std::vector<Case> cases;
  const int64_t few = few_queries(job, a);
  if (few == 0) {
    add_parts(job, std::move(a), "", cases);
    return cases;
  }
  ir::Context& ctx = job.ctx;
  const Expr* is_few = ctx.binary(Op::Lt, a.product.rows.points, ctx.integer(few + 1));
  add_parts(job, attention_of_case(ctx, a, {static_cast<double>(few), few}, is_few), ".upto" + std::to_string(few), cases);
  cases.push_back({attention_of_case(ctx, a, {}, ctx.logical_not(is_few)), ""});
  return cases;
}

}  // namespace

Attention attention_in_cluster(ir::Context& ctx, Attention a, int64_t blocks) {
  const ir::Dim* part = ctx.declare_dim("part", ctx.integer(blocks));
  a.nest.dims.push_back(part);
  a.nest.cluster = a.product.cluster = part;
  return a;
}

Result<std::optional<Kernels>> lower_device_group(const Job& job, const nest::Function& f, const nest::Group& group, const schedule::Schedule* how) {
  MLC_ASSIGN(std::optional<Attention> a, attention_of(job.ctx, f, group));
  if (!a) return std::optional<Kernels>();
  const std::vector<Case> cases = cases_of(job, std::move(*a));
  Kernels kernels;
  for (const Case& c : cases) {
    Job one = job;
    one.name += c.suffix;
    const auto schedules = device_attention(one, c.attention);
    if (!schedules) return std::optional<Kernels>();
    const bool is_last = &c == &cases.back();
    MLC_ASSIGN(loop::Kernel kernel, kernel_by(one, c.attention.nest, *schedules, how && is_last ? *how : schedules->ranked.front()));
    kernels.push_back(std::move(kernel));
  }
  return std::optional(std::move(kernels));
}

Result<std::vector<schedule::Schedule>> device_group_schedules(const Job& job, const nest::Function& f, const nest::Group& group) {
  MLC_ASSIGN(std::optional<Attention> a, attention_of(job.ctx, f, group));
  if (!a) return std::vector<schedule::Schedule>();
  const std::vector<Case> cases = cases_of(job, std::move(*a));
  const auto all = device_attention(job, cases.back().attention);
  return all ? all->ranked : std::vector<schedule::Schedule>();
}

}  // namespace mlc::lower
