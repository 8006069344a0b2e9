#include "packager/compile/dump.h"

#include <algorithm>

#include "base/text/nearest_name.h"
#include "packager/passes/passes.h"

namespace mlc::compile {
namespace {

constexpr const char* kOfKernels[] = {"nest", "schedule", "loop", "llvm", "asm"};

}  // namespace

bool DumpOptions::wants_kernels() const {
  return std::any_of(std::begin(kOfKernels), std::end(kOfKernels), [this](const char* level) { return wants(level); });
}

std::vector<std::string> dump_words() {
  std::vector<std::string> words(std::begin(kOfKernels), std::end(kOfKernels));
  for (const char* word : {"import", "expand", "passes"}) words.emplace_back(word);
  for (const auto& pipeline : {passes::default_pipeline(), passes::for_devices(passes::default_pipeline(), false), passes::for_devices(passes::default_pipeline(), true)})
    for (const std::string& pass : pipeline)
      if (std::find(words.begin(), words.end(), pass) == words.end()) words.push_back(pass);
  return words;
}

Status check_dump(const DumpOptions& options) {
  const std::vector<std::string> known = dump_words();
  for (const std::string& word : options.levels) {
    if (std::find(known.begin(), known.end(), word) != known.end()) continue;
    std::string all = "known:";
    for (const std::string& k : known) all += " " + k;
    return Status(Code::Usage, "--dump: " + unknown_word("word", word, known)).fact(std::move(all));
  }
  if (!options.only.empty() && !options.wants_kernels())
    return Status(Code::Usage, "--only: nothing of a kernel is shown without --dump nest, schedule, loop, llvm or asm");
  return ok();
}

}  // namespace mlc::compile
