// Detections as answers, and pictures that show them.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "runtime/io/picture/image.h"
#include "runtime/pipeline/drawing.h"
#include "runtime/pipeline/host_steps.h"

using namespace mlc;
using namespace mlc::pipeline;

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

HostTensor detections(const std::vector<float>& values) {
  auto t = HostTensor::from<float>(DType::F32, {static_cast<int64_t>(values.size() / 6), 6}, values);
  REQUIRE(t.ok());
  return std::move(t).value();
}
HostTensor picture(int64_t height, int64_t width, int64_t channels = 3) {
  auto t = HostTensor::zeros(DType::U8, {height, width, channels});
  REQUIRE(t.ok());
  return std::move(t).value();
}
HostTensor drawn(const HostTensor& on, std::vector<FoundBox> boxes) {
  AnswerBudget budget;
  auto t = draw(on, {std::move(boxes)}, budget);
  REQUIRE_MESSAGE(t.ok(), t.status().text());
  return std::move(t).value();
}
FoundBox box(float x1, float y1, float x2, float y2, int64_t index = 0, std::string label = "") {
  return {x1, y1, x2, y2, index, std::numeric_limits<double>::quiet_NaN(), std::move(label)};
}
// Rows of a picture: '.' where it is black, '#' where it has the colour of the first class, 'o' where it is white.
std::string art(const HostTensor& t, int64_t top, int64_t bottom, int64_t left, int64_t right) {
  std::string all;
  for (int64_t y = top; y < bottom; ++y) {
    for (int64_t x = left; x < right; ++x) {
      const uint8_t* at = t.as<uint8_t>().data() + (y * t.shape[1] + x) * 3;
      all += at[0] == 0 ? '.' : at[1] == 255 ? 'o' : '#';
    }
    all += '\n';
  }
  return all;
}

}  // namespace

TEST_CASE("detections are boxes with the labels of their classes") {
  AnswerBudget budget;
  const std::vector<std::string> labels{"background", "cat", "dog"};
  const NameBoxes step{"labels.txt", 1};
  const HostTensor found = detections({1, 2, 3, 4, 0.5F, 1, -kInf, kNan, 7, 8, kNan, 0});
  auto named = name_boxes(step, found, labels, budget);
  REQUIRE_MESSAGE(named.ok(), named.status().text());
  REQUIRE(named->boxes.size() == 2);
  CHECK(named->boxes[0].label == "dog");
  CHECK(named->boxes[0].index == 1);
  CHECK(named->boxes[0].score == 0.5);
  CHECK(named->boxes[0].y2 == 4);
  CHECK(named->boxes[1].label == "cat");
  CHECK(std::isnan(named->boxes[1].score));
  CHECK(std::isnan(named->boxes[1].y1));
  CHECK(name_boxes({}, detections({}), {}, budget)->boxes.empty());
  CHECK(name_boxes({}, found, {}, budget)->boxes[0].label.empty());
  CHECK(name_boxes({"l", -1}, found, labels, budget)->boxes[1].label.empty());
}

TEST_CASE("a class that the labels do not have, or that is none, is an error with a sentence") {
  AnswerBudget budget;
  const std::vector<std::string> labels{"cat", "dog"};
  auto beyond = name_boxes({"labels.txt", 0}, detections({0, 0, 1, 1, 1, 2}), labels, budget);
  CHECK(beyond.status().number == 5003);
  CHECK(beyond.status().message == "step 'detections': labels.txt has 2 lines, and class 2 wants line 3");
  for (const float wrong : {-1.0F, 0.5F, kNan, kInf, 1e9F}) {
    auto none = name_boxes({}, detections({0, 0, 1, 1, 1, wrong}), {}, budget);
    REQUIRE(!none.ok());
    CHECK(none.status().message.find("which is no whole number from 0 on") != std::string::npos);
  }
  auto shape = HostTensor::zeros(DType::F32, {1, 5});
  CHECK(name_boxes({}, *shape, {}, budget).status().message == "step 'detections' takes f32 [n, 6], which 'nms' makes, found f32[1,5]");
}

TEST_CASE("boxes and labels are paid for before they are made") {
  AnswerBudget little(100);
  CHECK(name_boxes({}, detections(std::vector<float>(600)), {}, little).status().number == 6006);
  AnswerBudget one(sizeof(FoundBox) + 10);
  const std::vector<std::string> labels{std::string(11, 'a')};
  CHECK(name_boxes({"l", 0}, detections({0, 0, 1, 1, 1, 0}), labels, one).status().number == 6006);
  AnswerBudget no_picture(100);
  CHECK(draw(picture(10, 10), {}, no_picture).status().number == 6006);
  AnswerBudget no_file(100);
  CHECK(image_out(picture(40, 40), no_file).status().number == 6006);
  AnswerBudget no_time(UINT64_MAX - 1, 1000);
  CHECK(draw(picture(100, 100), {std::vector<FoundBox>(10, box(0, 0, 90, 90))}, no_time).status().number == 6006);
}

