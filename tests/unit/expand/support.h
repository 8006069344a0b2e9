// A model given as text, expanded and interpreted. On the way its function is verified, and printed, parsed and printed
// again, which must give the same text and the same answers.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "packager/compile/expand.h"
#include "packager/model/verify.h"
#include "packager/nest/interpret/interpret.h"
#include "packager/nest/text/print.h"
#include "packager/nest/verify/verify.h"
#include "tests/text/model_text.h"
#include "tests/text/nest_text.h"

namespace mlc::expand_test {

using nest::Tensor;
using Tensors = std::vector<Tensor>;

inline Tensor f32(std::vector<int64_t> shape, const std::vector<float>& v) { return Tensor::of(DType::F32, std::move(shape), v); }
inline Tensor i64(std::vector<int64_t> shape, const std::vector<int64_t>& v) { return Tensor::of(DType::I64, std::move(shape), v); }
inline Tensor truth(bool v) { return Tensor::of<uint8_t>(DType::Bool, {}, {v}); }
inline Tensor list(std::vector<Tensor> items, uint8_t depth = 1) { return Tensor::list(DType::F32, std::move(items), depth); }

inline bool same(const Tensor& a, const Tensor& b) {
  if (a.dtype != b.dtype || a.list_depth != b.list_depth || a.shape != b.shape || a.bytes != b.bytes || a.items.size() != b.items.size()) return false;
  for (size_t k = 0; k < a.items.size(); ++k)
    if (!same(a.items[k], b.items[k])) return false;
  return true;
}
inline std::vector<float> floats(const Tensor& t) { return t.values<float>(); }

inline const lang::Library& library() {
  static const lang::Library all = lang::Library::parse(lang::Library::builtin_files()).value();
  return all;
}

struct Expanded {
  ir::Context ctx;
  nest::Function function;
  Status status;
  explicit Expanded(const std::string& graph, const std::string& opset = "17", const lang::Library& operators = library()) {
    auto parsed = model::parse("model\nopset ai.onnx " + opset + "\n" + graph, {});
    REQUIRE_MESSAGE(parsed.ok(), (parsed.ok() ? std::string() : parsed.status().text()));
    const Status good = model::verify(*parsed);
    REQUIRE_MESSAGE(good.ok(), good.text());
    auto expanded = compile::expand_model(ctx, operators, *parsed, "main");
    if (expanded.ok()) function = std::move(expanded).value();
    else status = std::move(expanded).status();
  }
  size_t controls(StepOp kind) const {
    size_t n = 0;
    for (const auto& s : function.body) n += s.control && s.control->kind == kind;
    return n;
  }
  Result<Tensors> run(const Tensors& inputs) {
    MLC_RETURN_IF_ERROR(Status(status));
    const auto errors = nest::verify(ctx, function);
    CHECK_MESSAGE(errors.empty(), (errors.empty() ? std::string() : errors[0]));
    const std::string text = nest::print(function);
    auto again = nest::parse(ctx, text);
    REQUIRE_MESSAGE(again.ok(), (again.ok() ? std::string() : again.status().text() + "\n" + text));
    CHECK(nest::print(*again) == text);
    auto answers = nest::interpret(function, inputs, {.threads = 1, .max_iterations = 1000});
    const auto answers_again = nest::interpret(*again, inputs, {.threads = 1, .max_iterations = 1000});
    REQUIRE(answers.ok() == answers_again.ok());
    for (size_t k = 0; answers.ok() && k < answers->size(); ++k) CHECK(same((*answers)[k], (*answers_again)[k]));
    return answers;
  }
  Tensors good(const Tensors& inputs) {
    auto r = run(inputs);
    REQUIRE_MESSAGE(r.ok(), (r.ok() ? std::string() : r.status().text()));
    return std::move(r).value();
  }
  void bad(const Tensors& inputs, const std::string& words) {
    const auto r = run(inputs);
    const std::string text = r.ok() ? "accepted" : r.status().text();
    CHECK_MESSAGE(text.find(words) != std::string::npos, text, " should say ", words);
  }
};

}  // namespace mlc::expand_test
