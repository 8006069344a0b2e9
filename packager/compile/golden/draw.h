// Values for inputs, drawn from a counter-based generator: equal builds give equal vectors.
#pragma once

#include "packager/compile/golden/value_bounds.h"
#include "packager/nest/evaluate/tensor.h"

namespace mlc::compile {

// How integers are chosen where bounds were not enough to make a program run. Areas and patches are for what may be a picture, and for floats of
// rank 2 and more that nothing bounds: each channel has one edge, or 64 squares of one number each.
enum class Draw : uint8_t { WithinBounds, Areas, Patches, Zeros, Ones, Parts /* of an extent: vectors that nothing bounds are made by `parts` */ };

// How large floats are that nothing bounds.
struct Magnitude {
  double amplitude = 1;
  bool by_channel = true;
};

// What bounds demand is drawn from all of them: rows of a table from the whole table. Else integers are 0 or 1, 8-bit integers of
// their whole range, and floats such that errors show in what is made of them:
//   * arrays of rank 1 and more have another magnitude per channel, 1/8 to 32 times the amplitude, as a sum over a few channels, a
//     normalisation or a saturating function of numbers that are all alike barely depends on which of them it took;
//   * what may be a picture (one or three channels, eight rows and columns at least; bytes of rank 3 and 4 too) is one: smooth
//     gradients with a texture on them, neighbours alike and places not.
// `shape` is checked: its bytes fit the memory.
nest::Tensor drawn(DType dtype, std::vector<int64_t> shape, uint64_t seed, const InputBounds& bounds = {}, Draw how = Draw::WithinBounds, Magnitude magnitude = {});

// Integers of a vector, 0 or more, that add up to `total`, drawn one by one: the sizes of the pieces of an axis.
nest::Tensor parts(DType dtype, int64_t count, int64_t total, uint64_t seed);

}  // namespace mlc::compile
