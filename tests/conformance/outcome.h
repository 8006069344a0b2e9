// What became of one case on one path, and the paths that there are.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "targets/target.h"
#include "tests/conformance/emulate.h"

namespace mlc::conformance {

// A way from a model to its answer. All begin with import and expansion; a compiled one goes on through the passes,
// lowering, a target's emitter and audit, the plan, a container, the loader and the executor.
struct Path {
  std::string name;                          // "interpreter", or that of the target
  const targets::Target* target = nullptr;   // null: the Nest interpreter
  std::shared_ptr<Emulated> emulator;        // runs the containers; null: in process
  bool executes = false;                     // devices: the module's own instructions; else the kernels are interpreted
};

enum class Kind : uint8_t {
  Pass,
  Fail,
  Known,        // differs for a reason that known_differences.h gives
  Unsupported,  // refused, with a message that says what is missing
};
inline constexpr std::string_view kKindNames[] = {"pass", "FAIL", "known", "unsupported"};

// What the model had to be told about the inputs of the case to be expanded at all.
enum class Given : uint8_t {
  Nothing,
  Shapes,     // extents that the file leaves open
  Integers,   // shapes, and the values of inputs that hold sizes, axes or flags
  Vectors,    // the values of all small inputs of rank 0 and 1: scales, bounds
  Constants,  // and of those of any rank
};
inline constexpr size_t kGivens = 5;
inline constexpr std::string_view kGivenNames[kGivens] = {"", "with the shapes of its inputs", "with constant sizes", "with constant vectors", "with constant inputs"};

struct Outcome {
  std::string set, test, op, path;
  Kind kind = Kind::Pass;
  Given given = Given::Nothing;
  double seconds = 0;
  std::string reason;
};

}  // namespace mlc::conformance
