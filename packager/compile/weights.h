// One copy of every constant: collects the Const arrays of all functions, finds equal ones by content, and gives each
// the tensor number that plans name it by.
//
// Two arrays with equal elements, type and shape are one tensor; where they want different layouts the tensor gets a
// copy per layout, the layout met first being the primary one.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/status.h"
#include "packager/container/builder.h"
#include "packager/import/references.h"
#include "packager/nest/nest.h"

namespace mlc::compile {

// `name` as manifests take it: UTF-8 with '_' for each byte or character that has no place there, at most `longest` bytes of it.
std::string clean_name(std::string_view name, size_t longest);

class WeightStore {
 public:
  // Announces constant `array` of `function`. Both must outlive the store. All calls come before `seal`.
  void add(const nest::Function& function, uint32_t array);
  // Orders the tensors by name and fixes their numbers.
  void seal();
  // {tensor, copy} of an announced array, after `seal`.
  std::pair<uint32_t, uint32_t> place_of(const nest::Function& function, uint32_t array) const;
  // Moves tensors and packed bytes into a container. After `seal`.
  Status write(container::ContainerBuilder& builder) const;
  // Where constants of the model are: tensors, and what is a part of one (passes/fuse/siblings.cpp), by their digests.
  std::map<Digest, import::Reference> references() const;
  uint64_t num_parameters() const;

 private:
  struct Entry {
    std::string name;
    Digest content{};
    const nest::Array* array = nullptr;          // any of the equal ones
    std::vector<const nest::Array*> copies;      // one per distinct layout
    uint32_t number = 0;
  };
  Digest digest_of(const nest::Array& array);

  std::vector<Entry> entries_;
  std::map<Digest, size_t> by_content_;
  std::map<std::tuple<const nest::ConstData*, DType, std::vector<uint64_t>>, Digest> digests_;
  std::map<std::pair<const nest::Function*, uint32_t>, std::pair<size_t, uint32_t>> placed_;
  std::vector<size_t> order_;
};

// The text of a layout in the container's grammar (schema/layout_text.h) for an array of this rank.
std::string layout_text(const nest::Layout& layout, unsigned rank);

}  // namespace mlc::compile
