#include "runtime/api/handles.h"
#include "runtime/api/table.h"

namespace mlc::api::table {

int state_reset(MlcSession* s, MlcError** error) {
  if (!s) return fail(Status(Code::Usage, "state_reset: no session"), error);
  s->session->executor().reset_states();
  return MLC_OK;
}

int state_save(MlcSession*, MlcBytes*, MlcError** error) {
  return fail(Status(Code::Unsupported, "state_save: not in this build"), error);
}

int state_restore(MlcSession*, const void*, uint64_t, MlcError** error) {
  return fail(Status(Code::Unsupported, "state_restore: not in this build"), error);
}

}  // namespace mlc::api::table
