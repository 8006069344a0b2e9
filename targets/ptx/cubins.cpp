#include "targets/ptx/cubins.h"

#include <algorithm>
#include <atomic>
#include <optional>

#include "base/compose.h"
#include "base/run_on_threads.h"
#include "schema/cubin.h"
#include "targets/ptx/audit.h"

namespace mlc::targets::ptx {
namespace {

constexpr uint64_t kDeadline = 120'000'000'000;  // of one image

// One image for one architecture.
struct Job {
  size_t image = 0;
  uint32_t architecture = 0;
  std::optional<Result<Assembled>> done;
};

std::string_view text_of(const mlc::gpu::Image& image) {
  return {reinterpret_cast<const char*>(image.bytes.data()), image.bytes.size() - 1};  // decode() saw the zero at its end
}

std::vector<const mlc::gpu::Entry*> entries_of(const mlc::gpu::Module& m, size_t image) {
  std::vector<const mlc::gpu::Entry*> out;
  for (const mlc::gpu::Entry& e : m.entries)
    if (e.image == image) out.push_back(&e);
  return out;
}

void assemble_all(const mlc::gpu::Module& m, bool is_specific, const Ptxas& ptxas, unsigned threads, std::vector<Job>& jobs) {
  std::atomic<size_t> next{0};
  run_on_threads(number_of_threads(threads), [&] {
    for (size_t k; (k = next.fetch_add(1)) < jobs.size();) jobs[k].done = ptxas.assemble(text_of(m.images[jobs[k].image]), jobs[k].architecture, is_specific, kDeadline);
  });
}

// Architectures of which some image was not made; an error if that is not for the assembler's age.
Status leave_out(const std::vector<Job>& jobs, std::vector<uint32_t>& architectures, CubinReport& report) {
  for (const Job& job : jobs) {
    if (job.done->ok() || std::find(architectures.begin(), architectures.end(), job.architecture) == architectures.end()) continue;
    const Status& why = job.done->status();
    if (why.code != Code::NotFound) return why;
    std::erase(architectures, job.architecture);
    report.left_out.push_back(compose("sm_{}: {}", job.architecture, why.message));
  }
  return ok();
}

}  // namespace

std::vector<uint32_t> usual_architectures(const Target& target) {
  switch (level_of(target).sm) {
    case 75: return {75};
    case 80: return {80, 86, 89};
    default: return level_of(target).is_specific ? std::vector<uint32_t>{90} : std::vector<uint32_t>{90, 100, 120};
  }
}

Result<std::vector<std::byte>> add_cubins(const Target& target, std::span<const std::byte> module, std::span<const uint32_t> wanted, const Ptxas& ptxas, unsigned threads,
                                          CubinReport& report) {
  MLC_ASSIGN(mlc::gpu::Module m, mlc::gpu::decode(module));
  std::vector<uint32_t> architectures(wanted.begin(), wanted.end());
  std::sort(architectures.begin(), architectures.end());
  architectures.erase(std::unique(architectures.begin(), architectures.end()), architectures.end());
  const Level level = level_of(target);
  std::erase_if(architectures, [&](uint32_t a) { return a < level.sm || (level.is_specific && a > level.sm); });

  std::vector<Job> jobs;
  for (size_t i = 0; i < m.images.size(); ++i)
    if (m.images[i].kind == mlc::gpu::ImageKind::Ptx)
      for (const uint32_t a : architectures) jobs.push_back({i, a, {}});
  assemble_all(m, level.is_specific, ptxas, threads, jobs);
  MLC_RETURN_IF_ERROR(leave_out(jobs, architectures, report));

  mlc::gpu::Module out;
  out.format = m.format;
  std::vector<uint32_t> numbers(m.images.size());
  for (size_t i = 0; i < m.images.size(); ++i) {
    if (m.images[i].kind != mlc::gpu::ImageKind::Ptx) continue;
    numbers[i] = static_cast<uint32_t>(out.images.size());
    out.images.push_back(m.images[i]);
    for (Job& job : jobs) {
      if (job.image != i || std::find(architectures.begin(), architectures.end(), job.architecture) == architectures.end()) continue;
      Assembled& made = **job.done;
      if (Status s = mlc::gpu::check_cubin(made.cubin, job.architecture, entries_of(m, i)); !s.ok()) return std::move(s).note("what " + ptxas.path() + " made");
      for (Assembled::Kernel& k : made.kernels) report.kernels.push_back(std::move(k));
      out.images.push_back({mlc::gpu::ImageKind::Cubin, static_cast<uint16_t>(job.architecture), {}, std::move(made.cubin)});
    }
  }
  out.entries = m.entries;
  for (mlc::gpu::Entry& e : out.entries) e.image = numbers[e.image];
  report.architectures = std::move(architectures);
  return mlc::gpu::encode(out);
}

}  // namespace mlc::targets::ptx
