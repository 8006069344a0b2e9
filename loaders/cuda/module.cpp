#include "loaders/cuda/module.h"

#include <algorithm>
#include <string>
#include <utility>

#include "loaders/cuda/results.h"
#include "loaders/cuda/text.h"
#include "runtime/device_api.h"
#include "schema/cubin.h"
#include "schema/format.h"

namespace mlc::cuda {

Result<std::unique_ptr<CudaModule>> CudaModule::load(Context& context, gpu::Module module) {
  if (module.format != static_cast<uint8_t>(format::ModuleFormat::Ptx)) return Status(Code::Malformed, "a module of format {}, expected PTX", module.format);
  std::unique_ptr<CudaModule> out(new CudaModule(context, std::move(module)));
  const gpu::Module& m = out->module_;
  for (const gpu::Entry& e : m.entries)
    if (Status s = out->check_entry(e); !s.ok()) return std::move(s).note("kernel '{}'", e.name);
  std::vector<const gpu::Entry*> entries;
  for (size_t i = 0; i < m.images.size(); ++i) {
    const gpu::Image& image = m.images[i];
    if (image.kind == gpu::ImageKind::Ptx) {
      entries.clear();  // cubins behind it have the same
      for (const gpu::Entry& e : m.entries)
        if (e.image == i) entries.push_back(&e);
    }
    Status s = image.kind == gpu::ImageKind::Ptx ? check_text(image.bytes, entries, context.physical().capability) : gpu::check_cubin(image.bytes, image.architecture, entries);
    if (!s.ok()) return std::move(s).note("image {}", i);
  }
  out->images_.resize(m.images.size());
  out->functions_.resize(m.entries.size());
  return out;
}

CudaModule::~CudaModule() {
  const Current current(context_);
  if (!current.status().ok()) return;
  for (Handle image : images_)
    if (image) (void)context_.check(context_.call().ModuleUnload(image), "cuModuleUnload");
}

Status CudaModule::check_entry(const gpu::Entry& e) const {
  const Physical& p = context_.physical();
  const auto beyond = [&](const char* what, uint64_t wants, uint64_t most) {
    return Status(Code::Unsupported, "{} {}, {} has at most {}", wants, what, p.info.title, most);
  };
  if (e.lanes[1] != 1 || e.lanes[2] != 1) return Status(Code::Malformed, "blocks of {} x {} x {} lanes", e.lanes[0], e.lanes[1], e.lanes[2]);
  if (e.lanes[0] > p.lanes) return beyond("lanes", e.lanes[0], p.lanes);
  if (e.shared_bytes > p.shared_bytes) return beyond("bytes of shared memory", e.shared_bytes, p.shared_bytes);
  const uint64_t shared = uint64_t{e.shared_bytes} + e.dynamic_shared_bytes;
  if (shared > std::max(p.shared_bytes, p.shared_optin_bytes)) return beyond("bytes of shared memory", shared, std::max(p.shared_bytes, p.shared_optin_bytes));
  return ok();
}

Status CudaModule::accepts(uint32_t kernel, const LaunchForm& form) const {
  return device::check_form(module_.entries[kernel], form);
}

Result<Kernel> CudaModule::kernel(uint32_t number) const {
  const gpu::Entry& e = module_.entries[number];
  const std::lock_guard lock(mu_);
  if (!functions_[number]) {
    const Current current(context_);
    MLC_RETURN_IF_ERROR(current.status());
    if (!images_[e.image])
      if (Status s = load_image(e.image, images_[e.image]); !s.ok()) return std::move(s).note("kernel '{}'", e.name);
    if (Status s = find_function(e, images_[e.image], functions_[number]); !s.ok()) return std::move(s).note("kernel '{}'", e.name);
  }
  return Kernel{&e, functions_[number]};
}

// Cubins of the text stand behind it; one runs on devices of its generation that are not older. One that the driver refuses, as old ones do
// with those of a new assembler, is passed over and remarked: the text is the same code.
Status CudaModule::load_image(uint32_t number, Handle& out) const {
  const Library& call = context_.call();
  const auto give = [&](const gpu::Image& image, char* log, uint32_t log_bytes) {
    int32_t options[] = {kJitErrorLogBuffer, kJitErrorLogBufferBytes};
    void* values[] = {log, reinterpret_cast<void*>(uintptr_t{log_bytes})};
    return call.ModuleLoadDataEx(&out, image.bytes.data(), 2, options, values);
  };
  char log[512] = {};
  const gpu::Image* best = nullptr;
  const uint32_t capability = context_.physical().capability;
  for (size_t i = number + 1; i < module_.images.size() && module_.images[i].kind == gpu::ImageKind::Cubin; ++i) {
    const gpu::Image& cubin = module_.images[i];
    const bool runs = cubin.architecture / 10 == capability / 10 && cubin.architecture <= capability;
    if (runs && (!best || cubin.architecture > best->architecture)) best = &cubin;
  }
  if (best) {
    const Code32 code = give(*best, log, sizeof log - 1);
    if (code == kSuccess && out) return ok();
    if (is_sticky(code)) return context_.check(code, "cuModuleLoadDataEx");
    context_.remark("the driver compiles the text of kernels, since it does not take their cubins for sm_" + std::to_string(best->architecture) + ": " +
                    std::string(name_of_code(code)) + " (" + std::to_string(code) + ")");
    out = nullptr;
  }
  std::fill(std::begin(log), std::end(log), '\0');
  const Code32 code = give(module_.images[number], log, sizeof log - 1);
  if (code != kSuccess) {
    out = nullptr;
    Status s = context_.check(code, "cuModuleLoadDataEx");
    return log[0] ? std::move(s).fact("the driver's assembler: {}", std::string(log)) : std::move(s);
  }
  return out ? ok() : Status(Code::Unsupported, "cuModuleLoadDataEx gave no module");
}

Status CudaModule::find_function(const gpu::Entry& e, Handle image, Handle& out) const {
  const Library& call = context_.call();
  Handle found = nullptr;
  MLC_RETURN_IF_ERROR(context_.check(call.ModuleGetFunction(&found, image, e.name.c_str()), "cuModuleGetFunction"));
  if (!found) return Status(Code::Unsupported, "cuModuleGetFunction gave no function");
  if (e.dynamic_shared_bytes > 0)
    MLC_RETURN_IF_ERROR(context_.check(call.FuncSetAttribute(found, kFunctionMaxDynamicShared, static_cast<int32_t>(e.dynamic_shared_bytes)), "cuFuncSetAttribute"));
  out = found;
  return ok();
}

}  // namespace mlc::cuda
