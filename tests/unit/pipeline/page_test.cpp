// Text boxes of maps, and parts of pictures.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "runtime/io/file.h"
#include "runtime/io/npz.h"
#include "runtime/pipeline/page/cut_pictures.h"
#include "runtime/pipeline/host_steps.h"
#include "runtime/pipeline/page/text_boxes.h"
#include "tests/support/source_path.h"

using namespace mlc;
using namespace mlc::pipeline;

namespace {

const TextBoxes kUsual{0.3, 0.6, 1.5, 3, 1000};

// What OpenCV and Clipper made (data/make_page.py).
const std::map<std::string, HostTensor>& expected() {
  static const std::map<std::string, HostTensor> all = [] {
    std::map<std::string, HostTensor> by_name;
    auto file = io::read_file(mlc::testing::source_path("tests/unit/pipeline/data/page.npz"));
    REQUIRE(file.ok());
    auto arrays = io::parse_npz(file->bytes());
    REQUIRE(arrays.ok());
    for (NamedTensor& a : *arrays) by_name.emplace(a.name, std::move(a.tensor));
    return by_name;
  }();
  return all;
}

HostTensor map_of(int64_t height, int64_t width, float value = 0) {
  auto map = HostTensor::zeros(DType::F32, {height, width});
  REQUIRE(map.ok());
  for (float& v : map->as<float>()) v = value;
  return std::move(*map);
}

// Columns and rows, the last ones not included.
void fill(HostTensor& map, int64_t left, int64_t top, int64_t right, int64_t bottom, float value = 1) {
  float* all = map.as<float>().data();
  for (int64_t y = top; y < bottom; ++y) std::fill(all + y * map.shape[1] + left, all + y * map.shape[1] + right, value);
}

FoundCorners boxes_of(const HostTensor& map, const TextBoxes& options = kUsual) {
  AnswerBudget budget;
  const size_t rank = map.shape.size();
  const Size size{map.shape[rank - 2], map.shape[rank - 1]};
  auto found = text_boxes(options, map, size, size, budget);
  REQUIRE_MESSAGE(found.ok(), found.status().text());
  return std::move(*found);
}

HostTensor picture_of(int64_t height, int64_t width, int64_t channels) {
  auto picture = HostTensor::zeros(DType::U8, {height, width, channels});
  REQUIRE(picture.ok());
  uint32_t state = 1;
  for (uint8_t& v : picture->as<uint8_t>()) v = static_cast<uint8_t>((state = state * 1664525 + 1013904223) >> 24);
  return std::move(*picture);
}

Quadrangle quadrangle(float left, float top, float right, float bottom) {
  return {{{left, top}, {right, top}, {right, bottom}, {left, bottom}}};
}

template <class T>
bool equal(const HostTensor& a, const HostTensor& b) {
  return a.shape == b.shape && std::ranges::equal(a.as<T>(), b.as<T>());
}

}  // namespace

TEST_CASE("text boxes are those of OpenCV and Clipper") {
  int cases = 0;
  for (; expected().count("map/" + std::to_string(cases)); ++cases) {
    CAPTURE(cases);
    const std::string n = std::to_string(cases);
    const HostTensor& bytes = expected().at("map/" + n);
    HostTensor map = map_of(bytes.shape[0], bytes.shape[1]);
    for (size_t i = 0; i < map.as<float>().size(); ++i) map.as<float>()[i] = static_cast<float>(bytes.as<uint8_t>()[i]) / 255.0f;
    const auto o = expected().at("options/" + n).as<double>();
    AnswerBudget budget;
    auto found = text_boxes({o[2], o[3], o[4], o[5], static_cast<int64_t>(o[6])}, map, {map.shape[0], map.shape[1]},
                            {static_cast<int64_t>(o[0]), static_cast<int64_t>(o[1])}, budget);
    REQUIRE_MESSAGE(found.ok(), found.status().text());
    CHECK(equal<float>(found->corners, expected().at("boxes/" + n)));
    // A line that leaves the map is drawn whole here and cut first there.
    const auto means = expected().at("means/" + n).as<float>(), ours = std::as_const(found->scores).as<float>();
    REQUIRE(means.size() == ours.size());
    for (size_t i = 0; i < means.size(); ++i) CHECK(std::abs(means[i] - ours[i]) < 0.05);
  }
  CHECK(cases == 28);
}

