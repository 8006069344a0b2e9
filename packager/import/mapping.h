// A file mapped for reading.
#pragma once

#include <memory>
#include <string>

#include "base/checked.h"
#include "base/status.h"

namespace mlc::import {

struct Mapping {
  Bytes bytes;
  Mapping() = default;
  Mapping(const Mapping&) = delete;
  ~Mapping();
};

// NotFound if there is no such regular file that can be read, Resource if it cannot be mapped. Does not wait for pipes.
Result<std::shared_ptr<Mapping>> map_file(const std::string& path);

}  // namespace mlc::import
