// How an artifact of a registry is named: HOST[:PORT]/REPOSITORY[:TAG][@DIGEST], after the grammar of the distribution specification
// (spec/registry.md, section 1). The host is never left out: a name without one means another registry for each tool.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "signing/hash_tree.h"

namespace mlc::registry {

inline constexpr size_t kMaxReference = 1024, kMaxRepository = 255, kMaxTag = 128;

struct Reference {
  std::string host;        // with its port, if one is named: "localhost:5000", "[::1]:5000"
  std::string repository;  // "acme/cat"
  std::string tag;         // empty where only a digest is named
  std::optional<Digest> digest;

  // What is asked for: the digest if there is one, else the tag.
  [[nodiscard]] std::string object() const;
  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::string repository_text() const { return host + "/" + repository; }

  friend bool operator==(const Reference&, const Reference&) = default;
};

// Usage, with what is wrong. Neither tag nor digest means the tag "latest". parse_reference(r.text()) is r.
[[nodiscard]] Result<Reference> parse_reference(std::string_view text);

// "sha256:" and 64 lower-case hex digits, nothing else; and back.
[[nodiscard]] std::optional<Digest> parse_digest(std::string_view text);
[[nodiscard]] std::string digest_text(const Digest& digest);

[[nodiscard]] bool is_tag(std::string_view text);

// The host without its port, and whether it is this machine.
[[nodiscard]] bool is_loopback(std::string_view host_and_port);

}  // namespace mlc::registry