TEST_CASE("parts of pictures have the bytes of OpenCV") {
  int cases = 0;
  for (; expected().count("picture/" + std::to_string(cases)); ++cases) {
    CAPTURE(cases);
    const std::string n = std::to_string(cases);
    Quadrangle q;
    for (size_t k = 0; k < 8; ++k) q[k / 2][k % 2] = expected().at("quad/" + n).as<float>()[k];
    AnswerBudget budget;
    auto part = cut_picture(expected().at("picture/" + n), q, true, budget);
    REQUIRE_MESSAGE(part.ok(), part.status().text());
    CHECK(equal<uint8_t>(*part, expected().at("part/" + n)));
  }
  CHECK(cases == 24);
}

TEST_CASE("a map without text has no boxes, whatever numbers are in it") {
  for (const float v : {0.0f, 0.3f, -1.0f, -std::numeric_limits<float>::infinity(), std::nanf("")}) {
    const FoundCorners none = boxes_of(map_of(40, 60, v));
    CHECK(none.corners.shape == std::vector<int64_t>{0, 4, 2});
    CHECK(none.scores.shape == std::vector<int64_t>{0});
  }
}

TEST_CASE("NaN counts as 0 and numbers above 1 as 1") {
  HostTensor map = map_of(40, 60);
  fill(map, 10, 10, 40, 20, std::numeric_limits<float>::infinity());
  const FoundCorners one = boxes_of(map);
  REQUIRE(one.scores.elements() == 1);
  CHECK(one.scores.as<float>()[0] == 1);
  fill(map, 10, 10, 25, 20, std::nanf(""));
  const FoundCorners half = boxes_of(map);
  REQUIRE(half.scores.elements() == 1);
  CHECK(half.scores.as<float>()[0] == 1);
  CHECK(half.corners.as<float>()[0] > 20);
}

TEST_CASE("a hole has no box, an island in it has one") {
  HostTensor map = map_of(100, 100);
  fill(map, 5, 5, 95, 95);
  fill(map, 20, 20, 80, 80, 0.2f);
  fill(map, 40, 40, 60, 50);
  CHECK(boxes_of(map, {0.3, 0.3, 1.5, 3, 1000}).scores.elements() == 2);
}

TEST_CASE("of too many regions the largest count") {
  HostTensor map = map_of(100, 200);
  fill(map, 2, 2, 12, 8);
  fill(map, 100, 40, 150, 60);
  fill(map, 2, 80, 40, 90);
  const FoundCorners two = boxes_of(map, {0.3, 0.6, 1.5, 3, 2});
  REQUIRE(two.scores.elements() == 2);
  CHECK(two.corners.as<float>()[1] > 20);  // not the small one on top
  CHECK(boxes_of(map, {0.3, 0.6, 1.5, 3, 0}).scores.elements() == 0);
}

TEST_CASE("boxes of one line are ordered from left to right") {
  HostTensor map = map_of(120, 400);
  fill(map, 300, 20, 380, 40);
  fill(map, 150, 24, 250, 44);
  fill(map, 20, 28, 120, 48);
  fill(map, 20, 80, 120, 100);
  const FoundCorners four = boxes_of(map);
  REQUIRE(four.scores.elements() == 4);
  const auto c = std::as_const(four.corners).as<float>();
  CHECK((c[0] < c[8] && c[8] < c[16] && c[24] == c[0]));
}

