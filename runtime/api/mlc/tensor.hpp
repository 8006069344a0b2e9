// Tensors: element types, shapes, what runs are given and what they give. Read ../mlc.hpp first.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <new>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "result.hpp"

namespace mlrt {

namespace detail {

template <class T>
constexpr MlcDType dtype_of() noexcept {
  if constexpr (std::is_same_v<T, bool>) {
    return MLC_BOOL;
  } else if constexpr (std::is_same_v<T, float>) {
    return MLC_F32;
  } else if constexpr (std::is_same_v<T, double>) {
    return MLC_F64;
  } else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, char> && !std::is_same_v<T, wchar_t> &&
                       !std::is_same_v<T, char8_t> && !std::is_same_v<T, char16_t> && !std::is_same_v<T, char32_t>) {
    constexpr bool is_signed = std::is_signed_v<T>;
    return sizeof(T) == 1 ? is_signed ? MLC_I8 : MLC_U8
         : sizeof(T) == 2 ? is_signed ? MLC_I16 : MLC_U16
         : sizeof(T) == 4 ? is_signed ? MLC_I32 : MLC_U32
                          : is_signed ? MLC_I64 : MLC_U64;
  } else {
    return MLC_NONE;
  }
}

}  // namespace detail

// The C++ types that are elements: float, double, bool and the integers. For others there are `raw` and `bytes`.
template <class T>
concept Element = detail::dtype_of<T>() != MLC_NONE;
template <Element T>
inline constexpr MlcDType dtype_of = detail::dtype_of<T>();

// Memory that runs use without copying it: aligned to 64 bytes.
template <class T>
struct AlignedAllocator {
  using value_type = T;
  AlignedAllocator() = default;
  template <class U>
  AlignedAllocator(const AlignedAllocator<U>&) noexcept {}
  T* allocate(size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), std::align_val_t(64))); }
  void deallocate(T* p, size_t) noexcept { ::operator delete(p, std::align_val_t(64)); }
  bool operator==(const AlignedAllocator&) const noexcept = default;
};
template <Element T>
using Vector = std::vector<T, AlignedAllocator<T>>;

// The extents of an array; none: a scalar. More than MLC_MAX_RANK are refused by the run.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> extents) : Shape(std::span(extents.begin(), extents.size())) {}
  explicit Shape(std::span<const int64_t> extents) : rank_(std::min(extents.size(), extents_.size())) {
    std::copy_n(extents.begin(), rank_, extents_.begin());
  }
  std::span<const int64_t> extents() const noexcept { return {extents_.data(), rank_}; }

 private:
  std::array<int64_t, MLC_MAX_RANK + 1> extents_{};
  size_t rank_ = 0;
};

// An array or a list that a handle holds: looked at, not owned.
class View {
 public:
  explicit View(const MlcTensor& tensor) noexcept : tensor_(tensor) {}

  std::string_view name() const noexcept { return tensor_.name ? tensor_.name : ""; }
  MlcDType dtype() const noexcept { return static_cast<MlcDType>(tensor_.dtype); }
  std::span<const int64_t> shape() const noexcept { return {tensor_.shape, tensor_.rank}; }
  std::span<const std::byte> bytes() const noexcept {
    return {static_cast<const std::byte*>(tensor_.data), static_cast<size_t>(tensor_.bytes)};
  }
  // The elements in C order. MLC_INPUT_MISMATCH if they are of another type, or this is a list.
  template <Element T>
  Result<std::span<const T>> values() const {
    if (tensor_.dtype != dtype_of<T> || tensor_.list_depth != 0)
      return Error(MLC_INPUT_MISMATCH, "the elements of this tensor are of another type");
    return std::span(static_cast<const T*>(tensor_.data), static_cast<size_t>(tensor_.bytes) / sizeof(T));
  }
  // The elements of an array of MLC_STR.
  Result<std::vector<std::string_view>> strings() const {
    if (tensor_.dtype != MLC_STR || tensor_.list_depth != 0)
      return Error(MLC_INPUT_MISMATCH, "the elements of this tensor are no strings");
    std::vector<std::string_view> found;
    const auto* s = static_cast<const MlcString*>(tensor_.data);
    for (size_t i = 0; i < tensor_.bytes / sizeof(MlcString); ++i) found.emplace_back(s[i].data, static_cast<size_t>(s[i].bytes));
    return found;
  }
  // 0: an array. The items of a list.
  uint32_t list_depth() const noexcept { return tensor_.list_depth; }
  uint32_t num_items() const noexcept { return tensor_.num_items; }
  View item(uint32_t index) const noexcept { return View(tensor_.items[index]); }

  const MlcTensor& tensor() const noexcept { return tensor_; }

