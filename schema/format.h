// Numbers of the container format that its writer and its readers share. The authority is spec/container.md; a test
// compares the byte table there with the constants here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>


namespace mlc::format {

// A SHA-256.
using Digest = std::array<std::byte, 32>;

// ---- bytes of the file (spec/container.md, "Bytes") ----
inline constexpr std::array<uint8_t, 8> kMagic = {0x89, 'M', 'L', 'C', 0x0D, 0x0A, 0x1A, 0x0A};
inline constexpr uint16_t kVersionMajor = 1;
inline constexpr uint16_t kVersionMinor = 0;
inline constexpr uint64_t kHeaderLen = 4096;
inline constexpr uint64_t kCoreLen = 64;         // the signed part of the header page
inline constexpr uint64_t kPlacementLen = 40;    // five u64 behind it: determined, not signed
inline constexpr uint64_t kPackedAlign = 256;    // segments below kPageAlign bytes; tensors inside a weights segment
inline constexpr uint64_t kPageAlign = 65'536;   // segments of at least that many bytes
inline constexpr uint64_t kLeafTableAlign = 4096;
inline constexpr uint8_t kAlignLog2 = 16;
inline constexpr uint8_t kLeafLog2 = 20;
inline constexpr uint64_t kLeafLen = uint64_t{1} << kLeafLog2;
inline constexpr uint8_t kHashSha256 = 1;
inline constexpr uint64_t kMaxFrameLen = 1'052'672;  // compressBound of one leaf
inline constexpr std::string_view kManifestIdentifier = "MLCM";
inline constexpr std::string_view kBlockMagic = "MLCSIGB1";

// ---- limits (spec/container.md, "Limits"); a flag may raise one, a file never ----
inline constexpr uint64_t kMaxManifestLen = uint64_t{64} << 20;  // exclusive
inline constexpr uint32_t kMaxSegments = 65'535;
inline constexpr uint64_t kMaxSegmentLen = uint64_t{16} << 30;
inline constexpr uint64_t kMaxWeightsLen = uint64_t{4} << 30;  // where the writer cuts
inline constexpr uint64_t kMaxZstdRatio = 1024;
inline constexpr uint32_t kMaxTableDepth = 16;
inline constexpr uint32_t kMaxTables = 1'000'000;
inline constexpr uint32_t kMaxTensors = 131'072;
inline constexpr uint32_t kMaxCopies = 4;
inline constexpr uint32_t kMaxRank = 8;
inline constexpr uint8_t kMaxListDepth = 8;  // of lists in lists
inline constexpr uint32_t kMaxVariants = 256;
inline constexpr uint32_t kMaxFeatures = 1024;
inline constexpr uint32_t kMaxClauses = 256;
inline constexpr uint32_t kMaxLayouts = 65'535;
inline constexpr uint32_t kMaxMethods = 256;
inline constexpr uint32_t kMaxPorts = 1024;
inline constexpr uint32_t kMaxDims = 4096;
inline constexpr uint64_t kMaxNameLen = 1023;  // of values, extents, tensors
inline constexpr uint64_t kMaxIdLen = 255;     // of models, segments, entries of a module
inline constexpr uint64_t kMaxStringLen = uint64_t{64} << 10;
inline constexpr uint64_t kMaxPlanLen = uint64_t{16} << 20;
inline constexpr uint64_t kMaxModuleLen = uint64_t{1} << 30;
inline constexpr uint32_t kMaxAssets = 4096;
inline constexpr uint32_t kMaxStages = 1024;
inline constexpr uint32_t kMaxAttributes = 1024;  // of one stage
inline constexpr uint32_t kMaxGolden = 1024;
inline constexpr uint32_t kMaxOperators = 4096;
inline constexpr uint32_t kMaxTuning = 1024;
inline constexpr uint32_t kMaxExtensions = 1024;
inline constexpr uint32_t kMaxFlags = 1024;
inline constexpr uint64_t kMaxAssetLen = uint64_t{1} << 30;
inline constexpr uint64_t kMaxGoldenLen = uint64_t{256} << 20;        // all golden arrays together
inline constexpr uint64_t kMaxOperatorLen = uint64_t{1} << 20;        // one operator text
inline constexpr uint64_t kMaxOperatorsLen = uint64_t{16} << 20;      // all of them
inline constexpr uint64_t kMaxBlockLen = uint64_t{16} << 20;          // signature block
inline constexpr uint64_t kMaxExtensionLen = uint64_t{64} << 20;

// ---- closed lists; 0 is "none" and illegal where a value is needed; numbers are never reused ----
enum class SegmentKind : uint8_t {
  None = 0, Weights = 1, Module = 2, Plan = 3, Asset = 4, Golden = 5, Operator = 6, Tuning = 7, PortableIr = 8,
  Parent = 9, SourceMap = 10,
};
inline constexpr uint8_t kLastSegmentKind = 10;
constexpr std::string_view name_of(SegmentKind kind) {
  constexpr std::string_view names[] = {"none", "weights", "module", "plan", "asset", "golden", "operator text",
                                        "tuning", "portable IR", "parent manifest", "source map"};
  return static_cast<uint8_t>(kind) <= kLastSegmentKind ? names[static_cast<uint8_t>(kind)] : "unknown";
}

enum class Codec : uint8_t { None = 0, Raw = 1, Zstd = 2 };  // 16..31 are kept for encrypted segments
inline constexpr uint8_t kLastCodec = 2;

enum class ModuleFormat : uint8_t { None = 0, Elf = 1, Portable = 2, Ptx = 3, Spirv = 4 };
inline constexpr uint8_t kLastModuleFormat = 4;
constexpr std::string_view name_of(ModuleFormat format) {
  constexpr std::string_view names[] = {"none", "elf", "portable", "ptx", "spirv"};
  return static_cast<uint8_t>(format) <= kLastModuleFormat ? names[static_cast<uint8_t>(format)] : "unknown";
}

// What a port carries. `Tensor` is a bare array; the others tell tools how to read and show it.
enum class Media : uint8_t {
  None = 0, Tensor = 1, Image = 2, Audio = 3, Text = 4, Bytes = 5, Boxes = 6, Labels = 7, Video = 8, Classes = 9,
  Embedding = 10, Mask = 11, Keypoints = 12, Tokens = 13, Json = 14,
};
inline constexpr uint8_t kLastMedia = 14;
constexpr std::string_view name_of(Media media) {
  constexpr std::string_view names[] = {"none", "tensor", "image", "audio", "text", "bytes", "boxes", "labels",
                                        "video", "classes", "embedding", "mask", "keypoints", "tokens", "json"};
  return static_cast<uint8_t>(media) <= kLastMedia ? names[static_cast<uint8_t>(media)] : "unknown";
}

enum class Colour : uint8_t { None = 0, Rgb = 1, Bgr = 2, Grey = 3, Rgba = 4, Yuv420 = 5 };
inline constexpr uint8_t kLastColour = 5;

// How a clause of a variant compares a host feature that is a number.
enum class ClauseOp : uint8_t { None = 0, Equal = 1, AtLeast = 2, AtMost = 3, Divides = 4, OneOf = 5 };
inline constexpr uint8_t kLastClauseOp = 5;

enum class Metric : uint8_t { None = 0, Abs = 1, Rel = 2, Ulp = 3, Cosine = 4, TopK = 5 };
inline constexpr uint8_t kLastMetric = 5;

enum class QuantScheme : uint8_t { None = 0, Affine = 1, Symmetric = 2, Block = 3 };
inline constexpr uint8_t kLastQuantScheme = 3;

// Which ports a golden vector feeds: those of the whole method (with pre- and post-processing) or the bare arrays.
enum class GoldenEntry : uint8_t { None = 0, Run = 1, Core = 2 };
inline constexpr uint8_t kLastGoldenEntry = 2;

enum class PortableLevel : uint8_t { None = 0, Model = 1, Nest = 2 };
inline constexpr uint8_t kLastPortableLevel = 2;

}  // namespace mlc::format
