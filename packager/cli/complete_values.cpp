#include "packager/cli/complete_values.h"

#include "packager/cli/container_file.h"
#include "packager/compile/dump.h"
#include "runtime/trust/trust_command.h"
#include "targets/target.h"

namespace mlc::cli {
namespace {

// The last of names that commas separate; those before it stay.
Completions target_names(const std::string& word) {
  const size_t comma = word.rfind(',');
  const std::string before = comma == word.npos ? "" : word.substr(0, comma + 1);
  Completions out;
  out.words = {{before + "all", "each of them"}, {before + "native", "what fits this machine"}};
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

Completions names_in(const std::string& path, bool variants) {
  Completions out;
  const auto file = open_container_file(path);
  if (!file.ok()) return out;
  const format::Manifest& manifest = file->opened->manifest();
  if (variants)
    for (const format::Variant& variant : manifest.variants) out.words.push_back({variant.name, variant.target});
  else
    for (const format::Method& method : manifest.methods) out.words.push_back({method.name, ""});
  return out;
}

}  // namespace

std::optional<Completions> values_of_line(const CommandLine& line) {
  if (line.option == "target") return target_names(line.word);
  if (line.option == "dump") return dump_levels(line.word);
  if (line.option == "variant") return names_in(line.value("file"), true);
  if (line.option == "program") return names_in(line.value("file"), false);
  if (line.option == "remove") return trusted_key_ids();
  if (line.option == "by") return Completions{{{"kind", ""}, {"variant", ""}, {"segment", ""}, {"tensor", ""}}, false};
  if (line.option == "type") return Completions{{{"p256", ""}, {"p384", ""}, {"p521", ""}, {"ed25519", ""}}, false};
  for (const char* text : {"dim", "id", "not-after", "expect-root", "expect-id", "models", "min", "only", "threads", "at", "time"})
    if (line.option == text) return Completions{};
  return std::nullopt;
}

}  // namespace mlc::cli
