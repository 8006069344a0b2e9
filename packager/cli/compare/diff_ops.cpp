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

// Items of a list by name, of several of one name those that come first belong together; or members of an object. Of the value, which
// must outlive it and stay as it is.
class Named {
 public:
  struct Item {
    std::string name;
    size_t times;  // the how manieth of this name
    const Json* value;

    std::string shown() const { return times == 1 ? name : times == 2 ? name + " (again)" : name + " (again " + std::to_string(times) + ")"; }
  };
  // `is_item`: of a list by name, which is no difference.
  Named(const Json& value, bool is_item) : is_list_(value.is(Json::Kind::Array)) {
    items_.reserve(value.size());  // places_ refers to them
    for (const auto& [name, member] : value.members())
      if (!is_item || name != "name") add(name, member);
    for (const Json& item : value.items()) add(text_of(item["name"]), item);
  }
  const std::vector<Item>& items() const { return items_; }
  bool is_list() const { return is_list_; }
  // What stands here under the name of an item there.
  const Json* counterpart(const Item& there) const {
    const auto at = places_.find(there.name);
    return at != places_.end() && there.times <= at->second.size() ? items_[at->second[there.times - 1]].value : nullptr;
  }

 private:
  void add(std::string name, const Json& value) {
    items_.push_back({std::move(name), 1, &value});
    std::vector<size_t>& places = places_[items_.back().name];
    places.push_back(items_.size() - 1);
    items_.back().times = places.size();
  }
  bool is_list_;
  std::vector<Item> items_;
  std::unordered_map<std::string_view, std::vector<size_t>> places_;
};

class Comparison {
 public:
  std::vector<Difference> differences;

  void part(const std::string& name, const Json& a, const Json& b) {
    part_ = name;
    is_single_ = name == "identity";
    compare({}, a, b, false);
  }

 private:
  static std::string text_of_item(Json value) {
    value.erase("name");
    return text_of(value);
  }
  void add(const std::vector<std::string>& path, const Json* a, const Json* b, bool are_items) {
    Difference d{part_, {}, {}, {}, {}};
    for (size_t i = 0; i < path.size(); ++i) {
      std::string& to = i == 0 && !is_single_ ? d.name : d.field;
      to += (to.empty() ? "" : " ") + path[i];
    }
    if (a) d.a = are_items ? text_of_item(*a) : text_of(*a);
    if (b) d.b = are_items ? text_of_item(*b) : text_of(*b);
    differences.push_back(std::move(d));
  }

  // Recursion: as deep as what inspect_json.h makes.
  void compare(const std::vector<std::string>& path, const Json& a, const Json& b, bool are_items) {
    if (a == b) return;
    if (!(is_named_list(a) && is_named_list(b)) && (!a.is(Json::Kind::Object) || !b.is(Json::Kind::Object))) return add(path, &a, &b, are_items);
    const Named of_a(a, are_items), of_b(b, are_items);
    const auto with = [&](const Named::Item& item) {
      std::vector<std::string> longer = path;
      longer.push_back(item.shown());
      return longer;
    };
    for (const Named::Item& item : of_a.items()) {
      if (const Json* const there = of_b.counterpart(item)) compare(with(item), *item.value, *there, of_a.is_list());
      else add(with(item), item.value, nullptr, of_a.is_list());
    }
    for (const Named::Item& item : of_b.items())
      if (!of_a.counterpart(item)) add(with(item), nullptr, item.value, of_b.is_list());
  }

  std::string part_;
  bool is_single_ = false;
};

// {part: its items}. Left out: what another copy of one file may have else, and how this user sees the signers.
Json parts_of(Json inspected) {
  const auto taken = [&](const char* name) { return std::move(inspected[name]); };
  Json identity = {{"id", inspected["id"]}, {"version", inspected["version"]}, {"root", inspected["root"]}};
  identity.update(taken("model"));
  Json segments = taken("segments"), signers = Json::array();
  for (Json& segment : segments.items()) segment.erase("offset");  // follows from the others
  for (const Json& signature : inspected["signatures"].items()) signers.push_back({{"name", signature["key_id"]}});
  Json parts = Json::object();
  parts["identity"] = std::move(identity);
  for (const auto& [part, name] : {std::pair("program", "programs"), {"pipeline", "pipelines"}, {"variant", "variants"}}) parts[part] = taken(name);
  parts["weight"] = std::move(inspected["tensors"]["entries"]);
  for (const auto& [part, name] : {std::pair("asset", "assets"), {"golden", "golden"}}) parts[part] = taken(name);
  parts["segment"] = std::move(segments);
  parts["signer"] = std::move(signers);
  return parts;
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
  MLC_ASSIGN(Report report, inspect_opened(file, sealed, trust, options));
  return parts_of(std::move(report.json));
}

