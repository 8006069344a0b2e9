// Reads the text form of Nest functions (packager/nest/text/print.h).
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "base/status.h"
#include "packager/nest/nest.h"

namespace mlc::nest {

// Constants above 256 bytes are printed as size and hash; `data_of` finds them again (null: they stay without data).
using DataByHash = std::function<std::shared_ptr<const ConstData>(std::string_view hash, uint64_t bytes)>;
Result<Function> parse(ir::Context& ctx, std::string_view text, const DataByHash& data_of = {});

}  // namespace mlc::nest
