// Golden vectors: inputs of a function and what the Nest interpreter answers to them. Every variant is measured against
// them, when the file is made and again wherever it runs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/status.h"
#include "packager/compile/golden/value_bounds.h"
#include "packager/container/builder.h"
#include "packager/nest/interpret/interpret.h"

namespace mlc::compile {

// Which statements of a function can be seen to be wrong by a vector (golden_shown.h).
struct Shown {
  size_t tried = 0;                 // statements whose results were changed
  std::vector<std::string> hidden;  // of those, where no output moved by more than its tolerance: the node each comes from
  double share() const { return tried == 0 ? 1 : 1 - static_cast<double>(hidden.size()) / static_cast<double>(tried); }
};

// Beyond it a vector would tell nothing, unless errors were seen to move its answer further.
inline constexpr double kMaxTolerance = 0.1;

struct GoldenVector {
  std::vector<nest::Tensor> inputs, outputs;  // in the order of the function's interface
  std::map<std::string, int64_t> extents;     // of its symbols
  std::string name;                           // among those of its function; empty: the only one
  double operations = 0;                      // of a run, roughly (estimate.h)
  double work = 0;                            // of the interpreter for it (InterpretOptions::work)
  Shown shown;
  // How far each output moves, relative to its largest value, where sums are rounded in another order; infinite where its shape
  // changes. Measured where numbers become integers on the way (quantised models) or are picked (detectors): one that falls on the
  // other side changes all that follows. With floats of 16 bits: where sums are off by a step of them.
  std::vector<double> spread;  // empty: nothing moves
  // How far each output lies from the answer, likewise, where the program rounds its factors (rounding.h); empty: it does not.
  std::vector<double> rounding;
  double spread_of(size_t output) const { return output < spread.size() ? spread[output] : 0; }

  // Whether it was shaken many times, as it moves far: then half of the margin does for how far it moves, and it may be off by more.
  bool is_settled = false;

  // By how much of its largest value a right answer may be off, at least `least`: half as much again as rounded factors move it.
  double tolerance_of(size_t output, double least) const;
  // Whether a variant can be told right from wrong by this output: it is recorded, and does not move too far for that.
  bool tells(size_t output) const;
};

// A vector's inputs that the user gives.
struct GivenVector {
  std::string source;  // the file, for messages
  std::map<std::string, nest::Tensor> arrays;
  std::map<std::string, std::string> carried = {};  // inputs that are outputs of the vector before it, by name
};

struct GoldenOptions {
  // A function that takes pictures of any size: inputs [height, width, channels].
  bool takes_pictures = false;
  std::vector<GivenVector> given;  // instead of drawn ones
  // Likewise, what texts became, named by `source`: the first must be answered, others are left out where they are too much work.
  std::vector<GivenVector> texts;
  // Likewise, chunks of a stream, in order and named by `source`; others are drawn where the first has no answer.
  std::vector<GivenVector> chunks;
  bool none = false;               // no vectors, only what values inputs take
  // Floats that nothing bounds are of one magnitude, 1: what is large in some channels saturates exponents, and small errors of it are large ones behind them.
  bool are_tame = false;
  double tolerance = 1e-3;  // relative to the largest output
  double work = 1.2e11;     // of the interpreter and of the search for sizes, in the interpreter's units (InterpretOptions::work)
  Progress progress;  // counts the statements of one run
};

struct GoldenSet {
  std::vector<GoldenVector> vectors;
  std::string missing;           // why there is none, or none of a picture, although the container could hold it; else empty
  bool needs_work = false;       // more work might give it
  std::string left_out;          // pictures of which there is none since they would make the file or the build much larger, or jump, and why
  double work = 0;               // that was done
  std::vector<Range> ranges;     // per input: what its values must lie in whatever the extents are
};

// What a container can hold: no lists, no strings, nothing that a service of the application answers, which is not this
// program's to record. There are no vectors for a function that takes such, or gives nothing else, and nothing is missing.
//
// Inputs are drawn as golden_draw.h says, within what the indices of the function demand (value_bounds.h). Free extents take
// the first of a few plausible values with which the interpreter succeeds and the answer tells right from
// wrong (a picture so small that a pooling leaves nothing of it gives NaN everywhere); where none does, other values of the
// integers are tried. `oracle` is the function as expanded, before any pass.
//
// A function that takes pictures has three vectors, first
// "landscape", then "one pixel" and "portrait" as far as it takes such pictures, and they do not make the file or the build
// much larger (16 MiB of answers each, 2e10 operations). What decoders give is drawn, files are not decoded. Where the answer to a
// texture jumps, areas of one colour are drawn: a few numbers stand in what is made of them, and few of those at a tie. Patches are for
// answers that are in the order of scores, of which those of an area are equal. Of the smaller pictures one that jumps all the same is left out.
// Any other function for whose inputs the answers jump gets areas too, and others, until one stands still.
//
// Fails for given vectors that are not what the function takes, and where the interpreter finds a bug of this program. That
// none can be drawn is no failure.
Result<GoldenSet> make_golden(const nest::Function& oracle, const GoldenOptions& options = {});

// Is it an array that containers hold?
bool is_recorded(const nest::Tensor& value);
// What the vector of a program is called in a container.
std::string golden_name(const std::string& program, const GoldenVector& golden);
// Stores a vector of method `method`; tolerance relative to the largest output, more where the answer's spread demands it. Outputs
// that tell nothing are left out.
void add_golden(container::ContainerBuilder& builder, const GoldenVector& golden, const std::string& name, uint32_t method, double tolerance);

}  // namespace mlc::compile
