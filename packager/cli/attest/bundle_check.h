// Whether a bundle that is beside a container is about it, and whose word it is.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "signing/bundle.h"
#include "signing/policy.h"

namespace mlc::cli {

// The container, as statements name it, and who is believed about it.
struct BundleQuestion {
  std::string file_name;  // a base name
  Digest file{};          // SHA-256 of all bytes
  Digest root{};
  std::string model_id;
  const signing::Authentication& authentication;
  const signing::TrustSet& trust;
  uint64_t now = 0;  // seconds since 1970
};

struct BundleAnswer {
  std::string path;
  std::string predicate_type;  // empty: not even that could be read
  std::string key, key_id;     // of the signer; empty: none is trusted
  Status status;               // OK: a trusted key says it, and of this file
};
// `text` is what the file `path` holds.
[[nodiscard]] BundleAnswer check_bundle(const std::string& path, std::string_view text, const BundleQuestion& question);

// The rest of OpenSSF model signing: that the resources of a payload whose head is `head` add up, and that one is this file. It is
// called "." where a file was signed and by its name where its folder was.
[[nodiscard]] Status check_oms(std::string_view payload, const signing::StatementHead& head, const BundleQuestion& question, const std::string& name);

}  // namespace mlc::cli
