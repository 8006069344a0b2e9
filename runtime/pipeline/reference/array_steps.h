// Every array step, slow and obvious: the oracle for what the packager compiles, itself held against Pillow, OpenCV and
// NumPy by tests/unit/pipeline. Tools may run it; nothing in libmlrt does.
//
// Pictures are [h, w, c]. The attributes come from the parser and are not checked again; the shapes of tensors are.
#pragma once

#include <utility>

#include "runtime/io/tensor.h"
#include "schema/pipeline/pipeline.h"

namespace mlc::pipeline::reference {

Result<HostTensor> resize(const Resize& step, const HostTensor& picture);
Result<HostTensor> letterbox(const Letterbox& step, const HostTensor& picture);
Result<HostTensor> crop(const Crop& step, const HostTensor& picture);
Result<HostTensor> pad(const Pad& step, const HostTensor& picture);
Result<HostTensor> flip(const Flip& step, const HostTensor& picture);
Result<HostTensor> rotate90(const Rotate90& step, const HostTensor& picture);
Result<HostTensor> convert_color(const ConvertColor& step, const HostTensor& picture);
// `layout` says where the channels are; for a tensor that is no picture mean and std hold one number.
Result<HostTensor> normalize(const Normalize& step, const HostTensor& in, PixelLayout layout);
Result<HostTensor> layout(const LayoutStep& step, const HostTensor& picture);
Result<HostTensor> cast(const Cast& step, const HostTensor& in);
Result<HostTensor> softmax(const Softmax& step, const HostTensor& in);
Result<HostTensor> sigmoid(const HostTensor& in);
Result<HostTensor> argmax(const Argmax& step, const HostTensor& in);
Result<HostTensor> threshold(const Threshold& step, const HostTensor& in);
Result<HostTensor> unit_length(const HostTensor& in);
Result<HostTensor> truncate(const Truncate& step, const HostTensor& in);
Result<HostTensor> column(const Column& step, const HostTensor& in);
Result<HostTensor> transpose(const Transpose& step, const HostTensor& in);
Result<HostTensor> constant(const Constant& step);
Result<HostTensor> fit(const Fit& step, const HostTensor& in);
Result<HostTensor> resample(const Resample& step, const HostTensor& in);
Result<HostTensor> frame(const Frame& step, const HostTensor& in);
Result<HostTensor> window(const Window& step, const HostTensor& in);
Result<HostTensor> pre_emphasis(const PreEmphasis& step, const HostTensor& in);
Result<HostTensor> stft(const Stft& step, const HostTensor& in);
// `mask` and `sound` may be null.
Result<HostTensor> istft(const Istft& step, const HostTensor& in, const HostTensor* mask);
Result<HostTensor> overlap_add(const OverlapAdd& step, const HostTensor& in, const HostTensor* sound);
// Of a sound that goes on: the sound and the rest.
Result<std::pair<HostTensor, HostTensor>> overlap_add_on(const OverlapAdd& step, const HostTensor& in, const HostTensor& before);
Result<HostTensor> mel(const Mel& step, const HostTensor& in);
Result<HostTensor> log(const Log& step, const HostTensor& in);
Result<HostTensor> mean_var(const MeanVar& step, const HostTensor& in);
// `mask` is i64.
Result<HostTensor> pool(const Pool& step, const HostTensor& in, const HostTensor& mask);

// Boxes [n, 4] and scores [n, classes]; `scores` is null where the step takes one array.
struct Detected {
  HostTensor boxes, scores, extra;
};
// Detections, and the numbers `extra` of those.
struct Kept {
  HostTensor found, extra;
};
Result<Detected> boxes(const Boxes& step, const HostTensor& in, const HostTensor* scores);
// `extra` may be null.
Result<Kept> nms(const Nms& step, const HostTensor& boxes, const HostTensor& scores, const HostTensor* extra);
Result<HostTensor> keypoints(const Keypoints& step, const HostTensor& rows, const HostTensor& picture);
Result<HostTensor> masks(const Masks& step, const HostTensor& rows, const HostTensor& found, const HostTensor& prototypes, const HostTensor& picture);
Result<HostTensor> paint(const Paint& step, const HostTensor& classes, const HostTensor& picture);
Result<HostTensor> unletterbox(const Unletterbox& step, const HostTensor& found, const HostTensor& picture);

// u8 [h, w, c] to `height` x `width`.
Result<HostTensor> resize_pillow(const HostTensor& picture, int64_t height, int64_t width, Kernel kernel);
Result<HostTensor> resize_opencv(const HostTensor& picture, int64_t height, int64_t width, Kernel kernel);

// Every array step except `run` whose input is there and whose result is not, in order; results are added to `values`
// under their names. Called with what host steps decoded it prepares the model's inputs, with the model's outputs it
// finishes.
Status run_array_steps(const Pipeline& p, std::vector<NamedTensor>& values);

}  // namespace mlc::pipeline::reference
