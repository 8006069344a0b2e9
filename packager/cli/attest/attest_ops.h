// Statements beside a container, as files: an OpenSSF model signature, provenance, a bill of materials.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "signing/hash_tree.h"

namespace mlc::cli {

enum class AttestKind : uint8_t { Oms, Provenance, Bill };

struct AttestOptions {
  std::string file;
  AttestKind kind = AttestKind::Oms;
  std::string key_file;    // empty: the user's own key
  std::string passphrase;  // where that of an encrypted key comes from
  std::string output;      // empty: the file's name with an ending of the kind
  std::string builder_id;  // of provenance
  bool bare = false;       // the document alone, unsigned
  bool force = false;      // overwrite what is there
};
struct AttestResult {
  std::string output;
  std::string_view predicate_type;
  Digest file{}, root{};
  std::string key_name, key_id;  // empty with `bare`
};
// Every segment is hashed before anything is stated: what is spoken of is whole.
[[nodiscard]] Result<AttestResult> attest(const AttestOptions& options);

}  // namespace mlc::cli
