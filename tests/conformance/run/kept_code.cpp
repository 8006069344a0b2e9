#include "tests/conformance/run/kept_code.h"

#include <filesystem>

#include "packager/compile/cache/code_cache.h"
#include "signing/user_key.h"

namespace mlc::conformance {

targets::CodeStore* kept_code() {
  static const std::unique_ptr<compile::CodeCache> cache = []() -> std::unique_ptr<compile::CodeCache> {
    const auto own = signing::cache_folder();
    if (!own.ok() || compile::code_generator_identity().empty()) return nullptr;
    auto opened = compile::CodeCache::open((std::filesystem::path(*own).parent_path() / "mlc-tests/conformance").string());
    if (!opened.ok()) return nullptr;
    (void)(*opened)->shrink(compile::CodeCache::kLimit);
    return std::move(opened).value();
  }();
  return cache.get();
}

}  // namespace mlc::conformance
