// What is made of the boxes of detectors. Arithmetic is in float, each operation rounded.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "runtime/pipeline/reference/array_steps.h"
#include "schema/pipeline/geometry.h"

namespace mlc::pipeline::reference {
namespace {

Status not_boxes(std::string_view step, const HostTensor& t, std::string_view expected) {
  return Status(Code::InputMismatch, "step '{}' takes {}, found {}", step, expected, type_text(t.dtype, t.shape));
}

// Of boxes [n, 4], with sides in order.
struct Box {
  float low[2], high[2];
  float area() const { return (high[0] - low[0]) * (high[1] - low[1]); }
};
Box box_at(const HostTensor& boxes, size_t row) {
  const float* at = boxes.as<float>().data() + row * 4;
  return {{std::min(at[0], at[2]), std::min(at[1], at[3])}, {std::max(at[0], at[2]), std::max(at[1], at[3])}};
}

float overlap(const Box& a, const Box& b) {
  const float width = std::max(std::min(a.high[0], b.high[0]) - std::max(a.low[0], b.low[0]), 0.0f);
  const float height = std::max(std::min(a.high[1], b.high[1]) - std::max(a.low[1], b.low[1]), 0.0f);
  const float both = width * height;
  return both / (a.area() + b.area() - both);
}

struct Candidate {
  float score;
  size_t box, kind;
};

// What can be kept, best first.
std::vector<Candidate> candidates(const Nms& step, const HostTensor& scores) {
  const auto boxes = static_cast<size_t>(scores.shape[0]), kinds = static_cast<size_t>(scores.shape[1]);
  std::vector<Candidate> all;
  for (size_t box = 0; box < boxes; ++box) {
    std::vector<Candidate> of_box;
    for (size_t kind = 0; kind < kinds; ++kind)
      if (const float score = scores.as<float>()[box * kinds + kind]; score > static_cast<float>(step.score)) of_box.push_back({score, box, kind});
    const auto best = std::max_element(of_box.begin(), of_box.end(), [](const Candidate& a, const Candidate& b) { return a.score < b.score; });
    if (step.per_class) all.insert(all.end(), of_box.begin(), of_box.end());
    else if (best != of_box.end()) all.push_back(*best);
  }
  std::stable_sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) { return a.score > b.score; });
  return all;
}

// Of one box of a head: the expected bin of each side, in strides, as left, top, right, bottom.
std::array<float, 4> distances(const float* bins, size_t count) {
  std::array<float, 4> far{};
  for (size_t side = 0; side < 4; ++side, bins += count) {
    const float top = *std::max_element(bins, bins + count);
    float all = 0, weighted = 0;
    for (size_t k = 0; k < count; ++k) {
      const float part = std::exp(bins[k] - top);
      all += part;
      weighted += part * static_cast<float>(k);
    }
    far[side] = weighted / all;
  }
  return far;
}

