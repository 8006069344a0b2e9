#include "bench/gpu/bed.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>

#include "base/files/regular_file.h"
#include "base/system/clock.h"
#include "bench/gpu/kernels.h"
#include "loaders/cuda/cuda_devices.h"
#include "loaders/vulkan/vulkan_devices.h"
#include "runtime/match/matcher.h"
#include "runtime/probe/probe.h"
#include "tests/support/verified_for_test.h"

namespace mlc::bench {
namespace {

constexpr uint64_t kDeadline = 60'000'000'000;
constexpr uint64_t kMostModule = 16 << 20;

int64_t fact(const device::Info& info, Feature feature) {
  for (const device::Fact& f : info.facts)
    if (f.feature == feature) return f.number;
  return 0;
}

std::string target_for(const device::Info& info) {
  if (info.api == "vulkan") return "vulkan-base";
  const int64_t cc = fact(info, Feature::CudaCc);
  return cc >= 90 ? "cuda-sm90" : cc >= 80 ? "cuda-sm80" : "cuda-sm75";
}

// The loader's key, as the matcher gives it for a variant without demands.
Result<Compatible> token(const device::Info& info) {
  std::vector<format::Variant> variants(1);
  variants[0].name = "ceilings";
  variants[0].module_format = info.api == "cuda" ? format::ModuleFormat::Ptx : format::ModuleFormat::Spirv;
  const NamedDevice named{"gpu0", info};
  MatchPolicy policy;
  policy.devices = {&named, 1};
  return Matcher(probe::host(), variants, policy).admit(0);
}

}  // namespace

Result<std::unique_ptr<Bed>> Bed::open(const std::string& api, const std::string& modules) {
  const bool by_cuda = api == "cuda";
  MLC_ASSIGN(const std::vector<device::Info> found, by_cuda ? cuda::list_devices() : vulkan::list_devices());
  if (found.empty()) return Status(Code::NotFound, "no device by {}", api);
  const auto real = std::find_if(found.begin(), found.end(), [](const device::Info& d) { return !d.is_software; });
  const std::string identity = (real == found.end() ? found.front() : *real).identity;
  MLC_ASSIGN(device::Device * device, by_cuda ? cuda::open_device(identity) : vulkan::open_device(identity));
  std::unique_ptr<Bed> out(new Bed(*device));
  out->target_ = target_for(device->info());
  MLC_ASSIGN(const std::string bytes, read_regular_file(modules + "/" + out->target_ + ".mlcg", kMostModule));
  out->bytes_.resize(bytes.size());
  std::memcpy(out->bytes_.data(), bytes.data(), bytes.size());
  MLC_ASSIGN(out->module_, out->load(out->bytes_));
  MLC_ASSIGN(out->queue_, device->make_queue());
  return out;
}

Result<std::unique_ptr<device::Module>> Bed::load(std::span<const std::byte> bytes) const {
  MLC_ASSIGN(Compatible key, token(info()));
  return device_->load(std::move(key), VerifiedBytesMaker::make(bytes, "ceilings"));
}

Result<device::Range> Bed::allocate(uint64_t bytes, device::MemoryKind kind) {
  MLC_ASSIGN(auto memory, device_->allocate(bytes, kind));
  memory_.push_back(std::move(memory));
  return device::Range{memory_.back().get(), 0, bytes};
}

Status Bed::fill_randomly(const device::Range& local) {
  constexpr uint64_t kPiece = 16 << 20;
  MLC_ASSIGN(auto staging, device_->allocate(std::min(kPiece, local.length), device::MemoryKind::Staging));
  std::minstd_rand random(1);
  auto* numbers = reinterpret_cast<float*>(staging->data());
  for (uint64_t k = 0; k < std::min(kPiece, local.length) / 4; ++k) numbers[k] = static_cast<float>(random()) / 1073741824.0f - 1.0f;
  MLC_ASSIGN(const auto recording, record([&](device::Recorder& r) {
    for (uint64_t at = 0; at < local.length; at += kPiece) {
      const uint64_t bytes = std::min(kPiece, local.length - at);
      r.copy({local.memory, local.offset + at, bytes}, {staging.get(), 0, bytes});
    }
    return ok();
  }));
  MLC_ASSIGN([[maybe_unused]] const double ns, run(*recording));
  return ok();
}

Status Bed::launch(device::Recorder& recorder, uint32_t kernel, uint32_t tiles, std::vector<device::Range> buffers) const {
  return recorder.launch(*module_, {kernel, tiles, 0, buffers, {}});
}

Result<std::unique_ptr<device::Recording>> Bed::record(const Record& what) const {
  MLC_ASSIGN(auto recorder, device_->make_recorder());
  MLC_RETURN_IF_ERROR(what(*recorder));
  return recorder->finish();
}

Result<double> Bed::run(device::Recording& recording) const {
  const uint64_t begin = now_ns();
  MLC_RETURN_IF_ERROR(queue_->submit(recording));
  MLC_ASSIGN(const bool done, queue_->wait(kDeadline));
  if (!done) return Status(Code::Resource, "not done after {} s", kDeadline / 1'000'000'000);
  return static_cast<double>(now_ns() - begin);
}

Result<double> Bed::median_ns(const Record& what, double seconds) const {
  MLC_ASSIGN(const auto recording, record(what));
  for (int warm = 0; warm < 2; ++warm)
    if (const auto ns = run(*recording); !ns.ok()) return ns.status();
  std::vector<double> all;
  for (double sum = 0; all.size() < 3 || (sum < seconds * 1e9 && all.size() < 10'000); sum += all.back()) {
    MLC_ASSIGN(const double ns, run(*recording));
    all.push_back(ns);
  }
  std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2), all.end());
  return all[all.size() / 2];
}

}  // namespace mlc::bench
