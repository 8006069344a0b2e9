// A model whose constants are elsewhere: in place of the elements of a tensor stands their digest. What a container keeps of the model that it was built from
// (spec/container.md, section 12), since it has these tensors already.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/checked.h"
#include "base/status.h"
#include "signing/hash_tree.h"

namespace mlc::import {

// The ONNX file without the elements of tensors whose digests (tensor_digest) are `there`, and without what is said of it for people only. All else that
// is beside the file is taken in. Unsupported if more than `most` bytes of elements are left. The file was imported before.
[[nodiscard]] Result<std::vector<std::byte>> model_with_references(const std::string& path, const std::set<Digest>& there, uint64_t most);

// The same model as a file beside `data_file`. `place` puts the elements of the tensor of that digest into it and returns where they begin and how many bytes
// they are. `model` may be any bytes: Malformed if they are none.
struct DataPlace {
  uint64_t offset = 0, length = 0;
};
[[nodiscard]] Result<std::vector<std::byte>> model_with_data(Bytes model, const std::string& data_file, const std::function<Result<DataPlace>(const Digest&)>& place);

}  // namespace mlc::import
