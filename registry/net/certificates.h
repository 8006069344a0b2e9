// Whom a server's certificate is checked with.
#pragma once

#include <string>

namespace mlc::registry {

// The file with the machine's certificate authorities, where it is not `built_in`: the path that libcurl was compiled with, which is that of the
// distribution it was built for. Empty: `built_in` is there, or no other is. `root` stands before every path ("" but in tests).
std::string other_certificate_file(const char* built_in, const std::string& root = {});

}  // namespace mlc::registry
