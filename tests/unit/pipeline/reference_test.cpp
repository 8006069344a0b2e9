// The slow array steps against Pillow, OpenCV and NumPy.
#include "runtime/pipeline/reference/array_steps.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>

#include "runtime/io/file.h"
#include "runtime/io/npz.h"
#include "schema/pipeline/geometry.h"
#include "tests/support/source_path.h"

using namespace mlc;
using namespace mlc::pipeline;
namespace reference = mlc::pipeline::reference;

namespace {

const std::map<std::string, HostTensor>& expected() {
  static const std::map<std::string, HostTensor> all = [] {
    auto file = io::read_file(mlc::testing::source_path("tests/unit/pipeline/data/expected.npz"));
    REQUIRE(file.ok());
    auto arrays = io::parse_npz(file->bytes());
    REQUIRE(arrays.ok());
    std::map<std::string, HostTensor> m;
    for (auto& a : *arrays) m.emplace(a.name, std::move(a.tensor));
    return m;
  }();
  return all;
}

bool same(const HostTensor& a, const HostTensor& b) {
  return a.dtype == b.dtype && a.shape == b.shape && std::memcmp(a.data.data(), b.data.data(), a.data.size()) == 0;
}

const HostTensor& picture() { return expected().at("in/17x23x3"); }

HostTensor ramp(int64_t h, int64_t w) {
  auto t = HostTensor::zeros(DType::U8, {h, w, 1});
  for (int64_t i = 0; i < h * w; ++i) t->as<uint8_t>()[static_cast<size_t>(i)] = static_cast<uint8_t>(i + 1);
  return std::move(t).value();
}

}  // namespace

TEST_CASE("resized pictures have Pillow's and OpenCV's bytes in every kernel") {
  const std::map<std::string, Kernel> kernels = {{"nearest", Kernel::Nearest},   {"box", Kernel::Box},
                                                 {"bilinear", Kernel::Bilinear}, {"hamming", Kernel::Hamming},
                                                 {"bicubic", Kernel::Bicubic},   {"lanczos", Kernel::Lanczos},
                                                 {"linear", Kernel::Linear}};
  int cases = 0;
  for (const auto& [key, want] : expected()) {
    char like[16], kernel[16], from[32];
    int h = 0, w = 0;
    if (std::sscanf(key.c_str(), "%15[a-z]/%15[a-z]/%31[0-9x]/%dx%d", like, kernel, from, &h, &w) != 5) continue;
    CAPTURE(key);
    const HostTensor& in = expected().at("in/" + std::string(from));
    auto got = std::string(like) == "pillow" ? reference::resize_pillow(in, h, w, kernels.at(kernel))
                                             : reference::resize_opencv(in, h, w, kernels.at(kernel));
    REQUIRE(got.ok());
    CHECK(same(*got, want));
    ++cases;
  }
  CHECK(cases == 12 * 8);
}

TEST_CASE("borders are NumPy's, also when they are wider than the picture") {
  for (auto [name, mode] : {std::pair{"constant", PadMode::Constant},
                            {"edge", PadMode::Edge},
                            {"reflect", PadMode::Reflect},
                            {"symmetric", PadMode::Symmetric}}) {
    CAPTURE(name);
    auto got = reference::pad({2, 20, 25, 3, 0, mode, 7}, picture());
    REQUIRE(got.ok());
    CHECK(same(*got, expected().at(std::string("pad/") + name + "/17x23x3")));
  }
  auto multiple = reference::pad({0, 0, 0, 0, 32, PadMode::Constant, 0}, picture());
  REQUIRE(multiple.ok());
  CHECK(multiple->shape == std::vector<int64_t>{32, 32, 3});
  CHECK(multiple->as<uint8_t>()[0] == picture().as<uint8_t>()[0]);
}

TEST_CASE("letterboxes are those of Ultralytics") {
  int cases = 0;
  for (const auto& [key, want] : expected()) {
    int h = 0, w = 0, up = 0;
    if (std::sscanf(key.c_str(), "letterbox/%dx%d/%d", &h, &w, &up) != 3) continue;
    CAPTURE(key);
    auto got = reference::letterbox({h, w, up == 1, Kernel::Linear, Like::OpenCv, {114, 114, 114}}, picture());
    REQUIRE(got.ok());
    CHECK(same(*got, want));
    ++cases;
  }
  CHECK(cases == 4);
}

