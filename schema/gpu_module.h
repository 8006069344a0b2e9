// What the module of a device variant holds: the images that a driver takes, and what is to be known of each kernel before one is
// given to it. Bytes and rules: spec/gpu-module.md.
//
// How kernels take their arguments:
//   SPIR-V  Set 0, binding k: buffer k of the launch. Push constants: tiles u32, launch u32, eight zero bytes, then the scalars, i64
//           each. Scalars that do not fit in `kMaxPushScalars` lie all in a buffer of their own, bound behind the last of the
//           launch. The last binding of a kernel that may fault is the fault buffer. Workgroups: x up to 65,535, the rest in y;
//           a kernel does nothing for those from `tiles` on.
//   PTX     Parameters in this order: a pointer for each buffer, tiles u32, launch u32, each scalar i64, and of a kernel that may
//           fault the pointer of the fault buffer. Grids are as above.
// The fault buffer is two u32, zero before a run: the first fault's code and the number of its launch.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace mlc::gpu {

inline constexpr uint32_t kModuleMagic = 0x47434c4d;  // "MLCG"
inline constexpr uint16_t kModuleVersion = 1;
inline constexpr uint32_t kMaxPushScalars = 14;
inline constexpr uint64_t kFewLanes = uint64_t{1} << 31;
inline constexpr uint32_t kGridColumns = 65'535;  // blocks of a grid along x

// Limits; a module beyond them is refused.
inline constexpr uint32_t kMaxEntries = 65'536;
inline constexpr uint32_t kMaxImages = 65'536;
inline constexpr uint32_t kMaxImageFeatures = 65'536;  // of all images together
inline constexpr uint32_t kMaxBlockLanes = 1024;            // of a block
inline constexpr uint16_t kMaxBuffers = 4096;          // of a launch
inline constexpr uint16_t kMaxScalars = 4096;

enum class ImageKind : uint8_t { None = 0, Ptx, Cubin, SpirV };

struct Entry {
  std::string name;                    // of the kernel in its image: 1 to 255 characters of ASCII, no space
  uint32_t image = 0;                  // of kind Ptx or SpirV
  std::array<uint16_t, 3> lanes{};     // of a block
  bool may_fault = false;
  bool has_barriers = false;
  bool wants_full_subgroups = false;
  bool has_few_lanes = false;          // tiles times lanes of a launch are kFewLanes at most
  uint16_t num_buffers = 0;            // of the launch; those for scalars and faults are not counted
  uint16_t num_scalars = 0;
  uint16_t subgroup_lanes = 0;         // that full subgroups must have; 0: any number from 4 to 64
  uint32_t shared_bytes = 0;           // that the image states itself
  uint32_t dynamic_shared_bytes = 0;   // that the launch has to give
  uint64_t narrow = 0;                 // bit k: scalar k must fit in 32 bits, signed (below 64; the others may have any value)
  uint64_t written = 0;                // bit k: the kernel may write to buffer k (below 64; the others count as written)
};

// Storage buffers that SPIR-V binds: those of the launch, that of its scalars, that of faults.
constexpr uint32_t num_bindings(const Entry& e) { return uint32_t{e.num_buffers} + (e.num_scalars > kMaxPushScalars) + e.may_fault; }

// Cubins stand behind the PTX that they were made of, and hold the same entries.
struct Image {
  ImageKind kind = ImageKind::None;
  uint16_t architecture = 0;           // Cubin: compute capability, 90 for 9.0
  std::vector<uint32_t> features;      // capabilities or classes of instructions that the audit found, sorted
  std::vector<std::byte> bytes;        // PTX: text with one zero behind it; SPIR-V: little-endian words
};

struct Module {
  uint8_t format = 0;                  // format::ModuleFormat: Ptx or SpirV
  std::vector<Entry> entries;          // entry k is kernel k of the plan
  std::vector<Image> images;
};

// Equal modules give equal bytes.
std::vector<std::byte> encode(const Module& module);
// Malformed if the bytes break any rule of the format. What stands inside of images is not looked at.
Result<Module> decode(std::span<const std::byte> bytes);

}  // namespace mlc::gpu
