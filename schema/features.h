// The feature registry as code; the rows are in features.tbl. Read by the packager (LLVM features, ids to store) and
// by the runtime (detection, names), so the two sides cannot disagree.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace mlc {

enum class Feature : uint32_t {
  None = 0,
#define MLC_FEATURE(id, enumerator, name, kind, llvm, mechanism) enumerator = id,
#include "schema/features.tbl"
#undef MLC_FEATURE
};

enum class FeatureKind : uint8_t { Flag, Number };

struct FeatureRow {
  Feature feature;
  FeatureKind kind;
};

inline constexpr auto kFeatures = std::to_array<FeatureRow>({
#define MLC_FEATURE(id, enumerator, name, kind, llvm, mechanism) {Feature::enumerator, FeatureKind::kind},
#include "schema/features.tbl"
#undef MLC_FEATURE
});
inline constexpr size_t kNumFeatures = kFeatures.size();

// A text for each row, in one array of characters: pointers to them would be more bytes of libmlrt than the texts, each with a
// relocation, and which texts nothing asks for is not in it.
template <size_t kLength>
struct FeatureTexts {
  constexpr explicit FeatureTexts(const char (&rows)[kLength]) {
    size_t row = 0;
    for (size_t i = 0; i < kLength; ++i) {
      text[i] = rows[i];
      if (rows[i] == '\0' && row < kNumFeatures) starts[++row] = static_cast<uint16_t>(i + 1);
    }
  }
  constexpr std::string_view operator[](size_t row) const { return {text + starts[row], static_cast<size_t>(starts[row + 1] - starts[row] - 1)}; }

  char text[kLength] = {};
  uint16_t starts[kNumFeatures + 1] = {};
};

inline constexpr FeatureTexts kFeatureNames(
#define MLC_FEATURE(id, enumerator, name, kind, llvm, mechanism) name "\0"
#include "schema/features.tbl"
#undef MLC_FEATURE
);
// Comma-separated LLVM subtarget features, may be empty; for the packager.
inline constexpr FeatureTexts kFeatureLlvm(
#define MLC_FEATURE(id, enumerator, name, kind, llvm, mechanism) llvm "\0"
#include "schema/features.tbl"
#undef MLC_FEATURE
);
// Where the runtime's answer comes from.
inline constexpr FeatureTexts kFeatureMechanisms(
#define MLC_FEATURE(id, enumerator, name, kind, llvm, mechanism) mechanism "\0"
#include "schema/features.tbl"
#undef MLC_FEATURE
);

// Row of an id or name; kNumFeatures if the registry has none.
constexpr size_t feature_index(uint32_t id) {
  for (size_t i = 0; i < kNumFeatures; ++i)
    if (static_cast<uint32_t>(kFeatures[i].feature) == id) return i;
  return kNumFeatures;
}
constexpr size_t feature_index(Feature f) { return feature_index(static_cast<uint32_t>(f)); }
constexpr size_t feature_index(std::string_view name) {
  for (size_t i = 0; i < kNumFeatures; ++i)
    if (kFeatureNames[i] == name) return i;
  return kNumFeatures;
}
constexpr Feature feature_named(std::string_view name) {
  const size_t i = feature_index(name);
  return i < kNumFeatures ? kFeatures[i].feature : Feature::None;
}
constexpr std::string_view name_of(Feature f) {
  const size_t i = feature_index(f);
  return i < kNumFeatures ? kFeatureNames[i] : std::string_view();
}

// A service of the application is the feature "app.<service>"; the answer is not the probe's but the application's.
// Versions to come add services, so the ids are a range of their own.
inline constexpr std::string_view kServicePrefix = "app.";
constexpr bool is_service(uint32_t feature) { return feature >> 10 == 1; }
// A fact of one device of the machine, not of the host.
constexpr bool is_of_device(uint32_t feature) { return feature >> 10 == 2 || feature >> 10 == 3; }

// ELF machine numbers: the values of host.arch.
enum class Machine : uint16_t { None = 0, X86_64 = 62, AArch64 = 183, RiscV64 = 243, LoongArch64 = 258 };
inline constexpr Machine kMachines[] = {Machine::X86_64, Machine::AArch64, Machine::RiscV64, Machine::LoongArch64};

constexpr std::string_view name_of(Machine m) {
  switch (m) {
    case Machine::None: break;
    case Machine::X86_64: return "x86-64";
    case Machine::AArch64: return "aarch64";
    case Machine::RiscV64: return "riscv64";
    case Machine::LoongArch64: return "loongarch64";
  }
  return "unknown";
}

// The processors that a feature is a question about, by the block that its id is in; None: it is none about processors of one kind.
constexpr Machine machine_of(uint32_t feature) {
  switch (feature >> 7) {
    case 2: case 3: return Machine::X86_64;
    case 4: case 5: return Machine::AArch64;
    case 6: return Machine::RiscV64;
    case 7: return Machine::LoongArch64;
    default: return Machine::None;
  }
}
constexpr Machine machine_of(Feature f) { return machine_of(static_cast<uint32_t>(f)); }

}  // namespace mlc
