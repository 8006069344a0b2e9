// Compared is what `inspect` says of both files, item by item: what it shows of a container is what can differ.
#include "packager/cli/compare/diff_ops.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/counted.h"
#include "packager/cli/compare/diff_parts.h"
#include "packager/cli/inspect/inspect_ops.h"
#include "packager/cli/inspect/size_ops.h"
#include "packager/compile/interface_text.h"

namespace mlc::cli {
namespace {

struct Difference {
  std::string part, name, field;    // "weight", "fc.bias", "content"; the field may be empty
  std::optional<std::string> a, b;  // none: it is not there
};

std::string text_of(const Json& value) { return value.is(Json::Kind::String) ? value.text() : value.print(); }

// Lists of items that have names are compared by these, other lists as a whole.
bool is_named_list(const Json& list) {
  const auto items = list.items();
  return list.is(Json::Kind::Array) && std::all_of(items.begin(), items.end(), [](const Json& item) { return item.find("name") != nullptr; });
}

// Items of a list by name, of several of one name those that come first belong together; or members of an object.
class Named {
 public:
  struct Item {
    std::string shown;  // "name", "name (again)", "name (again 3)"
    Json value;         // without the name
  };
  explicit Named(const Json& value) {
    if (!value.is(Json::Kind::Array)) {
      for (const auto& [name, member] : value.members()) add(name, 1, name, member);
      return;
    }
    std::unordered_map<std::string, size_t> seen;
    for (const Json& item : value.items()) {
      const std::string name = text_of(item["name"]);
      const size_t times = ++seen[name];
      add(name, times, times == 1 ? name : times == 2 ? name + " (again)" : name + " (again " + std::to_string(times) + ")", item);
      items_.back().value.erase("name");
    }
  }
  const std::vector<Item>& items() const { return items_; }
  // What stands there under the name of the k-th item here.
  const Json* counterpart(const Named& there, size_t k) const {
    const auto at = there.places_.find(keys_[k]);
    return at == there.places_.end() ? nullptr : &there.items_[at->second].value;
  }

 private:
  void add(const std::string& name, size_t times, std::string shown, Json value) {
    keys_.push_back(name + '\0' + std::to_string(times));  // no name has this character
    places_.emplace(keys_.back(), items_.size());
    items_.push_back({std::move(shown), std::move(value)});
  }
  std::vector<Item> items_;
  std::vector<std::string> keys_;
  std::unordered_map<std::string, size_t> places_;
};

class Comparison {
 public:
  std::vector<Difference> differences;

  void part(const std::string& name, const Json& a, const Json& b) {
    part_ = name;
    is_single_ = name == "identity";
    compare({}, a, b);
  }

 private:
  void add(const std::vector<std::string>& path, const Json* a, const Json* b) {
    Difference d{part_, {}, {}, {}, {}};
    for (size_t i = 0; i < path.size(); ++i) {
      std::string& to = i == 0 && !is_single_ ? d.name : d.field;
      to += (to.empty() ? "" : " ") + path[i];
    }
    if (a) d.a = text_of(*a);
    if (b) d.b = text_of(*b);
    differences.push_back(std::move(d));
  }

  // Recursion: as deep as what inspect_json.h makes.
  void compare(const std::vector<std::string>& path, const Json& a, const Json& b) {
    if (a == b) return;
    if (!(is_named_list(a) && is_named_list(b)) && (!a.is(Json::Kind::Object) || !b.is(Json::Kind::Object))) return add(path, &a, &b);
    const Named of_a(a), of_b(b);
    const auto with = [&](const std::string& key) {
      std::vector<std::string> longer = path;
      longer.push_back(key);
      return longer;
    };
    for (size_t k = 0; k < of_a.items().size(); ++k) {
      const auto& [shown, value] = of_a.items()[k];
      if (const Json* const there = of_a.counterpart(of_b, k)) compare(with(shown), value, *there);
      else add(with(shown), &value, nullptr);
    }
    for (size_t k = 0; k < of_b.items().size(); ++k)
      if (!of_b.counterpart(of_a, k)) add(with(of_b.items()[k].shown), nullptr, &of_b.items()[k].value);
  }

