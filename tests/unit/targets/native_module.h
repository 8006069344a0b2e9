// Runs an emitted ELF module on this machine through the system's dynamic loader: tests of the emitter must not depend
// on the loader of the runtime.
#pragma once

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <span>
#include <string>

#include "schema/module_abi.h"
#include "targets/target.h"

namespace mlc::testing {

// The targets that tests of code take: of those that add a few instructions to another ("x86-64-v3+vnni") the plain one. The
// baseline of x86-64 has a test of its own.
inline bool is_plain(const targets::Target& target) { return target.base.empty() && target.name != "x86-64-v1"; }

class NativeModule {
 public:
  explicit NativeModule(std::span<const std::byte> bytes) {
    const int fd = memfd_create("module", 0);
    if (fd < 0 || write(fd, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) return;
    handle_ = dlopen(("/proc/self/fd/" + std::to_string(fd)).c_str(), RTLD_NOW | RTLD_LOCAL);
    close(fd);
    if (!handle_) return;
    auto query = reinterpret_cast<MlrunQuery>(dlsym(handle_, MLRUN_QUERY_SYMBOL));
    const MlrunHost host = {MLRUN_MODULE_ABI, sizeof(MlrunHost), 0, 0};
    if (query) module_ = query(MLRUN_MODULE_ABI, &host);
    old_refused_ = query && query(0, &host) == nullptr;
  }
  ~NativeModule() {
    if (handle_) dlclose(handle_);
  }
  NativeModule(const NativeModule&) = delete;

  const MlrunModule* get() const { return module_; }
  bool refuses_old_runtimes() const { return old_refused_; }

 private:
  void* handle_ = nullptr;
  const MlrunModule* module_ = nullptr;
  bool old_refused_ = false;
};

}  // namespace mlc::testing
