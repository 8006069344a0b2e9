// The library's C API with owners, for commands that run what was built: handles that release themselves, errors as Status.
#pragma once

#include <memory>

#include "base/status.h"
#include "runtime/api/mlc.h"
#include "runtime/api/sized.h"

namespace mlc::cli {

inline const MlcApi& api() {
  static const MlcApi* const table = mlc_get_api(MLC_API_VERSION);
  return *table;  // linked statically: never older than its header
}

struct Release {
  void operator()(MlcModel* m) const { api().model_release(m); }
  void operator()(MlcSession* s) const { api().session_release(s); }
};
using ModelHandle = std::unique_ptr<MlcModel, Release>;
using SessionHandle = std::unique_ptr<MlcSession, Release>;

// Takes the error and releases it.
inline Status status_of(int code, MlcError* error) {
  Status s(static_cast<Code>(code), static_cast<uint16_t>(api().error_number(error)), api().error_message(error));
  for (uint32_t k = 0; const char* fact = api().error_fact(error, k); ++k) s.facts.emplace_back(fact);
  s.help = api().error_help(error);
  api().error_release(error);
  return s;
}

}  // namespace mlc::cli
