#include <algorithm>
#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/support/containers/sample_container.h"

using namespace mlc;
using namespace mlc::container;
using namespace mlc::test;

namespace {

std::string temporary_path(const char* name) {
  return (std::filesystem::temp_directory_path() / ("mlc_" + std::to_string(::getpid()) + "_" + name)).string();
}
std::string text(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

}  // namespace

TEST_CASE("What a builder collects comes back from the reader, sorted and renumbered") {
  auto bytes = sample_bytes();
  auto opened = Container::open_memory(bytes, "sample", trusting(Verify::Full));
  REQUIRE_MESSAGE(opened.ok(), (opened.ok() ? "" : opened.status().text()));
  const Container& c = **opened;
  const format::Manifest& m = c.manifest();

  CHECK(m.model.id == "local/sample");
  CHECK(m.model.version == 3);
  REQUIRE(m.methods.size() == 2);
  CHECK(m.methods[0].name == "classify");
  CHECK(m.methods[1].name == "main");
  CHECK(m.model.default_method == 1);  // "main", added first
  REQUIRE(m.methods[1].outputs[0].labels);
  CHECK(m.assets[*m.methods[1].outputs[0].labels].name == "labels.txt");
  CHECK(m.methods[1].inputs[0].dims[1].extent == 4);
  CHECK(m.methods[1].dims[0].name == "N");

  std::vector<std::string> names;
  for (const auto& v : m.variants) names.push_back(v.name);
  CHECK(names == std::vector<std::string>{"armv8-a", "portable", "x86-64-v3"});
  auto v3 = c.find_variant("x86-64-v3");
  REQUIRE(v3);
  CHECK(m.variants[*v3].features == std::vector<uint32_t>{3, 7});
  CHECK(m.variants[*v3].unusable.empty());
  CHECK(m.segments[*m.variants[*v3].module].name == "code/x86-64-v3");
  CHECK(m.segments[*m.variants[*v3].plan].name == "plan/x86-64-v3");

  auto plan = c.segment(*m.variants[*v3].plan);
  REQUIRE(plan.ok());
  CHECK(text(plan->bytes()) == "plan of x86-64-v3");
  auto module = c.segment(*m.variants[*v3].module);
  REQUIRE(module.ok());
  CHECK(std::vector<std::byte>(module->bytes().begin(), module->bytes().end()) == noise(700, 9));
  CHECK(module->name() == "code/x86-64-v3");

  auto labels = c.asset(*c.find_asset("labels.txt"));
  REQUIRE(labels.ok());
  CHECK(text(labels->bytes()) == "cat\ndog\nbird\nfish\n");
  CHECK(m.golden.size() == 2);
  auto golden = c.bytes(m.golden[0].inputs[0].ref);
  REQUIRE(golden.ok());
  CHECK(std::vector<std::byte>(golden->bytes().begin(), golden->bytes().end()) == floats({1, 2, 3, 4}));
  REQUIRE(m.operators.size() == 1);
  CHECK(c.bytes(m.operators[0].text).ok());
  CHECK(m.stages[0].attributes[0].value == "bilinear");
  CHECK(c.verdict().trust == signing::Trust::Trusted);
  CHECK(c.native_allowed());
}

TEST_CASE("Weights come back bit for bit in every mode and lie at multiples of 256") {
  auto builder = sample_builder({.weights_len = 3u << 20});
  const std::string path = temporary_path("weights.mlc");
  REQUIRE(builder.write(path, &test_key()).ok());
  for (Verify verify : {Verify::Lazy, Verify::Full, Verify::Copy}) {
    auto opened = Container::open(path, trusting(verify));
    REQUIRE(opened.ok());
    const Container& c = **opened;
    auto expected = noise(3u << 20, 2);
    auto pointer = c.acquire_tensor(*c.find_tensor("c.table"));
    REQUIRE(pointer.ok());
    CHECK(reinterpret_cast<uintptr_t>(*pointer) % 256 == 0);
    CHECK(std::memcmp(*pointer, expected.data(), expected.size()) == 0);
    auto bias = c.acquire_tensor(*c.find_tensor("b.bias"));
    REQUIRE(bias.ok());
    CHECK(std::memcmp(*bias, floats({1, 2, 3, 4, 5}).data(), 20) == 0);
    auto empty = c.acquire_tensor(*c.find_tensor("d.empty"));
    REQUIRE(empty.ok());
    CHECK(*empty == nullptr);
    CHECK(c.verify_all().ok());
    CHECK(c.verify_report().empty());
  }
  std::filesystem::remove(path);
}

TEST_CASE("A container in unaligned memory is read through a copy") {
  auto bytes = sample_bytes();
  std::vector<std::byte> shifted(bytes.size() + 256);
  size_t shift = 256 - reinterpret_cast<uintptr_t>(shifted.data()) % 256 + 1;
  shifted.resize(bytes.size() + shift);
  std::memcpy(shifted.data() + shift, bytes.data(), bytes.size());
  auto opened = Container::open_memory(Bytes(shifted).subspan(shift), "unaligned", trusting());
  REQUIRE(opened.ok());
  auto pointer = (*opened)->acquire_tensor(2);
  REQUIRE(pointer.ok());
  CHECK(reinterpret_cast<uintptr_t>(*pointer) % 256 == 0);
}

TEST_CASE("Equal input gives equal bytes whatever the order of adding and whoever signs") {
  auto a = sample_builder(), b = sample_builder();
  auto first = a.to_bytes(nullptr), second = b.to_bytes(nullptr);
  REQUIRE(first.ok());
  REQUIRE(second.ok());
  CHECK(*first == *second);
  CHECK(*a.to_bytes(nullptr) == *first);  // writing twice changes nothing
  CHECK(a.root() == b.root());

  auto signed_bytes = sample_bytes();
  REQUIRE(signed_bytes.size() > first->size());
  CHECK(std::equal(first->begin(), first->end(), signed_bytes.begin()));

  ContainerBuilder c = sample_builder();
  std::reverse(c.manifest.variants.begin(), c.manifest.variants.end());
  std::reverse(c.manifest.golden.begin(), c.manifest.golden.end());
  auto third = c.to_bytes(nullptr);
  REQUIRE(third.ok());
  CHECK(*first == *third);
}

TEST_CASE("The number of threads does not show in the bytes, and less effort is larger and as good") {
  auto one = sample_builder(), many = sample_builder(), fast = sample_builder();
  const std::vector<std::byte> text(300'000, std::byte{'a'});
  for (ContainerBuilder* b : {&one, &many, &fast}) {
    std::vector<std::byte> code;
    for (uint32_t k = 0; k < 300'000; ++k) code.push_back(static_cast<std::byte>((k * k >> 7) % 61));
    b->add_asset("labels-2", "text/plain", text);
    b->add_asset("labels-3", "text/plain", code);
  }
  many.threads = 7;
  fast.effort = Effort::Fast;
  size_t calls = 0, last = 0;
  REQUIRE(many.finish([&](size_t done, size_t total) { ++calls, last = done; CHECK(done <= total); }).ok());
  CHECK(calls > 3);
  CHECK(last >= calls);
  const auto first = one.to_bytes(nullptr), second = many.to_bytes(nullptr), third = fast.to_bytes(nullptr);
  REQUIRE(first.ok());
  REQUIRE(second.ok());
  REQUIRE(third.ok());
  CHECK(*first == *second);
  CHECK(third->size() > first->size());
  const auto opened = Container::open_memory(*third, "fast", trusting(Verify::Full));
  REQUIRE_MESSAGE(opened.ok(), opened.status().text());
}

TEST_CASE("Files written by two builders are the same and nothing is left beside them") {
  auto folder = std::filesystem::path(temporary_path("folder"));
  std::filesystem::create_directories(folder);
  auto builder = sample_builder();
  REQUIRE(builder.write((folder / "a.mlc").string(), nullptr).ok());
  REQUIRE(builder.write((folder / "a.mlc").string(), nullptr).ok());  // replaces
  std::ifstream in(folder / "a.mlc", std::ios::binary);
  std::string written((std::istreambuf_iterator<char>(in)), {});
  CHECK(bytes_of(written) == *builder.to_bytes(nullptr));
  CHECK(std::distance(std::filesystem::directory_iterator(folder), {}) == 1);
  CHECK_FALSE(builder.write((folder / "missing" / "a.mlc").string(), nullptr).ok());
  CHECK_FALSE(builder.write(folder.string(), nullptr).ok());
  CHECK(std::distance(std::filesystem::directory_iterator(folder), {}) == 1);
  std::filesystem::remove_all(folder);
}

TEST_CASE("What an unsigned or unknown file may do stands beside its content") {
  auto unsigned_bytes = sample_bytes({}, nullptr);
  auto opened = Container::open_memory(unsigned_bytes, "unsigned", trusting());
  REQUIRE(opened.ok());
  CHECK((*opened)->verdict().trust == signing::Trust::Unsigned);
  CHECK_FALSE((*opened)->native_allowed());
  const auto& m = (*opened)->manifest();
  for (const auto& v : m.variants) {
    auto module = (*opened)->segment(*v.module);
    CHECK(module.ok() == (v.family == "portable"));
    if (!module.ok()) CHECK(module.status().code == Code::Unsigned);
    CHECK((*opened)->segment(*v.plan).ok());
    auto range = (*opened)->bytes({*v.module, 0, 16});
    CHECK(range.ok() == (v.family == "portable"));
  }
  OpenOptions allow = trusting();
  allow.allow_unsigned = true;
  auto allowed = Container::open_memory(unsigned_bytes, "unsigned", allow);
  REQUIRE(allowed.ok());
  CHECK((*allowed)->segment(*m.variants[0].module).ok());

  auto stranger = Container::open_memory(sample_bytes(), "stranger", OpenOptions{});
  REQUIRE(stranger.ok());
  CHECK((*stranger)->verdict().trust == signing::Trust::UnknownSigner);
  auto module = (*stranger)->segment(*m.variants[0].module);
  REQUIRE_FALSE(module.ok());
  CHECK(module.status().code == Code::Untrusted);
}

TEST_CASE("The builder refuses what a reader would refuse, with the item named") {
  auto refused = [](auto change, const char* expected) {
    auto b = sample_builder();
    change(b);
    auto bytes = b.to_bytes(nullptr);
    REQUIRE_FALSE(bytes.ok());
    CHECK(bytes.status().code == Code::Malformed);
    CHECK_MESSAGE(bytes.status().message.find(expected) != std::string::npos, bytes.status().message);
  };
  refused([](auto& b) { b.manifest.model.id = "Sample"; }, "model id");
  refused([](auto& b) { b.manifest.variants.pop_back(); b.manifest.variants.pop_back(); }, "of family portable found");
  refused([](auto& b) { b.add_asset("../labels", "labels", bytes_of("x")); }, "plain file name");
  refused([](auto& b) { b.add_asset("labels.txt", "labels", bytes_of("x")); }, "assets");
  refused([](auto& b) { b.add_segment("orphan", format::SegmentKind::Plan, false, bytes_of("x")); },
          "belongs to nothing");
  refused([](auto& b) { b.manifest.provenance.source_name = "/home/me/model.onnx"; }, "plain file name");
  refused([](auto& b) { b.manifest.methods[0].inputs[0].dims[0].dim = 4; }, "uses dimension 4");
  auto b = sample_builder();
  CHECK_FALSE(b.add_tensor("a.before", DType::F32, {1}, sha256("")).ok());
  auto t = b.add_tensor("e.next", DType::F32, {3}, sha256(""));
  REQUIRE(t.ok());
  CHECK_FALSE(b.add_copy(*t, b.layout("dense"), 0, bytes_of("12345678")).ok());  // 12 bytes expected
}

TEST_CASE("Arrays without elements, elements of 4 bits and lists at the interface") {
  auto b = sample_builder();
  format::Port nothing, small, list;
  nothing.name = "nothing";
  nothing.dtype = DType::F32;
  nothing.dims = {format::DimRef::constant(3), format::DimRef::constant(0)};
  small.name = "small";
  small.dtype = DType::I4;
  small.dims = {format::DimRef::constant(3)};
  list.name = "list";
  list.dtype = DType::F32;
  list.list_depth = 2;
  format::Method empty{.name = "empty", .inputs = {nothing}, .outputs = {nothing, small}}, lists{.name = "lists", .inputs = {list}, .outputs = {small}};
  format::Golden golden;
  golden.name = "of empty";
  golden.method = b.add_method(empty);
  golden.inputs = {b.golden_array(0, DType::F32, {3, 0}, {})};
  golden.outputs = {b.golden_array(0, DType::F32, {3, 0}, {}), b.golden_array(1, DType::I4, {3}, bytes_of("\1\2\3"))};
  b.add_golden(golden);
  b.add_method(lists);  // needs no golden vector
  b.add_asset("empty.txt", "labels", {});
  auto bytes = b.to_bytes(&test_key());
  REQUIRE_MESSAGE(bytes.ok(), (bytes.ok() ? "" : bytes.status().text()));
  auto opened = Container::open_memory(*bytes, "sample", trusting(Verify::Full));
  REQUIRE_MESSAGE(opened.ok(), (opened.ok() ? "" : opened.status().text()));
  const format::Manifest& m = (*opened)->manifest();
  CHECK((*opened)->verify_all().ok());
  CHECK(m.methods[*(*opened)->find_method("lists")].inputs[0].list_depth == 2);
  const auto found = std::find_if(m.golden.begin(), m.golden.end(), [](const auto& g) { return g.name == "of empty"; });
  REQUIRE(found != m.golden.end());
  for (const auto& [ref, expected] : {std::pair{found->inputs[0].ref, std::string()}, {found->outputs[0].ref, ""}, {found->outputs[1].ref, "\1\2\3"}}) {
    auto content = (*opened)->bytes(ref);
    REQUIRE(content.ok());
    CHECK(text(content->bytes()) == expected);
  }
  auto asset = (*opened)->asset(*(*opened)->find_asset("empty.txt"));
  REQUIRE(asset.ok());
  CHECK(asset->bytes().empty());

  auto c = sample_builder();
  list.dims = {format::DimRef::constant(1)};
  c.add_method({.name = "wrong", .inputs = {list}, .outputs = {small}});
  auto refused = c.to_bytes(nullptr);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.status().message.find("a list has no dims") != std::string::npos);
}

TEST_CASE("A file that is not accepted is not there, and neither is anything else") {
  const std::filesystem::path folder = temporary_path("accept");
  std::filesystem::create_directories(folder);
  const std::string path = folder / "sample.mlc";
  auto builder = sample_builder();
  std::string seen;
  const Status refused = builder.write(path, nullptr, [&](const std::string& where) -> Status {
    auto opened = Container::open(where, trusting(Verify::Full));
    CHECK_MESSAGE(opened.ok(), (opened.ok() ? "" : opened.status().text()));  // complete
    CHECK(where != path);
    seen = where;
    return Status(Code::SelfTest, "wrong");
  });
  CHECK(refused.code == Code::SelfTest);
  CHECK(!seen.empty());
  CHECK(std::filesystem::is_empty(folder));
  CHECK(builder.write(path, nullptr, [](const std::string&) { return ok(); }).ok());
  CHECK(std::filesystem::exists(path));
  CHECK(std::distance(std::filesystem::directory_iterator(folder), {}) == 1);
  std::filesystem::remove_all(folder);
}
