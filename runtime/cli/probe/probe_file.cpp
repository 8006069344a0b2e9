#include "runtime/cli/probe/probe_file.h"

#include <algorithm>

#include "base/files/regular_file.h"
#include "base/text/json.h"
#include "schema/features.h"

namespace mlc::cli {
namespace {

constexpr JsonLimits kLimits{.bytes = 1 << 20, .depth = 16, .values = 100'000};

// The member at the end of a path; a null value where a part of it lacks.
const JsonValue& at(const JsonValue& root, std::initializer_list<std::string_view> path) {
  static const JsonValue none{};
  const JsonValue* value = &root;
  for (const std::string_view key : path) {
    value = value->find(key);
    if (!value) return none;
  }
  return *value;
}

std::optional<Machine> machine_named(std::string_view name) {
  for (const Machine m : kMachines)
    if (name == name_of(m)) return m;
  return std::nullopt;
}

probe::FeatureAnswer answer_of(const JsonValue& feature) {
  const std::string_view word = at(feature, {"answer"}).text();
  probe::FeatureAnswer answer;
  answer.answer = word == "yes" ? probe::Answer::Yes : word == "no" ? probe::Answer::No : probe::Answer::Unknown;
  answer.number = at(feature, {"number"}).as_i64().value_or(answer.answer == probe::Answer::Yes);
  answer.source = std::string(at(feature, {"source"}).text());
  return answer;
}

void read_features(const JsonValue& root, probe::Record& record) {
  for (size_t i = 0; i < kNumFeatures; ++i) {
    const bool is_of_processor = machine_of(kFeatures[i].feature) != Machine::None;
    record.features[i] = {is_of_processor ? probe::Answer::No : probe::Answer::Unknown, 0, "not in the probe"};
  }
  for (const mlc::JsonMember& member : at(root, {"features"}).members())
    for (size_t i = 0; i < kNumFeatures; ++i)
      if (member.key.text() == kFeatureNames[i]) record.features[i] = answer_of(member.value);
}

// Files of earlier versions have no cores that are left out by default, and some have workers only.
void read_topology(const JsonValue& root, probe::Topology& t) {
  const auto number = [&](const char* name, uint64_t otherwise, uint64_t most) {
    return static_cast<unsigned>(std::min(at(root, {"topology", name}).as_u64().value_or(otherwise), most));
  };
  t.workers = std::max(1u, number("workers", 1, 65'536));
  t.cores = std::max(t.workers, number("cores", t.workers, 65'536));
  t.slow_cores = number("slow_cores", 0, t.cores - t.workers);
  t.far_cores = number("far_cores", 0, t.cores - t.workers - t.slow_cores);
  const JsonValue& quota = at(root, {"topology", "quota_cpus"});
  if ((quota.is(JsonValue::Kind::Integer) || quota.is(JsonValue::Kind::Real)) && quota.number() > 0) t.quota_cpus = quota.number();
  t.recorded_reason = std::string(at(root, {"topology", "workers_reason"}).text());
}

}  // namespace

Result<probe::Record> read_probe_file(const std::string& path) {
  MLC_ASSIGN(const std::string text, read_regular_file(path, kLimits.bytes));
  MLC_ASSIGN(const JsonDocument document, parse_json(text, path, kLimits));
  const JsonValue& root = document.root();
  const std::optional<Machine> machine = machine_named(at(root, {"cpu", "arch"}).text());
  if (!at(root, {"schema"}).text().starts_with("mlc.probe/") || !machine)
    return Status(Code::Malformed, "{} is no answer of mlrun probe --json", path);
  probe::Record record;
  record.machine = *machine;
  record.os_release = std::string(at(root, {"os", "release"}).text());
  record.page_size = at(root, {"os", "page_size"}).as_u64().value_or(0);
  record.cpu_model = std::string(at(root, {"cpu", "model"}).text());
  record.cpu_vendor = std::string(at(root, {"cpu", "vendor"}).text());
  const std::string_view pages = at(root, {"code_pages"}).text();
  record.code_pages = pages == "S1" ? CodePages::Anonymous : pages == "S2" ? CodePages::SealedFd : CodePages::None;
  read_topology(root, record.topology);
  record.memory.total_bytes = at(root, {"memory", "total_bytes"}).as_u64().value_or(0);
  record.memory.effective_free_bytes = at(root, {"memory", "effective_free_bytes"}).as_u64().value_or(0);
  read_features(root, record);
  return record;
}

}  // namespace mlc::cli
