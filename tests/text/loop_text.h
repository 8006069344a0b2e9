// Reads the text form of kernels (packager/loop/print.h): print(parse(print(k))) == print(k).
#pragma once

#include <string_view>
#include <vector>

#include "base/status.h"
#include "packager/ir/context.h"
#include "packager/loop/loop.h"

namespace mlc::loop {

// Kernels one after the other. Symbols are declared in `ctx` by name. Malformed text is a Status naming the line.
Result<std::vector<Kernel>> parse(ir::Context& ctx, std::string_view text);

}  // namespace mlc::loop
