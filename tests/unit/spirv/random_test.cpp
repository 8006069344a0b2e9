// Random kernels: control flow, vectors and memory in combinations that nobody would write.
#include "targets/spirv/verify.h"

#include "tests/unit/spirv/device_case.h"
#include "tests/unit/targets/random_kernel.h"

namespace mlc {
namespace {

using namespace testing;
namespace sp = testing::spirv;

TEST_CASE("random kernels give the reference's answer, and the audit takes them") {
  Pool pool;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    CAPTURE(seed);
    RandomKernel made(pool, seed);
    loop::Kernel k = made.take();
    for (loop::LocalArray& l : k.locals) l.space = loop::Space::Private;
    RandomData expected(seed), got(seed);
    const std::vector<int64_t> scalars = {int64_t(seed % 11)};
    Reference reference(k, true);
    std::vector<Reference::Buffer> views;
    for (auto& b : expected.buffers) views.push_back({b.data.get(), b.size});
    const int32_t fault = reference.run(views, scalars, 0, 1);
    spread(pool, k, 1);
    const auto emitted = targets::spirv::emit_kernel(k, {});
    REQUIRE_MESSAGE(emitted.ok(), emitted.status().text());
    const auto found = targets::spirv::verify(emitted->words, emitted->entry);
    REQUIRE_MESSAGE(found.ok(), found.status().message);
    sp::Launch l;
    for (auto& b : got.buffers) l.buffers.push_back({b.data.get(), b.size});
    l.scalars = scalars, l.tiles = 1;
    const sp::Outcome out = sp::run(emitted->words, emitted->entry, l);
    REQUIRE_MESSAGE(out.error.empty(), out.error);
    CHECK(out.fault == uint32_t(fault));
    for (const size_t b : {4, 5}) {
      const std::vector<std::byte> want(expected.buffers[b].data.get(), expected.buffers[b].data.get() + expected.buffers[b].size);
      const int64_t bad = first_difference(got.buffers[b].data.get(), want, reference.unspecified[b], RandomData::kTypes[b]);
      CHECK_MESSAGE(bad < 0, "buffer " << b << " element " << bad);
    }
    made.put_back(std::move(k));
  }
}

}  // namespace
}  // namespace mlc
