// What an extent is guessed to be where something must be.
#pragma once

#include "packager/ir/context.h"

namespace mlc::ir {

// By what is known of an extent. A guess decides order and shape of kernels, never what they compute.
enum class Guess : int64_t {
  Any = 64,
  Batch = 1,         // the leading axis of inputs
  Sentence = 128,    // tokens, queries of attention
  Side = 256,        // of a picture
  Length = 1 << 15,  // of a signal
};

// The guess within the symbol's bounds, and a multiple of what it is one of.
int64_t typical(const Sym* sym, Guess guess = Guess::Any);

// The guess for each of its symbols, or as many times more as leave anything of it: the frames of a recording are
// fewer than its samples. What is nothing for all of these, but something in rare runs (where an extent is 1), is the larger of what
// is chosen from. Null: it has no value then.
std::optional<int64_t> typical(const Expr* e, Guess guess = Guess::Any);

// The same as a number, for costs: at least one, and Guess::Any where it has no value.
double estimate(const Expr* extent);

}  // namespace mlc::ir
