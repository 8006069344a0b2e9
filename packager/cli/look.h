// A command that looks into containers of any signer. What a trusted key has signed is read by this process; if one of
// them is a stranger's, the command is answered by a process without privileges, the one in which mlrun opens such files
// (runtime/isolation). Files are opened before: the child can open none.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/cli/report.h"
#include "base/status.h"
#include "runtime/container/container.h"
#include "signing/policy.h"

namespace mlc::cli {

// A container that is open: of its manifest nothing has been parsed. Each file is used up by what opens it further.
struct SealedContainer {
  std::string path;
  Result<container::AuthenticatedFile> file;
  Result<container::AuthenticatedFile> again;  // for a second reading: how this user's trust sees it
  bool isolated = false;  // a file that another process shortens ends a child only, so weights need not be copied
};

// A container that is open for reading, also where its signature has expired.
struct OpenContainer {
  std::string path;
  std::unique_ptr<container::Container> opened;
  signing::Authentication authentication;
  uint64_t manifest_len = 0;
};
// Validated by the one reader; a wrong signature or structure is refused.
[[nodiscard]] Result<OpenContainer> look_into(SealedContainer& sealed);

// What a look needs of the reader: native code is not loaded, so anything may be read.
[[nodiscard]] container::OpenOptions options_to_look(const SealedContainer& sealed);

struct LookCommand {
  std::string_view name;
  bool as_json = false;
  const Result<signing::TrustSet>& trust;  // an error: no signer is trusted
  std::vector<std::string> paths;
  bool looks_again = false;  // SealedContainer::again is used
  int keep = -1;             // a descriptor that the answering process keeps
};
// Prints what `body` reports of the containers, in the order of `paths`, and returns the exit code. A container that cannot be
// opened is told by its Result.
[[nodiscard]] int look(const LookCommand& command, const std::function<Result<Report>(std::vector<SealedContainer>&)>& body);

}  // namespace mlc::cli
