// libs: mlc_lang
// Any bytes as a text of operators: a library, or a message that says where.
#include <cstdlib>
#include <string>

#include "packager/lang/lang.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto library = mlc::lang::Library::parse({{"fuzz.mlop", std::string(reinterpret_cast<const char*>(data), size)}});
  if (library.ok()) return 0;
  if (library.status().message.empty() || library.status().code == mlc::Code::Internal) std::abort();
  return 0;
}
