#include "bench/gpu/failures.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include <nlohmann/json.hpp>

#include "bench/gpu/kernels.h"
#include "schema/gpu_module.h"

namespace mlc::bench {
namespace {

using nlohmann::ordered_json;

// The device still does what it is told.
Status works(Bed& bed) {
  MLC_ASSIGN(const device::Range touched, bed.allocate(kLanes * 4, device::MemoryKind::Local));
  MLC_ASSIGN(const device::Range seen, bed.allocate(kLanes * 4, device::MemoryKind::Readback));
  MLC_ASSIGN(const auto recording, bed.record([&](device::Recorder& r) {
    MLC_RETURN_IF_ERROR(bed.launch(r, kTouch, 1, {touched}));
    r.barrier();
    return r.copy(seen, touched), ok();
  }));
  MLC_ASSIGN([[maybe_unused]] const double ns, bed.run(*recording));
  float last = 0;
  std::memcpy(&last, seen.memory->data() + (kLanes - 1) * 4, 4);
  return last == 1 ? ok() : Status(Code::Internal, "a kernel did not write what it writes");
}

// A module whose images `change` has damaged: who refuses it, and how.
template <class Change>
Status refused(Bed& bed, const char* what, Change&& change, ordered_json& out) {
  MLC_ASSIGN(gpu::Module module, gpu::decode(bed.module_bytes()));
  for (gpu::Image& image : module.images) change(image);
  const auto loaded = bed.load(gpu::encode(module));
  Status answer = loaded.ok() ? ok() : loaded.status();
  if (loaded.ok()) {  // by the driver then, when a kernel is first needed
    MLC_ASSIGN(auto recorder, bed.device().make_recorder());
    MLC_ASSIGN(const device::Range touched, bed.allocate(kLanes * 4, device::MemoryKind::Local));
    answer = recorder->launch(**loaded, {kTouch, 1, 0, std::span(&touched, 1), {}});
  }
  if (answer.ok()) return Status(Code::Internal, "{}: taken", what);
  out["answers"][what] = answer.message;
  return works(bed);
}

Status wrong_images(Bed& bed, ordered_json& out) {
  MLC_RETURN_IF_ERROR(refused(bed, "no image at all", [](gpu::Image& i) { std::fill(i.bytes.begin(), i.bytes.end() - 1, std::byte{' '}); }, out));
  if (bed.info().api != "cuda") return ok();  // drivers of Vulkan are not given words that were not verified
  const auto replace = [](gpu::Image& i, std::string_view old, std::string_view by) {
    std::string text(reinterpret_cast<const char*>(i.bytes.data()), i.bytes.size());
    if (const size_t at = text.find(old); at != text.npos) text.replace(at, old.size(), by);
    const auto bytes = std::as_bytes(std::span(text));
    i.bytes.assign(bytes.begin(), bytes.end());
  };
  MLC_RETURN_IF_ERROR(refused(bed, "for a later architecture", [&](gpu::Image& i) { replace(i, ".target sm_", ".target sm_9"); }, out));
  return refused(bed, "an instruction that is none", [&](gpu::Image& i) { replace(i, "\nret;", "\nbogus.u32;\nret;"); }, out);
}

Status memory_short(Bed& bed, ordered_json& out) {
  if (bed.info().is_software) return out["skipped"] = "the memory of a software device is the host's", ok();
  const auto whole = bed.device().allocate(bed.info().memory_bytes + 1, device::MemoryKind::Local);
  if (whole.ok()) return Status(Code::Internal, "more memory than there is");
  out["answers"]["more than there is"] = whole.status().message;
  // Until the driver says no, in pieces; all of it is given back.
  {
    std::vector<std::unique_ptr<device::Memory>> taken;
    const uint64_t piece = std::max<uint64_t>(bed.info().memory_bytes / 16, 1);
    for (int k = 0; k < 17; ++k) {
      auto more = bed.device().allocate(piece, device::MemoryKind::Local);
      if (more.ok()) {
        taken.push_back(std::move(*more));
        continue;
      }
      if (more.status().code != Code::Resource) return std::move(more).status().note("expected a lack of resources");
      out["answers"]["piece " + std::to_string(k) + " of 16"] = more.status().message;
      break;
    }
    if (taken.size() > 16) return Status(Code::Internal, "17 sixteenths of the memory");
  }
  return works(bed);
}

Status lost(Bed& bed, ordered_json& out) {
  if (bed.info().api != "cuda") return out["skipped"] = "buffers are bounded there: no access of a kernel loses a device of Vulkan", ok();
  MLC_ASSIGN(const device::Range small, bed.allocate(kLanes * 4, device::MemoryKind::Local));
  MLC_ASSIGN(const auto recording, bed.record([&](device::Recorder& r) { return bed.launch(r, kStray, 2, {small}); }));
  const auto ran = bed.run(*recording);
  if (ran.ok()) return Status(Code::Internal, "a store a terabyte behind its buffer was taken");
  out["answers"]["store out of range"] = ran.status().message;
  const auto after = bed.device().allocate(16, device::MemoryKind::Local);
  if (after.ok() || after.status().code != Code::Resource) return Status(Code::Internal, "the device answers as if nothing had happened");
  out["answers"]["every call behind it"] = after.status().message;
  return ok();
}

}  // namespace

Status fail_on_purpose(Bed& bed, const std::string& kind, ordered_json& out) {
  MLC_RETURN_IF_ERROR(works(bed));
  if (kind == "image") return wrong_images(bed, out);
  if (kind == "memory") return memory_short(bed, out);
  if (kind == "lost") return lost(bed, out);
  return Status(Code::Usage, "--fail {}: expected image, memory or lost", kind);
}

}  // namespace mlc::bench
