#include <cstring>

#include "runtime/container/source.h"
#include "schema/format.h"

namespace mlc::container {
namespace {

class MemorySource final : public Source {
 public:
  MemorySource(Bytes bytes, std::string name) : bytes_(bytes), name_(std::move(name)) {}

  const std::string& name() const override { return name_; }
  uint64_t size() const override { return bytes_.size(); }

  Status read(uint64_t offset, std::span<std::byte> out) const override {
    if (!range_within(offset, out.size(), bytes_.size()))
      return Status(Code::Malformed, "bytes beyond the end of {}", name_);
    if (!out.empty()) std::memcpy(out.data(), bytes_.data() + offset, out.size());
    return ok();
  }

  Result<const std::byte*> map(uint64_t offset, uint64_t length) const override {
    // What lies behind is not the container's.
    if (const auto end = checked_align(offset + length, 64); !end || *end > bytes_.size())
      return Status(Code::Resource, "the last line of {} is not whole", name_);
    if (reinterpret_cast<uintptr_t>(bytes_.data()) % format::kPackedAlign != 0)
      return Status(Code::Resource, "{} does not lie at a multiple of 256", name_);
    return bytes_.data() + offset;
  }

 private:
  const Bytes bytes_;
  const std::string name_;
};

}  // namespace

std::unique_ptr<Source> memory_source(Bytes bytes, const std::string& name) {
  return std::make_unique<MemorySource>(bytes, name);
}

}  // namespace mlc::container
