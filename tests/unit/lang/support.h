// Expanding one operator of a text and running it in the Nest interpreter.
#pragma once

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

#include "packager/lang/lang.h"
#include "packager/nest/interpret/interpret.h"

namespace mlc::lang_test {

// The library of common.mlop's kind: the built-in texts and one more.
inline Result<lang::Library> parse(const std::string& text, bool with_builtin = true) {
  std::vector<lang::SourceFile> files;
  if (with_builtin) files = lang::Library::builtin_files();
  files.push_back({"test.mlop", text});
  return lang::Library::parse(files);
}

struct Input {
  nest::Tensor tensor;
  bool constant = false, absent = false;
  std::vector<std::string> symbols;  // names of free extents, "" for constants; empty: all constant
};

template <class T>
Input data(DType t, std::vector<int64_t> shape, const std::vector<T>& values, bool constant = false) {
  return {nest::Tensor::of(t, std::move(shape), values), constant, false, {}};
}
inline Input f32(std::vector<int64_t> shape, const std::vector<float>& values) { return data<float>(DType::F32, std::move(shape), values); }
inline Input i64(std::vector<int64_t> shape, const std::vector<int64_t>& values, bool constant = true) {
  return data<int64_t>(DType::I64, std::move(shape), values, constant);
}
inline Input absent() { return {{}, false, true, {}}; }

struct Expanded {
  ir::Context ctx;
  nest::Function function;
  std::vector<lang::Value> outputs;
  Status status;
  std::vector<nest::Tensor> inputs;
};

inline void expand(Expanded& x, const lang::Library& library, lang::Call call, const std::vector<Input>& inputs) {
  for (const Input& in : inputs) {
    if (in.absent) {
      call.inputs.push_back(std::nullopt);
      continue;
    }
    nest::Array a;
    a.name = "in" + std::to_string(x.function.arrays.size());
    a.kind = in.constant ? nest::Array::Kind::Const : nest::Array::Kind::Input;
    a.dtype = in.tensor.dtype;
    for (size_t k = 0; k < in.tensor.shape.size(); ++k) {
      const bool symbolic = k < in.symbols.size() && !in.symbols[k].empty();
      a.shape.push_back(symbolic ? x.ctx.sym(x.ctx.declare_sym(in.symbols[k], 1)) : x.ctx.integer(in.tensor.shape[k]));
    }
    if (in.constant) {
      auto data = std::make_shared<nest::ConstData>();
      auto owner = std::make_shared<std::vector<std::byte>>(in.tensor.bytes);
      data->bytes = *owner;
      data->owner = owner;
      a.data = data;
    }
    const auto id = static_cast<uint32_t>(x.function.arrays.size());
    x.function.arrays.push_back(std::move(a));
    if (!in.constant) {
      x.function.inputs.push_back(id);
      x.inputs.push_back(in.tensor);
    }
    call.inputs.push_back(lang::Value{id, {}});
  }
  auto r = library.expand(x.ctx, x.function, call);
  if (!r.ok()) {
    x.status = std::move(r).status();
    return;
  }
  x.outputs = std::move(r).value();
  for (const auto& v : x.outputs)
    if (v.array != lang::Library::kNoArray) x.function.outputs.push_back(v.array);
}

inline std::vector<nest::Tensor> run(Expanded& x) {
  REQUIRE_MESSAGE(x.status.ok(), x.status.text());
  auto r = nest::interpret(x.function, x.inputs, {.threads = 1});
  REQUIRE_MESSAGE(r.ok(), (r.ok() ? "" : r.status().text()));
  return std::move(r).value();
}

// Expands operator `name` (at opset 1 of ai.onnx unless the call says otherwise) of `text`.
inline void expand_text(Expanded& x, const std::string& text, const std::string& name, const std::vector<Input>& inputs,
                        std::map<std::string, lang::Attribute> attributes = {}, std::vector<bool> outputs = {true}) {
  static const auto builtin = parse("");  // which takes longer than a call
  std::optional<Result<lang::Library>> own;
  if (!text.empty()) own = parse(text);
  const auto& library = own ? *own : builtin;
  REQUIRE_MESSAGE(library.ok(), (library.ok() ? "" : library.status().text()));
  lang::Call call;
  call.name = name;
  call.opset = 100;
  call.attributes = std::move(attributes);
  call.outputs = std::move(outputs);
  call.source = "node";
  expand(x, *library, call, inputs);
}

// The message of a text that must not parse.
inline std::string refusal(const std::string& text) {
  auto library = parse(text);
  CHECK_FALSE(library.ok());
  return library.ok() ? "" : library.status().message;
}

}  // namespace mlc::lang_test
