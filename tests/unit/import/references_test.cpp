// A model whose constants lie elsewhere, and back: what was referred to is found by its digest, and any bytes in place of such a model are refused or are one.
#include <doctest/doctest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "packager/import/onnx.h"
#include "packager/import/references.h"
#include "tests/support/onnx_bytes.h"

using namespace mlc;
using namespace mlc::test::onnx_bytes;

namespace {

namespace fs = std::filesystem;

const std::string kMany(400, 'x');  // 100 floats

struct ModelFolder {
  fs::path path;
  ModelFolder() {
    char name[] = "/tmp/mlc-references-XXXXXX";
    path = ::mkdtemp(name);
  }
  ~ModelFolder() { fs::remove_all(path); }
  std::string write(const std::string& name, Bytes bytes) const {
    std::ofstream(path / name, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return (path / name).string();
  }
};

Bytes bytes_of(const std::string& text) { return std::as_bytes(std::span(text.data(), text.size())); }

// y = x + w + v; v is in an attribute of a Constant. With words for people.
std::string sample_model(const std::string& w_fields) {
  const std::string v = tensor("v", kFloat, {100}, raw(kMany));
  const std::string graph = data(1, node("Constant", {}, {"v"}, "c", {attribute("value", 4, data(5, v))}) + data(6, "at /home/somebody/model.py:3")) + data(1, node("Add", {"x", "w"}, {"s"})) +
                            data(1, node("Add", {"s", "v"}, {"y"})) + data(2, "g") + data(5, tensor("w", kFloat, {100}, w_fields)) + data(10, "at /home/somebody") +
                            data(11, value_info("x", kFloat, {100})) + data(12, value_info("y", kFloat, {100}));
  return number(1, 8) + data(6, "by somebody") + data(7, graph) + data(8, number(2, 13));
}

const Digest& digest_of_many() {
  static const std::vector<uint64_t> shape = {100};
  static const Digest digest = tensor_digest(DType::F32, shape, bytes_of(kMany));
  return digest;
}

}  // namespace

TEST_CASE("constants that are elsewhere go, and come back") {
  const ModelFolder folder;
  folder.write("w.bin", bytes_of("12345678" + kMany));
  for (const std::string& fields : {raw(kMany), external("w.bin", "8", "400")}) {
    const std::string path = folder.write("m.onnx", bytes_of(sample_model(fields)));
    const auto shorter = import::model_with_references(path, {{digest_of_many(), {digest_of_many()}}}, 0);
    REQUIRE_MESSAGE(shorter.ok(), shorter.status().text());
    CHECK(shorter->size() < 600);
    const std::string text(reinterpret_cast<const char*>(shorter->data()), shorter->size());
    CHECK(text.find("somebody") == std::string::npos);  // paths of who exported it
    CHECK(text.find("xxxx") == std::string::npos);
    const auto whole = import::model_with_data(*shorter, "w.bin", [&](const import::Reference& reference, const std::vector<uint64_t>& shape) -> Result<import::DataPlace> {
      CHECK(reference.tensor == digest_of_many());
      CHECK(!reference.part);
      CHECK(shape == std::vector<uint64_t>{100});
      return import::DataPlace{8, 400};
    });
    REQUIRE_MESSAGE(whole.ok(), whole.status().text());
    const auto again = import::import_onnx(folder.write("again.onnx", *whole));
    REQUIRE_MESSAGE(again.ok(), again.status().text());
    CHECK(again->graph.nodes.size() == import::import_onnx(path)->graph.nodes.size());
    const Bytes w = again->graph.initializers.at("w").bytes;
    CHECK(std::string(reinterpret_cast<const char*>(w.data()), w.size()) == kMany);
  }
}

TEST_CASE("what is part of a tensor says of which, and where") {
  const ModelFolder folder;
  Digest whole{};
  whole[0] = std::byte{7};
  const std::string path = folder.write("m.onnx", bytes_of(sample_model(raw(kMany))));
  const auto shorter = import::model_with_references(path, {{digest_of_many(), {whole, import::PartOfTensor{1, 320}}}}, 0);
  REQUIRE_MESSAGE(shorter.ok(), shorter.status().text());
  const auto place = [&](const import::Reference& reference, const std::vector<uint64_t>& shape) -> Result<import::DataPlace> {
    CHECK(reference.tensor == whole);
    REQUIRE(reference.part.has_value());
    CHECK(reference.part->axis == 1);
    CHECK(reference.part->from == 320);
    CHECK(shape == std::vector<uint64_t>{100});
    return import::DataPlace{8, 400};
  };
  CHECK(import::model_with_data(*shorter, "w.bin", place).ok());
  // An axis without a place on it, and a place that is no number.
  std::string text(reinterpret_cast<const char*>(shorter->data()), shorter->size());
  for (const auto& [from, to] : {std::pair<std::string, std::string>{"from", "form"}, {"320", "32x"}}) {
    std::string other = text;
    for (size_t at = 0; (at = other.find(from, at)) != std::string::npos;) other.replace(at, from.size(), to);
    const auto found = import::model_with_data(bytes_of(other), "w.bin", place);
    REQUIRE(!found.ok());
    CHECK(found.status().message.find("lies in a file") != std::string::npos);
  }
}

TEST_CASE("what is not elsewhere stays, as far as that is wanted") {
  const ModelFolder folder;
  folder.write("w.bin", bytes_of("12345678" + kMany));
  const std::string path = folder.write("m.onnx", bytes_of(sample_model(external("w.bin", "8", "400"))));
  const auto refused = import::model_with_references(path, {}, 799);
  REQUIRE(!refused.ok());
  CHECK(refused.status().message.find("more than 799 bytes") != std::string::npos);
  const auto kept = import::model_with_references(path, {}, 800);
  REQUIRE_MESSAGE(kept.ok(), kept.status().text());
  const auto none = [](const import::Reference&, const std::vector<uint64_t>&) -> Result<import::DataPlace> { return Status(Code::Internal, "nothing is referred to"); };
  REQUIRE(import::model_with_data(*kept, "w.bin", none).ok());
}

TEST_CASE("a program that refers to a file of its own choice is refused") {
  const std::string model = sample_model(external("/etc/passwd"));
  const auto none = [](const import::Reference&, const std::vector<uint64_t>&) -> Result<import::DataPlace> { return import::DataPlace{}; };
  const auto found = import::model_with_data(bytes_of(model), "w.bin", none);
  REQUIRE(!found.ok());
  CHECK(found.status().message.find("lies in a file") != std::string::npos);
  CHECK_FALSE(import::model_with_data(bytes_of(sample_model(external("sha256:12"))), "w.bin", none).ok());
}

TEST_CASE("parts are the elements along an axis, and nothing that a tensor does not have") {
  constexpr uint64_t kHuge = uint64_t{1} << 40;
  const std::string all = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKL";  // 2 x 3 x 4 of 16 bits
  const auto part = [&](std::vector<uint64_t> tensor, import::PartOfTensor at, std::vector<uint64_t> shape, DType t = DType::F16) {
    const Bytes bytes = bytes_of(all);
    const auto found = import::elements_of_part(t, tensor, bytes, at, shape);
    return found.ok() ? std::string(reinterpret_cast<const char*>(found->data()), found->size()) : std::string(found.status().code == Code::Malformed ? "malformed" : "?");
  };
  CHECK(part({2, 3, 4}, {2, 1}, {2, 3, 2}) == "cdefklmnstuv0123" "89ABGHIJ");
  CHECK(part({2, 3, 4}, {0, 1}, {1, 3, 4}) == all.substr(24));
  CHECK(part({2, 3, 4}, {1, 0}, {2, 3, 4}) == all);
  CHECK(part({2, 3, 4}, {1, 2}, {2, 1, 4}) == all.substr(16, 8) + all.substr(40, 8));
  CHECK(part({2, 3, 4}, {1, 3}, {2, 0, 4}).empty());
  for (const auto& [axis, from, shape] : {std::tuple{uint64_t{3}, uint64_t{0}, std::vector<uint64_t>{2, 3, 4}}, {uint64_t{2}, uint64_t{3}, {2, 3, 2}}, {uint64_t{2}, UINT64_MAX, {2, 3, 2}},
                                          {uint64_t{2}, uint64_t{1}, {2, 3, UINT64_MAX}}, {uint64_t{2}, uint64_t{0}, {2, 2, 4}}, {uint64_t{0}, uint64_t{0}, {2, 3}}})
    CHECK(part({2, 3, 4}, {axis, from}, shape) == "malformed");
  // A shape that its elements do not fill, whose size does not fit 64 bits, of bits.
  CHECK(part({kHuge, 3, 4}, {2, 0}, {kHuge, 3, 1}) == "malformed");
  CHECK(part({kHuge, kHuge, 4}, {2, 0}, {kHuge, kHuge, 1}) == "malformed");
  CHECK(part({2, 3, 4}, {2, 0}, {2, 3, 1}, DType::F32) == "malformed");
  CHECK(part({2, 3, 4}, {2, 0}, {2, 3, 1}, DType::U4) == "malformed");
}

TEST_CASE("any bytes are refused, or are a model that refers to what is there") {
  const ModelFolder folder;
  const std::string path = folder.write("m.onnx", bytes_of(sample_model(raw(kMany))));
  const auto good = import::model_with_references(path, {{digest_of_many(), {digest_of_many()}}}, 0);
  REQUIRE(good.ok());
  uint32_t seed = 1;
  const auto draw = [&](uint32_t below) { return (seed = seed * 1664525 + 1013904223) / 256 % below; };
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::byte> bad = *good;
    for (uint32_t k = 0; k < 1 + draw(3); ++k) bad[draw(static_cast<uint32_t>(bad.size()))] = static_cast<std::byte>(draw(256));
    if (draw(8) == 0) bad.resize(draw(static_cast<uint32_t>(bad.size())));
    (void)import::model_with_data(bad, "w.bin", [&](const import::Reference& reference, const std::vector<uint64_t>&) -> Result<import::DataPlace> {
      if (reference.tensor != digest_of_many()) return Status(Code::Malformed, "no such tensor");
      return import::DataPlace{8, 400};
    });
  }
}