void add_steps(const std::vector<StepDifference>& steps, std::vector<Difference>& differences) {
  for (const StepDifference& step : steps) {
    const auto times = [](uint64_t count) { return count == 0 ? std::optional<std::string>() : std::to_string(count) + (count == 1 ? " time" : " times"); };
    differences.push_back({"step", step.variant, step.program + " " + step.step, times(step.times_a), times(step.times_b)});
  }
}

// What a container holds under that name; none: nothing, or more than a list that people write has.
std::optional<std::string> text_inside(const OpenContainer& file, const std::string& name) {
  constexpr uint64_t kMostText = uint64_t{1} << 20;
  const auto at = file.opened->find_asset(name);
  if (!at || file.opened->manifest().assets[*at].ref.length > kMostText) return std::nullopt;
  const auto bytes = file.opened->asset(*at);
  if (!bytes.ok()) return std::nullopt;
  return std::string(reinterpret_cast<const char*>(bytes->bytes().data()), bytes->bytes().size());
}

// The line at whose beginning `text` is, which is cut off; none at the end.
std::optional<std::string> take_line(std::string_view& text) {
  if (text.empty()) return std::nullopt;
  const size_t end = std::min(text.find('\n'), text.size());
  std::string line(text.substr(0, end));
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

// Of each text that both files hold the first line that differs: a label, a character.
void add_lines(const OpenContainer& a, const OpenContainer& b, std::vector<Difference>& differences) {
  for (const format::Asset& asset : a.opened->manifest().assets) {
    const auto there = b.opened->find_asset(asset.name);
    if (asset.media != "text/plain" || !there || b.opened->manifest().assets[*there].digest == asset.digest) continue;
    const auto of_a = text_inside(a, asset.name), of_b = text_inside(b, asset.name);
    if (!of_a || !of_b) continue;
    std::string_view rest_a = *of_a, rest_b = *of_b;
    for (size_t number = 1; !rest_a.empty() || !rest_b.empty(); ++number) {
      std::optional<std::string> line_a = take_line(rest_a), line_b = take_line(rest_b);
      if (line_a == line_b) continue;
      differences.push_back({"asset", asset.name, "line " + std::to_string(number), std::move(line_a), std::move(line_b)});
      break;
    }
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

Result<Report> diff_containers(SealedContainer& first, SealedContainer& second, const Result<signing::TrustSet>& trust, bool as_json) {
  MLC_ASSIGN(const OpenContainer file_a, look_into(first));
  MLC_ASSIGN(const OpenContainer file_b, look_into(second));
  MLC_ASSIGN(const Json of_a, inspected(file_a, first, trust));
  MLC_ASSIGN(const Json of_b, inspected(file_b, second, trust));
  MLC_ASSIGN(const std::vector<StepDifference> steps, step_differences(file_a, file_b));
  const std::string &a = first.path, &b = second.path;
  Comparison comparison;
  for (const auto& [part, items] : of_a.members()) comparison.part(part, items, of_b[part]);
  add_lines(file_a, file_b, comparison.differences);
  add_steps(steps, comparison.differences);
  Report report;
  report.json = {{"a", a}, {"b", b}, {"differences", Json::array()}};
  const auto json_of = [](std::optional<std::string>& side) { return side ? Json(std::move(*side)) : Json(nullptr); };
  Json& listed = report.json["differences"];
  for (Difference& d : comparison.differences) {
    if (!as_json) report.text += compile::line(d.part, printable(line_of(d, a, b)));
    else listed.push_back({{"part", std::move(d.part)}, {"name", std::move(d.name)}, {"field", std::move(d.field)}, {"a", json_of(d.a)}, {"b", json_of(d.b)}});
  }
  add_bytes(part_bytes(file_a.opened->manifest(), file_b.opened->manifest()), a, b, report);
  if (comparison.differences.empty()) report.text = "equal   " + text_of(of_a["identity"]["root"]) + "\n";
  else report.failure = Status(Code::No, a + " and " + b + " differ: " + counted(comparison.differences.size(), "difference"));
  return report;
}

}  // namespace mlc::cli
