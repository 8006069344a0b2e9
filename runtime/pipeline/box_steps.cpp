// Detections as answers, and pictures that show them.
#include <cmath>

#include "runtime/io/picture/image.h"
#include "runtime/pipeline/drawing.h"
#include "runtime/pipeline/host_steps.h"

namespace mlc::pipeline {
namespace {

Status not_taken(std::string_view step, const HostTensor& t, std::string_view expected) {
  return Status(Code::InputMismatch, "step '{}' takes {}, found {}", step, expected, type_text(t.dtype, t.shape));
}

// The class that a detection says, or -1.
int64_t class_of(float v) { return v >= 0 && v < float{1 << 24} && v == std::floor(v) ? static_cast<int64_t>(v) : -1; }

}  // namespace

Result<FoundBoxes> name_boxes(const NameBoxes& step, const HostTensor& found, std::span<const std::string> labels, AnswerBudget& budget) {
  if (found.dtype != DType::F32 || found.shape.size() != 2 || found.shape[1] != 6) return not_taken("detections", found, "f32 [n, 6], which 'nms' makes");
  const std::string_view name = "detections";
  const auto count = static_cast<size_t>(found.shape[0]);
  MLC_RETURN_IF_ERROR(budget.look_at(static_cast<uint64_t>(found.elements()), name));
  MLC_RETURN_IF_ERROR(budget.take(count, sizeof(FoundBox), name));
  FoundBoxes all;
  all.boxes.reserve(count);
  for (size_t row = 0; row < count; ++row) {
    const float* at = found.as<float>().data() + row * 6;
    FoundBox& box = all.boxes.emplace_back(FoundBox{at[0], at[1], at[2], at[3], class_of(at[5]), at[4], {}});
    if (box.index < 0)
      return Status(Code::InputMismatch, "step 'detections': row {} of the detections has {} for its class, which is no whole number from 0 on", row,
                    std::to_string(at[5]));
    const int64_t line = box.index + step.label_offset;
    if (step.labels.empty() || line < 0) continue;
    if (line >= static_cast<int64_t>(labels.size()))
      return Status(Code::Usage, 5003, "step 'detections': {} has {} lines, and class {} wants line {}", step.labels, labels.size(), box.index, line + 1)
          .hint("a list with a line for each class of the model, or another 'label_offset'");
    const std::string& label = labels[static_cast<size_t>(line)];
    MLC_RETURN_IF_ERROR(budget.take(label.size(), name));
    box.label = label;
  }
  return all;
}

Result<HostTensor> draw(const HostTensor& picture, const FoundBoxes& boxes, AnswerBudget& budget) {
  if (picture.dtype != DType::U8 || picture.shape.size() != 3 || picture.shape[2] != 3) return not_taken("draw", picture, "a picture u8 [h, w, 3]");
  MLC_RETURN_IF_ERROR(budget.take(picture.data.size(), "draw"));
  MLC_ASSIGN(HostTensor drawn, picture.clone());
  Drawing drawing(drawn.data.bytes(), drawn.shape[0], drawn.shape[1]);
  for (size_t i = boxes.boxes.size(); i-- > 0;) {
    // What is painted of a box is at most the picture.
    const FoundBox& box = boxes.boxes[i];
    MLC_RETURN_IF_ERROR(budget.look_at(drawing.cost(box), "draw"));
    drawing.add(box);
  }
  return drawn;
}

Result<ImageFile> image_out(const HostTensor& picture, AnswerBudget& budget) {
  if (picture.dtype != DType::U8 || picture.shape.size() != 3 || picture.shape[2] < 1 || picture.shape[2] > 4)
    return not_taken("image_out", picture, "a picture u8 [h, w, 1 to 4]");
  if (picture.shape[0] == 0 || picture.shape[1] == 0)
    return Status(Code::InputMismatch, 4001, "step 'image_out' takes a picture with pixels, found {}", type_text(picture.dtype, picture.shape));
  ImageFile file{"image/png", picture.shape[0], picture.shape[1], {}};
  MLC_ASSIGN(file.bytes, io::encode_png(picture, [&](uint64_t bytes) { return budget.take(bytes, "image_out"); }));
  return file;
}

}  // namespace mlc::pipeline
