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

Status Context::alive() const {
  const std::lock_guard lock(mu_);
  if (lost_.empty()) return ok();
  return Status(Code::Resource, "the device is lost to this process: {}", lost_).fact("device: {}", physical_.info.title);
}

void Context::give_up(std::string why) {
  const std::lock_guard lock(mu_);
  if (lost_.empty()) lost_ = std::move(why);
}

bool Context::is_lost() const {
  const std::lock_guard lock(mu_);
  return !lost_.empty();
}

Status Context::reserve(uint64_t bytes) {
  MLC_RETURN_IF_ERROR(alive());
  const std::lock_guard lock(mu_);
  if (held_bytes_ > physical_.info.memory_bytes || bytes > physical_.info.memory_bytes - held_bytes_)
    return Status(Code::Resource, "{} bytes on {}, which has {} and of these {} in use", bytes, physical_.info.title, physical_.info.memory_bytes, held_bytes_);
  held_bytes_ += bytes;
  return ok();
}

void Context::release(uint64_t bytes) {
  const std::lock_guard lock(mu_);
  held_bytes_ -= bytes;
}

Current::Current(Context& context) : context_(context), status_(context.alive()) {
  if (status_.ok()) status_ = context_.check(context_.call_.CtxPushCurrent(context_.handle_), "cuCtxPushCurrent");
}

Current::~Current() {
  Handle popped = nullptr;
  if (status_.ok()) context_.call_.CtxPopCurrent(&popped);
}

}  // namespace mlc::cuda
