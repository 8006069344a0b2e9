// From requirements to the right to load: which variants of a container may run on this host, in which order, and why
// the others may not.
//
//   C = { v : every feature and clause of v is answered yes }                       unknown is not yes
//
// The portable variant may require nothing but services of the application.
// Rank, the user's wish and costs only choose within C; only `admit` makes the Compatible token that loaders take, after
// it evaluated every requirement once more. Names of targets and CPUs are never compared with the host.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "runtime/compatible.h"
#include "runtime/device_info.h"
#include "runtime/probe/record.h"
#include "schema/manifest.h"

namespace mlc {

// Its code runs on a device beside the processor.
bool is_for_device(const format::Variant& variant);
// Whether it has code for a program of the file, by its place in Manifest::methods.
bool has_code_for(const format::Variant& variant, uint32_t method);

// One requirement that is not met.
struct FailingClause {
  std::string clause;     // "x86.avx512f", "os.page_size divides 65536", "feature 9999"
  probe::Answer answer;   // No or Unknown
  std::string source;     // where the answer comes from
};

struct Assessment {
  uint32_t variant = 0;      // index in the list given to the matcher
  bool fits = false;         // in C
  bool unknown = false;      // does not fit, and nothing but unknown answers stands in the way
  std::vector<FailingClause> failing;  // of a variant for devices that fits on none: on the first one
  std::optional<size_t> device;        // that it fits on: index in MatchPolicy::devices; none: the processor
  std::string refused;       // why it is no candidate although the hardware fits: policy, absent segments, failed load

  std::string reason() const;  // "x86.avx512f no (xcr0 ...); ..." or `refused`; empty if it fits
};

// A device of this machine: "gpu0".
struct NamedDevice {
  std::string name;
  device::Info info;
};

struct MatchPolicy {
  bool native_allowed = true;
  std::string why_not;       // printed for every native variant when it is false
  std::string how_to_allow = {};  // the help of an error where that is all that is missing
  std::vector<std::string> services = {};  // that the application offers: the features "app.<service>"
  // That variants for devices may use, best first, which outlive the matcher; and why there are not more of either kind.
  std::span<const NamedDevice> devices = {};
  std::string_view why_no_cuda = {}, why_no_vulkan = {};
  std::vector<std::string> withheld = {};  // that it offers, but not to this file, because it is not trusted
  // Programs that a variant must have code for, by their places in `methods`, which outlive the matcher; none: whatever it has code for will do.
  std::vector<uint32_t> programs = {};
  std::span<const format::Method> methods = {};
};

// That was measured on this machine.
struct MeasuredVariant {
  uint32_t variant = 0;
  uint64_t ns = 0;
  bool is_chosen = false;  // to be taken first
};

class Matcher {
 public:
  // `record` and `variants` must outlive the matcher. `request_amx` asks the OS for AMX tile data (errno or 0).
  Matcher(const probe::Record& record, std::span<const format::Variant> variants, MatchPolicy policy = {});
  Matcher(const probe::Record& record, std::span<const format::Variant> variants, MatchPolicy policy,
          int (*request_amx)());

  std::span<const Assessment> assessments() const { return assessments_; }  // in container order
  // That this variant fits on; null: the processor, or it does not fit.
  const NamedDevice* device_of(uint32_t variant) const;

  // The members of C that satisfy `variant` (a variant's name, or empty) and `require` ("native", or the name, target or
  // family of a variant, or empty), best first. NoVariant with every failing clause if there is none; Usage if `variant`
  // names no variant of this container.
  Result<std::vector<uint32_t>> candidates(std::string_view variant, std::string_view require) const;

  // The right to load this member of C: asks for permissions and evaluates every requirement again.
  Result<Compatible> admit(uint32_t variant);

  // What an earlier measurement said. It orders C and adds nothing to it.
  void remember(std::vector<MeasuredVariant> measured) { measured_ = std::move(measured); }
  uint64_t measured_ns(uint32_t variant) const;  // 0: not measured
  bool is_chosen(uint32_t variant) const;

  // Takes a variant out of C for good: its load or its self-test failed.
  void reject(uint32_t variant, std::string why);

 private:
  void assess(Assessment& out) const;
  std::vector<FailingClause> failing_on(const format::Variant& variant, const NamedDevice* device) const;
  Status none_left(std::string what, std::string_view require) const;
  bool lacks_trust_only() const;  // a native variant fits this machine, and the policy is all that stands in the way

  const probe::Record& record_;
  std::span<const format::Variant> variants_;
  MatchPolicy policy_;
  int (*request_amx_)();
  std::vector<Assessment> assessments_;
  std::vector<MeasuredVariant> measured_;
};

}  // namespace mlc
