// Faults as a pass or a lowering with a bug would make them, planted in kernels that are right.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "packager/ir/context.h"
#include "packager/loop/loop.h"

namespace mlc::random_graphs {

class Sites;

struct Fault {
  std::string_view name, what;
  void (*plant)(ir::Context& ctx, loop::Kernel& kernel, Sites& sites);
};
std::span<const Fault> all_faults();

// Where a fault can be planted in these kernels (texts of loop::to_string), each place alone.
Result<size_t> places_of(const Fault& fault, std::span<const std::string> kernels);

// The kernels with the fault in one of its places. Fails where a text is no kernel or there is no such place.
Result<std::vector<std::string>> planted(const Fault& fault, std::span<const std::string> kernels, size_t place);

}  // namespace mlc::random_graphs
