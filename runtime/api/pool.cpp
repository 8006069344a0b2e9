#include "runtime/api/handles.h"
#include "runtime/api/table.h"

namespace mlc::api::table {

int pool_create(const MlcPoolOptions*, MlcPool** out, MlcError** error) {
  if (!out) return fail(Status(Code::Usage, "pool_create: no place for the result"), error);
  *out = nullptr;
  return fail(Status(Code::Unsupported, "pool_create: not in this build"), error);
}

void pool_release(MlcPool*) {}

}  // namespace mlc::api::table
