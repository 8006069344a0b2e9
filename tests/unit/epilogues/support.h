// A product (convolution, matrix product) followed by elementwise operators, as operators of the library: expanded,
// optimised, lowered, run by the Loop interpreter and compared with the Nest interpreter. Says which templates made the kernels.
#pragma once

#include <string>
#include <vector>

#include "packager/lang/lang.h"
#include "packager/passes/passes.h"
#include "tests/support/nests/lowered.h"

namespace mlc::epilogue_test {

inline const lang::Library& library() {
  static const lang::Library all = lang::Library::parse(lang::Library::builtin_files()).value();
  return all;
}

inline const ir::Expr* expand_math(ir::Context& ctx, ir::Op op, const ir::Expr* arg) {
  return library().expand_math(ctx, op, arg);
}

struct Product {
  std::string name, op;
  std::map<std::string, lang::Attribute> attributes;
  std::vector<int64_t> x, w, bias;  // no bias: empty
  bool weights_are_input = false;
  const char* schedule = "product";
};

// An elementwise operator: how many operands that follow the value it takes, by its declaration.
struct Step {
  std::string domain, op;
  size_t operands = 1;
  std::map<std::string, lang::Attribute> attributes = {};
};

// What the second operand of a binary operator is.
enum class Second : uint8_t { Scalar, Channel, Whole, Itself };

// A function under construction.
class Chain {
 public:
  Chain(uint32_t seed) : rng_(seed) {}

  void input(const std::vector<int64_t>& shape) { value_ = array("x", DType::F32, shape, false); }

  void product(const Product& p) {
    lang::Call call{.name = p.op, .opset = 21, .attributes = p.attributes, .source = p.name};
    call.inputs.push_back(lang::Value{array("x", DType::F32, p.x, false), {}});
    call.inputs.push_back(lang::Value{array("w", DType::F32, p.w, !p.weights_are_input), {}});
    if (!p.bias.empty()) call.inputs.push_back(lang::Value{array("bias", DType::F32, p.bias, true), {}});
    auto r = library().expand(ctx, f, call);
    REQUIRE_MESSAGE(r.ok(), (r.ok() ? "" : r.status().text()));
    value_ = (*r)[0].array;
    channel_ = p.op == "Conv" || p.op == "ConvTranspose" ? 1 : f.arrays[value_].shape.size() - 1;
  }

  // False if no element type of the value suits the operator.
  bool step(const Step& s, Second second) {
    const uint32_t before = value_;
    for (DType t : {f.arrays[before].dtype, DType::F32, DType::I32, DType::U8, DType::Bool}) {
      value_ = before;
      if (t != f.arrays[before].dtype) cast(t);
      if (apply(s, second)) return true;
    }
    value_ = before;
    return false;
  }

  // An operator of any operands. The numbers are those of arrays; kNone: absent.
  static constexpr uint32_t kNone = nest::kNoArray;
  void node(const std::string& op, const std::vector<uint32_t>& operands, std::map<std::string, lang::Attribute> attributes = {}) {
    lang::Call call{.name = op, .opset = 21, .attributes = std::move(attributes), .source = op};
    for (uint32_t a : operands) call.inputs.push_back(a == kNone ? std::nullopt : std::optional(lang::Value{a, {}}));
    auto r = library().expand(ctx, f, call);
    REQUIRE_MESSAGE(r.ok(), (r.ok() ? "" : r.status().text()));
    value_ = (*r)[0].array;
  }
  uint32_t like(DType t) { return array("other", t, shape(), false); }
  uint32_t constant(DType t, const std::vector<int64_t>& shape, double value) {
    const uint32_t a = array("c", t, shape, true);
    auto bytes = std::make_shared<std::vector<std::byte>>(f.arrays[a].data->bytes.begin(), f.arrays[a].data->bytes.end());
    for (size_t k = 0; k < bytes->size() / bytes_of(t); ++k) ir::store_element(t, bytes->data(), k, {static_cast<int64_t>(value), value});
    auto data = std::make_shared<nest::ConstData>();
    data->bytes = *bytes;
    data->owner = bytes;
    f.arrays[a].data = data;
    return a;
  }
  uint32_t value() const { return value_; }
  size_t channel() const { return channel_; }  // axis of the columns
  std::vector<int64_t> shape() const {
    std::vector<int64_t> out;
    for (const ir::Expr* e : f.arrays[value_].shape) out.push_back(e->i);
    return out;
  }

