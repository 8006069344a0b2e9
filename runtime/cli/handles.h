// The C API with owners: handles that release themselves, errors as Status.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "runtime/api/mlc.h"
#include "runtime/api/sized.h"

namespace mlc::cli {

inline const MlcApi& api() {
  static const MlcApi* const table = mlc_get_api(MLC_API_VERSION);
  return *table;  // linked statically: never older than its header
}

struct FileRelease {
  void operator()(MlcFile* f) const { api().file_release(f); }
};
struct ModelRelease {
  void operator()(MlcModel* m) const { api().model_release(m); }
};
struct SessionRelease {
  void operator()(MlcSession* s) const { api().session_release(s); }
};
using FileHandle = std::unique_ptr<MlcFile, FileRelease>;
using ModelHandle = std::unique_ptr<MlcModel, ModelRelease>;
using SessionHandle = std::unique_ptr<MlcSession, SessionRelease>;

// Takes the error and releases it. By reference, because the call that sets it stands in the argument before.
inline Status status_of(int code, MlcError*& error) {
  if (code == MLC_OK) return ok();
  Status s(static_cast<Code>(code), static_cast<uint16_t>(api().error_number(error)), api().error_message(error));
  for (uint32_t i = 0; const char* fact = api().error_fact(error, i); ++i) s.facts.emplace_back(fact);
  s.help = api().error_help(error);
  api().error_release(error);
  error = nullptr;
  return s;
}

}  // namespace mlc::cli
