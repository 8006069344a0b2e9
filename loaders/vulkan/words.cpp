// Numbers of instructions, capabilities and modes are those of the SPIR-V specification, version 1.6.
#include "loaders/vulkan/words.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

namespace mlc::vulkan {
namespace {

constexpr uint32_t kMagic = 0x07230203, kHeaderWords = 5, kMaxIds = 1u << 22;
enum Opcode : uint32_t {
  kOpExtension = 10, kOpExtInstImport = 11, kOpMemoryModel = 14, kOpEntryPoint = 15, kOpExecutionMode = 16, kOpCapability = 17,
  kOpDecorate = 71, kOpKill = 252, kOpExecutionModeId = 331,
};
constexpr uint32_t kModelCompute = 5, kModeLocalSize = 17, kDecorationBinding = 33, kDecorationSet = 34;

struct Capability {
  uint32_t number;
  Feature needs;  // None: all devices have it
  Feature or_needs = Feature::None;
};
constexpr Capability kCapabilities[] = {
    {1, Feature::None} /* Shader */,       {9, Feature::VkShaderFloat16},  {10, Feature::VkShaderFloat64}, {11, Feature::VkShaderInt64},
    {22, Feature::VkShaderInt16},          {39, Feature::VkShaderInt8},    {4433, Feature::VkStorage16},   {4448, Feature::VkStorage8},
    {4466, Feature::VkF32InfNanKeep},      {61, Feature::VkSubgroupPick} /* GroupNonUniform */,
    {63, Feature::VkSubgroupSum},          {65, Feature::VkSubgroupShuffle}, {6018, Feature::VkIntDot} /* DotProductInput4x8BitPacked */,
    {6019, Feature::VkIntDot} /* DotProduct */,
    {5345, Feature::VkMatrix16, Feature::VkMatrix8} /* VulkanMemoryModel */, {6022, Feature::VkMatrix16, Feature::VkMatrix8} /* CooperativeMatrixKHR */,
};
constexpr std::string_view kExtensions[] = {"SPV_KHR_storage_buffer_storage_class", "SPV_KHR_16bit_storage", "SPV_KHR_8bit_storage", "SPV_KHR_float_controls", "SPV_KHR_cooperative_matrix"};

// The newest words that every device of this version of Vulkan takes.
uint32_t newest_version(uint32_t api) { return api >= version(1, 3) ? 0x10600 : api >= version(1, 2) ? 0x10500 : 0x10300; }

class Checker {
 public:
  Checker(Bytes bytes, std::span<const gpu::Entry* const> entries, const Physical& physical)
      : words_(bytes.size() / 4), entries_(entries), physical_(physical), ids_(entries.size()), sized_(entries.size()) {
    std::memcpy(words_.data(), bytes.data(), words_.size() * 4);
    for (const gpu::Entry* e : entries) most_bindings_ = std::max(most_bindings_, gpu::num_bindings(*e));
  }

  Status check() {
    if (words_.size() < kHeaderWords || words_[0] != kMagic) return broken("no SPIR-V");
    if (words_[1] > newest_version(physical_.api))
      return Status(Code::Unsupported, "SPIR-V {}.{}, {} takes less", words_[1] >> 16, words_[1] >> 8 & 255, physical_.info.title);
    if (words_[3] == 0 || words_[3] > kMaxIds || words_[4] != 0) return broken("a header with {} ids", words_[3]);
    for (size_t at = kHeaderWords; at < words_.size();) {
      const size_t length = words_[at] >> 16;
      if (length == 0 || length > words_.size() - at) return broken("an instruction of {} words", length);
      MLC_RETURN_IF_ERROR(instruction(words_[at] & 0xffff, std::span(words_).subspan(at + 1, length - 1)));
      at += length;
    }
    for (size_t k = 0; k < entries_.size(); ++k)
      if (ids_[k] == 0 || !sized_[k]) return broken("no entry '{}' with its lanes", entries_[k]->name);
    return ok();
  }

 private:
  template <class... Args>
  static Status broken(const char* pattern, const Args&... args) {
    return Status(Code::Malformed, pattern, args...);
  }

  Status instruction(uint32_t op, std::span<const uint32_t> words) {
    switch (op) {
      case kOpCapability: return words.size() == 1 ? capability(words[0]) : broken("a capability of {} words", words.size());
      case kOpExtension: {
        const std::string_view name = text(words);
        return std::find(std::begin(kExtensions), std::end(kExtensions), name) != std::end(kExtensions)
                   ? ok()
                   : Status(Code::Unsupported, "extension '{}' of SPIR-V", name.substr(0, 64));
      }
      case kOpEntryPoint: return entry(words);
      case kOpExecutionMode: return mode(words);
      case kOpExecutionModeId: case kOpKill: return broken("instruction {}", op);
      case kOpDecorate:
        if (words.size() == 3 && ((words[1] == kDecorationBinding && words[2] >= most_bindings_) || (words[1] == kDecorationSet && words[2] != 0)))
          return broken("binding {} of {}", words[2], most_bindings_);
        return ok();
      default: return ok();
    }
  }

  Status capability(uint32_t number) const {
    for (const Capability& c : kCapabilities)
      if (c.number == number && (c.needs == Feature::None || physical_.fact(c.needs) != 0 || (c.or_needs != Feature::None && physical_.fact(c.or_needs) != 0))) return ok();
    return Status(Code::Unsupported, "capability {} of SPIR-V, which is not switched on for {}", number, physical_.info.title);
  }

  // A literal string: up to its first zero byte, or none if there is none.
  static std::string_view text(std::span<const uint32_t> words) {
    const char* const chars = reinterpret_cast<const char*>(words.data());
    const size_t most = words.size() * 4, length = ::strnlen(chars, most);
    return length == most ? std::string_view() : std::string_view(chars, length);
  }

  Status entry(std::span<const uint32_t> words) {
    if (words.size() < 3 || words[0] != kModelCompute || words[1] == 0) return broken("an entry that does not compute");
    const std::string_view name = text(words.subspan(2));
    for (size_t k = 0; k < entries_.size(); ++k) {
      if (entries_[k]->name != name) continue;
      if (ids_[k] != 0) return broken("two entries '{}'", name);
      ids_[k] = words[1];
      return ok();
    }
    return broken("an entry that the module does not list");
  }

  Status mode(std::span<const uint32_t> words) {
    if (words.size() < 2 || words[1] != kModeLocalSize) return ok();
    for (size_t k = 0; k < entries_.size(); ++k) {
      if (ids_[k] != words[0]) continue;
      const auto& lanes = entries_[k]->lanes;
      if (words.size() != 5 || words[2] != lanes[0] || words[3] != lanes[1] || words[4] != lanes[2]) return broken("entry '{}' with other lanes", entries_[k]->name);
      sized_[k] = true;
    }
    return ok();
  }

  std::vector<uint32_t> words_;
  std::span<const gpu::Entry* const> entries_;
  const Physical& physical_;
  std::vector<uint32_t> ids_;  // of entries, 0: not seen
  std::vector<uint8_t> sized_;
  uint32_t most_bindings_ = 0;
};

}  // namespace

Status check_words(Bytes words, std::span<const gpu::Entry* const> entries, const Physical& physical) {
  return Checker(words, entries, physical).check();
}

}  // namespace mlc::vulkan