  std::string part_;
  bool is_single_ = false;
};

// {part: its items}. Left out: what another copy of one file may have else, and how this user sees the signers.
Json parts_of(const Json& inspected) {
  Json identity = {{"id", inspected["id"]}, {"version", inspected["version"]}, {"root", inspected["root"]}};
  identity.update(inspected["model"]);
  Json segments = inspected["segments"], signers = Json::array();
  for (Json& segment : segments.items()) segment.erase("offset");  // follows from the others
  for (const Json& signature : inspected["signatures"].items()) signers.push_back({{"name", signature["key_id"]}});
  return {{"identity", identity}, {"program", inspected["programs"]}, {"pipeline", inspected["pipelines"]},
          {"variant", inspected["variants"]}, {"weight", inspected["tensors"]["entries"]}, {"asset", inspected["assets"]},
          {"golden", inspected["golden"]}, {"segment", segments}, {"signer", signers}};
}

std::string line_of(const Difference& d, const std::string& a, const std::string& b) {
  constexpr size_t kLongest = 200;
  const auto shortened = [](const std::string& text) { return text.size() <= kLongest ? text : text.substr(0, kLongest) + " ..."; };
  std::string text = d.name;
  if (!d.field.empty()) text += (text.empty() ? "" : "  ") + d.field;
  if (!d.a || !d.b) return text + "  only in " + (d.a ? a : b);
  return text + "  " + shortened(*d.a) + " -> " + shortened(*d.b);
}

Result<Json> inspected(const OpenContainer& file, SealedContainer& sealed, const Result<signing::TrustSet>& trust) {
  InspectOptions options;
  options.tensors = true;
  MLC_ASSIGN(const Report report, inspect_opened(file, sealed, trust, options));
  return parts_of(report.json);
}

void add_steps(const std::vector<StepDifference>& steps, std::vector<Difference>& differences) {
  for (const StepDifference& step : steps) {
    const auto times = [](uint64_t count) { return count == 0 ? std::optional<std::string>() : std::to_string(count) + (count == 1 ? " time" : " times"); };
    differences.push_back({"step", step.variant, step.program + " " + step.step, times(step.times_a), times(step.times_b)});
  }
}

// One line for each part in which the files differ.
void add_bytes(const std::vector<PartBytes>& parts, const std::string& a, const std::string& b, Report& report) {
  Json& all = report.json["bytes"] = Json::object();
  for (const PartBytes& part : parts) {
    const auto json = [](const PartBytes::Sum& sum) -> Json { return {{"count", sum.count}, {"bytes", sum.bytes}}; };
    all[part.part] = {{"changed", json(part.changed)}, {"only_a", json(part.only_a)}, {"only_b", json(part.only_b)}, {"same", json(part.same)}};
    std::string text;
    for (const auto& [sum, what] : {std::pair(&part.changed, std::string("changed")), {&part.only_a, "only in " + a}, {&part.only_b, "only in " + b}, {&part.same, "the same"}})
      if (sum->count > 0) text += (text.empty() ? "" : ", ") + std::to_string(sum->count) + " " + what + " (" + human_bytes(sum->bytes) + ")";
    if (part.changed.count + part.only_a.count + part.only_b.count > 0) report.text += compile::line("bytes", part.part + ": " + printable(text));
  }
}

}  // namespace

Result<Report> diff_containers(SealedContainer& first, SealedContainer& second, const Result<signing::TrustSet>& trust) {
  MLC_ASSIGN(const OpenContainer file_a, look_into(first));
  MLC_ASSIGN(const OpenContainer file_b, look_into(second));
  MLC_ASSIGN(const Json of_a, inspected(file_a, first, trust));
  MLC_ASSIGN(const Json of_b, inspected(file_b, second, trust));
  MLC_ASSIGN(const std::vector<StepDifference> steps, step_differences(file_a, file_b));
  const std::string &a = first.path, &b = second.path;
  Comparison comparison;
  for (const auto& [part, items] : of_a.members()) comparison.part(part, items, of_b[part]);
  add_steps(steps, comparison.differences);
  Report report;
  report.json = {{"a", a}, {"b", b}, {"differences", Json::array()}};
  for (const Difference& d : comparison.differences) {
    report.text += compile::line(d.part, printable(line_of(d, a, b)));
    Json json = {{"part", d.part}, {"name", d.name}, {"field", d.field}};
    json["a"] = d.a ? Json(*d.a) : Json(nullptr);
    json["b"] = d.b ? Json(*d.b) : Json(nullptr);
    report.json["differences"].push_back(std::move(json));
  }
  add_bytes(part_bytes(file_a.opened->manifest(), file_b.opened->manifest()), a, b, report);
  if (comparison.differences.empty()) report.text = "equal   " + text_of(of_a["identity"]["root"]) + "\n";
  else report.failure = Status(Code::No, a + " and " + b + " differ: " + counted(comparison.differences.size(), "difference"));
  return report;
}

}  // namespace mlc::cli
