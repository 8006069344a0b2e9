// Kernels for devices as SPIR-V text, assembled by spirv-as of spirv-tools: what loaders are tested with that have no compiler
// beside them. They take their arguments as schema/gpu_module.h says.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "schema/format.h"
#include "schema/gpu_module.h"

namespace mlc::test {

// The words of a text; none if there is no assembler here, or the text is wrong.
inline std::vector<std::byte> assemble_spirv(const std::string& text) {
  char folder[] = "/tmp/mlc_spirv_XXXXXX";
  if (!::mkdtemp(folder)) return {};
  const std::string in = std::string(folder) + "/in", out = std::string(folder) + "/out";
  std::ofstream(in) << text;
  std::vector<std::byte> bytes;
  if (std::system(("spirv-as --target-env vulkan1.1 -o " + out + " " + in + " >&2").c_str()) == 0) {
    std::ifstream file(out, std::ios::binary);
    const std::string data{std::istreambuf_iterator<char>(file), {}};
    const auto* first = reinterpret_cast<const std::byte*>(data.data());
    bytes.assign(first, first + data.size());
  }
  std::remove(in.c_str());
  std::remove(out.c_str());
  std::remove(folder);
  return bytes;
}

// A kernel of 64 lanes over `buffers` arrays of u32 with `scalars` scalars. Of `body`: %i is the number of the lane in the
// launch, %n scalar 0 as u32, and it runs where %i < %n; %at_K is the address of element %i of buffer K, %sK scalar K as u32.
struct KernelText {
  std::string name;
  unsigned buffers = 1, scalars = 1;
  bool may_fault = false;
  std::string body;
  uint64_t written = ~uint64_t{0};  // of the buffers

  gpu::Entry entry() const {
    gpu::Entry e;
    e.name = name;
    e.lanes = {64, 1, 1};
    e.may_fault = may_fault;
    e.num_buffers = static_cast<uint16_t>(buffers);
    e.num_scalars = static_cast<uint16_t>(scalars);
    e.written = written & ((uint64_t{1} << buffers) - 1);
    return e;
  }

