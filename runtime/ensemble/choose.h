// What several devices do with the requests of a program.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/ensemble/mapper.h"
#include "runtime/ensemble/rows.h"

namespace mlc::ensemble {

enum class Objective : uint8_t { Latency, Memory, Throughput };
std::optional<Objective> objective_named(std::string_view name);  // "latency", ...

enum class Mode : uint8_t {
  OneDevice,
  Path,       // segments one after the other, each stage on the part where it costs least
  Rows,       // one request, its rows divided among parts that have the whole program
  Replicate,  // the whole program on several parts, a request to the one that is expected to be done with it first
  Pipeline,   // stages on parts of their own, a request in each
};
std::string_view name_of(Mode mode);

struct Choice {
  Mode mode = Mode::OneDevice;
  Assignment assignment;      // OneDevice, Path, Pipeline
  std::vector<double> alone;  // Replicate, Rows: of a request on each part; kImpossible: it takes none
  std::vector<RowCost> rows;  // Rows: of each part
  std::string why;
};

// Latency: the quickest way for one request, but one part alone where several gain less than a tenth. Memory: on as few parts as hold
// it, devices before the processor. Throughput: the most requests in a second of many that come at once: whole programs on all parts
// that hold them, but stages where they gain a tenth or no part holds it. None: nothing fits.
std::optional<Choice> choose(const Problem& problem, Objective objective);

}  // namespace mlc::ensemble
