// What is known of a function and its answers before a golden vector is drawn.
#pragma once

#include <vector>

#include "packager/nest/interpret/interpret.h"

namespace mlc::compile {

// Whether an answer tells right from wrong: elements are there in some output, none is NaN or infinite, and they differ.
bool is_informative(const std::vector<nest::Tensor>& outputs);
size_t bytes_of(const std::vector<nest::Tensor>& tensors);
// Answers as multiples of a 2^14th of the largest one, thirty times finer than the usual tolerance: they pack into a third of
// the bytes. Else the answers to several pictures would make up much of a small model's file.
void shorten(std::vector<nest::Tensor>& outputs);

// Whether services of the application take part, in bodies as well.
bool asks_services(const nest::Function& function);
// Whether the answer may jump where sums are rounded in another order or functions otherwise: floats become integers on the way, places and truths among
// them, or are sorted and counted (by procs, and where sizes are known after the run only).
bool may_jump(const nest::Function& function);
// Whether there are sums that shaking changes: sums of floats in nests, also in those of bodies.
bool has_sums(const nest::Function& function);
// The step of the coarsest floats between 2 and 16 bits that a function computes with, at 1; 0: there are none. Constants of such
// a type may be rounded anew when normalisations are folded into them, which no order of sums shows.
double coarsest_step(const nest::Function& function);

}  // namespace mlc::compile
