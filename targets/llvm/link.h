// Objects to one ELF module of the subset that loaders take. lld runs in this process, one link at a time.
#pragma once

#include <cstddef>
#include <vector>

#include "targets/target.h"

namespace mlc::targets {

// Whether there is a folder for the files that lld works on.
Status can_link();

// Resource if what LLVM says of files tells that memory, disk or a limit is used up, else OK.
Status lack(const std::string& errors);

Result<std::vector<std::byte>> link_module(const Target& target, const std::vector<std::vector<char>>& objects);

}  // namespace mlc::targets
