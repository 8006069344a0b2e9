#include "runtime/probe/probe.h"

#include <atomic>
#include <optional>
#include <utility>

#include "base/compose.h"
#include "runtime/probe/native.h"
#include "schema/module_abi.h"
#include "schema/targets.h"

namespace mlc::probe {
namespace {

void probe_code_pages(const Sources& s, Record& record) {
  for (CodePages strategy : {CodePages::Anonymous, CodePages::SealedFd}) {
    const std::string refusal = s.try_code_pages(strategy);
    if (refusal.empty()) {
      record.code_pages = strategy;
      break;
    }
    if (!record.code_pages_note.empty()) record.code_pages_note += "; ";
    record.code_pages_note += (strategy == CodePages::Anonymous ? "S1: " : "S2: ") + refusal;
  }
  const bool yes = record.code_pages != CodePages::None;
  record[Feature::OsCodePages] = {yes ? Answer::Yes : Answer::No, yes,
                                  yes ? (record.code_pages == CodePages::Anonymous ? "S1 tried" : "S2 tried")
                                      : record.code_pages_note};
}

void probe_unknown(const Sources&, Record& record) {
  record.errors.push_back("cpu: this architecture is not known");
}

CpuPart part_of(Machine machine) {
  switch (machine) {
    case Machine::X86_64: return probe_x86;
    case Machine::AArch64: return probe_a64;
    case Machine::RiscV64: return probe_rv;
    case Machine::None: break;
  }
  return probe_unknown;
}

}  // namespace

Record run(const Sources& s) { return run(s, part_of(s.machine())); }

Record run(const Sources& s, CpuPart cpu) {
  Record record;
  // Questions for other architectures have a definite answer: such hardware is not here.
  for (size_t i = 0; i < kNumFeatures; ++i) {
    const std::string_view name = kFeatureNames[i];
    const bool foreign = name.starts_with("x86.") || name.starts_with("a64.") || name.starts_with("rv.");
    if (foreign) record.features[i] = {Answer::No, 0, compose("host.arch is {}", name_of(s.machine()))};
  }
  record.machine = s.machine();
  record.os_release = s.os_release();
  record.page_size = s.page_size();
  record[Feature::HostArch] = {record.machine == Machine::None ? Answer::Unknown : Answer::Yes,
                               static_cast<int64_t>(record.machine), "build target"};
  record[Feature::OsPageSize] = {record.page_size ? Answer::Yes : Answer::Unknown,
                                 static_cast<int64_t>(record.page_size), "AT_PAGESZ"};
  record[Feature::ModuleAbi] = {Answer::Yes, MLRUN_MODULE_ABI, "this runtime"};
  probe_code_pages(s, record);
  probe_topology(s, record);
  cpu(s, record);
  return record;
}

std::vector<std::string> probe_raw(const Sources& s, const Topology& t) {
  switch (s.machine()) {
    case Machine::X86_64: return raw_x86(s);
    case Machine::AArch64: return raw_a64(s);
    case Machine::RiscV64: return raw_rv(s, t.allowed_cpus);
    case Machine::None: break;
  }
  return {};
}

namespace {

std::atomic<bool> host_is_known = false;
std::optional<Record>& stand_in() {
  static std::optional<Record> record;
  return record;
}

}  // namespace

const Record& host() {
  host_is_known = true;
  static const Record record = stand_in() ? std::move(*stand_in()) : run(*system_sources(), native::probe_cpu);
  return record;
}

bool stand_in_for_host(Record record) {
  if (host_is_known) return false;
  stand_in() = std::move(record);
  return true;
}

HostFacts host_facts(const Record& record) {
  HostFacts facts;
  facts.machine = record.machine;
  facts.code_pages = record.code_pages;
  facts.page_size = record.page_size;
  facts.bti = record[Feature::A64Bti].answer == Answer::Yes;
  if (record[Feature::A64SveVlBytes].answer == Answer::Yes)
    facts.vector_bytes = static_cast<uint32_t>(record[Feature::A64SveVlBytes].number);
  if (record[Feature::RvVlenb].answer == Answer::Yes)
    facts.vector_bytes = static_cast<uint32_t>(record[Feature::RvVlenb].number);
  return facts;
}

std::vector<std::string_view> fitting_targets(const Record& record) {
  std::vector<std::string_view> fitting;
  for (const TargetRow& t : kTargets) {
    bool all = t.machine == record.machine;
    for_each_feature(t, [&](Feature f) { all = all && record[f].answer == Answer::Yes; });
    if (all) fitting.push_back(t.name);
  }
  return fitting;
}

std::string_view derived_level(const Record& record) {
  std::string_view best;
  for (const std::string_view name : fitting_targets(record))
    if (name.find('+') == std::string_view::npos) best = name;
  return best;
}

}  // namespace mlc::probe
