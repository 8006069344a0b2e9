#include "loaders/vulkan/module.h"

#include <cstring>
#include <utility>

#include "loaders/vulkan/words.h"
#include "runtime/device_api.h"
#include "schema/format.h"

namespace mlc::vulkan {

Result<std::unique_ptr<VulkanModule>> VulkanModule::load(Context& context, gpu::Module module) {
  if (module.format != static_cast<uint8_t>(format::ModuleFormat::Spirv)) return Status(Code::Malformed, "a module of format {}, expected SPIR-V", module.format);
  std::unique_ptr<VulkanModule> out(new VulkanModule(context, std::move(module)));
  const gpu::Module& m = out->module_;
  for (const gpu::Entry& e : m.entries)
    if (Status s = out->check_entry(e); !s.ok()) return std::move(s).note("kernel '{}'", e.name);
  for (size_t i = 0; i < m.images.size(); ++i) {
    std::vector<const gpu::Entry*> entries;
    for (const gpu::Entry& e : m.entries)
      if (e.image == i) entries.push_back(&e);
    if (Status s = check_words(m.images[i].bytes, entries, context.physical()); !s.ok()) return std::move(s).note("image {}", i);
  }
  out->images_.resize(m.images.size());
  out->pipelines_.resize(m.entries.size());
  return out;
}

VulkanModule::~VulkanModule() {
  if (context_.is_lost()) return;
  for (Pipeline p : pipelines_)
    if (p) context_.call().DestroyPipeline(context_.handle(), p, nullptr);
  for (ShaderModule s : images_)
    if (s) context_.call().DestroyShaderModule(context_.handle(), s, nullptr);
}

Status VulkanModule::check_entry(const gpu::Entry& e) const {
  const Physical& p = context_.physical();
  const auto beyond = [&](const char* what, uint64_t wants, uint64_t most) {
    return Status(Code::Unsupported, "{} {}, {} has at most {}", wants, what, p.info.title, most);
  };
  if (gpu::num_bindings(e) > p.storage_buffers) return beyond("buffers", gpu::num_bindings(e), p.storage_buffers);
  if (16 + uint64_t{8} * gpu::kMaxPushScalars > p.push_bytes) return beyond("bytes of constants", 16 + 8 * gpu::kMaxPushScalars, p.push_bytes);
  if (e.dynamic_shared_bytes != 0) return Status(Code::Malformed, "shared memory that a launch gives, which SPIR-V has none of");
  if (e.shared_bytes > p.shared_bytes) return beyond("bytes of shared memory", e.shared_bytes, p.shared_bytes);
  for (size_t axis = 0; axis < 3; ++axis)
    if (e.lanes[axis] > p.work_group_size[axis]) return beyond("lanes along an axis", e.lanes[axis], p.work_group_size[axis]);
  const uint64_t lanes = uint64_t{e.lanes[0]} * e.lanes[1] * e.lanes[2];
  if (lanes > p.invocations) return beyond("lanes", lanes, p.invocations);
  if (e.wants_full_subgroups && (p.subgroup == 0 || e.lanes[0] % p.subgroup != 0))
    return Status(Code::Unsupported, "full subgroups in blocks of {} lanes, which {} does not give", e.lanes[0], p.info.title);
  if (e.subgroup_lanes != 0 && (e.subgroup_lanes < p.least_subgroup || e.subgroup_lanes > p.most_subgroup))
    return Status(Code::Unsupported, "subgroups of {} lanes, {} has those of {} to {}", e.subgroup_lanes, p.info.title, p.least_subgroup, p.most_subgroup);
  if (e.subgroup_lanes != 0 && lanes / e.subgroup_lanes > p.most_subgroups) return beyond("subgroups of a block", lanes / e.subgroup_lanes, p.most_subgroups);
  return ok();
}

Status VulkanModule::accepts(uint32_t kernel, const LaunchForm& form) const {
  return device::check_form(module_.entries[kernel], form);
}

Result<Kernel> VulkanModule::kernel(uint32_t number) const {
  const gpu::Entry& e = module_.entries[number];
  Kernel out{&e, nullptr, {}};
  MLC_ASSIGN(out.layout, context_.layout(gpu::num_bindings(e)));
  const std::lock_guard lock(mu_);
  if (!pipelines_[number])
    if (Status s = compile(e, out.layout, pipelines_[number]); !s.ok()) return std::move(s).note("kernel '{}'", e.name);
  out.pipeline = pipelines_[number];
  return out;
}

Status VulkanModule::compile(const gpu::Entry& e, const Layout& layout, Pipeline& out) const {
  MLC_RETURN_IF_ERROR(context_.alive());
  const DeviceFunctions& call = context_.call();
  ShaderModule& shader = images_[e.image];
  if (!shader) {
    const std::vector<std::byte>& bytes = module_.images[e.image].bytes;
    std::vector<uint32_t> words(bytes.size() / 4);
    std::memcpy(words.data(), bytes.data(), bytes.size());
    ShaderModuleCreateInfo info;
    info.bytes = bytes.size();
    info.words = words.data();
    MLC_RETURN_IF_ERROR(context_.check(call.CreateShaderModule(context_.handle(), &info, nullptr, &shader), "vkCreateShaderModule"));
  }
  ComputePipelineCreateInfo info;
  info.stage.module = shader;
  info.stage.name = e.name.c_str();
  info.layout = layout.pipeline;
  RequiredSubgroupSize size;
  size.size = e.subgroup_lanes ? e.subgroup_lanes : context_.physical().subgroup;
  if (e.wants_full_subgroups) info.stage.next = &size, info.stage.flags = kRequireFullSubgroups;
  Pipeline made = nullptr;
  MLC_RETURN_IF_ERROR(context_.check(call.CreateComputePipelines(context_.handle(), context_.pipelines(), 1, &info, nullptr, &made), "vkCreateComputePipelines"));
  if (!made) return Status(Code::Unsupported, "vkCreateComputePipelines gave no pipeline");
  out = made;
  return ok();
}

}  // namespace mlc::vulkan
