// The C API with owners: handles that release themselves, errors as Status.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "runtime/api/mlc.h"
#include "runtime/api/sized.h"
#include "runtime/mlio/runner.h"

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

// Takes the error and releases it.
inline Status status_of(int code, MlcError*& error) { return mlio::status_of(api(), code, error); }

}  // namespace mlc::cli
