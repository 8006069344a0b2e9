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
  const auto extra = static_cast<size_t>(step.extra);
  if (columns <= before + extra) return not_boxes("boxes", in, "at least one class");
  const auto at = [&](const HostTensor& t, size_t row, size_t column) {
    return t.as<float>()[turned ? column * rows + row : row * static_cast<size_t>(t.shape[2]) + column];
  };
  std::vector<size_t> kept;
  for (size_t c = before; c + static_cast<size_t>(step.extra) < columns; ++c)
    if (!is_ssd || static_cast<int64_t>(c) != step.background) kept.push_back(c);
  Detected out;
  MLC_ASSIGN(out.boxes, HostTensor::zeros(DType::F32, {static_cast<int64_t>(rows), 4}));
  MLC_ASSIGN(out.scores, HostTensor::zeros(DType::F32, {static_cast<int64_t>(rows), static_cast<int64_t>(kept.size())}));
  MLC_ASSIGN(out.extra, HostTensor::zeros(DType::F32, {static_cast<int64_t>(rows), step.extra}));
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
    for (size_t e = 0; e < extra; ++e) out.extra.as<float>()[row * extra + e] = at(in, row, columns - extra + e);
  }
  return out;
}

Result<Kept> nms(const Nms& step, const HostTensor& boxes, const HostTensor& scores, const HostTensor* extra) {
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
  Kept out;
  const int64_t numbers = extra ? extra->shape[1] : 0;
  MLC_ASSIGN(out.found, HostTensor::zeros(DType::F32, {static_cast<int64_t>(kept.size()), 6}));
  MLC_ASSIGN(out.extra, HostTensor::zeros(DType::F32, {static_cast<int64_t>(kept.size()), numbers}));
  for (size_t row = 0; row < kept.size(); ++row) {
    float* to = out.found.as<float>().data() + row * 6;
    const auto from = static_cast<int64_t>(kept[row].box) * numbers;
    if (extra) std::copy_n(extra->as<float>().data() + from, numbers, out.extra.as<float>().data() + static_cast<int64_t>(row) * numbers);
    std::copy_n(boxes.as<float>().data() + kept[row].box * 4, 4, to);
    to[4] = kept[row].score;
    to[5] = static_cast<float>(kept[row].kind);
  }
  return out;
}

namespace {

// Where a step has put its picture into the network's, and how large that is.
struct FittedPlace {
  LetterboxPlace place;
  Size whole;
};
FittedPlace fitted(const Fitted& of, Size size) {
  FittedPlace at;
  if (const auto* box = std::get_if<Letterbox>(&of)) at = {letterbox_place(*box, size), {box->height, box->width}};
  if (const auto* resize = std::get_if<Resize>(&of)) at.place.inner = at.whole = resized(*resize, size);
  return at;
}

float unfitted(float v, bool is_x, const LetterboxPlace& place, Size size) {
  v = v - static_cast<float>(is_x ? place.left : place.top);
  v = v * static_cast<float>(is_x ? size.width : size.height);
  return v / static_cast<float>(is_x ? place.inner.width : place.inner.height);
}

}  // namespace

Result<HostTensor> keypoints(const Keypoints& step, const HostTensor& rows, const HostTensor& picture) {
  if (rows.dtype != DType::F32 || rows.shape.size() != 2 || rows.shape[1] % step.columns != 0) return not_boxes("keypoints", rows, "whole points f32 [n, numbers]");
  const Size size{picture.shape[0], picture.shape[1]};
  const LetterboxPlace place = fitted(step.of, size).place;
  MLC_ASSIGN(HostTensor out, rows.clone());
  out.shape = {rows.shape[0], rows.shape[1] / step.columns, step.columns};
  for (size_t i = 0; i < out.as<float>().size(); ++i) {
    const auto column = static_cast<int64_t>(i) % step.columns;
    if (column >= 2) continue;
    const float v = unfitted(out.as<float>()[i], column == 0, place, size);
    out.as<float>()[i] = !step.clip || std::isnan(v) ? v : std::clamp(v, 0.0f, static_cast<float>(column == 0 ? size.width : size.height));
  }
  return out;
}

