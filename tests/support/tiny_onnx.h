// The bytes of a small ONNX file: one node, float arrays, free extents by name. Field numbers are those of onnx.proto3.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mlc::test {

class Protobuf {
 public:
  Protobuf& number(uint32_t field, uint64_t value) {
    varint(field << 3);
    varint(value);
    return *this;
  }
  Protobuf& text(uint32_t field, const std::string& bytes) {
    varint(field << 3 | 2);
    varint(bytes.size());
    bytes_ += bytes;
    return *this;
  }
  Protobuf& message(uint32_t field, const Protobuf& inner) { return text(field, inner.bytes_); }
  const std::string& bytes() const { return bytes_; }

 private:
  void varint(uint64_t v) {
    for (; v >= 128; v >>= 7) bytes_ += static_cast<char>(v | 128);
    bytes_ += static_cast<char>(v);
  }
  std::string bytes_;
};

// y = op(x) of f32 arrays whose extents are the given names.
inline std::string one_node_onnx(const std::string& op, const std::vector<std::string>& extents) {
  Protobuf shape;
  for (const std::string& name : extents) shape.message(1, Protobuf().text(2, name));
  const auto port = [&](const std::string& name) {
    return Protobuf().text(1, name).message(2, Protobuf().message(1, Protobuf().number(1, 1).message(2, shape)));
  };
  Protobuf node, graph, opset;
  node.text(1, "x").text(2, "y").text(4, op);
  graph.message(1, node).text(2, "one node").message(11, port("x")).message(12, port("y"));
  opset.text(1, "").number(2, 13);
  return Protobuf().number(1, 8).message(7, graph).message(8, opset).bytes();
}

}  // namespace mlc::test
