// A container that needs a service: `main` gives "image.decode" its bytes and answers with the picture. Its portable form is
// garbage, and the native one runs: a plan without kernels over any module.
#pragma once

#include <doctest/doctest.h>

#include <cstring>
#include <vector>

#include "packager/container/builder.h"
#include "packager/plan/text.h"
#include "runtime/probe/probe.h"
#include "tests/support/test_modules.h"

namespace mlc::test {

inline constexpr uint32_t kImageDecode = static_cast<uint32_t>(Feature::AppImageDecode);

inline std::vector<std::byte> decoder_plan() {
  const auto plan = plan::parse(R"(plan function "main" {
    $0 = dim 0 0
    input "file" u8 [$0] %0
    output "pixels" u8 rank 3 %1
    %1 = host "image.decode" "RGB or-empty" u8 [-1, -1, 3] (%0) "Decoder_0"
  })");
  REQUIRE_MESSAGE(plan.ok(), plan.status().text());
  return plan::encode(*plan);
}

// Empty where there is no compiler for modules. `listed`: the native variant says what it needs.
inline const std::vector<std::byte>& decoder_container(bool listed) {
  static std::vector<std::byte> made[2];
  std::vector<std::byte>& bytes = made[listed];
  const auto module = compile_module(probe::host().machine, "tests/support/module_source.c");
  if (!bytes.empty() || module.empty()) return bytes;
  container::ContainerBuilder b;
  b.manifest.model.id = "test/decoder";
  b.manifest.provenance.tool = "services_test";
  b.manifest.provenance.tool_version = "1";
  format::Method method;
  method.name = "main";
  method.dims = {{"n", 0, INT64_MAX, 1}, {"h", 0, INT64_MAX, 1}, {"w", 0, INT64_MAX, 1}};
  format::Port port;
  port.dtype = DType::U8;
  port.name = "file";
  port.dims = {format::DimRef::symbol(0)};
  method.inputs = {port};
  port.name = "pixels";
  port.dims = {format::DimRef::symbol(1), format::DimRef::symbol(2), format::DimRef::constant(3)};
  method.outputs = {port};
  b.add_method(method);
  format::Variant native;
  native.name = native.target = "native-test";
  native.family = "cpu";
  native.module_format = format::ModuleFormat::Elf;
  native.clauses.push_back({static_cast<uint32_t>(Feature::HostArch),
                            format::ClauseOp::Equal,
                            {static_cast<int64_t>(probe::host().machine)}});
  native.features = {static_cast<uint32_t>(Feature::OsCodePages)};
  if (listed) native.features.push_back(kImageDecode);
  native.audit = format::Audit{"services_test", "1", {}};
  native.plan = b.add_segment("plan/native-test", format::SegmentKind::Plan, true, decoder_plan());
  native.module = b.add_segment("code/native-test", format::SegmentKind::Module, true, module);
  b.add_variant(native);
  format::Variant portable;
  portable.name = portable.target = portable.family = "portable";
  portable.module_format = format::ModuleFormat::Portable;
  portable.features = {kImageDecode};
  portable.plan = b.add_segment("plan/portable", format::SegmentKind::Plan, false, decoder_plan());
  portable.module = b.add_segment("code/portable", format::SegmentKind::Module, false, std::vector<std::byte>(64));
  b.add_variant(portable);
  auto built = b.to_bytes(nullptr);
  REQUIRE_MESSAGE(built.ok(), (built.ok() ? std::string() : built.status().text()));
  bytes = *built;
  return bytes;
}

// Containers lie at a multiple of 256, with some readable bytes behind.
class InMemory {
 public:
  explicit InMemory(const std::vector<std::byte>& bytes) : room_(bytes.size() + 1024), length_(bytes.size()) {
    at_ = room_.data() + (256 - reinterpret_cast<uintptr_t>(room_.data()) % 256);
    std::memcpy(at_, bytes.data(), length_);
  }
  InMemory(const InMemory&) = delete;
  std::span<const std::byte> bytes() const { return {at_, length_}; }

 private:
  std::vector<std::byte> room_;
  std::byte* at_;
  size_t length_;
};

}  // namespace mlc::test
