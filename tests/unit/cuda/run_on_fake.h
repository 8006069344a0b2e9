// The loader of CUDA on the libcuda of the tests: a context, a kernel, and a run of it.
#pragma once

#include <dlfcn.h>
#include <doctest/doctest.h>

#include <memory>
#include <numeric>
#include <string>

#include "loaders/cuda/module.h"
#include "loaders/cuda/queue.h"
#include "loaders/cuda/recorder.h"
#include "schema/module_abi.h"
#include "targets/families.h"
#include "tests/unit/ptx/device_kernels.h"

namespace mlc::testing {

using cuda::Library;

// The loader looks for libcuda.so.1 as it always does, and finds this one, which is loaded already.
struct Fake {
  void* file = ::dlopen(MLC_FAKE_CUDA, RTLD_NOW | RTLD_GLOBAL);
  void reset(const char* script) const { reinterpret_cast<void (*)(const char*)>(::dlsym(file, "mlc_fake_cuda_reset"))(script); }
  std::string error() const { return reinterpret_cast<const char* (*)()>(::dlsym(file, "mlc_fake_cuda_error"))(); }
  uint64_t allocated() const { return reinterpret_cast<uint64_t (*)()>(::dlsym(file, "mlc_fake_cuda_allocated"))(); }
  int64_t graph_launches() const { return reinterpret_cast<int64_t (*)()>(::dlsym(file, "mlc_fake_cuda_graph_launches"))(); }
  int64_t loaded() const { return reinterpret_cast<int64_t (*)()>(::dlsym(file, "mlc_fake_cuda_loaded"))(); }
  uint64_t graphs() const { return reinterpret_cast<uint64_t (*)()>(::dlsym(file, "mlc_fake_cuda_graphs"))(); }
};
inline const Fake& fake() {
  static const Fake f;
  return f;
}

// `other`: in place of the library that was found; it outlives the context.
inline std::unique_ptr<cuda::Context> open(const char* script = "", const Library* other = nullptr) {
  fake().reset("");
  auto library = Library::open();
  if (!library.ok()) FAIL(library.status().text());
  fake().reset(script);
  auto found = cuda::physical_devices(**library);
  if (!found.ok()) FAIL(found.status().text());
  auto context = cuda::Context::open(other ? *other : **library, (*found)[0]);
  if (!context.ok()) FAIL(context.status().text());
  return std::move(*context);
}

// out[i] = in[i] + n for i below 96, in blocks of 32 lanes; a lane whose in[i] is above 1000 faults.
inline gpu::Module add_module(std::string_view target_name = "cuda-sm75") {
  static ir::Sym n;
  n.name = "n";
  Pool p;
  std::vector<loop::Kernel> kernels;
  kernels.push_back(kernel(p, "add", {{DType::I64, false}, {DType::I64, true}}));
  loop::Kernel& k = kernels[0];
  k.scalars = {&n};
  k.lanes = 32;
  const Expr *t = p.var(), *l = p.var();
  const Expr* at = p.add(p.mul(t, p.integer(32)), l);
  const Expr* in = p.load(0, {DType::I64, 1}, at);
  auto body = seq(fault(p.make(Op::Lt, {DType::Bool, 1}, {p.integer(1000), in}), MLRUN_FAULT_INDEX), store_(1, at, p.add(in, p.sym(&n))));
  k.body.push_back(for_(t, k.tile_begin, k.tile_end, 1, seq(for_(l, p.integer(0), p.integer(32), 1, std::move(body), loop::ForKind::Lanes))));
  const auto module = targets::emit_module(*targets::find_target(target_name), kernels);
  if (!module.ok()) FAIL(module.status().text());
  auto decoded = gpu::decode(module->bytes);
  REQUIRE(decoded.ok());
  return std::move(*decoded);
}

// Memory, a module and a queue for one run of `add`: upload, launch, download.
struct Run {
  explicit Run(cuda::Context& c, gpu::Module m = add_module()) : context(c) {
    const auto take = [](auto&& result) {
      if (!result.ok()) FAIL(result.status().text());
      return std::move(*result);
    };
    module = take(cuda::CudaModule::load(c, std::move(m)));
    queue = take(cuda::CudaQueue::make(c));
    staging = take(cuda::CudaMemory::allocate(c, 768, device::MemoryKind::Staging));
    readback = take(cuda::CudaMemory::allocate(c, 768, device::MemoryKind::Readback));
    local = take(cuda::CudaMemory::allocate(c, 2048, device::MemoryKind::Local));
    auto* in = reinterpret_cast<int64_t*>(staging->data());
    std::iota(in, in + 96, 1);
  }
  Status record(uint32_t tiles, int64_t n, uint64_t out_offset = 1024) {
    cuda::CudaRecorder recorder(context);
    const device::Range in{local.get(), 0, 768}, out{local.get(), out_offset, 768};
    recorder.copy(in, {staging.get(), 0, 768});
    recorder.copy({local.get(), 1024, 768}, {staging.get(), 0, 768});
    recorder.clear({local.get(), 1024, 768});
    recorder.barrier();
    const device::Range buffers[] = {in, out};
    MLC_RETURN_IF_ERROR(recorder.launch(*module, {0, tiles, 3, buffers, std::span(&n, 1)}));
    recorder.barrier();
    recorder.copy({readback.get(), 0, 768}, {local.get(), 1024, 768});
    MLC_ASSIGN(recording, recorder.finish());
    return ok();
  }
  Result<bool> run() {
    MLC_RETURN_IF_ERROR(queue->submit(*recording));
    return queue->wait(1'000'000'000);
  }
  int64_t out(size_t k) const { return reinterpret_cast<const int64_t*>(readback->data())[k]; }

  cuda::Context& context;
  std::unique_ptr<cuda::CudaModule> module;
  std::unique_ptr<cuda::CudaQueue> queue;
  std::unique_ptr<cuda::CudaMemory> staging, readback, local;
  std::unique_ptr<device::Recording> recording;
};

}  // namespace mlc::testing
