// libs: mlc_container_reader mlc_container_writer
// What a manifest may cost before anybody was asked whether its signer is trusted: FlatBuffers may name one small table
// a million times, and an object made of it has hundreds of bytes. Memory is counted where it is allocated.
#include <doctest/doctest.h>

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "schema/generated/manifest_generated.h"
#include "tests/support/containers/bad_container.h"

using namespace mlc;
using namespace mlc::container;
using namespace mlc::test;
namespace fbm = mlc::fb::manifest;

namespace {

std::atomic<size_t> live{0}, peak{0};

void* counted(size_t size) {
  void* p = std::malloc(size);
  if (p == nullptr) return nullptr;
  const size_t now = live += malloc_usable_size(p);
  for (size_t most = peak; now > most && !peak.compare_exchange_weak(most, now);) {
  }
  return p;
}
void uncounted(void* p) {
  if (p != nullptr) live -= malloc_usable_size(p);
  std::free(p);
}

}  // namespace

void* operator new(size_t size) {
  if (void* p = counted(size)) return p;
  throw std::bad_alloc();
}
void* operator new(size_t size, const std::nothrow_t&) noexcept { return counted(size); }
void operator delete(void* p) noexcept { uncounted(p); }
void operator delete(void* p, size_t) noexcept { uncounted(p); }

namespace {

using Builder = flatbuffers::FlatBufferBuilder;
template <class T>
using Vector = flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<T>>>;

constexpr size_t kMany = 990'000;  // just below what the verifier of FlatBuffers lets pass

template <class T>
Vector<T> many(Builder& b, flatbuffers::Offset<T> one, size_t count = kMany) {
  return b.CreateVector(std::vector<flatbuffers::Offset<T>>(count, one));
}

// Which vector of the manifest is the long one.
enum class Long { Variants, Methods, Segments, Tensors, Layouts, Stages, Flags, Ports, PortsOfMethods, Dims, Clauses, Costs };

// A FlatBuffer that its verifier accepts, with one table named `kMany` times. Text of 5 MB makes it long enough that
// the copies are not longer than the manifest.
std::vector<std::byte> manifest_with(Long which) {
  Builder b(1 << 24);
  const auto count = [&](Long vector, size_t otherwise = 0) { return which == vector ? kMany : otherwise; };
  const auto name = b.CreateString("n");
  const auto padding = b.CreateString(std::string(5 << 20, 'x'));
  const fbm::Digest digest;
  const auto dims = many(b, fbm::CreateDimRef(b), count(Long::Dims));
  const auto port = fbm::CreatePort(b, name, 1, dims);
  const auto ports = many(b, port, which == Long::Dims ? 1 : which == Long::PortsOfMethods ? 900 : count(Long::Ports));
  const auto none = many(b, port, 0);
  const auto others = which == Long::PortsOfMethods ? ports : none;
  const auto method = fbm::CreateMethod(b, name, ports, others, others, others, 0, others);
  const auto clauses = many(b, fbm::CreateClause(b, 1, 1, b.CreateVector(std::vector<int64_t>{1})), count(Long::Clauses));
  const auto costs = many(b, fbm::CreateCost(b), count(Long::Costs));
  const auto variant = fbm::CreateVariant(b, name, name, 1, name, 0, clauses, {}, {}, 0, 0, 0, costs);
  const auto methods = many(b, method, which == Long::PortsOfMethods ? 200 : count(Long::Methods, 1));
  const auto segments = many(b, fbm::CreateSegment(b, name, 1, 1, false, false, 1, 1, &digest), count(Long::Segments));
  const auto tensors = many(b, fbm::CreateTensor(b, name, 1, 0, &digest), count(Long::Tensors));
  const auto layouts = many(b, fbm::CreateLayout(b, 0, name), count(Long::Layouts));
  const auto variants = many(b, variant, count(Long::Variants, 1));
  const auto stages = many(b, fbm::CreateStage(b, name, name), count(Long::Stages));
  const auto flags = b.CreateVector(std::vector<flatbuffers::Offset<flatbuffers::String>>(count(Long::Flags), name));
  fbm::ProvenanceBuilder provenance(b);
  provenance.add_tool(name);
  provenance.add_tool_version(name);
  provenance.add_source_name(padding);
  provenance.add_source(&digest);
  provenance.add_flags(flags);
  const auto origin = provenance.Finish();
  const auto model = fbm::CreateModel(b, name, 1);
  fbm::FinishManifestBuffer(
      b, fbm::CreateManifest(b, 0, model, methods, segments, tensors, layouts, variants, stages, 0, 0, 0, 0, origin));
  const auto* data = reinterpret_cast<const std::byte*>(b.GetBufferPointer());
  return {data, data + b.GetSize()};
}

}  // namespace

TEST_CASE("A manifest that names small tables a million times is refused before it is copied") {
  for (Long which : {Long::Variants, Long::Methods, Long::Segments, Long::Tensors, Long::Layouts, Long::Stages,
                     Long::Flags, Long::Ports, Long::PortsOfMethods, Long::Dims, Long::Clauses, Long::Costs}) {
    CAPTURE(static_cast<int>(which));
    Parts parts = take_apart(sample_bytes());
    size_t manifest_len = 0;
    parts.change_manifest_bytes = [&](std::vector<std::byte>& bytes) {
      bytes = manifest_with(which);
      manifest_len = bytes.size();
    };
    const std::vector<std::byte> file = assemble(parts, nullptr);
    REQUIRE(manifest_len > 5u << 20);
    const size_t before = live;
    peak = before;
    const auto opened = Container::open_memory(file, "bomb.mlc", OpenOptions{});
    const size_t cost = peak - before;
    INFO("manifest of " << manifest_len << " bytes, peak of " << cost << ": " << opened.status().message);
    CHECK(opened.status().code == Code::Malformed);
    CHECK(opened.status().message.find("well-formed") == std::string::npos);  // the verifier let it pass
    // The manifest itself, and what may be made of it: 16 times as much (spec/container.md, section 6).
    CHECK(cost <= 18 * manifest_len);
    CHECK(cost <= size_t{256} << 20);
  }
}
