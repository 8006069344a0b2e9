// ONNX files for tests, good and impossible ones, written field by field without protobuf. Each function gives the bytes
// of one message.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace mlc::test::onnx_bytes {

inline std::string varint(uint64_t v) {
  std::string s;
  for (; v >= 0x80; v >>= 7) s += static_cast<char>(v | 0x80);
  return s + static_cast<char>(v);
}
inline std::string number(unsigned field, int64_t v) { return varint(field << 3) + varint(static_cast<uint64_t>(v)); }
inline std::string data(unsigned field, std::string_view bytes) {
  return varint(field << 3 | 2) + varint(bytes.size()) + std::string(bytes);
}

constexpr int kFloat = 1, kUint8 = 2, kInt64 = 7, kString = 8, kComplex64 = 14, kUint4 = 21;

// An axis: an extent, or a name.
struct Axis {
  Axis(int extent) : bytes(number(1, extent)) {}
  Axis(int64_t extent) : bytes(number(1, extent)) {}
  Axis(const char* name) : bytes(data(2, name)) {}
  std::string bytes;
};
inline std::string value_info(std::string_view name, int type, const std::vector<Axis>& shape) {
  std::string dims;
  for (const Axis& axis : shape) dims += data(1, axis.bytes);
  return data(1, name) + data(2, data(1, number(1, type) + data(2, dims)));
}
inline std::string tensor(std::string_view name, int type, const std::vector<int64_t>& dims, std::string_view fields) {
  std::string s;
  for (int64_t d : dims) s += number(1, d);
  return s + number(2, type) + data(8, name) + std::string(fields);
}
inline std::string raw(std::string_view bytes) { return data(9, bytes); }
inline std::string external_entry(std::string_view key, std::string_view value) {
  return value.empty() ? std::string() : data(13, data(1, key) + data(2, value));
}
inline std::string external(std::string_view location, std::string_view offset = "", std::string_view length = "") {
  return external_entry("location", location) + external_entry("offset", offset) + external_entry("length", length) + number(14, 1);
}
// Elements of a tensor of the container that keeps this model (spec/container.md, section 12).
inline std::string external_part(std::string_view location, uint64_t axis, uint64_t from) {
  return external_entry("location", location) + external_entry("axis", std::to_string(axis)) + external_entry("from", std::to_string(from)) + number(14, 1);
}

inline std::string attribute(std::string_view name, int type, std::string_view fields) {
  return data(1, name) + std::string(fields) + number(20, type);
}
inline std::string int_attribute(std::string_view name, int64_t v) { return attribute(name, 2, number(3, v)); }
inline std::string graph_attribute(std::string_view name, std::string_view graph) {
  return attribute(name, 5, data(6, graph));
}
inline std::string node(std::string_view op, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                        std::string_view name = "", const std::vector<std::string>& attributes = {}) {
  std::string s;
  for (const std::string& i : inputs) s += data(1, i);
  for (const std::string& o : outputs) s += data(2, o);
  if (!name.empty()) s += data(3, name);
  s += data(4, op);
  for (const std::string& a : attributes) s += data(5, a);
  return s;
}

struct GraphParts {
  std::string name = "g";
  std::vector<std::string> nodes, initializers, inputs, outputs, value_infos;
  std::string more = {};  // other fields
};
inline std::string graph(const GraphParts& parts) {
  std::string s;
  const auto all = [&](unsigned field, const std::vector<std::string>& list) {
    for (const std::string& item : list) s += data(field, item);
  };
  all(1, parts.nodes);
  s += data(2, parts.name);
  all(5, parts.initializers);
  all(11, parts.inputs);
  all(12, parts.outputs);
  all(13, parts.value_infos);
  return s + parts.more;
}
inline std::string opset(std::string_view domain, int64_t version) {
  return data(8, (domain.empty() ? std::string() : data(1, domain)) + number(2, version));
}
inline std::string model_file(std::string_view graph_bytes, std::string_view more = opset("", 17)) {
  return number(1, 8) + std::string(more) + data(7, graph_bytes);
}

}  // namespace mlc::test::onnx_bytes
