// A container cut into files, read as if they were one (spec/container.md, section 14). Nothing is believed of where they are cut:
// all that is used is hashed as of one file. Bytes are mapped where one part has all of them at a multiple of 256, as the parts that
// `mlpack push --shape parts` makes have the segments of weights.
#include <algorithm>

#include "base/compose.h"
#include "runtime/container/source.h"
#include "schema/format.h"
#include "schema/parts.h"

namespace mlc::container {
namespace {

constexpr std::string_view kOfContainer = ".mlc";
constexpr size_t kEndingLen = 4;  // ".007"

// "cat.mlc" of "cat.mlc.007"; empty: not a part.
std::string_view model_of(std::string_view name) {
  if (name.size() <= kEndingLen + kOfContainer.size() || name.front() == '.') return {};
  const std::string_view ending = name.substr(name.size() - kEndingLen), model = name.substr(0, name.size() - kEndingLen);
  const bool is_number = std::all_of(ending.begin() + 1, ending.end(), [](char c) { return c >= '0' && c <= '9'; });
  return ending[0] == '.' && is_number && model.ends_with(kOfContainer) ? model : std::string_view();
}

class PartsSource final : public Source {
 public:
  PartsSource(std::vector<std::unique_ptr<Source>> parts, uint64_t size, std::string name) : parts_(std::move(parts)), size_(size), name_(std::move(name)) {}

  const std::string& name() const override { return name_; }
  uint64_t size() const override { return size_; }

  Status read(uint64_t offset, std::span<std::byte> out) const override {
    while (!out.empty()) {
      const Place at = place_of(offset);
      const auto n = static_cast<size_t>(std::min<uint64_t>(out.size(), at.length));
      MLC_RETURN_IF_ERROR(at.part.read(at.offset, out.first(n)));
      offset += n;
      out = out.subspan(n);
    }
    return ok();
  }

  Result<const std::byte*> map(uint64_t offset, uint64_t length) const override {
    const Place at = place_of(offset);
    if (length > at.length || at.offset % format::kPackedAlign != 0) return Status(Code::Resource, "{} is cut there", name_);
    return at.part.map(at.offset, length);
  }

  Writers writers() const override {
    Writers most = Writers::Nobody;
    for (const auto& part : parts_) most = std::max(most, part->writers());
    return most;
  }

  Status unchanged() const override {
    for (const auto& part : parts_) MLC_RETURN_IF_ERROR(part->unchanged());
    return ok();
  }

  const std::string& file_at(uint64_t offset) const override { return place_of(offset).part.name(); }

 private:
  struct Place {
    const Source& part;
    uint64_t offset, length;  // how much of the part is behind
  };
  // The last part has no end here: it refuses itself what is behind it. There are few parts, and a read is of a leaf or more.
  Place place_of(uint64_t offset) const {
    for (size_t k = 0; k + 1 < parts_.size(); ++k) {
      const uint64_t size = parts_[k]->size();
      if (offset < size) return {*parts_[k], offset, size - offset};
      offset -= size;
    }
    return {*parts_.back(), offset, UINT64_MAX};
  }

  const std::vector<std::unique_ptr<Source>> parts_;  // none is empty
  const uint64_t size_;
  const std::string name_;
};

}  // namespace

Status PartNames::add(std::string_view name) {
  const std::string_view model = model_of(name);
  if (model.empty()) return ok();
  if (count_++ == 0) model_ = model;
  if (model_ != model) return Status(Code::Malformed, "{} has parts of two containers, {} and {}: a folder for each expected", folder_, model_, model);
  if (count_ > format::kMaxParts) return Status(Code::Malformed, "{} has more than {} parts", folder_, format::kMaxParts);
  return ok();
}

std::string PartNames::path(size_t k) const {
  return compose("{}{}{}{}", folder_, folder_.ends_with('/') ? "" : "/", model_, format::part_ending(k));
}

Result<std::unique_ptr<Source>> join_parts(std::vector<std::unique_ptr<Source>> parts, const std::string& name) {
  if (parts.empty()) return Status(Code::NotFound, "{} is a folder without parts of a container, NAME.mlc.000, NAME.mlc.001, ...", name);
  uint64_t size = 0;
  for (const auto& part : parts) {
    const auto end = checked_add(size, part->size());
    if (!end || *end == size) return Status(Code::Malformed, 1101, "{} has {} bytes, at least 1 and with the parts before it less than 2^64 expected", part->name(), part->size());
    size = *end;
  }
  return std::unique_ptr<Source>(std::make_unique<PartsSource>(std::move(parts), size, name));
}

}  // namespace mlc::container