TEST_CASE("a frame and its label are these pixels") {
  const HostTensor t = drawn(picture(24, 20), {box(1.4F, 11.5F, 9.5F, 15.6F, 0, "h")});
  CHECK(art(t, 2, 18, 0, 12) ==
        "............\n"
        ".#######....\n"
        ".#o#####....\n"
        ".#o#####....\n"
        ".#oooo##....\n"
        ".#o###o#....\n"
        ".#o###o#....\n"
        ".#o###o#....\n"
        ".#o###o#....\n"
        ".#######....\n"
        ".#########..\n"
        ".#.......#..\n"
        ".#.......#..\n"
        ".#########..\n"
        "............\n"
        "............\n");
}

TEST_CASE("what lies outside of the picture is cut, and what is no number left out") {
  const HostTensor black = picture(40, 30);
  const auto same = [&](const HostTensor& t) { return std::equal(t.data.bytes().begin(), t.data.bytes().end(), black.data.bytes().begin()); };
  CHECK(same(drawn(black, {box(kNan, 0, 5, 5), box(0, 0, 5, kNan), box(30, 0, 40, 10), box(-9, 3, -2, 9), box(0, 40, 5, 1e30F), box(0, -kInf, 3, -1)})));
  CHECK(!same(drawn(black, {box(-kInf, -kInf, kInf, kInf)})));
  CHECK(!same(drawn(black, {box(-1e30F, 20, 1e30F, 25)})));
  const HostTensor swapped = drawn(black, {box(20, 35, 10, 20)}), straight = drawn(black, {box(10, 20, 20, 35)});
  CHECK(art(swapped, 0, 40, 0, 30) == art(straight, 0, 40, 0, 30));
  CHECK(art(drawn(black, {box(12, 20, 12, 20)}), 20, 21, 10, 15) == "..#..\n");
  CHECK(drawn(picture(0, 0), {box(0, 0, 5, 5)}).elements() == 0);
  CHECK(drawn(picture(1, 1), {box(0, 0, 5, 5, 3, "a label that is longer than the picture")}).elements() == 3);
  CHECK(drawn(picture(7, 0), {box(-1, -1, 5, 5)}).elements() == 0);
}

TEST_CASE("the first box is on top, and classes have colours") {
  const HostTensor t = drawn(picture(40, 30), {box(2, 20, 12, 30, 0), box(2, 20, 12, 30, 1), box(2, 20, 12, 30, 12)});
  CHECK(art(t, 20, 21, 2, 5) == "###\n");
  CHECK(t.as<uint8_t>()[(20 * 30 + 2) * 3] == 230);
  const HostTensor other = drawn(picture(40, 30), {box(2, 20, 12, 30, 1)});
  CHECK(other.as<uint8_t>()[(20 * 30 + 2) * 3] != 230);
}

TEST_CASE("what is no ASCII is one question mark for each character") {
  const HostTensor known = drawn(picture(40, 90), {box(2, 20, 80, 30, 0, "?a?")});
  const HostTensor other = drawn(picture(40, 90), {box(2, 20, 80, 30, 0, "\xC3\xA9"
                                                                          "a\xE4\xB8\xAD")});
  CHECK(art(known, 0, 40, 0, 90) == art(other, 0, 40, 0, 90));
  for (int c = -128; c < 128; ++c) {
    const auto& rows = letter_rows(static_cast<char>(c));
    const bool is_letter = c > 32 && c < 127;
    int points = 0;
    for (const uint8_t row : rows) {
      points += std::popcount(row);
      CHECK(row < 32);
    }
    CHECK((points > 0) == (c != 32));
    if (!is_letter && c != 32) CHECK(rows == letter_rows('?'));
    if (is_letter && c != '?') CHECK(rows != letter_rows('?'));
  }
}

TEST_CASE("a picture as a PNG file is the same picture again, and the same bytes") {
  for (const int64_t channels : {1, 2, 3, 4}) {
    HostTensor t = picture(13, 21, channels);
    for (size_t i = 0; i < t.data.size(); ++i) t.as<uint8_t>()[i] = static_cast<uint8_t>(i * 37 + i / 50);
    AnswerBudget budget;
    auto file = image_out(t, budget), again = image_out(t, budget);
    REQUIRE_MESSAGE(file.ok(), file.status().text());
    CHECK(file->media_type == "image/png");
    CHECK(file->height == 13);
    CHECK(file->width == 21);
    CHECK(file->bytes == again->bytes);
    io::ImageOptions options;
    options.color = channels < 3 ? io::Color::Gray : io::Color::Rgb;
    options.alpha = channels % 2 == 0 ? io::Alpha::Keep : io::Alpha::Drop;
    auto back = io::decode_image(file->bytes, options);
    REQUIRE_MESSAGE(back.ok(), back.status().text());
    REQUIRE(back->shape == t.shape);
    CHECK(std::equal(back->data.bytes().begin(), back->data.bytes().end(), t.data.bytes().begin()));
  }
}

TEST_CASE("what is no picture cannot become a file, and the sentence says so") {
  AnswerBudget budget;
  CHECK(image_out(picture(0, 5), budget).status().message == "step 'image_out' takes a picture with pixels, found u8[0,5,3]");
  CHECK(image_out(picture(5, 0), budget).status().message == "step 'image_out' takes a picture with pixels, found u8[5,0,3]");
  CHECK(image_out(picture(5, 5, 5), budget).status().message == "step 'image_out' takes a picture u8 [h, w, 1 to 4], found u8[5,5,5]");
  CHECK(draw(picture(5, 5, 4), {}, budget).status().message == "step 'draw' takes a picture u8 [h, w, 3], found u8[5,5,4]");
}
