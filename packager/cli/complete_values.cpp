#include "packager/cli/complete_values.h"

#include <algorithm>
#include <string>
#include <vector>

#include "packager/cli/extract/extract_ops.h"
#include "packager/cli/look.h"
#include "packager/compile/dump.h"
#include "runtime/isolation/passed_lines.h"
#include "runtime/trust/trust_command.h"
#include "targets/target_groups.h"

namespace mlc::cli {
namespace {

// The last of names that commas separate; those before it stay.
Completions target_names(const std::string& word) {
  const size_t comma = word.rfind(',');
  const std::string before = comma == word.npos ? "" : word.substr(0, comma + 1);
  Completions out;
  out.words = {{before + "native", "what fits this machine"}};
  for (const targets::TargetGroup& group : targets::target_groups()) out.words.push_back({before + std::string(group.name), std::string(group.about)});
  for (const auto some : {targets::all_targets(), targets::device_targets()})
    for (const targets::Target& target : some) out.words.push_back({before + target.name, ""});
  return out;
}

Completions dump_levels(const std::string& word) {
  const size_t comma = word.rfind(',');
  const std::string before = comma == word.npos ? "" : word.substr(0, comma + 1);
  Completions out;
  for (const std::string& level : compile::dump_words()) out.words.push_back({before + level, ""});
  return out;
}

Completions parts_to_extract(const std::string& word) {
  const size_t comma = word.rfind(',');
  const std::string before = comma == word.npos ? "" : word.substr(0, comma + 1);
  Completions out;
  for (const std::string& part : extract_words()) out.words.push_back({before + part, ""});
  return out;
}

// With a tab and the meaning behind it where there is one; no name has a tab.
std::vector<std::string> names_of(const format::Manifest& manifest, bool variants) {
  std::vector<std::string> names;
  if (variants)
    for (const format::Variant& variant : manifest.variants) names.push_back(variant.name + "\t" + variant.target);
  else
    for (const format::Method& method : manifest.methods) names.push_back(method.name);
  return names;
}

// None where the container cannot be opened.
Completions names_in(const std::string& path, bool variants) {
  const PassedLines words;
  const auto trust = signing::TrustSet::load(signing::default_trust_sources());
  const int exit_code = look({.name = "complete", .trust = trust, .paths = {path}, .keep = words.descriptor()}, [&](std::vector<SealedContainer>& sealed) -> Result<Report> {
    const auto file = look_into(sealed[0]);
    if (file.ok()) MLC_RETURN_IF_ERROR(words.put(names_of(file->opened->manifest(), variants)));
    return Report{};
  });
  Completions out;
  if (exit_code != 0) return out;
  for (const std::string& word : words.get()) {
    const size_t tab = std::min(word.find('\t'), word.size());
    out.words.push_back({word.substr(0, tab), word.substr(std::min(tab + 1, word.size()))});
  }
  return out;
}

}  // namespace

std::optional<Completions> values_of_line(const CommandLine& line) {
  if (line.option == "target") return target_names(line.word);
  if (line.option == "dump") return dump_levels(line.word);
  if (line.option == "what") return parts_to_extract(line.word);
  if (line.option == "variant") return names_in(line.value("file"), true);
  if (line.option == "keep") {  // the last of names that commas separate
    const size_t comma = line.word.rfind(',');
    Completions out = names_in(line.value("file"), true);
    if (comma != line.word.npos)
      for (auto& [word, meaning] : out.words) word = line.word.substr(0, comma + 1) + word;
    return out;
  }
  if (line.option == "program") return names_in(line.value("file"), false);
  if (line.option == "remove") return trusted_key_ids();
  if (line.option == "by") return Completions{{{"kind", ""}, {"variant", ""}, {"segment", ""}, {"tensor", ""}}, false};
  if (line.option == "type") return Completions{{{"p256", ""}, {"p384", ""}, {"p521", ""}, {"ed25519", ""}}, false};
  for (const char* text : {"dim", "id", "not-after", "expect-root", "expect-id", "models", "metadata", "min", "only", "threads", "at", "time"})
    if (line.option == text) return Completions{};
  return std::nullopt;
}

}  // namespace mlc::cli
