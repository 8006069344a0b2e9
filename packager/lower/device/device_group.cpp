// Groups of nests on a device (nest/facts/group.h) are attention (attention.h). Blocks of rows do not go through all nests there, as on a
// processor: a lane has no cache of its own to keep them in.
#include "packager/lower/device/attention.h"

namespace mlc::lower {

Result<std::optional<Kernels>> lower_device_group(const Job& job, const nest::Function& f, const nest::Group& group, const schedule::Schedule* how) {
  MLC_ASSIGN(const std::optional<Attention> a, attention_of(job.ctx, f, group));
  const auto all = a ? device_attention(job, *a) : std::nullopt;
  if (!all) return std::optional<Kernels>();
  Kernels kernels;
  MLC_ASSIGN(loop::Kernel kernel, kernel_by(job, a->nest, *all, how ? *how : all->ranked.front()));
  kernels.push_back(std::move(kernel));
  return std::optional(std::move(kernels));
}

Result<std::vector<schedule::Schedule>> device_group_schedules(const Job& job, const nest::Function& f, const nest::Group& group) {
  MLC_ASSIGN(const std::optional<Attention> a, attention_of(job.ctx, f, group));
  const auto all = a ? device_attention(job, *a) : std::nullopt;
  return all ? all->ranked : std::vector<schedule::Schedule>();
}

}  // namespace mlc::lower