TEST_CASE("what a map was filled up with is no part of the picture") {
  HostTensor map = map_of(64, 128);
  fill(map, 10, 10, 60, 20);
  AnswerBudget budget;
  auto found = text_boxes(kUsual, map, {50, 100}, {100, 300}, budget), whole = text_boxes(kUsual, map, {64, 128}, {128, 384}, budget);
  REQUIRE((found.ok() && whole.ok()));
  CHECK(found->scores.elements() == 1);
  CHECK(equal<float>(found->corners, whole->corners));  // twice as high, three times as wide
  CHECK(!text_boxes(kUsual, map, {65, 128}, {100, 300}, budget).ok());
  CHECK(!text_boxes(kUsual, map, {64, 0}, {100, 300}, budget).ok());
}

TEST_CASE("maps of noise end, with millions of regions and with long ones inside of each other") {
  HostTensor dots = map_of(2048, 2048);
  for (int64_t y = 0; y < 2048; y += 2)
    for (int64_t x = 0; x < 2048; x += 2) fill(dots, x, y, x + 1, y + 1);
  CHECK(boxes_of(dots).scores.elements() == 0);
  HostTensor rings = map_of(2048, 2048);
  float* pixel = rings.as<float>().data();
  for (int64_t y = 0; y < 2048; ++y)
    for (int64_t x = 0; x < 2048; ++x, ++pixel) {
      const int64_t ring = std::min({x, y, 2047 - x, 2047 - y});  // from outside
      *pixel = ring < 1000 && ring % 2 == 0 ? 1 : 0;
    }
  CHECK(boxes_of(rings, {0.3, 0, 1.5, 3, kMaxTextBoxes}).scores.elements() == 500);
}

TEST_CASE("text boxes are paid for, and maps of another form are refused") {
  AnswerBudget little(1000);
  HostTensor map = map_of(64, 64);
  for (int64_t x = 0; x < 64; x += 2) fill(map, x, 0, x + 1, 64);
  auto refused = text_boxes(kUsual, map, {64, 64}, {64, 64}, little);
  REQUIRE(!refused.ok());
  CHECK(refused.status().code == Code::Resource);
  AnswerBudget enough;
  for (const auto& shape : {std::vector<int64_t>{64}, {2, 64, 64}, {1, 3, 64, 64}, {1, 1, 1, 64, 64}, {1, 70000}}) {
    auto other = HostTensor::zeros(DType::F32, shape);
    REQUIRE(other.ok());
    CHECK(!text_boxes(kUsual, *other, {64, 64}, {64, 64}, enough).ok());
  }
  auto bytes = HostTensor::zeros(DType::U8, {64, 64});
  REQUIRE(bytes.ok());
  CHECK(!text_boxes(kUsual, *bytes, {64, 64}, {64, 64}, enough).ok());
  CHECK(!text_boxes(kUsual, map, {64, 64}, {0, 64}, enough).ok());
  CHECK(!text_boxes(kUsual, map, {64, 64}, {64, 70000}, enough).ok());
  auto batch = HostTensor::zeros(DType::F32, {1, 1, 64, 64});
  REQUIRE(batch.ok());
  CHECK(text_boxes(kUsual, *batch, {64, 64}, {64, 64}, enough).ok());
}

TEST_CASE("a part that is upright has the pixels that are there, and goes on at the border") {
  const HostTensor picture = picture_of(20, 30, 3);
  AnswerBudget budget;
  auto part = cut_picture(picture, quadrangle(4, 5, 16, 13), true, budget);
  REQUIRE(part.ok());
  REQUIRE(part->shape == std::vector<int64_t>{8, 12, 3});
  const auto at = [](const HostTensor& t, int64_t y, int64_t x) { return t.as<uint8_t>()[static_cast<size_t>((y * t.shape[1] + x) * 3)]; };
  for (int64_t y = 0; y < 8; ++y)
    for (int64_t x = 0; x < 12; ++x) CHECK(at(*part, y, x) == at(picture, y + 5, x + 4));
  auto beyond = cut_picture(picture, quadrangle(-50, -50, -40, -42), true, budget);
  REQUIRE(beyond.ok());
  CHECK(at(*beyond, 7, 9) == at(picture, 0, 0));
}

