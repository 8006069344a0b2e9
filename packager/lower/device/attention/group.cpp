// Groups of nests on a device (nest/facts/group.h) are attention (attention/attention.h). Blocks of rows do not go through all nests there, as on a
// processor: a lane has no cache of its own to keep them in. Where only the run knows how many queries there are, few of them are a kernel of
// their own, as with products (product/parts.cpp); a launch whose case it is not has no blocks.
#include "packager/lower/device/attention/attention.h"

namespace mlc::lower {

using ir::Expr;
using ir::Op;

namespace {

// The attention of runs with so many queries; `is_case` says in the run whether they are.
Attention attention_of_case(ir::Context& ctx, const Attention& a, const ProductCase& c, const Expr* is_case) {
  Attention one = a;
  one.nest.product = c;
  const ir::Dim* any = ctx.declare_dim("any", ctx.select(is_case, ctx.integer(1), ctx.integer(0)));
  one.nest.dims.insert(one.nest.dims.begin(), any);
  one.product.batch.insert(one.product.batch.begin(), any);
  return one;
}

struct AttentionCases {
  std::optional<Attention> few;
  Attention others;  // or all
};

AttentionCases cases_of(const Job& job, Attention a) {
  const int64_t few = few_queries(job, a);
  if (few == 0) return {std::nullopt, std::move(a)};
  ir::Context& ctx = job.ctx;
  const Expr* is_few = ctx.binary(Op::Lt, a.product.rows.points, ctx.integer(few + 1));
  return {attention_of_case(ctx, a, {static_cast<double>(few), few}, is_few), attention_of_case(ctx, a, {}, ctx.logical_not(is_few))};
}

}  // namespace

Result<std::optional<Kernels>> lower_device_group(const Job& job, const nest::Function& f, const nest::Group& group, const schedule::Schedule* how) {
  MLC_ASSIGN(std::optional<Attention> a, attention_of(job.ctx, f, group));
  if (!a) return std::optional<Kernels>();
  const AttentionCases cases = cases_of(job, std::move(*a));
  const auto all = device_attention(job, cases.others);
  if (!all) return std::optional<Kernels>();
  Kernels kernels;
  if (cases.few) {
    Job few = job;
    few.name += ".upto" + std::to_string(cases.few->nest.product.most);
    const auto schedules = device_attention(few, *cases.few);
    if (!schedules) return std::optional<Kernels>();
    MLC_ASSIGN(loop::Kernel kernel, kernel_by(few, cases.few->nest, *schedules, schedules->ranked.front()));
    kernels.push_back(std::move(kernel));
  }
  MLC_ASSIGN(loop::Kernel kernel, kernel_by(job, cases.others.nest, *all, how ? *how : all->ranked.front()));
  kernels.push_back(std::move(kernel));
  return std::optional(std::move(kernels));
}

Result<std::vector<schedule::Schedule>> device_group_schedules(const Job& job, const nest::Function& f, const nest::Group& group) {
  MLC_ASSIGN(std::optional<Attention> a, attention_of(job.ctx, f, group));
  if (!a) return std::vector<schedule::Schedule>();
  const AttentionCases cases = cases_of(job, std::move(*a));
  const auto all = device_attention(job, cases.others);
  return all ? all->ranked : std::vector<schedule::Schedule>();
}

}  // namespace mlc::lower