// Heads whose boxes are written by where they are (Anchors, Dfl). One array holds both: Anchors 4 numbers, objectness, classes; Dfl classes, bins.
Result<Detected> placed_boxes(const Boxes& step, const HostTensor& in, const HostTensor* scores) {
  const HostTensor& marks = scores ? *scores : in;
  const bool is_dfl = step.form == Boxes::Form::Dfl;
  const std::vector<float> places = anchor_table(step);
  const auto rows = places.size() / 4, numbers = static_cast<size_t>(is_dfl ? 4 * step.bins : 4);
  for (const HostTensor* t : {&in, &marks})
    if (t->dtype != DType::F32 || t->shape.size() != 3 || t->shape[0] != 1 || t->shape[1] != static_cast<int64_t>(rows))
      return not_boxes("boxes", *t, "f32 [1, " + std::to_string(rows) + ", columns]");
  const auto columns = static_cast<size_t>(marks.shape[2]), width = static_cast<size_t>(in.shape[2]);
  if (scores ? width != numbers : width <= numbers + (is_dfl ? 0 : 1)) return not_boxes("boxes", in, std::to_string(numbers) + " columns of a box");
  const size_t first = !scores && is_dfl ? width - numbers : 0;
  std::vector<size_t> kept;
  for (size_t c = scores || is_dfl ? 0 : 5; c < (!scores && is_dfl ? first : columns); ++c)
    if (static_cast<int64_t>(c) != step.background) kept.push_back(c);
  Detected out;
  MLC_ASSIGN(out.boxes, HostTensor::zeros(DType::F32, {static_cast<int64_t>(rows), 4}));
  MLC_ASSIGN(out.scores, HostTensor::zeros(DType::F32, {static_cast<int64_t>(rows), static_cast<int64_t>(kept.size())}));
  for (size_t row = 0; row < rows; ++row) {
    const float *x = in.as<float>().data() + row * width + first, *place = places.data() + row * 4;
    const std::array<float, 4> far = is_dfl ? distances(x, static_cast<size_t>(step.bins)) : std::array<float, 4>{};
    for (size_t d = 0; d < 4; ++d) {
      const size_t axis = d % 2;
      const float side = place[axis + 2], sign = d < 2 ? -1.0f : 1.0f;
      const float moved = x[axis] * static_cast<float>(step.variance[0]);
      const float centre = is_dfl ? place[axis] : place[axis] + moved * side;
      const float reach = is_dfl ? far[d] * side : side * std::exp(x[axis + 2] * static_cast<float>(step.variance[1])) * 0.5f;
      out.boxes.as<float>()[row * 4 + d] = centre + sign * reach;
    }
    const float* mark = marks.as<float>().data() + row * columns;
    for (size_t c = 0; c < kept.size(); ++c)
      out.scores.as<float>()[row * kept.size() + c] = scores || is_dfl ? mark[kept[c]] : mark[4] * mark[kept[c]];
  }
  return out;
}

// What is left of the score of a box that overlaps a kept one.
float decayed(const Nms& step, float score, float iou) {
  if (step.decay == Nms::Decay::Linear) return iou > static_cast<float>(step.iou) ? score * (1.0f - iou) : score;
  return iou > 0 ? score * std::exp(-(iou * iou) / static_cast<float>(step.sigma)) : score;
}

// Of each class the best one, again and again, while those that overlap it lose score.
std::vector<Candidate> kept_softly(const Nms& step, const HostTensor& boxes, std::vector<Candidate> left) {
  std::vector<Candidate> kept;
  while (!left.empty()) {
    const auto best = std::max_element(left.begin(), left.end(), [](const Candidate& a, const Candidate& b) { return a.score < b.score; });
    const Candidate taken = *best;
    left.erase(best);
    kept.push_back(taken);
    for (Candidate& other : left)
      if (!step.per_class || other.kind == taken.kind) other.score = decayed(step, other.score, overlap(box_at(boxes, taken.box), box_at(boxes, other.box)));
    std::erase_if(left, [&](const Candidate& c) { return !(c.score > static_cast<float>(step.score)); });
  }
  return kept;
}

}  // namespace

Result<Detected> boxes(const Boxes& step, const HostTensor& in, const HostTensor* scores) {
  if (!step.levels.empty()) return placed_boxes(step, in, scores);
  const HostTensor& marks = scores ? *scores : in;
  const bool is_ssd = step.form == Boxes::Form::Ssd, turned = step.form == Boxes::Form::Yolo8;
  if (in.dtype != DType::F32 || in.shape.size() != 3 || in.shape[0] != 1 || marks.dtype != DType::F32 || marks.shape.size() != 3)
    return not_boxes("boxes", in, "f32 [1, boxes, columns]");
  const auto rows = static_cast<size_t>(in.shape[turned ? 2 : 1]), columns = static_cast<size_t>(marks.shape[turned ? 1 : 2]);
  const size_t before = is_ssd ? 0 : turned ? 4 : 5;
  if (columns <= before) return not_boxes("boxes", in, "at least one class");
  const auto at = [&](const HostTensor& t, size_t row, size_t column) {
    return t.as<float>()[turned ? column * rows + row : row * static_cast<size_t>(t.shape[2]) + column];
  };
  std::vector<size_t> kept;
  for (size_t c = before; c < columns; ++c)
    if (!is_ssd || static_cast<int64_t>(c) != step.background) kept.push_back(c);
  Detected out;
  MLC_ASSIGN(out.boxes, HostTensor::zeros(DType::F32, {static_cast<int64_t>(rows), 4}));
  MLC_ASSIGN(out.scores, HostTensor::zeros(DType::F32, {static_cast<int64_t>(rows), static_cast<int64_t>(kept.size())}));
  for (size_t row = 0; row < rows; ++row) {
    for (size_t d = 0; d < 4; ++d) {
      const float half = is_ssd ? 0 : at(in, row, d % 2 + 2) * 0.5f;
      const float side = static_cast<float>(d % 2 == 0 ? step.width : step.height);
      out.boxes.as<float>()[row * 4 + d] = is_ssd ? at(in, row, d) * side : d < 2 ? at(in, row, d) - half : at(in, row, d % 2) + half;
    }
    for (size_t c = 0; c < kept.size(); ++c) {
      const float mark = at(marks, row, kept[c]);
      out.scores.as<float>()[row * kept.size() + c] = step.form == Boxes::Form::Yolo ? at(in, row, 4) * mark : mark;
    }
  }
  return out;
}

