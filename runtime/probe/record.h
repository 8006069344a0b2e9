// What the probe found out about this host: filled once per process, plain data, never changed afterwards.
//
// Every answer carries its source. Unknown (mechanism missing, cores disagree, call refused) is kept apart from no for
// people, and counts as no everywhere else. Names and models are shown, never matched.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/compatible.h"
#include "schema/features.h"

namespace mlc::probe {

enum class Answer : uint8_t { Unknown, No, Yes };

constexpr std::string_view name_of(Answer a) {
  switch (a) {
    case Answer::Unknown: return "unknown";
    case Answer::No: return "no";
    case Answer::Yes: return "yes";
  }
  return "unknown";
}

struct FeatureAnswer {
  Answer answer = Answer::Unknown;
  int64_t number = 0;   // of Number features that were answered yes
  std::string source;   // "7.0.ebx[16] z", "xcr0 bits 5..7", "hwprobe: ENOSYS", ...
};

struct Cache {
  unsigned level = 0;
  std::string type;           // "Data", "Instruction", "Unified"
  uint64_t size_bytes = 0;
  unsigned shared_by = 1;     // how many of the allowed CPUs share it
};

// Where runs may take place: all of it is wanted for any session.
struct Topology {
  std::vector<int> allowed_cpus;        // affinity mask ∩ effective cpuset, ascending
  std::vector<unsigned> core_of;        // for each of them: its physical core, an index of worker_cpus
  std::vector<int> worker_cpus;         // one CPU per physical core: those that runs have by default, slow ones, far ones
  unsigned cores = 1;                   // physical ones with an allowed CPU
  unsigned slow_cores = 0;              // of them left out by default: with them equal shares would take longer
  unsigned far_cores = 0;               // likewise: of another NUMA node than the others
  std::optional<double> quota_cpus;     // CPUs' worth of run time, the least of all ancestors; none = no limit
  unsigned workers = 1;                 // by default: max(1, min(near_cores(), floor(quota)))
  std::string recorded_reason;          // why so many, of a record that was read from a file; else `workers_reason` says it

  // Those that runs have by default, as far as the quota goes; at least 1.
  unsigned near_cores() const { return cores - slow_cores - far_cores; }
};

// What people and measurements want to know beside that. No part of a record: it takes dozens of files, and no session waits for it.
struct Layout {
  unsigned packages = 1;
  unsigned numa_nodes = 1;
  bool uneven_cores = false;            // capacities differ
  std::vector<Cache> caches;            // of the first worker CPU
};

struct Memory {
  uint64_t total_bytes = 0;
  uint64_t available_bytes = 0;
  std::optional<uint64_t> limit_bytes;  // least of all ancestors
  uint64_t effective_free_bytes = 0;    // min(available, limit - current over all ancestors)
};

struct Record {
  std::string os_release;
  std::string cpu_model;                            // shown only
  std::string cpu_vendor;                           // shown only
  Machine machine = Machine::None;
  uint64_t page_size = 0;
  CodePages code_pages = CodePages::None;
  std::string code_pages_note;                      // why a strategy was refused
  std::array<FeatureAnswer, kNumFeatures> features; // indexed like kFeatures
  Topology topology;
  Memory memory;
  std::vector<std::string> errors;                  // "stage: sentence"

  const FeatureAnswer& operator[](Feature f) const { return features[feature_index(f)]; }
  FeatureAnswer& operator[](Feature f) { return features[feature_index(f)]; }
};

// What loaders are told about the host.
HostFacts host_facts(const Record& record);

// Targets of schema/targets.tbl whose features are all yes, in its order. Derived, for people and schedulers as derived_level is.
std::vector<std::string_view> fitting_targets(const Record& record);
// The most capable target of schema/targets.tbl whose features are all yes ("x86-64-v4"), or empty. Derived, for
// people: nothing is ever matched on it.
std::string_view derived_level(const Record& record);

}  // namespace mlc::probe
