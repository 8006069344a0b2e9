// What is made of the rows of tokens.
#include <algorithm>
#include <cmath>

#include "runtime/pipeline/reference/array_steps.h"

namespace mlc::pipeline::reference {
namespace {

Status not_rows(std::string_view step, const HostTensor& t, std::string_view expected) {
  return Status(Code::InputMismatch, "step '{}' takes {}, found {}", step, expected, type_text(t.dtype, t.shape));
}

}  // namespace

Result<HostTensor> unit_length(const HostTensor& in) {
  if (in.dtype != DType::F32 || in.shape.empty()) return not_rows("normalize", in, "f32 of rank 1 and more");
  MLC_ASSIGN(HostTensor out, HostTensor::zeros(DType::F32, in.shape));
  const auto columns = static_cast<size_t>(in.shape.back());
  const std::span<const float> values = in.as<float>();
  for (size_t row = 0; row < values.size(); row += columns) {
    double squares = 0;
    for (size_t c = 0; c < columns; ++c) squares += double{values[row + c]} * double{values[row + c]};
    const double length = std::max(std::sqrt(squares), 1e-12);
    for (size_t c = 0; c < columns; ++c) out.as<float>()[row + c] = static_cast<float>(values[row + c] / length);
  }
  return out;
}

Result<HostTensor> truncate(const Truncate& step, const HostTensor& in) {
  if (in.dtype != DType::F32 || in.shape.empty() || in.shape.back() < step.columns) return not_rows("truncate", in, "f32 of as many columns");
  std::vector<int64_t> shape = in.shape;
  shape.back() = step.columns;
  MLC_ASSIGN(HostTensor out, HostTensor::zeros(DType::F32, shape));
  const auto columns = static_cast<size_t>(step.columns), all = static_cast<size_t>(in.shape.back());
  for (size_t i = 0; i < out.as<float>().size(); ++i) out.as<float>()[i] = in.as<float>()[i / columns * all + i % columns];
  return out;
}

Result<HostTensor> column(const Column& step, const HostTensor& in) {
  const size_t size = bytes_of(in.dtype);
  if (size == 0 || in.shape.empty() || in.shape.back() <= step.index) return not_rows("column", in, "an array with that column");
  MLC_ASSIGN(HostTensor out, HostTensor::zeros(in.dtype, {in.shape.begin(), in.shape.end() - 1}));
  const auto columns = static_cast<size_t>(in.shape.back());
  for (size_t row = 0; row < out.data.size() / size; ++row)
    std::copy_n(in.data.data() + (row * columns + static_cast<size_t>(step.index)) * size, size, out.data.data() + row * size);
  return out;
}

Result<HostTensor> pool(const Pool& step, const HostTensor& in, const HostTensor& mask) {
  if (in.dtype != DType::F32 || in.shape.size() != 3) return not_rows("pool", in, "f32 [texts, tokens, columns]");
  if (mask.dtype != DType::I64 || mask.shape != std::vector<int64_t>{in.shape[0], in.shape[1]}) return not_rows("pool", mask, "a mask i64 [texts, tokens]");
  MLC_ASSIGN(HostTensor out, HostTensor::zeros(DType::F32, {in.shape[0], in.shape[2]}));
  const auto tokens = static_cast<size_t>(in.shape[1]), columns = static_cast<size_t>(in.shape[2]);
  for (size_t i = 0; i < out.as<float>().size(); ++i) {
    std::vector<double> kept;
    for (size_t t = 0; t < tokens; ++t)
      if (mask.as<int64_t>()[i / columns * tokens + t] != 0) kept.push_back(in.as<float>()[(i / columns * tokens + t) * columns + i % columns]);
    if (kept.empty()) continue;
    double sum = 0, largest = kept[0];
    for (const double v : kept) sum += v, largest = std::max(largest, v);
    double value = 0;
    switch (step.how) {
      case Pool::How::Mean: value = sum / static_cast<double>(kept.size()); break;
      case Pool::How::Max: value = largest; break;
      case Pool::How::First: value = kept.front(); break;
      case Pool::How::Last: value = kept.back(); break;
    }
    out.as<float>()[i] = static_cast<float>(value);
  }
  return out;
}

}  // namespace mlc::pipeline::reference