  void keep() { kept_.push_back(value_); }  // as an output, too
  void finish() {
    f.outputs = {value_};
    f.outputs.insert(f.outputs.end(), kept_.begin(), kept_.end());
  }
  DType dtype() const { return f.arrays[value_].dtype; }

  ir::Context ctx;
  nest::Function f;
  std::vector<nest::Tensor> inputs;

 private:
  // Eighths but 0, of constants powers of two: sums of products are exact, whatever the order and whatever is folded into weights.
  uint32_t array(const std::string& name, DType t, const std::vector<int64_t>& shape, bool constant) {
    nest::Tensor data = nest::Tensor::zeros(t, shape);
    for (int64_t k = 0; k < data.elements(); ++k) {
      const int64_t at = static_cast<int64_t>(rng_() % 16);
      const int64_t drawn = constant ? (at < 8 ? -1 : 1) << at % 4 : at < 8 ? at - 8 : at - 7;
      const ir::Scalar v{is_float(t) ? 0 : t == DType::Bool ? drawn & 1 : std::abs(drawn) % 7 + 1, static_cast<double>(drawn) / 8};
      ir::store_element(t, data.bytes.data(), static_cast<uint64_t>(k), v);
    }
    nest::Array a;
    a.name = name + std::to_string(f.arrays.size());
    a.kind = constant ? nest::Array::Kind::Const : nest::Array::Kind::Input;
    a.dtype = t;
    for (int64_t n : shape) a.shape.push_back(ctx.integer(n));
    const auto id = static_cast<uint32_t>(f.arrays.size());
    if (constant) {
      auto owner = std::make_shared<std::vector<std::byte>>(data.bytes);
      auto bytes = std::make_shared<nest::ConstData>();
      bytes->bytes = *owner;
      bytes->owner = owner;
      a.data = bytes;
    } else {
      f.inputs.push_back(id);
      inputs.push_back(std::move(data));
    }
    f.arrays.push_back(std::move(a));
    return id;
  }

  void cast(DType t) {
    lang::Call call{.name = "Cast", .opset = 21, .attributes = {{"to", t}}, .source = "cast"};
    call.inputs = {lang::Value{value_, {}}};
    auto r = library().expand(ctx, f, call);
    REQUIRE_MESSAGE(r.ok(), (r.ok() ? "" : r.status().text()));
    value_ = (*r)[0].array;
  }

  bool apply(const Step& s, Second second) {
    lang::Call call{.domain = s.domain, .name = s.op, .opset = s.domain == "ai.onnx" ? 24 : 1, .attributes = s.attributes, .source = s.op};
    call.inputs.push_back(lang::Value{value_, {}});
    for (size_t k = 1; k < s.operands; ++k) {
      std::vector<int64_t> other = shape();
      if (second == Second::Scalar) other.clear();
      if (second == Second::Channel)
        for (size_t axis = 0; axis < other.size(); ++axis)
          if (axis != channel_) other[axis] = 1;
      const bool constant = second == Second::Scalar || second == Second::Channel;
      call.inputs.push_back(lang::Value{second == Second::Itself ? value_ : array("other", dtype(), other, constant), {}});
    }
    auto r = library().expand(ctx, f, call);
    if (!r.ok()) return false;
    value_ = (*r)[0].array;
    return true;
  }

  std::mt19937 rng_;
  uint32_t value_ = 0;
  std::vector<uint32_t> kept_;
  size_t channel_ = 1;
};

}  // namespace mlc::epilogue_test
