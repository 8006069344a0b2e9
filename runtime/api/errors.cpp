#include <new>
#include <utility>

#include "runtime/api/handles.h"
#include "runtime/api/table.h"

namespace mlc::api {

int fail(Status status, MlcError** error) {
  const int code = static_cast<int>(status.code);
  if (error) {
    *error = new (std::nothrow) MlcError{std::move(status), {}};
    if (*error) (*error)->text = (*error)->status.text();
  }
  return code;
}

namespace table {

int error_code(const MlcError* e) { return e ? static_cast<int>(e->status.code) : MLC_OK; }
const char* error_text(const MlcError* e) { return e ? e->text.c_str() : ""; }
const char* error_message(const MlcError* e) { return e ? e->status.message.c_str() : ""; }
int error_number(const MlcError* e) { return e ? e->status.number : 0; }
const char* error_fact(const MlcError* e, uint32_t index) {
  return e && index < e->status.facts.size() ? e->status.facts[index].c_str() : nullptr;
}
const char* error_help(const MlcError* e) { return e ? e->status.help.c_str() : ""; }
void error_release(MlcError* e) { delete e; }

}  // namespace table
}  // namespace mlc::api
