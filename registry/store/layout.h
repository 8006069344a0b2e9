// A folder in OCI's image layout: blobs by digest, and index.json with the tags.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "registry/store/store.h"

namespace mlc::registry {

// A folder that does not exist yet, or is empty. It is written beside its place and appears by `commit`; without that nothing stays.
[[nodiscard]] Result<std::unique_ptr<Store>> create_layout(const std::string& folder);
// One that is there.
[[nodiscard]] Result<std::unique_ptr<Store>> open_layout(const std::string& folder);

}  // namespace mlc::registry
