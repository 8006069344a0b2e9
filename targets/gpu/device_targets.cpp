#include "targets/gpu/device_targets.h"

#include <algorithm>
#include <array>
#include <cassert>

#include "schema/gpu_module.h"
#include "schema/module_abi.h"
#include "targets/machines.h"

namespace mlc::targets::gpu {
namespace {

using format::ClauseOp;

struct Number {
  Feature feature = Feature::None;
  int64_t value = 0;
  ClauseOp op = ClauseOp::AtLeast;
};

struct Row {
  std::string_view name, family;
  format::ModuleFormat format = format::ModuleFormat::None;
  unsigned most_bindings = 0;
  std::array<Feature, 11> features{};  // flags; None after the last
  std::array<Number, 8> numbers{};
  unsigned matrix_side = 0, matrix_lanes = 0;
};

constexpr unsigned kBlockLanes = 128;
constexpr unsigned kAccessBytes = 16;
constexpr unsigned kVulkanBindings = 16;  // storage buffers that every device of the target has
constexpr unsigned kCudaBindings = 400;   // parameters take 4096 bytes: a pointer each, beside scalars

// PTX of a version is known to drivers from a release on: 6.5 to 10.2, 7.0 to 11.0, 7.8 to 11.8, 8.4 to 12.4. Code for sm_90a runs on no other architecture:
// it asks for one thing more than that for sm_90, and so is tried before it.
constexpr Row kRows[] = {
    {"vulkan-base", "vulkan", format::ModuleFormat::Spirv, kVulkanBindings,
     {Feature::VkShaderInt64, Feature::VkStorage8, Feature::VkStorage16, Feature::VkF32InfNanKeep},
     {{{Feature::VkApi, 1010}, {Feature::VkMaxInvocations, kBlockLanes}, {Feature::VkMaxShared, 16384}, {Feature::VkMaxPush, 128},
       {Feature::VkMaxStorageBuffers, 16}}}},
    {"vulkan-subgroup", "vulkan", format::ModuleFormat::Spirv, kVulkanBindings,
     {Feature::VkShaderInt64, Feature::VkStorage8, Feature::VkStorage16, Feature::VkF32InfNanKeep, Feature::VkSubgroupPick, Feature::VkSubgroupShuffle,
      Feature::VkSubgroupSum, Feature::VkShaderFloat16, Feature::VkShaderInt8, Feature::VkIntDot},
     {{{Feature::VkApi, 1030}, {Feature::VkMaxInvocations, 256}, {Feature::VkMaxShared, 32768}, {Feature::VkMaxPush, 128},
       {Feature::VkMaxStorageBuffers, 16}, {Feature::VkSubgroupSize, 4}}}},
    // Matrices of a subgroup, in the shapes that devices have (VK_KHR_cooperative_matrix): 16 x 16 x 16 NVIDIA's and AMD's, 8 x 8 x 8 lavapipe.
    {"vulkan-matrix", "vulkan", format::ModuleFormat::Spirv, kVulkanBindings,
     {Feature::VkShaderInt64, Feature::VkStorage8, Feature::VkStorage16, Feature::VkF32InfNanKeep, Feature::VkSubgroupPick, Feature::VkSubgroupShuffle,
      Feature::VkSubgroupSum, Feature::VkShaderFloat16, Feature::VkShaderInt8, Feature::VkIntDot, Feature::VkMatrix16},
     {{{Feature::VkApi, 1030}, {Feature::VkMaxInvocations, 256}, {Feature::VkMaxShared, 32768}, {Feature::VkMaxPush, 128},
       {Feature::VkMaxStorageBuffers, 16}, {Feature::VkSubgroupSize, 4}, {Feature::VkSubgroupLeast, 32, ClauseOp::AtMost}, {Feature::VkSubgroupMost, 32}}}, 16, 32},
    {"vulkan-matrix8", "vulkan", format::ModuleFormat::Spirv, kVulkanBindings,
     {Feature::VkShaderInt64, Feature::VkStorage8, Feature::VkStorage16, Feature::VkF32InfNanKeep, Feature::VkSubgroupPick, Feature::VkSubgroupShuffle,
      Feature::VkSubgroupSum, Feature::VkShaderFloat16, Feature::VkShaderInt8, Feature::VkIntDot, Feature::VkMatrix8},
     {{{Feature::VkApi, 1030}, {Feature::VkMaxInvocations, 256}, {Feature::VkMaxShared, 32768}, {Feature::VkMaxPush, 128},
       {Feature::VkMaxStorageBuffers, 16}, {Feature::VkSubgroupSize, 4}, {Feature::VkSubgroupLeast, 8, ClauseOp::AtMost}, {Feature::VkSubgroupMost, 8}}}, 8, 8},
    {"cuda-sm75", "cuda", format::ModuleFormat::Ptx, kCudaBindings, {Feature::CudaBase},
     {{{Feature::CudaCc, 75}, {Feature::CudaDriverApi, 10020}, {Feature::CudaMaxShared, 49152}}}},
    {"cuda-sm80", "cuda", format::ModuleFormat::Ptx, kCudaBindings, {Feature::CudaBase},
     {{{Feature::CudaCc, 80}, {Feature::CudaDriverApi, 11000}, {Feature::CudaMaxShared, 49152}}}},
    {"cuda-sm90", "cuda", format::ModuleFormat::Ptx, kCudaBindings, {Feature::CudaBase},
     {{{Feature::CudaCc, 90}, {Feature::CudaDriverApi, 11080}, {Feature::CudaMaxShared, 49152}}}},
    {"cuda-sm90a", "cuda", format::ModuleFormat::Ptx, kCudaBindings, {Feature::CudaBase},
     {{{Feature::CudaCc, 90}, {Feature::CudaCc, 90, ClauseOp::AtMost}, {Feature::CudaDriverApi, 12040}, {Feature::CudaMaxShared, 49152}}}},
};

const Row& row_of(std::string_view name) {
  const auto* row = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& r) { return r.name == name; });
  assert(row != std::end(kRows) && "no target of a device has this name");
  return *row;
}

}  // namespace

