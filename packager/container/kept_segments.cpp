#include "packager/container/kept_segments.h"

#include <string>

namespace mlc::container {

std::set<uint32_t> kept_segments(const format::Manifest& manifest, const std::vector<const format::Variant*>& variants) {
  std::set<uint32_t> stays, layouts;
  std::set<std::string> targets;
  for (uint32_t i = 0; i < manifest.segments.size(); ++i)
    if (!manifest.segments[i].droppable) stays.insert(i);
  // Of no variant, small, and what `add` compiles.
  if (manifest.portable && manifest.portable->level == format::PortableLevel::Model) stays.insert(manifest.portable->segment);
  for (const format::Variant* variant : variants) {
    stays.insert({*variant->plan, *variant->module});
    layouts.insert(variant->layouts.begin(), variant->layouts.end());
    targets.insert(variant->target);
  }
  for (const format::Tuning& tuning : manifest.tuning)
    if (targets.count(tuning.target) > 0) stays.insert(tuning.segment);
  for (const format::Tensor& tensor : manifest.tensors)
    for (const format::Copy& copy : tensor.copies)
      if (copy.ref.length > 0 && layouts.count(copy.layout) > 0) stays.insert(copy.ref.segment);
  return stays;
}

}  // namespace mlc::container
