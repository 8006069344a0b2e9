// What a ContainerBuilder holds besides the manifest. Private to packager/container.
#pragma once

#include <optional>
#include <vector>

#include "packager/container/builder.h"
#include "packager/container/image.h"
#include "packager/container/segment_bytes.h"

namespace mlc::container {

struct ContainerBuilder::State {
  std::vector<SegmentBytes> bytes;                 // by handle
  std::vector<std::optional<StoredSegment>> kept;  // by handle: in place of `bytes`
  std::optional<uint32_t> assets, golden, operators;

  // Results of finish.
  format::Manifest final_manifest;
  std::vector<uint32_t> order;  // final index -> handle
  std::vector<std::byte> manifest_bytes;
  Core core{};
  format::Digest root{};
};

}  // namespace mlc::container
