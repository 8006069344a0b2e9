#include "loaders/cuda/context.h"

#include <utility>

#include "loaders/cuda/results.h"

namespace mlc::cuda {

Result<std::unique_ptr<Context>> Context::open(const Library& library, Physical physical) {
  std::unique_ptr<Context> out(new Context(library, std::move(physical)));
  MLC_RETURN_IF_ERROR(status_of(library.DevicePrimaryCtxRetain(&out->handle_, out->physical_.number), "cuDevicePrimaryCtxRetain"));
  if (!out->handle_) return Status(Code::Unsupported, "cuDevicePrimaryCtxRetain gave no context");
  return out;
}

Context::~Context() {
  if (handle_) call_.DevicePrimaryCtxRelease(physical_.number);
}

Status Context::check(Code32 code, const char* call) {
  if (code == kSuccess) return ok();
  Status s = status_of(code, call);
  if (is_sticky(code)) give_up(s.message);
  return s;
}

Status Context::settle() {
  const Current current(*this);
  MLC_RETURN_IF_ERROR(current.status());
  return check(call_.StreamSynchronize(nullptr), "cuStreamSynchronize");
}

Current::Current(Context& context) : context_(context), status_(context.alive()) {
  if (status_.ok()) status_ = context_.check(context_.call_.CtxPushCurrent(context_.handle_), "cuCtxPushCurrent");
}

Current::~Current() {
  Handle popped = nullptr;
  if (status_.ok()) context_.call_.CtxPopCurrent(&popped);
}

}  // namespace mlc::cuda
