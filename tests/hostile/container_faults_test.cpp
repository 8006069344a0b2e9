// libs: mlc_container_reader mlc_container_writer
// Each read of a container fails once, or brings other bytes once: that must never look like success.
#include <doctest/doctest.h>

#include "runtime/container/source.h"
#include "tests/support/containers/bad_container.h"

using namespace mlc;
using namespace mlc::container;
using namespace mlc::test;

namespace {

// Counts reads over all containers opened with it; one of them fails or is damaged. Cannot be mapped.
struct Plan {
  size_t reads = 0;
  size_t bad_read = SIZE_MAX;
  bool damage = false;  // flip a bit instead of failing
};

class FaultySource final : public Source {
 public:
  FaultySource(Bytes bytes, Plan& plan) : bytes_(bytes), plan_(plan) {}
  const std::string& name() const override { return name_; }
  uint64_t size() const override { return bytes_.size(); }
  Status read(uint64_t offset, std::span<std::byte> out) const override {
    if (!range_within(offset, out.size(), bytes_.size())) return Status(Code::Malformed, "beyond the end");
    const bool bad = plan_.reads++ == plan_.bad_read;
    if (bad && !plan_.damage) return Status(Code::NotFound, "the disk says no");
    if (!out.empty()) std::memcpy(out.data(), bytes_.data() + offset, out.size());
    if (bad && !out.empty()) out[out.size() / 2] ^= std::byte{4};
    return ok();
  }
  Result<const std::byte*> map(uint64_t, uint64_t) const override { return Status(Code::Resource, "cannot be mapped"); }

 private:
  Bytes bytes_;
  Plan& plan_;
  std::string name_ = "faulty";
};

Status use(Bytes bytes, Plan& plan, Verify verify) {
  auto opened = Container::open_source(std::make_unique<FaultySource>(bytes, plan), trusting(verify));
  if (!opened.ok()) return std::move(opened).status();
  return use_everything(**opened);
}

}  // namespace

TEST_CASE("A read that fails, or brings other bytes, never looks like success") {
  const auto bytes = sample_bytes({.weights_len = 70'000});
  for (Verify verify : {Verify::Lazy, Verify::Full, Verify::Copy}) {
    Plan count;
    REQUIRE(use(bytes, count, verify).ok());
    CHECK(count.reads > 20);
    for (bool damage : {false, true})
      for (size_t i = 0; i < count.reads; ++i) {
        Plan plan{.bad_read = i, .damage = damage};
        Status status = use(bytes, plan, verify);
        CHECK_FALSE_MESSAGE(status.ok(), "read " << i << " of " << count.reads << (damage ? " damaged" : " failed"));
      }
  }
}

TEST_CASE("A failure is not remembered as success: the next attempt reads again or says the same") {
  const auto bytes = sample_bytes();
  Plan plan;
  auto opened = Container::open_source(std::make_unique<FaultySource>(bytes, plan), trusting());
  REQUIRE(opened.ok());
  const uint32_t segment = *(*opened)->find_segment("plan/portable");
  plan.bad_read = plan.reads;  // the leaf table
  CHECK_FALSE((*opened)->segment(segment).ok());
  CHECK((*opened)->segment(segment).ok());
  plan.bad_read = plan.reads + 1;
  CHECK_FALSE((*opened)->acquire_tensor(0).ok());
  CHECK_FALSE((*opened)->acquire_tensor(0).ok());  // weights are poisoned for good
}
