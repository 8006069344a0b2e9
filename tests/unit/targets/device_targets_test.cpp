// What a target of a device asks of it, and what an emitter says that a module adds.
#include <doctest/doctest.h>

#include <algorithm>

#include "targets/emitter.h"
#include "schema/module_abi.h"
#include "targets/gpu/device_targets.h"
#include "tests/text/loop_text.h"

using namespace mlc;
using targets::Target;

namespace {

bool has_clause(const format::Variant& v, Feature feature, int64_t at_least) {
  return std::any_of(v.clauses.begin(), v.clauses.end(), [&](const format::Clause& c) {
    return c.id == static_cast<uint32_t>(feature) && c.op == format::ClauseOp::AtLeast && c.values == std::vector<int64_t>{at_least};
  });
}

}  // namespace

TEST_CASE("targets of devices have blocks, and those of processors none") {
  for (const Target& t : targets::all_targets()) CHECK_FALSE(t.is_device());
  for (const char* name : {"vulkan-base", "vulkan-subgroup", "vulkan-matrix", "vulkan-matrix8", "cuda-sm75", "cuda-sm80", "cuda-sm90", "cuda-sm90a"}) {
    const Target t = targets::gpu::device_target(name);
    CHECK(t.is_device());
    CHECK(t.block_lanes <= loop::kMaxBlockLanes);
    CHECK(t.machine == Machine::None);
    CHECK(t.buffer_alignment == 256);
    CHECK_FALSE(t.features.empty());
    for (const std::string& f : t.features) CHECK_MESSAGE(feature_named(f) != Feature::None, f);
    CHECK(std::is_sorted(t.features.begin(), t.features.end()));
  }
}

TEST_CASE("every target that an emitter has for devices is found by its name, and is none of all") {
  for (const Target& t : targets::device_targets()) {
    CHECK(targets::find_target(t.name) == &t);
    CHECK(t.emitter != nullptr);
    CHECK(std::none_of(targets::all_targets().begin(), targets::all_targets().end(), [&](const Target& other) { return other.name == t.name; }));
  }
}

TEST_CASE("a variant for a device asks for what its row says, once") {
  format::Variant v;
  targets::gpu::require_device(targets::gpu::device_target("vulkan-base"), v);
  CHECK(v.family == "vulkan");
  CHECK(v.module_format == format::ModuleFormat::Spirv);
  CHECK(v.features.size() == 4);
  const auto of_base = v.features;
  CHECK(has_clause(v, Feature::VkApi, 1010));
  CHECK(has_clause(v, Feature::VkMaxInvocations, 128));
  CHECK(has_clause(v, Feature::VkMaxStorageBuffers, 16));
  CHECK(has_clause(v, Feature::ModuleAbi, MLRUN_MODULE_ABI));
  targets::gpu::add_feature(v, Feature::VkShaderFloat64);
  targets::gpu::add_feature(v, Feature::VkShaderFloat64);
  CHECK(v.features.size() == 5);
  CHECK(std::is_sorted(v.features.begin(), v.features.end()));

  format::Variant more;
  targets::gpu::require_device(targets::gpu::device_target("vulkan-subgroup"), more);
  CHECK(std::includes(more.features.begin(), more.features.end(), of_base.begin(), of_base.end()));
  CHECK(has_clause(more, Feature::VkApi, 1030));
  CHECK(std::any_of(more.clauses.begin(), more.clauses.end(), [](const format::Clause& c) {
    return c.id == static_cast<uint32_t>(Feature::VkSubgroupSize) && c.op == format::ClauseOp::AtLeast;
  }));

  // Of devices whose subgroups have matrices, of one size that they can pick; it asks for more than code for all that have subgroups.
  for (const auto& [name, feature, lanes] : {std::tuple{"vulkan-matrix", Feature::VkMatrix16, 32}, {"vulkan-matrix8", Feature::VkMatrix8, 8}}) {
    format::Variant matrix;
    targets::gpu::require_device(targets::gpu::device_target(name), matrix);
    CHECK(std::includes(matrix.features.begin(), matrix.features.end(), more.features.begin(), more.features.end()));
    CHECK(std::binary_search(matrix.features.begin(), matrix.features.end(), static_cast<uint32_t>(feature)));
    CHECK(has_clause(matrix, Feature::VkSubgroupMost, lanes));
    CHECK(matrix.clauses.size() == more.clauses.size() + 2);
    CHECK(targets::gpu::device_target(name).is_alone);
  }

  format::Variant cuda;
  targets::gpu::require_device(targets::gpu::device_target("cuda-sm80"), cuda);
  CHECK(cuda.module_format == format::ModuleFormat::Ptx);
  CHECK(has_clause(cuda, Feature::CudaCc, 80));
  CHECK(has_clause(cuda, Feature::CudaDriverApi, 11000));

  // Of one architecture and none after it; it asks for more than code for all of them, which comes after it.
  format::Variant alone, any;
  targets::gpu::require_device(targets::gpu::device_target("cuda-sm90a"), alone);
  targets::gpu::require_device(targets::gpu::device_target("cuda-sm90"), any);
  CHECK(has_clause(alone, Feature::CudaCc, 90));
  CHECK(std::any_of(alone.clauses.begin(), alone.clauses.end(), [](const format::Clause& c) {
    return c.id == static_cast<uint32_t>(Feature::CudaCc) && c.op == format::ClauseOp::AtMost && c.values == std::vector<int64_t>{90};
  }));
  CHECK(alone.clauses.size() == any.clauses.size() + 1);
}

TEST_CASE("a module may have the same kernel twice") {
  ir::Context ctx;
  const std::string one = "kernel \"k\" tiles 1 block 4 range %0 %1 {\n  param \"y\" i32 out array 0\n"
                          "  for %2 = %0 .. %1 step 1 {\n    lanes %3 = 0 .. 4 step 1 {\n      store 0 [%3] i32:1\n    }\n  }\n}\n";
  auto kernels = loop::parse(ctx, one + one);
  REQUIRE_MESSAGE(kernels.ok(), (kernels.ok() ? "" : kernels.status().text()));
  for (const Target& t : targets::device_targets()) {
    CAPTURE(t.name);
    auto module = targets::emit_module(t, *kernels);
    REQUIRE_MESSAGE(module.ok(), (module.ok() ? "" : module.status().text()));
    const Status audited = targets::audit_module(t, module->bytes);
    CHECK_MESSAGE(audited.ok(), audited.text());
  }
}
