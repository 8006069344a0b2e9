#include "bench/kernels/module.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace mlc::bench {

Result<std::unique_ptr<Loaded>> Loaded::compile(const targets::Target& target,
                                                const std::vector<loop::Kernel>& kernels) {
  MLC_ASSIGN(targets::Module module, targets::emit_module(target, kernels));
  char path[] = "/tmp/bench_kernels_XXXXXX";
  int fd = mkstemp(path);
  if (fd < 0 || write(fd, module.bytes.data(), module.bytes.size()) != static_cast<ssize_t>(module.bytes.size()))
    return Status(Code::Resource, "cannot write a temporary file");
  close(fd);
  auto r = std::make_unique<Loaded>();
  r->code_bytes = module.bytes.size();
  r->handle_ = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (const char* keep = std::getenv("BENCH_KEEP")) {
    static int count = 0;  // for a disassembler: ceiling, then kernel and reference in turn
    std::rename(path, (keep + std::to_string(count++)).c_str());
  } else {
    unlink(path);
  }
  if (!r->handle_) return Status(Code::Internal, std::string("dlopen: ") + dlerror());
  auto query = reinterpret_cast<MlrunQuery>(dlsym(r->handle_, MLRUN_QUERY_SYMBOL));
  MlrunHost host{MLRUN_MODULE_ABI, sizeof(MlrunHost), target.vector_bytes, 0};
  r->module_ = query ? query(MLRUN_MODULE_ABI, &host) : nullptr;
  if (!r->module_) return Status(Code::Internal, "no module");
  return r;
}

Loaded::~Loaded() {
  if (handle_) dlclose(handle_);
}

Buffer::Buffer(size_t floats, bool random) : bytes(floats * 4) {
  data = static_cast<float*>(std::aligned_alloc(4096, (bytes + 8191) / 4096 * 4096));
  uint32_t state = 1234567;
  for (size_t k = 0; k < floats + 16; ++k) {
    state = state * 1664525 + 1013904223;
    data[k] = random ? static_cast<float>(static_cast<int32_t>(state)) * 0x1p-31f : 0.0f;
  }
}
Buffer::~Buffer() { std::free(data); }

}  // namespace mlc::bench
