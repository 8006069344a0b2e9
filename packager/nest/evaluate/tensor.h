// An array or a list on the host, owned. What the interpreter reads and returns.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "base/checked.h"
#include "base/dtype.h"

namespace mlc::nest {

// With list_depth 0 an array: row-major elements. Else a list: `items` are arrays (depth 1) or lists of one depth less,
// `dtype` is the element type of the arrays in it, shape and bytes are empty. An optional is a list of at most one item.
struct Tensor {
  DType dtype = DType::None;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;
  uint8_t list_depth = 0;
  std::vector<Tensor> items = {};
  std::vector<std::string> strings = {};  // of dtype Str, which has no bytes

  int64_t elements() const {
    int64_t n = 1;
    for (int64_t d : shape) n *= d;
    return n;
  }
  // Uninitialised shape errors are the caller's: `shape` holds checked, non-negative extents.
  static Tensor zeros(DType dtype, std::vector<int64_t> shape) {
    Tensor t{dtype, std::move(shape), {}};
    t.bytes.resize(static_cast<size_t>(t.elements()) * bytes_of(dtype));
    return t;
  }
  static Tensor list(DType dtype, std::vector<Tensor> items, uint8_t list_depth = 1) {
    Tensor t{dtype, {}, {}};
    t.list_depth = list_depth;
    t.items = std::move(items);
    return t;
  }
  template <class T>
  static Tensor of(DType dtype, std::vector<int64_t> shape, const std::vector<T>& values) {
    Tensor t{dtype, std::move(shape), {}};
    t.bytes.resize(values.size() * sizeof(T));
    if (!values.empty()) std::memcpy(t.bytes.data(), values.data(), t.bytes.size());
    return t;
  }
  template <class T>
  std::vector<T> values() const {
    std::vector<T> v(bytes.size() / sizeof(T));
    if (!v.empty()) std::memcpy(v.data(), bytes.data(), v.size() * sizeof(T));
    return v;
  }
};

}  // namespace mlc::nest
