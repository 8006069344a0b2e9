#include "loaders/cuda/library.h"

#include <mutex>
#include <optional>

#include "base/system/shared_library.h"
#include "loaders/cuda/results.h"

namespace mlc::cuda {

Result<Library> Library::load(const char* name) {
  std::string why;
  void* const file = open_shared_library(name, &why);
  if (!file) return Status(Code::NotFound, "{}", why);
  Library out;
#define MLC_CUDA_FIND(field, symbol, parameters)                                  \
  out.field = reinterpret_cast<Code32(*) parameters>(find_symbol(file, #symbol)); \
  if (!out.field) return Status(Code::Unsupported, "{} has no {}: too old", name, #symbol);
  MLC_CUDA_FUNCTIONS(MLC_CUDA_FIND)
#undef MLC_CUDA_FIND
#define MLC_CUDA_FIND(field, symbol, parameters) out.field = reinterpret_cast<Code32(*) parameters>(find_symbol(file, #symbol));
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
  if (!made) made.emplace(load(library_name("libcuda.so.1", "nvcuda.dll")));
  if (!made->ok()) return made->status();
  return &**made;
}

}  // namespace mlc::cuda
