#include "runtime/container/source.h"

namespace mlc::container {
namespace {

class ReaderSource final : public Source {
 public:
  ReaderSource(const Reader& reader, std::string name) : reader_(reader), name_(std::move(name)) {}

  const std::string& name() const override { return name_; }
  uint64_t size() const override { return reader_.bytes; }

  Status read(uint64_t offset, std::span<std::byte> out) const override {
    if (!range_within(offset, out.size(), reader_.bytes))
      return Status(Code::Malformed, "bytes beyond the end of {}", name_);
    if (out.empty()) return ok();
    const int failed = reader_.read(reader_.user, offset, out.data(), out.size());
    if (failed == 0) return ok();
    return Status(Code::NotFound, "cannot read {}: the reader answers {} for {} bytes from {} on", name_, failed, out.size(), offset);
  }

  Result<const std::byte*> map(uint64_t, uint64_t) const override { return Status(Code::Resource, "{} cannot be mapped", name_); }
  bool is_mappable() const override { return false; }

 private:
  const Reader reader_;
  const std::string name_;
};

}  // namespace

std::unique_ptr<Source> reader_source(const Reader& reader, const std::string& name) {
  return std::make_unique<ReaderSource>(reader, name);
}

}  // namespace mlc::container