TEST_CASE("grey and swapped colours") {
  auto pillow = reference::convert_color({Color::Rgb, Color::Gray, Like::Pillow}, picture());
  auto opencv = reference::convert_color({Color::Rgb, Color::Gray, Like::OpenCv}, picture());
  REQUIRE((pillow.ok() && opencv.ok()));
  CHECK(same(*pillow, expected().at("gray/pillow")));
  CHECK(same(*opencv, expected().at("gray/opencv")));
  auto bgr = reference::convert_color({Color::Rgb, Color::Bgr, Like::Pillow}, picture());
  REQUIRE(bgr.ok());
  CHECK(bgr->as<uint8_t>()[0] == picture().as<uint8_t>()[2]);
  CHECK(same(*reference::convert_color({Color::Bgr, Color::Gray, Like::Pillow}, *bgr), *pillow));
  auto wide = reference::convert_color({Color::Gray, Color::Rgb, Like::Pillow}, *pillow);
  REQUIRE(wide.ok());
  CHECK(wide->shape[2] == 3);
  CHECK(wide->as<uint8_t>()[5] == pillow->as<uint8_t>()[1]);
}

TEST_CASE("normalising is three float operations, before or after the layout") {
  Normalize s{true, 255, {0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}, true};
  auto hwc = reference::normalize(s, picture(), PixelLayout::Hwc);
  REQUIRE(hwc.ok());
  CHECK(same(*hwc, expected().at("normalize/imagenet")));
  auto planes = reference::layout({PixelLayout::Hwc, PixelLayout::Nchw}, *hwc);
  REQUIRE(planes.ok());
  CHECK(same(*planes, expected().at("normalize/chw")));
  auto first = reference::layout({PixelLayout::Hwc, PixelLayout::Nchw}, picture());
  CHECK(same(*reference::normalize(s, *first, PixelLayout::Nchw), *planes));
  CHECK(same(*reference::layout({PixelLayout::Nchw, PixelLayout::Nhwc}, *planes),
             *reference::layout({PixelLayout::Hwc, PixelLayout::Nhwc}, *hwc)));
}

TEST_CASE("softmax over any axis, argmax with ties to the lower index") {
  const HostTensor& logits = expected().at("logits");
  for (int64_t axis : {1, 2}) {
    auto got = reference::softmax({axis}, logits);
    REQUIRE(got.ok());
    const HostTensor& want = expected().at("softmax/" + std::to_string(axis));
    for (int i = 0; i < 30; ++i) CHECK(std::abs(got->as<float>()[i] - want.as<float>()[i]) <= 1e-7f);
  }
  CHECK(reference::softmax({-1}, logits)->shape == logits.shape);
  CHECK(!reference::softmax({3}, logits).ok());
  float ties[] = {1, 3, 3, 2, 2, 1};
  auto t = HostTensor::from(DType::F32, {2, 3}, std::span<const float>(ties));
  auto best = reference::argmax({-1}, *t);
  REQUIRE(best.ok());
  CHECK(best->shape == std::vector<int64_t>{2});
  CHECK(best->as<int64_t>()[0] == 1);
  CHECK(best->as<int64_t>()[1] == 0);
  CHECK(reference::threshold({2, false}, *t)->as<uint8_t>()[3] == 0);
  CHECK(reference::threshold({2, true}, *t)->as<uint8_t>()[3] == 1);
}

TEST_CASE("conversions round half to even and saturate") {
  const HostTensor& in = expected().at("cast/in");
  for (auto [name, to] : {std::pair{"f16", DType::F16}, {"u8", DType::U8}, {"i8", DType::I8}}) {
    CAPTURE(name);
    auto got = reference::cast({to}, in);
    REQUIRE(got.ok());
    CHECK(same(*got, expected().at(std::string("cast/") + name)));
  }
  float values[] = {1.0f, 1.00390625f, 1.01171875f};  // one, half way to 1.0078125 (even below), half way (even above)
  auto t = HostTensor::from(DType::F32, {3}, std::span<const float>(values));
  auto bf16 = reference::cast({DType::BF16}, *t);
  CHECK(bf16->as<uint16_t>()[0] == 0x3F80);
  CHECK(bf16->as<uint16_t>()[1] == 0x3F80);
  CHECK(bf16->as<uint16_t>()[2] == 0x3F82);
}