Result<HostTensor> nms(const Nms& step, const HostTensor& boxes, const HostTensor& scores) {
  if (boxes.dtype != DType::F32 || boxes.shape.size() != 2 || boxes.shape[1] != 4) return not_boxes("nms", boxes, "boxes f32 [boxes, 4]");
  if (scores.dtype != DType::F32 || scores.shape.size() != 2 || scores.shape[0] != boxes.shape[0])
    return not_boxes("nms", scores, "scores f32 [boxes, classes]");
  std::vector<Candidate> kept, all = candidates(step, scores);
  if (step.decay != Nms::Decay::Hard) {
    std::stable_sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) { return std::tie(a.box, a.kind) < std::tie(b.box, b.kind); });
    kept = kept_softly(step, boxes, std::exchange(all, {}));
  }
  for (const Candidate& next : all) {
    const bool suppressed = std::any_of(kept.begin(), kept.end(), [&](const Candidate& k) {
      return (!step.per_class || k.kind == next.kind) && overlap(box_at(boxes, k.box), box_at(boxes, next.box)) > static_cast<float>(step.iou);
    });
    if (!suppressed) kept.push_back(next);
  }
  kept.resize(std::min(kept.size(), static_cast<size_t>(step.most)));
  MLC_ASSIGN(HostTensor out, HostTensor::zeros(DType::F32, {static_cast<int64_t>(kept.size()), 6}));
  for (size_t row = 0; row < kept.size(); ++row) {
    float* to = out.as<float>().data() + row * 6;
    std::copy_n(boxes.as<float>().data() + kept[row].box * 4, 4, to);
    to[4] = kept[row].score;
    to[5] = static_cast<float>(kept[row].kind);
  }
  return out;
}

Result<HostTensor> unletterbox(const Unletterbox& step, const HostTensor& found, const HostTensor& picture) {
  if (found.dtype != DType::F32 || found.shape.size() != 2 || found.shape[1] != 6) return not_boxes("unletterbox", found, "detections f32 [n, 6]");
  if (picture.shape.size() != 3) return not_boxes("unletterbox", picture, "a picture [h, w, c]");
  const Size size{picture.shape[0], picture.shape[1]};
  LetterboxPlace place;
  if (const auto* box = std::get_if<Letterbox>(&step.of)) place = letterbox_place(*box, size);
  if (const auto* resize = std::get_if<Resize>(&step.of)) place.inner = resized(*resize, size);
  MLC_ASSIGN(HostTensor out, found.clone());
  for (size_t i = 0; i < out.as<float>().size(); ++i) {
    if (i % 6 >= 4) continue;
    const bool is_x = i % 2 == 0;
    const auto side = static_cast<float>(is_x ? size.width : size.height);
    float v = out.as<float>()[i] - static_cast<float>(is_x ? place.left : place.top);
    v = v * side;
    v = v / static_cast<float>(is_x ? place.inner.width : place.inner.height);
    out.as<float>()[i] = !step.clip || std::isnan(v) ? v : std::clamp(v, 0.0f, side);
  }
  return out;
}

}  // namespace mlc::pipeline::reference
