// How messages of the importer show names of a file: 'conv_1', or escaped where a terminal would do more than show them.
#pragma once

#include <string>
#include <string_view>

#include "packager/model/model.h"
#include "schema/validate/validate.h"

namespace mlc::import {

inline std::string shown(std::string_view name) {
  return format::is_clean_text(name, 200) ? "'" + std::string(name) + "'" : format::quoted(name);
}
inline std::string described(const model::Node& node) {
  return "node " + shown(node.label()) + " (" + (format::is_clean_text(node.op, 200) ? node.op : format::quoted(node.op)) + ")";
}

}  // namespace mlc::import
