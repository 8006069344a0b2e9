#include <memory>
#include <utility>

#include "runtime/api/session/handles.h"
#include "runtime/api/table.h"

namespace mlc::api {

namespace {

// Of no call alone: it is never released.
MlcError kept_error{no_memory(), {}};
constexpr const char* kKeptText = "error: no memory";

}  // namespace

int fail(Status status, MlcError** error) {
  const int code = static_cast<int>(status.code);
  if (!error) return code;
  auto made = std::make_unique<MlcError>(MlcError{std::move(status), {}});
  made->text = made->status.text();
  *error = made.release();
  return code;
}

int fail_without_memory(MlcError** error) {
  if (error) *error = &kept_error;
  return MLC_RESOURCE;
}

namespace table {

int error_code(const MlcError* e) { return e ? static_cast<int>(e->status.code) : MLC_OK; }
const char* error_text(const MlcError* e) { return e == &kept_error ? kKeptText : e ? e->text.c_str() : ""; }
const char* error_message(const MlcError* e) { return e ? e->status.message.c_str() : ""; }
int error_number(const MlcError* e) { return e ? e->status.number : 0; }
const char* error_fact(const MlcError* e, uint32_t index) {
  return e && index < e->status.facts.size() ? e->status.facts[index].c_str() : nullptr;
}
const char* error_help(const MlcError* e) { return e ? e->status.help.c_str() : ""; }
void error_release(MlcError* e) {
  if (e != &kept_error) delete e;
}

}  // namespace table
}  // namespace mlc::api
