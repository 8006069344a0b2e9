#include "runtime/match/matcher.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/compose.h"
#include "runtime/match/brief.h"
#include "runtime/match/clauses.h"
#include "runtime/probe/probe.h"

namespace mlc {
namespace {

bool is_portable(const format::Variant& v) { return v.module_format == format::ModuleFormat::Portable; }
bool is_called(const format::Variant& v, std::string_view name) { return name == v.name || name == v.target || name == v.family; }

bool wants_amx(const format::Variant& v) {
  const auto id = static_cast<uint32_t>(Feature::X86AmxPermission);
  return std::find(v.features.begin(), v.features.end(), id) != v.features.end();
}

// What the packager expects a run to take, for the first shapes it recorded; 0 if it said nothing.
uint64_t estimate_ns(const format::Variant& v) { return v.cost.empty() ? 0 : v.cost.front().ns; }

// The least values that it asks of the host, by feature: of two that differ in nothing else the one that asks for more is for newer
// hardware (cuda.cc >= 90).
std::vector<std::pair<uint32_t, int64_t>> least_values(const format::Variant& v) {
  std::vector<std::pair<uint32_t, int64_t>> out;
  for (const format::Clause& c : v.clauses)
    if (c.op == format::ClauseOp::AtLeast && c.values.size() == 1) out.emplace_back(c.id, c.values[0]);
  std::sort(out.begin(), out.end());
  return out;
}

size_t num_requirements(const format::Variant& v) { return v.features.size() + v.clauses.size(); }

}  // namespace

bool is_for_device(const format::Variant& v) {
  return v.module_format == format::ModuleFormat::Ptx || v.module_format == format::ModuleFormat::Spirv;
}

bool has_code_for(const format::Variant& v, uint32_t method) {
  return v.methods.empty() || std::find(v.methods.begin(), v.methods.end(), method) != v.methods.end();
}

namespace {

// By which such code reaches a device.
std::string_view api_of(const format::Variant& v) { return v.module_format == format::ModuleFormat::Ptx ? "cuda" : "vulkan"; }

}  // namespace

std::string Assessment::reason() const {
  if (fits) return {};
  std::string out = refused;
  for (const FailingClause& f : failing) {
    if (!out.empty()) out += "; ";
    out += compose("{} {} ({})", f.clause, name_of(f.answer), f.source);
  }
  return out;
}

Matcher::Matcher(const probe::Record& record, std::span<const format::Variant> variants, MatchPolicy policy)
    : Matcher(record, variants, std::move(policy), &probe::request_amx) {}

Matcher::Matcher(const probe::Record& record, std::span<const format::Variant> variants, MatchPolicy policy,
                 int (*request_amx)())
    : record_(record), variants_(variants), policy_(std::move(policy)), request_amx_(request_amx) {
  assessments_.resize(variants_.size());
  for (uint32_t i = 0; i < assessments_.size(); ++i) {
    assessments_[i].variant = i;
    assess(assessments_[i]);
  }
}

std::vector<FailingClause> Matcher::failing_on(const format::Variant& v, const NamedDevice* device) const {
  std::vector<FailingClause> out;
  const auto note = [&](match::ClauseAnswer a) {
    if (a.answer == probe::Answer::Yes) return;
    out.push_back({std::move(a.text), a.answer, a.source.empty() ? std::string("nobody tells") : std::move(a.source)});
  };
  for (uint32_t feature : v.features) note(match::evaluate_flag(record_, policy_, feature, device));
  for (const format::Clause& clause : v.clauses) note(match::evaluate_clause(record_, clause, device));
  return out;
}

void Matcher::assess(Assessment& out) const {
  const format::Variant& v = variants_[out.variant];
  bool no_device = false;
  out.device.reset();
  if (!is_for_device(v)) {
    out.failing = failing_on(v, nullptr);
  } else {
    out.failing.clear();
    size_t asked = 0;
    for (size_t d = 0; d < policy_.devices.size() && !out.device; ++d) {
      if (policy_.devices[d].info.api != api_of(v)) continue;
      std::vector<FailingClause> failing = failing_on(v, &policy_.devices[d]);
      if (failing.empty()) out.device = d;
      if (asked++ == 0 || failing.empty()) out.failing = std::move(failing);
    }
    no_device = asked == 0;
  }
  if (out.refused.empty()) {
    const auto lacks = std::find_if(policy_.programs.begin(), policy_.programs.end(), [&](uint32_t method) { return !has_code_for(v, method); });
    if (!v.unusable.empty()) out.refused = v.unusable;
    else if (!is_portable(v) && !policy_.native_allowed) out.refused = policy_.why_not;
    else if (no_device) out.refused = v.module_format == format::ModuleFormat::Ptx ? policy_.why_no_cuda : policy_.why_no_vulkan;
    if (no_device && out.refused.empty()) out.refused = compose("no device of {}", api_of(v));
    if (out.refused.empty() && out.failing.empty() && lacks != policy_.programs.end()) out.refused = compose("has no code for program '{}'", policy_.methods[*lacks].name);
  }
  out.fits = out.failing.empty() && out.refused.empty();
  out.unknown = !out.fits && out.refused.empty() &&
                std::all_of(out.failing.begin(), out.failing.end(),
                            [](const FailingClause& f) { return f.answer == probe::Answer::Unknown; });
}

const NamedDevice* Matcher::device_of(uint32_t variant) const {
  if (variant >= assessments_.size() || !assessments_[variant].fits || !assessments_[variant].device) return nullptr;
  return &policy_.devices[*assessments_[variant].device];
}

bool Matcher::lacks_trust_only() const {
  return !policy_.native_allowed && !policy_.how_to_allow.empty() &&
         std::any_of(assessments_.begin(), assessments_.end(), [&](const Assessment& a) {
           return !is_portable(variants_[a.variant]) && a.failing.empty() && a.refused == policy_.why_not;
         });
}

Status Matcher::none_left(std::string what, std::string_view require) const {
  Status s(Code::NoVariant, 2001, std::move(what));
  const bool wants_trust = lacks_trust_only();
  for (const Assessment& a : assessments_) {
    std::string why = match::brief_reason(a.failing);
    if (why.empty()) why = a.fits ? "fits" : wants_trust && a.refused == policy_.why_not ? "fits, and needs trust" : a.refused;
    s.facts.push_back(compose("{}   {}", variants_[a.variant].name, why));
  }
  for (const std::string& service : policy_.withheld)
    for (const format::Variant& v : variants_)
      for (uint32_t feature : v.features)
        if (match::is_service_named(feature, service))
          return std::move(s).hint("mlrun --allow-service {}, or untrusted_services, lets this file use it although nobody trusts it", service);
  if (wants_trust) {
    s.message += ": native code needs trust, and the file is " + policy_.why_not;
    return std::move(s).hint(policy_.how_to_allow);
  }
  if (!require.empty() && require != "native") {
    const auto meets = [&](const Assessment& a) { return is_called(variants_[a.variant], require); };
    const auto first = std::find_if(assessments_.begin(), assessments_.end(), meets);
    if (first == assessments_.end()) return std::move(s).hint("mlpack build --target {} (mlpack targets lists all): this file has no such variant", require);
    if (is_for_device(variants_[first->variant])) return std::move(s).hint("mlrun probe lists the devices of this machine; --devices NAME uses one that is left out unless it is named");
  }
  return std::move(s).hint("mlpack build with --target native, or for one of the targets that fit this machine");
}

uint64_t Matcher::measured_ns(uint32_t variant) const {
  for (const MeasuredVariant& one : measured_)
    if (one.variant == variant) return one.ns;
  return 0;
}

bool Matcher::is_chosen(uint32_t variant) const {
  return std::any_of(measured_.begin(), measured_.end(), [&](const MeasuredVariant& one) { return one.variant == variant && one.is_chosen; });
}

Result<std::vector<uint32_t>> Matcher::candidates(std::string_view variant, std::string_view require) const {
  std::vector<uint32_t> out;
  bool named = variant.empty();
  for (const Assessment& a : assessments_) {
    const format::Variant& v = variants_[a.variant];
    if (!variant.empty() && v.name != variant) continue;
    named = true;
    if (!a.fits) continue;
    if (require == "native" ? is_portable(v) : !require.empty() && !is_called(v, require)) continue;
    out.push_back(a.variant);
  }
  if (!named) {
    Status s(Code::Usage, 2002, "no variant '{}' in this container", variant);
    std::string names;
    for (const format::Variant& v : variants_) names += (names.empty() ? "" : ", ") + v.name;
    return std::move(s).fact("it has " + (names.empty() ? std::string("none") : names));
  }
  if (out.empty()) {
    std::string what = "no variant fits this machine";
    if (!variant.empty())
      what = compose("variant '{}' does not fit this machine", variant);
    else if (!require.empty())
      what = compose("'{}' is required, and no such variant fits this machine", require);
    return none_left(compose("{} ({}, {})", what, name_of(record_.machine), record_.os_release), require);
  }

  // Estimates count only if every native candidate has one: comparing some of them with a guess would prefer the one that
  // has none.
  const bool estimated = std::all_of(out.begin(), out.end(), [&](uint32_t i) {
    return is_portable(variants_[i]) || is_for_device(variants_[i]) || estimate_ns(variants_[i]) > 0;
  });
  const auto before = [&](uint32_t a, uint32_t b) {
    const format::Variant &x = variants_[a], &y = variants_[b];
    if (is_chosen(a) != is_chosen(b)) return is_chosen(a);
    if (is_portable(x) != is_portable(y)) return is_portable(y);
    if (is_for_device(x) != is_for_device(y)) return is_for_device(x);
    if (is_for_device(x) && assessments_[a].device != assessments_[b].device) return assessments_[a].device < assessments_[b].device;
    if (estimated && !is_for_device(x) && estimate_ns(x) != estimate_ns(y)) return estimate_ns(x) < estimate_ns(y);
    if (num_requirements(x) != num_requirements(y)) return num_requirements(x) > num_requirements(y);
    if (const auto least_x = least_values(x), least_y = least_values(y); least_x != least_y) return least_x > least_y;
    return a < b;
  };
  std::sort(out.begin(), out.end(), before);
  return out;
}

Result<Compatible> Matcher::admit(uint32_t variant) {
  if (variant >= assessments_.size()) return Status(Code::Internal, "no such variant");
  Assessment& a = assessments_[variant];
  const format::Variant& v = variants_[variant];
  assess(a);
  if (a.fits && wants_amx(v)) {
    if (const int error = request_amx_(); error != 0)
      reject(variant, compose("permission for AMX refused: {}", std::strerror(error)));
  }
  if (!a.fits) return Status(Code::NoVariant, 2001, "variant '{}' does not fit: {}", v.name, a.reason());
  return Compatible(variant, v.name, probe::host_facts(record_), a.device ? policy_.devices[*a.device].info.identity : "");
}

void Matcher::reject(uint32_t variant, std::string why) {
  if (variant >= assessments_.size()) return;
  Assessment& a = assessments_[variant];
  a.refused = std::move(why);
  a.fits = a.unknown = false;
}

}  // namespace mlc
