// What operators that are written out by hand ask of a node.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "packager/compile/expand/emit.h"
#include "packager/model/model.h"

namespace mlc::compile {

using Texts = std::vector<std::string>;

// Null: there is none, or it is of another type.
template <class T>
const T* attribute(const model::Node& node, const std::string& name) {
  auto at = node.attributes.find(name);
  return at == node.attributes.end() ? nullptr : std::get_if<T>(&at->second);
}

// A constant of one axis.
template <class T>
uint32_t const_array(Emit& emit, nest::Function& f, ir::Context& ctx, DType dtype, const std::vector<T>& values, const std::string& name = "") {
  const auto* from = reinterpret_cast<const std::byte*>(values.data());
  auto bytes = std::make_shared<std::vector<std::byte>>(from, from + values.size() * sizeof(T));
  const uint32_t number = emit.array(name, dtype, {ctx.integer(static_cast<int64_t>(values.size()))}, nest::Array::Kind::Const);
  f.arrays[number].data = std::make_shared<nest::ConstData>(nest::ConstData{Bytes(*bytes), bytes});
  return number;
}

}  // namespace mlc::compile