TEST_CASE("crops, flips and quarter turns move the right pixels") {
  HostTensor in = ramp(2, 3);  // 1 2 3 / 4 5 6
  auto pixels = [](const Result<HostTensor>& t) {
    REQUIRE(t.ok());
    return std::vector<int>(t->as<uint8_t>().begin(), t->as<uint8_t>().end());
  };
  CHECK(pixels(reference::crop({false, 1, 1, 1, 2, MarginRound::Floor}, in)) == std::vector<int>{5, 6});
  CHECK(pixels(reference::crop({true, 0, 0, 2, 2, MarginRound::Floor}, in)) == std::vector<int>{1, 2, 4, 5});
  CHECK(pixels(reference::crop({true, 0, 0, 2, 2, MarginRound::HalfUp}, in)) == std::vector<int>{2, 3, 5, 6});
  CHECK(pixels(reference::crop({true, 0, 0, 3, 3, MarginRound::Floor}, in)) ==
        std::vector<int>{0, 0, 0, 1, 2, 3, 4, 5, 6});
  CHECK(pixels(reference::flip({Axis::Horizontal}, in)) == std::vector<int>{3, 2, 1, 6, 5, 4});
  CHECK(pixels(reference::flip({Axis::Vertical}, in)) == std::vector<int>{4, 5, 6, 1, 2, 3});
  CHECK(pixels(reference::rotate90({1}, in)) == std::vector<int>{3, 6, 2, 5, 1, 4});
  CHECK(pixels(reference::rotate90({2}, in)) == std::vector<int>{6, 5, 4, 3, 2, 1});
  CHECK(pixels(reference::rotate90({3}, in)) == std::vector<int>{4, 1, 5, 2, 6, 3});
}

TEST_CASE("sizes that keep the aspect") {
  auto size = [](Resize::Fit fit, int64_t target, SizeRound round, Size in) {
    Resize s;
    s.fit = fit;
    s.height = s.width = s.size = target;
    s.round = round;
    return resized(s, in);
  };
  using Fit = Resize::Fit;
  // cat.png: torchvision makes it 384 wide, Ultralytics 385.
  CHECK(size(Fit::Shorter, 256, SizeRound::Trunc, {300, 451}) == Size{256, 384});
  CHECK(size(Fit::Shorter, 256, SizeRound::Nearest, {300, 451}) == Size{256, 385});
  CHECK(size(Fit::Shorter, 256, SizeRound::Ceil, {451, 300}) == Size{385, 256});
  CHECK(size(Fit::Longer, 100, SizeRound::Trunc, {300, 451}) == Size{66, 100});
  CHECK(size(Fit::Height, 48, SizeRound::Nearest, {24, 33}) == Size{48, 66});
  CHECK(size(Fit::Width, 48, SizeRound::Nearest, {24, 96}) == Size{12, 48});
  CHECK(size(Fit::Longer, 10, SizeRound::Trunc, {1, 1000}) == Size{1, 10});
  CHECK(size(Fit::Shorter, 5, SizeRound::Nearest, {10, 25}) == Size{5, 12});  // 12.5, half to even
  CHECK(size(Fit::Shorter, 5, SizeRound::Nearest, {10, 27}) == Size{5, 14});  // 13.5
}

TEST_CASE("odd margins are halved as the three libraries do") {
  for (int64_t in = 1; in < 40; ++in)
    for (int64_t out = 1; out < 40; ++out) {
      // Transformers: image_transforms.center_crop; torchvision: functional.center_crop with int(round(...)).
      int64_t transformers = in >= out ? (in - out) / 2 : -((out - in + 1) / 2);
      int64_t torchvision =
          in >= out ? static_cast<int64_t>(std::nearbyint(static_cast<double>(in - out) / 2)) : -((out - in) / 2);
      CHECK(crop_offset(in, out, MarginRound::Floor) == transformers);
      CHECK(crop_offset(in, out, MarginRound::HalfEven) == torchvision);
      CHECK(crop_offset(in, out, MarginRound::HalfUp) ==
            static_cast<int64_t>(std::floor(static_cast<double>(in - out) / 2 + 0.5)));
    }
}
