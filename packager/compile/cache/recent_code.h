// Code that this build has made: of a kernel that is lowered again, and of targets that differ in nothing that a kernel uses
// (targets::least_target). Behind it stands that of earlier builds.
#pragma once

#include <mutex>
#include <unordered_map>

#include "targets/target.h"

namespace mlc::compile {

class RecentCode final : public targets::CodeStore {
 public:
  // `earlier` may be null and must outlive this.
  explicit RecentCode(targets::CodeStore* earlier) : earlier_(earlier) {}

  std::optional<std::vector<std::byte>> find(const std::string& key) override;
  void keep(const std::string& key, std::span<const std::byte> code) override;
  // Gives the memory back; what `earlier` has stays there. Not while another thread asks.
  void forget() { code_.clear(); }

 private:
  void remember(const std::string& key, std::span<const std::byte> code);

  targets::CodeStore* const earlier_;
  std::mutex mu_;
  std::unordered_map<std::string, std::vector<std::byte>> code_;  // guarded by mu_
};

}  // namespace mlc::compile
