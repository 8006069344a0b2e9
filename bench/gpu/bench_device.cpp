// What a device can do at most, what its driver takes for itself, and how it fails; as JSON, one object.
//
//   bench_device --api cuda|vulkan --modules FOLDER [--bytes N] [--tiles N] [--seconds S]      ceilings, overheads and copies
//   bench_device --api cuda|vulkan --modules FOLDER --fail image|memory|lost                     what an error of that kind does
//
// `--modules`: what bench_device_modules wrote. `--bytes` of each buffer that is copied: several times what the device caches. Exit
// code 77: there is no such device.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include "base/system/clock.h"
#include "bench/gpu/bed.h"
#include "bench/gpu/failures.h"
#include "bench/gpu/kernels.h"

namespace {

using namespace mlc;
using namespace mlc::bench;
using nlohmann::ordered_json;

struct Options {
  std::string api, modules, fail;
  uint64_t bytes = uint64_t{512} << 20;
  uint32_t tiles = 16'384;
  double seconds = 0.5;
};

Status ceilings(Bed& bed, const Options& o, ordered_json& out) {
  const auto bytes = o.bytes / (kCopied * 4) * (kCopied * 4);
  MLC_ASSIGN(const device::Range from, bed.allocate(bytes, device::MemoryKind::Local));
  MLC_ASSIGN(const device::Range to, bed.allocate(std::max<uint64_t>(bytes, uint64_t{o.tiles} * kLanes * 4), device::MemoryKind::Local));
  MLC_RETURN_IF_ERROR(bed.fill_randomly(from));
  const device::Range same{to.memory, 0, bytes};
  MLC_ASSIGN(const double by_kernel, bed.median_ns([&](device::Recorder& r) { return bed.launch(r, kCopy, static_cast<uint32_t>(bytes / (kCopied * 4)), {from, same}); }, o.seconds));
  MLC_ASSIGN(const double by_driver, bed.median_ns([&](device::Recorder& r) { return r.copy(same, from), ok(); }, o.seconds));
  MLC_ASSIGN(const double fma, bed.median_ns([&](device::Recorder& r) { return bed.launch(r, kFma, o.tiles, {from, to}); }, o.seconds));
  const double both = 2 * static_cast<double>(bytes);
  out["copy_bytes_per_s"] = std::max(both / by_kernel, both / by_driver) * 1e9;
  out["copy_by_kernel_bytes_per_s"] = both / by_kernel * 1e9;
  out["copy_by_driver_bytes_per_s"] = both / by_driver * 1e9;
  out["fma_operations_per_s"] = static_cast<double>(kOperationsOfTile) * o.tiles / fma * 1e9;
  return ok();
}

// Of a launch and of a run: recordings of few and of many launches that do next to nothing, each behind a barrier.
Status overheads(Bed& bed, const Options& o, ordered_json& out) {
  constexpr int kFew = 4, kMany = 260;
  MLC_ASSIGN(const device::Range touched, bed.allocate(kLanes * 4, device::MemoryKind::Local));
  const auto launches = [&](int count) {
    return [&bed, touched, count](device::Recorder& r) {
      for (int k = 0; k < count; ++k) {
        MLC_RETURN_IF_ERROR(bed.launch(r, kTouch, 1, {touched}));
        r.barrier();
      }
      return ok();
    };
  };
  MLC_ASSIGN(const double few, bed.median_ns(launches(kFew), o.seconds / 2));
  MLC_ASSIGN(const double many, bed.median_ns(launches(kMany), o.seconds / 2));
  // The first submission of a recording is played call by call where later ones are one call.
  std::vector<double> recorded, first;
  for (int k = 0; k < 9; ++k) {
    const uint64_t begin = now_ns();
    MLC_ASSIGN(const auto recording, bed.record(launches(kMany)));
    recorded.push_back(static_cast<double>(now_ns() - begin));
    MLC_ASSIGN(const double ns, bed.run(*recording));
    first.push_back(ns);
  }
  std::sort(recorded.begin(), recorded.end());
  std::sort(first.begin(), first.end());
  out["launch_ns"] = (many - few) / (kMany - kFew);
  out["run_ns"] = std::max(0.0, few - kFew * (many - few) / (kMany - kFew));
  out["record_ns_per_launch"] = recorded[recorded.size() / 2] / kMany;
  out["first_submission_ns_per_launch"] = first[first.size() / 2] / kMany;
  return ok();
}

Status copies(Bed& bed, const Options& o, ordered_json& out) {
  for (const auto& [name, wanted] : std::map<std::string, uint64_t>{{"small", 64 << 10}, {"large", 64 << 20}}) {
    const uint64_t bytes = std::min(wanted, o.bytes);
    MLC_ASSIGN(const device::Range local, bed.allocate(bytes, device::MemoryKind::Local));
    MLC_ASSIGN(const device::Range staging, bed.allocate(bytes, device::MemoryKind::Staging));
    MLC_ASSIGN(const device::Range readback, bed.allocate(bytes, device::MemoryKind::Readback));
    MLC_ASSIGN(const double up, bed.median_ns([&](device::Recorder& r) { return r.copy(local, staging), ok(); }, o.seconds / 4));
    MLC_ASSIGN(const double down, bed.median_ns([&](device::Recorder& r) { return r.copy(readback, local), ok(); }, o.seconds / 4));
    out["copies"][name] = {{"bytes", bytes}, {"up_bytes_per_s", static_cast<double>(bytes) / up * 1e9}, {"down_bytes_per_s", static_cast<double>(bytes) / down * 1e9}};
  }
  return ok();
}

bool parse(int argc, char** argv, Options& o) {
  for (int k = 1; k + 1 < argc; k += 2) {
    const std::string name = argv[k], value = argv[k + 1];
    if (name == "--api" && (value == "cuda" || value == "vulkan")) o.api = value;
    else if (name == "--modules") o.modules = value;
    else if (name == "--fail") o.fail = value;
    else if (name == "--bytes") o.bytes = std::strtoull(value.c_str(), nullptr, 10);
    else if (name == "--tiles") o.tiles = static_cast<uint32_t>(std::strtoul(value.c_str(), nullptr, 10));
    else if (name == "--seconds") o.seconds = std::strtod(value.c_str(), nullptr);
    else return false;
  }
  return argc % 2 == 1 && !o.api.empty() && !o.modules.empty() && o.bytes >= 1 << 20 && o.tiles > 0;
}

Status measure(Bed& bed, const Options& o, ordered_json& out) {
  if (!o.fail.empty()) return fail_on_purpose(bed, o.fail, out);
  MLC_RETURN_IF_ERROR(ceilings(bed, o, out));
  MLC_RETURN_IF_ERROR(overheads(bed, o, out));
  return copies(bed, o, out);
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  if (!parse(argc, argv, o)) return std::fprintf(stderr, "usage: bench_device --api cuda|vulkan --modules FOLDER [--bytes N] [--tiles N] [--seconds S] [--fail image|memory|lost]\n"), 2;
  const uint64_t begin = now_ns();
  auto bed = Bed::open(o.api, o.modules);
  if (!bed.ok()) {
    std::fprintf(stderr, "skipped: %s\n", bed.status().message.c_str());
    return bed.status().code == Code::NotFound || bed.status().code == Code::Unsupported || bed.status().code == Code::Resource ? 77 : 1;
  }
  const device::Info& info = (*bed)->info();
  ordered_json out = {{"api", o.api}, {"device", info.title}, {"driver", info.driver}, {"software", info.is_software}, {"memory_bytes", info.memory_bytes},
                      {"target", (*bed)->target()}, {"open_ns", now_ns() - begin}};
  const Status done = measure(**bed, o, out);
  if (!done.ok()) std::fprintf(stderr, "%s\n", done.text().c_str());
  std::printf("%s\n", out.dump().c_str());
  return done.ok() ? 0 : 1;
}
