// A file whose signer is not trusted: its manifest is read by a process without privileges only (runtime/sandbox), never by this one,
// which has passwords and sockets.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "registry/leaves.h"
#include "runtime/container/container.h"

namespace mlc::registry {

struct Stranger {
  std::string id;        // as the file says
  uint64_t version = 0;
};

// Opens the file, policy included, and hashes every segment. What comes back is text of the file's making: printable, and cut. To be called
// while there is one thread. Cancelled where a signal of the user ended it.
[[nodiscard]] Result<Stranger> verify_apart(container::AuthenticatedFile file, const container::OpenOptions& how, uint64_t file_bytes);

// The leaves of a file that is here, whatever its signer. They are what a process says that the file may have led astray: compare what is
// taken from there with a digest that is known from elsewhere. Errors as above.
[[nodiscard]] Result<std::vector<Leaf>> leaves_apart(const std::string& path);

}  // namespace mlc::registry
