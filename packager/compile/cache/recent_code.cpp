#include "packager/compile/cache/recent_code.h"

namespace mlc::compile {

std::optional<std::vector<std::byte>> RecentCode::find(const std::string& key) {
  {
    const std::lock_guard lock(mu_);
    if (auto found = code_.find(key); found != code_.end()) return found->second;
  }
  auto code = earlier_ ? earlier_->find(key) : std::nullopt;
  if (code) remember(key, *code);
  return code;
}

void RecentCode::keep(const std::string& key, std::span<const std::byte> code) {
  remember(key, code);
  if (earlier_) earlier_->keep(key, code);
}

void RecentCode::remember(const std::string& key, std::span<const std::byte> code) {
  const std::lock_guard lock(mu_);
  code_.emplace(key, std::vector<std::byte>(code.begin(), code.end()));
}

}  // namespace mlc::compile
