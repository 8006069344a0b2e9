// What became of one case on one path, and the paths that there are.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "targets/target.h"
#include "tests/conformance/run/emulate.h"

namespace mlc::conformance {

// How kernels of a device run.
enum class Way : uint8_t {
  Interpreted,  // as Loop, without a device
  Executed,     // the module's own instructions, by executors
  OnDevice,     // by the driver of a device of this machine
};

// A way from a model to its answer. All begin with import and expansion; a compiled one goes on through the passes,
// lowering, a target's emitter and audit, the plan, a container, the loader and the executor.
struct Path {
  std::string name;                          // "interpreter", or that of the target
  const targets::Target* target = nullptr;   // null: the Nest interpreter
  std::shared_ptr<Emulated> emulator;        // runs the containers; null: in process
  Way way = Way::Interpreted;                // devices only
  uint32_t subgroup = 8;                     // lanes of one, where executors have subgroups
};

enum class Kind : uint8_t {
  Pass,
  Fail,
  Known,        // differs for a reason that known_differences.h gives
  Unsupported,  // refused, with a message that says what is missing
  Host,         // passes, but no kernel of the device has a part in it
};
inline constexpr size_t kKinds = 5;
inline constexpr std::string_view kKindNames[kKinds] = {"pass", "FAIL", "known", "unsupported", "host"};

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
