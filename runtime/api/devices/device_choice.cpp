#include "runtime/api/devices/device_choice.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "base/compose.h"
#include "runtime/api/session/devices.h"
#include "runtime/api/session/model.h"
#include "runtime/probe/probe.h"

namespace mlc::api {
namespace {

std::vector<std::string_view> parts_of(std::string_view text, char separator) {
  std::vector<std::string_view> out;
  for (;;) {
    const size_t end = text.find(separator);
    out.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return out;
    text.remove_prefix(end + 1);
  }
}

struct Entry {
  std::string_view program;  // empty: of all that have no entry
  std::string_view wanted;
};
// "detect=gpu0" as the two.
Entry entry_of(std::string_view text) {
  const size_t sign = text.rfind('=');
  return sign == std::string_view::npos ? Entry{{}, text} : Entry{text.substr(0, sign), text.substr(sign + 1)};
}

// Into the group of those that want the same.
void add(std::vector<ProgramGroup>& groups, std::string_view wanted, uint32_t method) {
  const auto same = std::find_if(groups.begin(), groups.end(), [&](const ProgramGroup& g) { return g.wanted == wanted; });
  ProgramGroup& group = same == groups.end() ? groups.emplace_back(ProgramGroup{std::string(wanted), {}}) : *same;
  group.methods.push_back(method);
}

// What is wanted for a method: what is said of it, or of the programs of models that it is made of. Empty: nothing is said.
Result<std::string_view> wanted_for(const format::Manifest& manifest, uint32_t method, std::span<const std::string_view> said) {
  const format::Method& m = manifest.methods[method];
  std::string_view wanted = said[method];
  uint32_t by = method;
  if (!wanted.empty()) return wanted;
  for (const uint32_t part : m.runs) {
    if (said[part].empty() || said[part] == wanted) continue;
    if (!wanted.empty())
      return Status(Code::Usage, "'{}' is to run on {} and '{}' on {}, and '{}' is compiled from both: no step of the host stands between them", manifest.methods[by].name,
                    wanted, manifest.methods[part].name, said[part], m.name)
          .hint("{}={} says where all of it runs", m.name, wanted);
    wanted = said[part], by = part;
  }
  return wanted;
}

// Saved states have an order, and are those of one session.
Status check_states(const std::vector<ProgramGroup>& groups, const format::Manifest& manifest) {
  const format::Method* first = nullptr;
  const ProgramGroup* of_first = nullptr;
  for (const ProgramGroup& group : groups)
    for (const uint32_t method : group.methods) {
      const format::Method& m = manifest.methods[method];
      if (m.state.empty()) continue;
      if (first && of_first != &group)
        return Status(Code::Usage, "devices {} of program '{}' and {} of '{}': programs that keep state between runs have the same devices", of_first->wanted,
                      first->name, group.wanted, m.name);
      first = &m, of_first = &group;
    }
  return ok();
}

}  // namespace

std::vector<std::string_view> names_of(std::string_view wanted) { return parts_of(wanted, ','); }

bool is_name(std::string_view t) {
  return t.size() > kPrefix.size() && t.size() <= kPrefix.size() + 3 && t.starts_with(kPrefix) &&
         t.find_first_not_of("0123456789", kPrefix.size()) == std::string_view::npos;
}

Status check_choice(const DeviceChoice& choice) {
  const std::vector<std::string_view> entries = parts_of(choice.wanted, ';');
  for (size_t i = 0; i < entries.size(); ++i) {
    const Entry entry = entry_of(entries[i]);
    if (entries[i].starts_with('='))
      return Status(Code::Usage, "devices '{}': '{}' names no program", choice.wanted, entries[i]);
    for (size_t k = 0; k < i; ++k)
      if (entry_of(entries[k]).program == entry.program)
        return Status(Code::Usage, "devices '{}': {} said twice", choice.wanted, entry.program.empty() ? "those of all programs are" : compose("those of program '{}' are", entry.program));
    if (entry.wanted == "auto") continue;
    for (std::string_view name : names_of(entry.wanted))
      if (name != "cpu" && name != kPrefix && !is_name(name))
        return Status(Code::Usage, "devices '{}': expected auto, cpu, gpu or names such as gpu0,cpu", entry.wanted)
            .hint("by program: detect=gpu0;read=cpu;auto, of which the last is for all other programs");
  }
  return ok();
}

Result<std::vector<ProgramGroup>> group_programs(const DeviceChoice& choice, const format::Manifest& manifest, uint32_t main) {
  MLC_RETURN_IF_ERROR(check_choice(choice));
  std::string_view others = "auto";
  std::vector<std::string_view> wanted(manifest.methods.size());
  for (std::string_view text : parts_of(choice.wanted, ';')) {
    const Entry entry = entry_of(text);
    if (entry.program.empty()) {
      others = entry.wanted;
      continue;
    }
    const auto named = std::find_if(manifest.methods.begin(), manifest.methods.end(), [&](const format::Method& m) { return m.name == entry.program; });
    if (named == manifest.methods.end()) {
      std::string names;
      for (const format::Method& m : manifest.methods) names += (names.empty() ? "" : ", ") + m.name;
      return Status(Code::Usage, "devices {}: the file has no program '{}'", entry.wanted, entry.program).fact("it has {}", names);
    }
    wanted[static_cast<size_t>(named - manifest.methods.begin())] = entry.wanted;
  }
  std::vector<ProgramGroup> out;
  const auto place = [&](uint32_t method) -> Status {
    MLC_ASSIGN(const std::string_view devices, wanted_for(manifest, method, wanted));
    add(out, devices.empty() ? others : devices, method);
    return ok();
  };
  MLC_RETURN_IF_ERROR(place(main));
  for (uint32_t i = 0; i < wanted.size(); ++i)
    if (i != main) MLC_RETURN_IF_ERROR(place(i));
  MLC_RETURN_IF_ERROR(check_states(out, manifest));
  return out;
}

void cut_by_code(const format::Manifest& manifest, const MatchPolicy& policy, std::vector<ProgramGroup>& groups, FoundByGroup& found) {
  if (std::all_of(manifest.variants.begin(), manifest.variants.end(), [](const format::Variant& v) { return v.methods.empty(); })) return;
  for (size_t g = 0, count = groups.size(); g < count; ++g) {
    std::vector<uint32_t> partial;  // variants that fit, of some programs
    const Matcher matcher(probe::host(), manifest.variants, with_devices(policy, found.groups[g].get()));
    for (const Assessment& a : matcher.assessments())
      if (a.fits && !manifest.variants[a.variant].methods.empty()) partial.push_back(a.variant);
    if (partial.empty()) continue;
    std::vector<bool> for_states(partial.size(), true);  // which of these have code for all programs with states
    const auto code_of = [&](uint32_t method) {
      std::vector<bool> has;
      for (const uint32_t v : partial) has.push_back(has_code_for(manifest.variants[v], method));
      return has;
    };
    for (const uint32_t method : groups[g].methods)
      if (!manifest.methods[method].state.empty())
        for (size_t k = 0; k < partial.size(); ++k) for_states[k] = for_states[k] && has_code_for(manifest.variants[partial[k]], method);
    std::vector<std::pair<std::vector<bool>, std::vector<uint32_t>>> by_code;
    for (const uint32_t method : groups[g].methods) {
      std::vector<bool> has = manifest.methods[method].state.empty() ? code_of(method) : for_states;
      const auto same = std::find_if(by_code.begin(), by_code.end(), [&](const auto& one) { return one.first == has; });
      (same == by_code.end() ? by_code.emplace_back(std::move(has), std::vector<uint32_t>()) : *same).second.push_back(method);
    }
    for (size_t k = 1; k < by_code.size(); ++k) {
      groups.push_back({groups[g].wanted, std::move(by_code[k].second)});
      found.groups.push_back(found.groups[g]);
    }
    groups[g].methods = std::move(by_code[0].second);
  }
}

void keep_group(const format::Manifest& manifest, std::span<const uint32_t> methods, exec::Plan& plan) {
  std::vector<std::string_view> names;
  for (const uint32_t method : methods) names.push_back(manifest.methods[method].name);
  exec::keep_programs(plan, names);
}

Status has_code(const Model& model, uint32_t group, std::string_view variant) {
  const auto& variants = model.manifest().variants;
  const auto named = std::find_if(variants.begin(), variants.end(), [&](const format::Variant& v) { return v.name == variant; });
  if (named == variants.end() || model.num_groups() == 1) return ok();
  const auto& methods = model.methods_of(group);
  if (std::all_of(methods.begin(), methods.end(), [&](uint32_t method) { return has_code_for(*named, method); })) return ok();
  return Status(Code::NoVariant, 2001, "variant '{}' has no code for {}", variant, model.programs_of(group)).hint("without --variant each program has the best that there is");
}

bool has_device(const Model& model, uint32_t group) {
  const auto all = model.matcher_of(group).assessments();
  return std::any_of(all.begin(), all.end(), [](const Assessment& a) { return a.fits && a.device; });
}

}  // namespace mlc::api