TEST_CASE("a high part is turned by a quarter where that is wanted") {
  const HostTensor picture = picture_of(40, 30, 1);
  AnswerBudget budget;
  auto turned = cut_picture(picture, quadrangle(3, 2, 11, 14), true, budget), kept = cut_picture(picture, quadrangle(3, 2, 11, 14), false, budget);
  REQUIRE((turned.ok() && kept.ok()));
  REQUIRE(kept->shape == std::vector<int64_t>{12, 8, 1});
  REQUIRE(turned->shape == std::vector<int64_t>{8, 12, 1});
  for (size_t y = 0; y < 8; ++y)
    for (size_t x = 0; x < 12; ++x) CHECK(turned->as<uint8_t>()[y * 12 + x] == kept->as<uint8_t>()[x * 8 + 7 - y]);
  auto nearly = cut_picture(picture, quadrangle(3, 2, 11, 13), true, budget);
  REQUIRE(nearly.ok());
  CHECK(nearly->shape == std::vector<int64_t>{11, 8, 1});
}

TEST_CASE("a part whose plane has the first pixel at its horizon is there all the same") {
  const HostTensor picture = picture_of(40, 30, 1);
  const Quadrangle q = {{{0, 22}, {6, 7}, {18, 21}, {0, 37}}};
  AnswerBudget budget;
  auto part = cut_picture(picture, q, true, budget);
  REQUIRE_MESSAGE(part.ok(), part.status().text());
  REQUIRE(part->shape == std::vector<int64_t>{18, 24, 1});
  CHECK(part->as<uint8_t>()[0] == picture.as<uint8_t>()[22 * 30]);  // its first corner
}

TEST_CASE("all parts of a step take 256 MiB at most") {
  const HostTensor picture = picture_of(4096, 4096, 4);  // 64 MiB
  AnswerBudget budget;
  std::vector<float> edges;
  for (int k = 0; k < 5; ++k) edges.insert(edges.end(), {0, 0, 4096, 4096});
  const auto boxes = [&](int64_t n) { return HostTensor::from<float>(DType::F32, {n, 4}, std::span(edges).first(static_cast<size_t>(n) * 4)).value(); };
  CHECK(cut(picture, boxes(4), budget).ok());
  auto many = cut(picture, boxes(5), budget);
  REQUIRE(!many.ok());
  CHECK(many.status().code == Code::Resource);
  uint64_t total = 0;
  CHECK(add_part(kMaxPartsLen - 1, total).ok());
  CHECK(add_part(1, total).ok());
  CHECK(!add_part(1, total).ok());
}

TEST_CASE("quadrangles without an inside, of no numbers, or too far away are refused") {
  const HostTensor picture = picture_of(20, 30, 3);
  AnswerBudget budget;
  const float infinity = std::numeric_limits<float>::infinity();
  for (const Quadrangle& q : {quadrangle(4, 5, 4, 13), quadrangle(4, 5, 12, 5.5f), quadrangle(0, 0, 1e9f, 4), quadrangle(std::nanf(""), 0, 4, 4),
                              quadrangle(-infinity, 0, 4, 4), Quadrangle{{{0, 0}, {5, 5}, {10, 10}, {15, 15}}}}) {
    auto refused = cut_picture(picture, q, true, budget);
    REQUIRE(!refused.ok());
    CHECK(refused.status().code == Code::InputMismatch);
  }
  auto large = cut_picture(picture, quadrangle(-60000, -60000, 60000, 60000), true, budget);
  REQUIRE(!large.ok());
  CHECK(large.status().code == Code::Resource);
  AnswerBudget little(100);
  CHECK(!cut_picture(picture, quadrangle(0, 0, 20, 20), true, little).ok());
  auto floats = HostTensor::zeros(DType::F32, {20, 30, 3});
  REQUIRE(floats.ok());
  CHECK(!cut_picture(*floats, quadrangle(0, 0, 9, 9), true, budget).ok());
  CHECK(!cut_picture(picture_of(0, 30, 3), quadrangle(0, 0, 9, 9), true, budget).ok());
}
