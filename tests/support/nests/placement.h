// Where a layout puts elements, in plain arithmetic: independent of nest::address, which it helps to test.
#pragma once

#include <cstdint>
#include <vector>

#include "packager/nest/nest.h"

namespace mlc::test {

// Where the pieces of a layout put an element; plain arithmetic, independent of nest::address.
struct Placement {
  Placement(const nest::Array& a, const std::vector<int64_t>& shape) : pieces(a.layout.pieces), shape(shape) {
    if (pieces.empty())
      for (uint8_t k = 0; k < shape.size(); ++k) pieces.push_back({k, 1, 0});
    for (const nest::Piece& p : pieces) {
      extents.push_back(p.extent ? p.extent : (shape[p.axis] + p.divisor - 1) / p.divisor);
      elements *= extents.back();
    }
  }
  int64_t operator()(const std::vector<int64_t>& index) const {
    int64_t at = 0;
    for (size_t k = 0; k < pieces.size(); ++k) {
      int64_t v = index[pieces[k].axis] / pieces[k].divisor;
      at = at * extents[k] + (pieces[k].extent ? v % pieces[k].extent : v);
    }
    return at;
  }
  template <class F>
  void each(F f) const {  // f(row-major position, place)
    std::vector<int64_t> index(shape.size());
    int64_t total = 1;
    for (int64_t n : shape) total *= n;
    for (int64_t flat = 0; flat < total; ++flat) {
      int64_t left = flat;
      for (size_t k = shape.size(); k-- > 0;) {
        index[k] = left % shape[k];
        left /= shape[k];
      }
      f(flat, (*this)(index));
    }
  }
  std::vector<nest::Piece> pieces;
  std::vector<int64_t> shape, extents;
  int64_t elements = 1;
};

}  // namespace mlc::test
