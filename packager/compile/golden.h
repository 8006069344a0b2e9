// Golden vectors: inputs of a function and what the Nest interpreter answers to them. Every variant is measured against
// them, when the file is made and again wherever it runs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "packager/container/builder.h"
#include "packager/nest/interpret.h"

namespace mlc::compile {

struct GoldenVector {
  std::vector<nest::Tensor> inputs, outputs;  // in the order of the function's interface
  std::map<std::string, int64_t> extents;     // of its symbols
  std::string name;                           // among those of its function; empty: the only one
  double operations = 0;                      // of a run, roughly (estimate.h)
};

// Inputs are drawn from a counter-based generator (equal builds give equal vectors): floats uniform in [-1, 1), integers
// 0 or 1, so that they are legal as indices of any table of two rows, 8-bit integers over their whole range (pictures).
// Free extents take the first of a few plausible values with which the interpreter succeeds and the answer tells right from
// wrong (a picture so small that a pooling leaves nothing of it gives NaN everywhere). `oracle` is the function
// as expanded, before any pass. Containers hold no lists and no strings: there is no vector for a function that takes such,
// or gives nothing else; and for one that asks a service of the application, whose answer is not this program's to record.
//
// A function that takes pictures of any size (`takes_pictures`: inputs [height, width, channels]) has three vectors, first
// "landscape", then "one pixel" and "portrait" as far as it takes such pictures, and they do not make the file or the build
// much larger (1 MiB of answers each, 2e10 operations). What decoders give is drawn, files are not decoded.
Result<std::vector<GoldenVector>> make_golden(const nest::Function& oracle, bool takes_pictures = false);

// Is it an array that containers hold?
bool is_recorded(const nest::Tensor& value);
// What the vector of a program is called in a container.
std::string golden_name(const std::string& program, const GoldenVector& golden);
// Stores a vector of method `method`; tolerance relative to the largest output. Outputs that are not
// recorded are left out.
void add_golden(container::ContainerBuilder& builder, const GoldenVector& golden, const std::string& name, uint32_t method, double tolerance);

}  // namespace mlc::compile
