#include "runtime/match/clauses.h"

#include <algorithm>

#include "base/compose.h"

namespace mlc::match {
namespace {

std::string feature_text(uint32_t id) {
  const size_t i = feature_index(id);
  return i < kNumFeatures ? std::string(kFeatureNames[i]) : compose("feature {}", id);
}

// People read architectures by name.
std::string number_text(uint32_t id, int64_t value) {
  const bool is_machine = static_cast<Feature>(id) == Feature::HostArch && value > 0 && value <= UINT16_MAX;
  const std::string_view name = name_of(is_machine ? static_cast<Machine>(value) : Machine::None);
  const bool named = name != name_of(Machine::None);
  return named ? std::string(name) : std::to_string(value);
}

std::string clause_text(const format::Clause& c) {
  std::string out = feature_text(c.id);
  switch (c.op) {
    case format::ClauseOp::None: out += " ?"; break;
    case format::ClauseOp::Equal: out += " =="; break;
    case format::ClauseOp::AtLeast: out += " >="; break;
    case format::ClauseOp::AtMost: out += " <="; break;
    case format::ClauseOp::Divides: out += " divides"; break;
    case format::ClauseOp::OneOf: out += " oneof"; break;
  }
  for (size_t i = 0; i < c.values.size(); ++i) out += (i ? ", " : " ") + number_text(c.id, c.values[i]);
  return out;
}

bool holds(const format::Clause& c, int64_t value) {
  switch (c.op) {
    case format::ClauseOp::None: return false;
    case format::ClauseOp::Equal: return value == c.values[0];
    case format::ClauseOp::AtLeast: return value >= c.values[0];
    case format::ClauseOp::AtMost: return value <= c.values[0];
    case format::ClauseOp::Divides: return value > 0 && c.values[0] % value == 0;
    case format::ClauseOp::OneOf: return std::find(c.values.begin(), c.values.end(), value) != c.values.end();
  }
  return false;
}

const char* const kNotKnown = "not known to this version";

// The answer of the host, or of a device where the feature is one of devices: that is put in `out`. `i` < kNumFeatures.
const probe::FeatureAnswer& answer_of(const probe::Record& record, size_t i, const NamedDevice* device, probe::FeatureAnswer& out) {
  if (!is_of_device(static_cast<uint32_t>(kFeatures[i].feature))) return record.features[i];
  out.source = device ? compose("{}, {}", device->name, device->info.title) : std::string("of a device, and none is asked");
  if (!device) return out;
  for (const device::Fact& f : device->info.facts) {
    if (f.feature != kFeatures[i].feature) continue;
    out.number = f.number;
    out.answer = kFeatures[i].kind == FeatureKind::Number || f.number != 0 ? probe::Answer::Yes : probe::Answer::No;
  }
  return out;
}

}  // namespace

bool is_service_named(uint32_t feature, std::string_view service) {
  const size_t i = feature_index(feature);
  return i < kNumFeatures && is_service(feature) && kFeatureNames[i].substr(kServicePrefix.size()) == service;
}

ClauseAnswer evaluate_flag(const probe::Record& record, const MatchPolicy& policy, uint32_t feature, const NamedDevice* device) {
  const size_t i = feature_index(feature);
  if (i == kNumFeatures) return {probe::Answer::Unknown, feature_text(feature), kNotKnown};
  if (is_service(feature)) {
    const auto among = [&](const std::vector<std::string>& services) {
      return std::any_of(services.begin(), services.end(), [&](const auto& s) { return is_service_named(feature, s); });
    };
    if (among(policy.services)) return {probe::Answer::Yes, feature_text(feature), ""};
    const char* const why = among(policy.withheld) ? "a file that nobody trusts gets it only if it is allowed to"
                                                   : "the application does not offer it";
    return {probe::Answer::No, feature_text(feature), why};
  }
  probe::FeatureAnswer of_device;
  const probe::FeatureAnswer& a = answer_of(record, i, device, of_device);
  // A number required as if it were a flag would pass whatever its value.
  if (kFeatures[i].kind != FeatureKind::Flag) return {probe::Answer::Unknown, feature_text(feature), "is not a flag"};
  return {a.answer, feature_text(feature), a.source};
}

ClauseAnswer evaluate_clause(const probe::Record& record, const format::Clause& c, const NamedDevice* device) {
  const size_t i = feature_index(c.id);
  ClauseAnswer out{probe::Answer::Unknown, clause_text(c), kNotKnown};
  if (i == kNumFeatures) return out;
  probe::FeatureAnswer of_device;
  const probe::FeatureAnswer& a = answer_of(record, i, device, of_device);
  out.source = a.source;
  if (kFeatures[i].kind != FeatureKind::Number) {
    out.source = "is not a number";
    return out;
  }
  if (c.values.empty() || (c.op != format::ClauseOp::OneOf && c.values.size() != 1)) {
    out.source = "has the wrong number of values";
    return out;
  }
  out.answer = a.answer;
  if (a.answer != probe::Answer::Yes) return out;
  out.source = compose("found {}, {}", number_text(c.id, a.number), a.source);
  out.answer = holds(c, a.number) ? probe::Answer::Yes : probe::Answer::No;
  return out;
}

}  // namespace mlc::match