Result<HostTensor> masks(const Masks& step, const HostTensor& rows, const HostTensor& found, const HostTensor& prototypes, const HostTensor& picture) {
  const int64_t count = rows.shape[0], numbers = rows.shape[1], high = prototypes.shape[2], wide = prototypes.shape[3];
  if (prototypes.shape[1] != numbers) return not_boxes("masks", prototypes, "as many prototypes as there are coefficients");
  const Size size{picture.shape[0], picture.shape[1]};
  const auto [place, whole] = fitted(step.of, size);
  const auto at = [](int64_t i, int64_t side, int64_t inner, int64_t before, int64_t all, int64_t cells) {
    const auto f = [](int64_t v) { return static_cast<float>(v); };
    return std::clamp((f(i) + 0.5f) * f(inner) / f(side) * f(cells) / f(all) + f(before) * f(cells) / f(all) - 0.5f, 0.0f, f(cells - 1));
  };
  MLC_ASSIGN(HostTensor out, HostTensor::zeros(DType::Bool, {count, size.height, size.width}));
  for (int64_t n = 0; n < count; ++n) {
    const auto mark = [&](int64_t row, int64_t column) {
      float sum = 0;
      for (int64_t m = 0; m < numbers; ++m)
        sum += rows.as<float>()[static_cast<size_t>(n * numbers + m)] * prototypes.as<float>()[static_cast<size_t>((m * high + row) * wide + column)];
      return sum;
    };
    const float* box = found.as<float>().data() + n * 6;
    for (int64_t y = 0; y < size.height; ++y)
      for (int64_t x = 0; x < size.width; ++x) {
        const float middle_x = static_cast<float>(x) + 0.5f, middle_y = static_cast<float>(y) + 0.5f;
        if (!(middle_x >= box[0] && middle_x < box[2] && middle_y >= box[1] && middle_y < box[3])) continue;
        const float row = at(y, size.height, place.inner.height, place.top, whole.height, high), column = at(x, size.width, place.inner.width, place.left, whole.width, wide);
        const auto r = static_cast<int64_t>(row), c = static_cast<int64_t>(column);
        const int64_t below = std::min(r + 1, high - 1), beside = std::min(c + 1, wide - 1);
        const float right = column - std::floor(column), down = row - std::floor(row);
        const float upper = mark(r, c) + (mark(r, beside) - mark(r, c)) * right, lower = mark(below, c) + (mark(below, beside) - mark(below, c)) * right;
        out.as<uint8_t>()[static_cast<size_t>((n * size.height + y) * size.width + x)] = upper + (lower - upper) * down > 0;
      }
  }
  return out;
}

Result<HostTensor> paint(const Paint& step, const HostTensor& classes, const HostTensor& picture) {
  const size_t rank = classes.shape.size();
  if (classes.dtype != DType::I64 || rank < 2) return not_boxes("paint", classes, "i64 [h, w]");
  const int64_t high = classes.shape[rank - 2], wide = classes.shape[rank - 1], colours = static_cast<int64_t>(step.palette.size());
  const Size size{picture.shape[0], picture.shape[1]};
  const auto [place, whole] = fitted(step.of, size);
  const auto at = [](int64_t i, int64_t side, int64_t inner, int64_t before, int64_t all, int64_t cells) {
    return std::clamp<int64_t>(((2 * i + 1) * inner + 2 * before * side) * cells / (2 * side * all), 0, cells - 1);
  };
  MLC_ASSIGN(HostTensor out, HostTensor::zeros(DType::U8, {size.height, size.width, 3}));
  for (int64_t y = 0; y < size.height; ++y)
    for (int64_t x = 0; x < size.width; ++x) {
      const int64_t row = at(y, size.height, place.inner.height, place.top, whole.height, high), column = at(x, size.width, place.inner.width, place.left, whole.width, wide);
      const int64_t kind = classes.as<int64_t>()[static_cast<size_t>(row * wide + column)];
      std::copy_n(step.palette[static_cast<size_t>((kind % colours + colours) % colours)].begin(), 3, out.as<uint8_t>().begin() + (y * size.width + x) * 3);
    }
  return out;
}

Result<HostTensor> unletterbox(const Unletterbox& step, const HostTensor& found, const HostTensor& picture) {
  if (found.dtype != DType::F32 || found.shape.size() != 2 || found.shape[1] != 6) return not_boxes("unletterbox", found, "detections f32 [n, 6]");
  if (picture.shape.size() != 3) return not_boxes("unletterbox", picture, "a picture [h, w, c]");
  const Size size{picture.shape[0], picture.shape[1]};
  const LetterboxPlace place = fitted(step.of, size).place;
  MLC_ASSIGN(HostTensor out, found.clone());
  for (size_t i = 0; i < out.as<float>().size(); ++i) {
    if (i % 6 >= 4) continue;
    const bool is_x = i % 2 == 0;
    const auto side = static_cast<float>(is_x ? size.width : size.height);
    const float v = unfitted(out.as<float>()[i], is_x, place, size);
    out.as<float>()[i] = !step.clip || std::isnan(v) ? v : std::clamp(v, 0.0f, side);
  }
  return out;
}

}  // namespace mlc::pipeline::reference