 private:
  MlcTensor tensor_;
};

// What a run is given, under the name of a port of the program; an empty name: by position. The data is borrowed until
// the run has ended.
class Input {
 public:
  // Of anything that holds its elements one behind the other and outlives this: a vector, an array, a span.
  template <class Range>
    requires std::ranges::contiguous_range<Range> && std::ranges::sized_range<Range> && std::ranges::borrowed_range<Range> &&
             Element<std::ranges::range_value_t<Range>>
  Input(std::string name, Range&& data, const Shape& shape)
      : Input(std::move(name), dtype_of<std::ranges::range_value_t<Range>>,
              std::as_bytes(std::span(std::ranges::data(data), std::ranges::size(data))), shape) {}
  explicit Input(const View& view) : name_(view.name()), view_(view.tensor()), is_view_(true) {}

  // Elements of any type, as stored in memory.
  static Input raw(std::string name, MlcDType dtype, std::span<const std::byte> data, const Shape& shape) {
    return Input(std::move(name), dtype, data, shape);
  }
  // Texts; copied are only the views of them.
  static Input strings(std::string name, std::span<const std::string_view> texts, const Shape& shape) {
    Input made(std::move(name), MLC_STR, {}, shape);
    for (std::string_view s : texts) made.strings_.push_back({s.data(), s.size()});
    return made;
  }
  // A list. `depth` is 1 for a list of arrays, 2 for a list of such lists.
  static Input list(std::string name, std::vector<Input> items, uint32_t depth = 1) {
    Input made(std::move(name), MLC_NONE, {}, {});
    made.items_ = std::move(items);
    made.depth_ = depth;
    return made;
  }

  // As the C API wants it; valid until this input is changed, moved or bound again.
  MlcTensor bind() const {
    MlcTensor t = view_;
    t.name = detail::or_null(name_);
    if (is_view_) return t;
    t.shape = shape_.extents().data();
    t.rank = detail::count(shape_.extents().size());
    if (t.dtype == MLC_STR) t.data = const_cast<MlcString*>(strings_.data()), t.bytes = strings_.size() * sizeof(MlcString);
    if (depth_ == 0) return t;
    bound_items_.clear();
    for (const Input& item : items_) bound_items_.push_back(item.bind());
    t.list_depth = depth_;
    t.num_items = detail::count(bound_items_.size());
    t.items = bound_items_.data();
    return t;
  }

 private:
  Input(std::string name, MlcDType dtype, std::span<const std::byte> data, const Shape& shape)
      : name_(std::move(name)), shape_(shape) {
    view_.dtype = dtype;
    view_.data = const_cast<std::byte*>(data.data());  // an input is not written to
    view_.bytes = data.size();
  }
  std::string name_;
  Shape shape_;
  MlcTensor view_{};
  bool is_view_ = false;
  uint32_t depth_ = 0;
  std::vector<MlcString> strings_;
  std::vector<Input> items_;
  mutable std::vector<MlcTensor> bound_items_;
};

// Where an output of this name goes: into memory of the caller, which must hold all of it, or of the session.
class Output {
 public:
  explicit Output(std::string name) : name_(std::move(name)) {}
  template <class Range>
    requires std::ranges::contiguous_range<Range> && std::ranges::sized_range<Range> && std::ranges::borrowed_range<Range> &&
             Element<std::ranges::range_value_t<Range>> &&
             (!std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<Range>>>)
  Output(std::string name, Range&& memory)
      : name_(std::move(name)), memory_(std::as_writable_bytes(std::span(std::ranges::data(memory), std::ranges::size(memory)))) {}

  MlcTensor bind() const {
    MlcTensor t{};
    t.name = detail::or_null(name_);
    t.data = memory_.data();
    t.bytes = memory_.size();
    return t;
  }

 private:
  std::string name_;
  std::span<std::byte> memory_;
};

// What a run gave, in the order of the program's outputs or of those that were asked for.
class Outputs {
 public:
  explicit Outputs(std::vector<MlcTensor> tensors) : tensors_(std::move(tensors)) {}

  size_t size() const noexcept { return tensors_.size(); }
  View operator[](size_t index) const noexcept { return View(tensors_[index]); }
  std::optional<View> find(std::string_view name) const noexcept {
    for (const MlcTensor& t : tensors_)
      if (View(t).name() == name) return View(t);
    return std::nullopt;
  }
  template <Element T>
  Result<std::span<const T>> values(std::string_view name) const {
    const auto found = find(name);
    if (!found) return Error(MLC_NOT_FOUND, "the run gave no output of this name");
    return found->values<T>();
  }

 private:
  std::vector<MlcTensor> tensors_;
};

}  // namespace mlrt
