// Steps that move pixels, and those that change their number or colour.
#include <cstring>
#include <functional>

#include "runtime/pipeline/reference/array_steps.h"
#include "schema/pipeline/geometry.h"

namespace mlc::pipeline::reference {
namespace {

Status check_picture(const HostTensor& t) {
  if (t.shape.size() == 3 && t.data.size() > 0) return ok();
  return Status(Code::InputMismatch, "a step takes a picture [h, w, c], found " + type_text(t.dtype, t.shape));
}

// [height, width, c] whose pixel (y, x) is the input's pixel source(y, x); {-1, -1} leaves it as `fill` set it.
struct Place {
  int64_t y = -1, x = -1;
};
Result<HostTensor> gather(const HostTensor& in, Size size, const std::function<Place(int64_t, int64_t)>& source,
                          const std::function<void(std::byte*)>& fill = {}) {
  MLC_ASSIGN(HostTensor out, HostTensor::zeros(in.dtype, {size.height, size.width, in.shape[2]}));
  size_t pixel = static_cast<size_t>(in.shape[2]) * bytes_of(in.dtype);
  std::byte* to = out.data.data();
  for (int64_t y = 0; y < size.height; ++y)
    for (int64_t x = 0; x < size.width; ++x, to += pixel) {
      Place p = source(y, x);
      if (p.y >= 0 && p.y < in.shape[0] && p.x >= 0 && p.x < in.shape[1])
        std::memcpy(to, in.data.data() + static_cast<size_t>(p.y * in.shape[1] + p.x) * pixel, pixel);
      else if (fill)
        fill(to);
    }
  return out;
}

Result<HostTensor> resize_to(const HostTensor& in, Size size, Kernel kernel, Like like) {
  return like == Like::Pillow ? resize_pillow(in, size.height, size.width, kernel)
                              : resize_opencv(in, size.height, size.width, kernel);
}

Size size_of(const HostTensor& t) { return {t.shape[0], t.shape[1]}; }

// Where a border pixel comes from; -1: nowhere, it is constant.
int64_t border(int64_t at, int64_t size, PadMode mode) {
  if (at >= 0 && at < size) return at;
  switch (mode) {
    case PadMode::Constant: return -1;
    case PadMode::Edge: return at < 0 ? 0 : size - 1;
    case PadMode::Reflect: {  // the border pixel itself is not repeated
      if (size == 1) return 0;
      int64_t period = 2 * (size - 1), m = ((at % period) + period) % period;
      return m < size ? m : period - m;
    }
    case PadMode::Symmetric: {  // it is repeated
      int64_t period = 2 * size, m = ((at % period) + period) % period;
      return m < size ? m : period - 1 - m;
    }
  }
  return -1;
}

}  // namespace

Result<HostTensor> resize(const Resize& s, const HostTensor& in) {
  MLC_RETURN_IF_ERROR(check_picture(in));
  return resize_to(in, resized(s, size_of(in)), s.kernel, s.like);
}

Result<HostTensor> letterbox(const Letterbox& s, const HostTensor& in) {
  MLC_RETURN_IF_ERROR(check_picture(in));
  LetterboxPlace place = letterbox_place(s, size_of(in));
  MLC_ASSIGN(HostTensor inner, resize_to(in, place.inner, s.kernel, s.like));
  return gather(inner, {s.height, s.width}, [&](int64_t y, int64_t x) { return Place{y - place.top, x - place.left}; },
                [&](std::byte* pixel) {
                  for (size_t c = 0; c < s.value.size(); ++c) pixel[c] = static_cast<std::byte>(s.value[c]);
                });
}

Result<HostTensor> crop(const Crop& s, const HostTensor& in) {
  MLC_RETURN_IF_ERROR(check_picture(in));
  int64_t top = s.centered ? crop_offset(in.shape[0], s.height, s.round) : s.top;
  int64_t left = s.centered ? crop_offset(in.shape[1], s.width, s.round) : s.left;
  return gather(in, {s.height, s.width}, [&](int64_t y, int64_t x) { return Place{y + top, x + left}; });
}

Result<HostTensor> pad(const Pad& s, const HostTensor& in) {
  MLC_RETURN_IF_ERROR(check_picture(in));
  if (in.dtype != DType::U8 && in.dtype != DType::F32)
    return Status(Code::Unsupported, "pad of " + type_text(in.dtype, in.shape));
  Margins m = margins(s, size_of(in));
  auto value = static_cast<float>(s.value);
  return gather(
      in, {in.shape[0] + m.top + m.bottom, in.shape[1] + m.left + m.right},
      [&](int64_t y, int64_t x) {
        return Place{border(y - m.top, in.shape[0], s.mode), border(x - m.left, in.shape[1], s.mode)};
      },
      [&](std::byte* pixel) {
        for (int64_t c = 0; c < in.shape[2]; ++c)
          in.dtype == DType::U8 ? void(pixel[c] = static_cast<std::byte>(s.value))
                                : void(std::memcpy(pixel + 4 * c, &value, 4));
      });
}

Result<HostTensor> flip(const Flip& s, const HostTensor& in) {
  MLC_RETURN_IF_ERROR(check_picture(in));
  return gather(in, size_of(in), [&](int64_t y, int64_t x) {
    return s.axis == Axis::Horizontal ? Place{y, in.shape[1] - 1 - x} : Place{in.shape[0] - 1 - y, x};
  });
}

Result<HostTensor> rotate90(const Rotate90& s, const HostTensor& in) {
  MLC_RETURN_IF_ERROR(check_picture(in));
  int64_t h = in.shape[0], w = in.shape[1];
  if (s.turns == 2) return gather(in, {h, w}, [&](int64_t y, int64_t x) { return Place{h - 1 - y, w - 1 - x}; });
  return gather(in, {w, h}, [&](int64_t y, int64_t x) {
    return s.turns == 1 ? Place{x, w - 1 - y} : Place{h - 1 - x, y};
  });
}

Result<HostTensor> convert_color(const ConvertColor& s, const HostTensor& in) {
  MLC_RETURN_IF_ERROR(check_picture(in));
  if (s.from == s.to) return in.clone();
  int64_t from_colors = s.from == Color::Gray ? 1 : 3, to_colors = s.to == Color::Gray ? 1 : 3,
          alpha = in.shape[2] - from_colors;
  bool makes_gray = s.to == Color::Gray;
  if (alpha < 0 || alpha > 1 || (makes_gray && in.dtype != DType::U8))
    return Status(Code::InputMismatch, "color of " + type_text(in.dtype, in.shape));
  MLC_ASSIGN(HostTensor out, HostTensor::zeros(in.dtype, {in.shape[0], in.shape[1], to_colors + alpha}));
  size_t n = bytes_of(in.dtype);
  const std::byte* from = in.data.data();
  std::byte* to = out.data.data();
  for (int64_t i = 0; i < in.shape[0] * in.shape[1]; ++i, from += n * in.shape[2], to += n * out.shape[2]) {
    if (makes_gray) {
      auto channel = [&](int c) { return std::to_integer<uint32_t>(from[s.from == Color::Rgb ? c : 2 - c]); };
      uint32_t r = channel(0), g = channel(1), b = channel(2);
      to[0] = static_cast<std::byte>(s.like == Like::Pillow ? (19595 * r + 38470 * g + 7471 * b + (1u << 15)) >> 16
                                                            : (9798 * r + 19235 * g + 3735 * b + (1u << 14)) >> 15);
    } else {
      for (int64_t c = 0; c < 3; ++c) std::memcpy(to + n * c, from + n * (from_colors == 1 ? 0 : 2 - c), n);
    }
    if (alpha) std::memcpy(to + n * to_colors, from + n * from_colors, n);
  }
  return out;
}

Result<HostTensor> layout(const LayoutStep& s, const HostTensor& in) {
  auto batched = [](PixelLayout l) { return l == PixelLayout::Nchw || l == PixelLayout::Nhwc; };
  auto channels_first = [](PixelLayout l) { return l == PixelLayout::Nchw || l == PixelLayout::Chw; };
  if (in.shape.size() != (batched(s.from) ? 4u : 3u) || (batched(s.from) && !batched(s.to)))
    return Status(Code::InputMismatch, "layout of " + type_text(in.dtype, in.shape));
  std::vector<int64_t> d = in.shape;
  if (!batched(s.from)) d.insert(d.begin(), 1);
  int64_t count = d[0], h, w, c;
  channels_first(s.from) ? (c = d[1], h = d[2], w = d[3]) : (h = d[1], w = d[2], c = d[3]);
  std::vector<int64_t> shape =
      channels_first(s.to) ? std::vector<int64_t>{count, c, h, w} : std::vector<int64_t>{count, h, w, c};
  if (!batched(s.to)) shape.erase(shape.begin());
  MLC_ASSIGN(HostTensor out, HostTensor::zeros(in.dtype, shape));
  size_t n = bytes_of(in.dtype);
  auto at = [&](bool first, int64_t i, int64_t y, int64_t x, int64_t k) {
    return static_cast<size_t>(first ? ((i * c + k) * h + y) * w + x : ((i * h + y) * w + x) * c + k) * n;
  };
  for (int64_t i = 0; i < count; ++i)
    for (int64_t y = 0; y < h; ++y)
      for (int64_t x = 0; x < w; ++x)
        for (int64_t k = 0; k < c; ++k)
          std::memcpy(out.data.data() + at(channels_first(s.to), i, y, x, k),
                      in.data.data() + at(channels_first(s.from), i, y, x, k), n);
  return out;
}

}  // namespace mlc::pipeline::reference
