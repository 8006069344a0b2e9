#include "loaders/cuda/library.h"

#include <dlfcn.h>

#include <mutex>
#include <optional>

#include "loaders/cuda/results.h"

namespace mlc::cuda {

Result<Library> Library::load(const char* name) {
  // Stays open: drivers start threads and keep functions of their own.
  void* const file = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!file) return Status(Code::NotFound, "{} not found", name);
  Library out;
#define MLC_CUDA_FIND(field, symbol, parameters)                                  \
  out.field = reinterpret_cast<Code32(*) parameters>(::dlsym(file, #symbol)); \
  if (!out.field) return Status(Code::Unsupported, "{} has no {}: too old", name, #symbol);
  MLC_CUDA_FUNCTIONS(MLC_CUDA_FIND)
#undef MLC_CUDA_FIND
#define MLC_CUDA_FIND(field, symbol, parameters) out.field = reinterpret_cast<Code32(*) parameters>(::dlsym(file, #symbol));
  MLC_CUDA_OPTIONAL_FUNCTIONS(MLC_CUDA_FIND)
#undef MLC_CUDA_FIND
  MLC_RETURN_IF_ERROR(status_of(out.Init(0), "cuInit"));
  MLC_RETURN_IF_ERROR(status_of(out.DriverGetVersion(&out.version), "cuDriverGetVersion"));
  return out;
}

Result<const Library*> Library::open() {
  static std::mutex mu;
  static std::optional<Result<Library>>& made = *new std::optional<Result<Library>>();  // used by threads that end after statics do
  const std::lock_guard lock(mu);
  if (!made) made.emplace(load("libcuda.so.1"));
  if (!made->ok()) return made->status();
  return &**made;
}

}  // namespace mlc::cuda