  std::string text() const {
    const bool many = scalars > gpu::kMaxPushScalars;
    const unsigned bindings = buffers + (many ? 1 : 0) + (may_fault ? 1 : 0);
    std::string t = "OpCapability Shader\nOpCapability Int64\nOpMemoryModel Logical GLSL450\nOpEntryPoint GLCompute %main \"" + name +
                    "\" %wg %nwg %lid\nOpExecutionMode %main LocalSize 64 1 1\nOpDecorate %wg BuiltIn WorkgroupId\n"
                    "OpDecorate %nwg BuiltIn NumWorkgroups\nOpDecorate %lid BuiltIn LocalInvocationId\n"
                    "OpDecorate %words ArrayStride 4\nOpDecorate %longs ArrayStride 8\nOpMemberDecorate %block 0 Offset 0\nOpDecorate %block Block\n"
                    "OpMemberDecorate %lblock 0 Offset 0\nOpDecorate %lblock Block\nOpDecorate %push Block\n"
                    "OpMemberDecorate %push 0 Offset 0\nOpMemberDecorate %push 1 Offset 4\nOpMemberDecorate %push 2 Offset 16\nOpDecorate %pushed ArrayStride 8\n";
    for (unsigned b = 0; b < bindings; ++b) t += "OpDecorate %b" + std::to_string(b) + " DescriptorSet 0\nOpDecorate %b" + std::to_string(b) + " Binding " + std::to_string(b) + "\n";
    t += "%void = OpTypeVoid\n%fn = OpTypeFunction %void\n%bool = OpTypeBool\n%u32 = OpTypeInt 32 0\n%i64 = OpTypeInt 64 1\n%v3 = OpTypeVector %u32 3\n"
         "%in3 = OpTypePointer Input %v3\n%wg = OpVariable %in3 Input\n%nwg = OpVariable %in3 Input\n%lid = OpVariable %in3 Input\n"
         "%words = OpTypeRuntimeArray %u32\n%longs = OpTypeRuntimeArray %i64\n%block = OpTypeStruct %words\n%lblock = OpTypeStruct %longs\n"
         "%sblock = OpTypePointer StorageBuffer %block\n%slblock = OpTypePointer StorageBuffer %lblock\n%su32 = OpTypePointer StorageBuffer %u32\n%si64 = OpTypePointer StorageBuffer %i64\n"
         "%c14 = OpConstant %u32 14\n%pushed = OpTypeArray %i64 %c14\n%push = OpTypeStruct %u32 %u32 %pushed\n%ppush = OpTypePointer PushConstant %push\n"
         "%pu32 = OpTypePointer PushConstant %u32\n%pi64 = OpTypePointer PushConstant %i64\n%pc = OpVariable %ppush PushConstant\n";
    for (unsigned k = 0; k < 64; ++k)
      if (k != 14) t += "%c" + std::to_string(k) + " = OpConstant %u32 " + std::to_string(k) + "\n";
    for (unsigned b = 0; b < bindings; ++b) {
      const bool longs = many && b == buffers;
      t += "%b" + std::to_string(b) + " = OpVariable " + (longs ? "%slblock" : "%sblock") + " StorageBuffer\n";
    }
    t += "%main = OpFunction %void None %fn\n%l0 = OpLabel\n%vwg = OpLoad %v3 %wg\n%vnwg = OpLoad %v3 %nwg\n%vlid = OpLoad %v3 %lid\n"
         "%wx = OpCompositeExtract %u32 %vwg 0\n%wy = OpCompositeExtract %u32 %vwg 1\n%nx = OpCompositeExtract %u32 %vnwg 0\n%lx = OpCompositeExtract %u32 %vlid 0\n"
         "%row = OpIMul %u32 %wy %nx\n%tile = OpIAdd %u32 %row %wx\n%first = OpIMul %u32 %tile %c60_4\n%i = OpIAdd %u32 %first %lx\n"
         "%ptiles = OpAccessChain %pu32 %pc %c0\n%tiles = OpLoad %u32 %ptiles\n%plaunch = OpAccessChain %pu32 %pc %c1\n%launch = OpLoad %u32 %plaunch\n";
    const std::string sixty_four = "%c60_4 = OpConstant %u32 64\n";
    t.insert(t.find("%main = OpFunction"), sixty_four);
    for (unsigned s = 0; s < scalars; ++s) {
      const std::string k = std::to_string(s);
      t += many ? "%ps" + k + " = OpAccessChain %si64 %b" + std::to_string(buffers) + " %c0 %c" + k + "\n"
                : "%ps" + k + " = OpAccessChain %pi64 %pc %c2 %c" + k + "\n";
      t += "%ls" + k + " = OpLoad %i64 %ps" + k + "\n%s" + k + " = OpUConvert %u32 %ls" + k + "\n";
    }
    t += "%inside = OpULessThan %bool %i %s0\n%exists = OpULessThan %bool %tile %tiles\n%runs = OpLogicalAnd %bool %inside %exists\n"
         "OpSelectionMerge %done None\nOpBranchConditional %runs %work %done\n%work = OpLabel\n";
    for (unsigned b = 0; b < buffers; ++b) t += "%at_" + std::to_string(b) + " = OpAccessChain %su32 %b" + std::to_string(b) + " %c0 %i\n";
    if (may_fault) {
      const std::string f = "%b" + std::to_string(bindings - 1);
      t += "%fcode = OpAccessChain %su32 " + f + " %c0 %c0\n%flaunch = OpAccessChain %su32 " + f + " %c0 %c1\n";
    }
    return t + body + "OpBranch %done\n%done = OpLabel\nOpReturn\nOpFunctionEnd\n";
  }
};

// A module with an image for each; no images if there is no assembler.
inline gpu::Module module_of(const std::vector<KernelText>& kernels) {
  gpu::Module m;
  m.format = static_cast<uint8_t>(format::ModuleFormat::Spirv);
  for (const KernelText& k : kernels) {
    std::vector<std::byte> words = assemble_spirv(k.text());
    if (words.empty()) return {};
    m.entries.push_back(k.entry());
    m.entries.back().image = static_cast<uint32_t>(m.images.size());
    m.images.push_back({gpu::ImageKind::SpirV, 0, {1, 11}, std::move(words)});
  }
  return m;
}

}  // namespace mlc::test
