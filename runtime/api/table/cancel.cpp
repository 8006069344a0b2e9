#include "runtime/api/session/handles.h"
#include "runtime/api/table.h"

namespace mlc::api::table {

int cancel_create(MlcCancel** out, MlcError** error) {
  if (!out) return fail(Status(Code::Usage, "cancel_create: no place for the result"), error);
  *out = new MlcCancel;
  return MLC_OK;
}

void cancel(MlcCancel* token) {
  if (token) token->cancelled.set();
}

void cancel_release(MlcCancel* token) {
  if (token) token->release();
}

}  // namespace mlc::api::table
