// Compared is what `inspect` says of both files, item by item: what it shows of a container is what can differ.
#include "packager/cli/diff_ops.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/counted.h"
#include "packager/cli/inspect_ops.h"
#include "packager/compile/interface_text.h"

namespace mlc::cli {
namespace {

struct Difference {
  std::string part, name, field;    // "weight", "fc.bias", "content"; the field may be empty
  std::optional<std::string> a, b;  // none: it is not there
};

std::string text_of(const ordered_json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

// Lists of items that have names are compared by these, other lists as a whole.
bool is_named_list(const ordered_json& list) {
  return list.is_array() && std::all_of(list.begin(), list.end(), [](const ordered_json& item) { return item.is_object() && item.contains("name"); });
}

// By name; of several of one name those that come first belong together.
ordered_json by_name(const ordered_json& list) {
  ordered_json items = ordered_json::object();
  for (const ordered_json& item : list) {
    std::string name = text_of(item["name"]);
    while (items.contains(name)) name += " (again)";
    ordered_json rest = item;
    rest.erase("name");
    items[name] = std::move(rest);
  }
  return items;
}

class Comparison {
 public:
  std::vector<Difference> differences;

  void part(const std::string& name, const ordered_json& a, const ordered_json& b) {
    part_ = name;
    is_single_ = name == "identity";
    compare({}, a, b);
  }

 private:
  void add(const std::vector<std::string>& path, const ordered_json* a, const ordered_json* b) {
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
  void compare(const std::vector<std::string>& path, const ordered_json& a, const ordered_json& b) {
    if (a == b) return;
    if (is_named_list(a) && is_named_list(b)) return compare(path, by_name(a), by_name(b));
    if (!a.is_object() || !b.is_object()) return add(path, &a, &b);
    const auto with = [&](const std::string& key) {
      std::vector<std::string> longer = path;
      longer.push_back(key);
      return longer;
    };
    for (const auto& [key, value] : a.items()) {
      if (b.contains(key)) compare(with(key), value, b[key]);
      else add(with(key), &value, nullptr);
    }
    for (const auto& [key, value] : b.items())
      if (!a.contains(key)) add(with(key), nullptr, &value);
  }

  std::string part_;
  bool is_single_ = false;
};

// {part: its items}. Left out: what another copy of one file may have else, and how this user sees the signers.
ordered_json parts_of(const ordered_json& inspected) {
  ordered_json identity = {{"id", inspected["id"]}, {"version", inspected["version"]}, {"root", inspected["root"]}};
  identity.update(inspected["model"]);
  ordered_json segments = inspected["segments"], signers = ordered_json::array();
  for (ordered_json& segment : segments) segment.erase("offset");  // follows from the others
  for (const ordered_json& signature : inspected["signatures"]) signers.push_back({{"name", signature["key_id"]}});
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

Result<ordered_json> inspected(const std::string& file) {
  InspectOptions options;
  options.file = file;
  options.tensors = true;
  MLC_ASSIGN(const Report report, inspect_container(options));
  return parts_of(report.json);
}

}  // namespace

Result<Report> diff_containers(const std::string& a, const std::string& b) {
  MLC_ASSIGN(const ordered_json of_a, inspected(a));
  MLC_ASSIGN(const ordered_json of_b, inspected(b));
  Comparison comparison;
  for (const auto& [part, items] : of_a.items()) comparison.part(part, items, of_b[part]);
  Report report;
  report.json = {{"a", a}, {"b", b}, {"differences", ordered_json::array()}};
  for (const Difference& d : comparison.differences) {
    report.text += compile::line(d.part, printable(line_of(d, a, b)));
    ordered_json json = {{"part", d.part}, {"name", d.name}, {"field", d.field}};
    json["a"] = d.a ? ordered_json(*d.a) : ordered_json(nullptr);
    json["b"] = d.b ? ordered_json(*d.b) : ordered_json(nullptr);
    report.json["differences"].push_back(std::move(json));
  }
  if (comparison.differences.empty()) report.text = "equal   " + text_of(of_a["identity"]["root"]) + "\n";
  else report.failure = Status(Code::No, a + " and " + b + " differ: " + counted(comparison.differences.size(), "difference"));
  return report;
}

}  // namespace mlc::cli
