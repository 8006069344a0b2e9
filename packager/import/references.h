// A model whose constants are elsewhere: in place of the elements of a tensor stands their digest. What a container keeps of the model that it was built from
// (spec/container.md, section 12), since it has these tensors already.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/checked.h"
#include "base/status.h"
#include "signing/hash_tree.h"

namespace mlc::import {

// Where the elements of a constant are: those of a tensor, or of a part of it, of the constant's own shape: its elements along `axis` from `from` on.
struct PartOfTensor {
  uint64_t axis = 0, from = 0;
};
struct Reference {
  Digest tensor{};  // tensor_digest
  std::optional<PartOfTensor> part = std::nullopt;
};

// The elements of a part of this shape, of a tensor whose elements lie one after the other. Any of it may be wrong: Malformed, if there is no such part.
[[nodiscard]] Result<std::vector<std::byte>> elements_of_part(DType dtype, const std::vector<uint64_t>& tensor, Bytes elements, const PartOfTensor& part,
                                                              const std::vector<uint64_t>& shape);

// The ONNX file without the elements of tensors whose digests (tensor_digest) are keys of `there`, and without what is said of it for people only. All else that
// is beside the file is taken in. Unsupported if more than `most` bytes of elements are left. The file was imported before.
[[nodiscard]] Result<std::vector<std::byte>> model_with_references(const std::string& path, const std::map<Digest, Reference>& there, uint64_t most);

// The same model as a file beside `data_file`. `place` puts the elements of a constant of that shape into it and returns where they begin and how many bytes
// they are. `model` may be any bytes: Malformed if they are none.
struct DataPlace {
  uint64_t offset = 0, length = 0;
};
using PlaceElements = std::function<Result<DataPlace>(const Reference&, const std::vector<uint64_t>& shape)>;
[[nodiscard]] Result<std::vector<std::byte>> model_with_data(Bytes model, const std::string& data_file, const PlaceElements& place);

}  // namespace mlc::import
