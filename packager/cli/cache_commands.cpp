#include "packager/cli/cache_commands.h"

#include <cstdio>
#include <memory>

#include "base/cli/program.h"
#include "base/cli/report.h"
#include "packager/compile/cache/code_cache.h"

namespace mlc::cli {
namespace {

struct CacheFlags {
  std::string folder;
  bool clear = false, as_json = false;
};

std::string line_of(const char* what, const compile::CodeCache::Contents& contents) {
  char text[96];
  std::snprintf(text, sizeof text, "%s  %zu kernels, %.2f MB\n", what, contents.entries, static_cast<double>(contents.bytes) / 1e6);
  return text;
}

Result<Report> run_cache(CacheFlags& flags) {
  if (flags.folder.empty()) {
    MLC_ASSIGN(flags.folder, compile::code_cache_folder());
  }
  MLC_ASSIGN(const auto cache, compile::CodeCache::open(flags.folder));
  Report report;
  report.text = "folder   " + flags.folder + "\n";
  report.json["folder"] = flags.folder;
  if (flags.clear) {
    MLC_ASSIGN(const auto removed, cache->shrink(0));
    report.text += line_of("removed", removed);
    report.json["removed"] = removed.entries;
  }
  MLC_ASSIGN(const auto contents, cache->contents());
  report.text += line_of("holds  ", contents);
  report.json["kernels"] = contents.entries;
  report.json["bytes"] = contents.bytes;
  report.json["limit"] = compile::CodeCache::kLimit;
  return report;
}

}  // namespace

void add_cache_commands(Program& program) {
  auto flags = std::make_shared<CacheFlags>();
  const Command command = program.add_command("cache", "show or empty the folder of compiled kernels", "  mlpack cache\n  mlpack cache --clear\n", flags->as_json);
  command.add_option("--cache", flags->folder, "the folder (default: this user's own)");
  command.add_flag("--clear", flags->clear, "remove all kernels; the next build compiles them again");
  command.on_run([flags] { return finish("cache", flags->as_json, run_cache(*flags)); });
}

}  // namespace mlc::cli
