// libs: mlc_pipeline
// Maps and quadrangles that a model may give. Property: boxes are within the picture and can be cut out of it; a part has the size that its
// quadrangle says; an error has a sentence; a budget is kept.
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "runtime/pipeline/page/cut_pictures.h"
#include "runtime/pipeline/page/text_boxes.h"

namespace {

using namespace mlc;
using namespace mlc::pipeline;

constexpr uint64_t kPartBytes = 142 * 142 * 4;  // what fits a picture of 100 x 100, turned by 45 degrees

template <class T>
T taken(const uint8_t*& data, size_t& size) {
  T value{};
  const size_t n = std::min(size, sizeof(T));
  std::memcpy(&value, data, n);
  data += n, size -= n;
  return value;
}

void cut_all(const HostTensor& picture, const HostTensor& corners, bool must) {
  const auto values = corners.as<float>();
  for (size_t i = 0; i < values.size() / 8; ++i) {
    Quadrangle q;
    for (size_t k = 0; k < 8; ++k) q[k / 2][k % 2] = values[i * 8 + k];
    AnswerBudget budget(kPartBytes);
    const auto part = cut_picture(picture, q, i % 2 == 0, budget);
    if (!part.ok() && part.status().message.empty()) std::abort();
    if (!part.ok() && must) std::abort();
    if (part.ok() && part->data.size() > kPartBytes) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const int64_t width = taken<uint8_t>(data, size) % 80 + 1, tall = taken<uint8_t>(data, size) % 100 + 1, wide = taken<uint8_t>(data, size) % 100 + 1;
  const uint8_t kind = taken<uint8_t>(data, size);
  auto picture = HostTensor::zeros(DType::U8, {tall, wide, kind % 4 + 1});
  if (!picture.ok()) return 0;
  if (kind & 64) {  // quadrangles of any floats
    auto corners = HostTensor::zeros(DType::F32, {static_cast<int64_t>(size / 32), 4, 2});
    if (!corners.ok()) return 0;
    if (size >= 32) std::memcpy(corners->data.data(), data, size / 32 * 32);
    cut_all(*picture, *corners, /*must=*/false);
    return 0;
  }
  const TextBoxes step{taken<int8_t>(data, size) / 100.0, taken<int8_t>(data, size) / 200.0, taken<uint8_t>(data, size) / 64.0,
                               taken<uint8_t>(data, size) / 32.0, taken<uint8_t>(data, size)};
  const bool any = kind & 128;  // floats of any bits, or bytes
  const int64_t height = static_cast<int64_t>(size / (any ? 4 : 1)) / width;
  if (height < 1) return 0;
  auto map = HostTensor::zeros(DType::F32, {1, 1, height, width});
  if (!map.ok()) return 0;
  for (size_t i = 0; i < map->as<float>().size(); ++i) {
    float& v = map->as<float>()[i];
    if (any) std::memcpy(&v, data + 4 * i, 4);
    else v = data[i] / 255.0f;
  }
  AnswerBudget budget(8 << 20);
  const auto boxes = text_boxes(step, *map, {height, width}, {tall, wide}, budget);
  if (!boxes.ok()) std::abort();
  for (size_t i = 0; i < boxes->corners.as<float>().size(); ++i) {
    const float v = boxes->corners.as<float>()[i];
    if (!(v >= 0 && v < static_cast<float>(i % 2 ? tall : wide) && v == std::floor(v))) std::abort();
  }
  for (const float score : boxes->scores.as<float>())
    if (!(score >= 0 && score <= 1)) std::abort();
  cut_all(*picture, boxes->corners, /*must=*/true);
  return 0;
}
