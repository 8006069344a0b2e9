#include "runtime/api/handles.h"
#include "runtime/api/table.h"

namespace mlc::api::table {

int run_async(MlcSession*, const MlcRunOptions*, const MlcTensor*, uint32_t, MlcTensor*, uint32_t, MlcDone, void*,
              MlcError** error) {
  return fail(Status(Code::Unsupported, "run_async: not in this build"), error);
}

}  // namespace mlc::api::table