Target device_target(std::string_view name) {
  const Row& row = row_of(name);
  Target t;
  t.name = row.name;
  for (const Feature f : row.features)
    if (f != Feature::None) t.features.emplace_back(name_of(f));
  std::sort(t.features.begin(), t.features.end());
  // A lane computes one element. Op::Fma is fused: PTX says so of its instruction, SPIR-V of none of its own.
  t.vector_bytes = 1;
  t.has_fma = row.family == "cuda";
  t.has_masks = true;
  t.has_sized_locals = false;
  t.block_lanes = kBlockLanes;
  t.matrix_side = row.matrix_side, t.matrix_lanes = row.matrix_lanes;
  t.is_alone = t.matrix_side != 0;
  t.folds_lanes = t.has_dot = t.name != "vulkan-base";
  t.access_bytes = row.family == "cuda" ? kAccessBytes : 0;
  t.most_bindings = row.most_bindings;
  t.pushed_scalars = mlc::gpu::kMaxPushScalars;
  t.buffer_alignment = kDeviceBufferAlignment;
  return t;
}

void add_feature(format::Variant& variant, Feature feature) {
  const auto id = static_cast<uint32_t>(feature);
  const auto at = std::lower_bound(variant.features.begin(), variant.features.end(), id);
  if (at == variant.features.end() || *at != id) variant.features.insert(at, id);
}

void require_device(const Target& target, format::Variant& variant) {
  const Row& row = row_of(target.name);
  variant.family = row.family;
  variant.module_format = row.format;
  for (const Feature f : row.features)
    if (f != Feature::None) add_feature(variant, f);
  for (const Number& n : row.numbers)
    if (n.feature != Feature::None) variant.clauses.push_back({static_cast<uint32_t>(n.feature), n.op, {n.value}});
  variant.clauses.push_back({static_cast<uint32_t>(Feature::ModuleAbi), ClauseOp::AtLeast, {MLRUN_MODULE_ABI}});
}

}  // namespace mlc::targets::gpu
