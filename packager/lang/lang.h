// The operator language: operators are text (ops/*.mlop; the language is described in spec/operator-language.md), and
// this library turns a call of one into statements of a Nest function. Checking a text against its arguments *is* shape
// inference; running its statements on symbols *is* the propagation of small tensors.
//
//   MLC_ASSIGN(Library library, Library::parse(Library::builtin_files()));
//   nest::Function function;                              // arrays of the inputs and weights already in it
//   Call call{.domain = "ai.onnx", .name = "Relu", .opset = 14, .source = "Relu_7"};
//   call.inputs = {Value{.array = 0}};
//   MLC_ASSIGN(std::vector<Value> outputs, library.expand(ctx, function, call));
//
// A Library is immutable after parse, as far as can be seen, and may be shared between threads; everything that it makes lives in the Context
// and the Function of the caller. Errors are Status values: a text that does not parse names file:line:column; a call
// that does not type-check names the operator, the node, the axis, both extents and where each came from. Nothing is
// appended to the function when expand fails.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"
#include "packager/nest/nest.h"

namespace mlc::lang {

// Tensors of at most this many elements are tracked as values.
constexpr size_t kMaxElements = 64;

// An array of the function and, where they are known, its elements: row-major, one expression each. Elements of integer
// arrays (of any width) are i64 expressions over symbols and constants; others have the array's own type. Constant
// arrays need no `elements`: expand reads the array's data itself.
struct Value {
  uint32_t array = 0;
  std::vector<const ir::Expr*> elements;  // empty: unknown (or the array has none)
};

// The element type that onnx.TensorProto.DataType gives this number; None if it is not known.
DType dtype_of_onnx(int64_t number);

// A tensor as an attribute. Elements are row-major; types of less than 8 bits take a byte each.
struct TensorAttr {
  DType dtype = DType::None;
  std::vector<int64_t> shape;
  std::shared_ptr<const nest::ConstData> data;
};

// A graph as an attribute: appends its statements to the function of the call, for these arrays of that function as its
// inputs, and answers its outputs.
struct GraphAttr {
  std::function<Result<std::vector<Value>>(const std::vector<Value>& inputs)> expand;
};

// The value of an attribute. A `type` attribute of the language accepts a DType, or an int that numbers an element type
// as onnx.TensorProto does.
using Attribute = std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<double>,
                               std::vector<std::string>, TensorAttr, DType, GraphAttr>;

struct Call {
  std::string domain;  // "" reads as "ai.onnx"
  std::string name;
  int64_t opset = 1;   // of the model, for this domain
  std::map<std::string, Attribute> attributes;
  std::vector<std::optional<Value>> inputs;  // nullopt: an optional input that is absent
  std::vector<bool> outputs = {true};        // one entry per output of the node: is it wanted?
  std::string source;                        // node name, for messages and statements
  // Names for the output arrays, in the order of `outputs`; missing or empty ones are made up. Made unique if taken.
  std::vector<std::string> output_names;
};

struct SourceFile {
  std::string name;  // for messages
  std::string text;
};

// What a library knows about one definition; for `mlpack check`, the operator page, and tests.
struct OpInfo {
  std::string domain, name;
  int64_t since = 1;
  std::string file;
  int line = 0;
  std::string text;  // the definition as written
};

class Library {
 public:
  // Parses and checks texts (syntax, names, element types of declarations). Later files may add definitions to the
  // operators of earlier ones; for the same operator and version the later file's definitions are tried first.
  //
  // Where the files begin with all built-in ones, a built-in definition is parsed when a call asks for it first, unless
  // everything is to be read, or a function, combiner or clauses of the other files have a name that built-in texts use.
  enum class Reading : uint8_t { AsAsked, Whole };
  static Result<Library> parse(const std::vector<SourceFile>& files, Reading reading = Reading::AsAsked);
  // The texts of ops/, embedded when this library was built.
  static const std::vector<SourceFile>& builtin_files();
  // All *.mlop files of a directory, sorted by name.
  static Result<std::vector<SourceFile>> read_directory(const std::string& path);

  Library(Library&&) noexcept;
  Library& operator=(Library&&) noexcept;
  ~Library();

  enum class Known : uint8_t { Yes, NoSuchOperator, OpsetTooOld };
  Known knows(std::string_view domain, std::string_view name, int64_t opset) const;
  // From which opsets on the operator is defined, falling; one entry for each definition.
  std::vector<int64_t> versions(std::string_view domain, std::string_view name) const;
  // All definitions, which are parsed for it.
  std::vector<OpInfo> operators() const;

  // Type-checks the call, appends arrays, statements and run-time checks to `function`, and answers the outputs: as
  // many as call.outputs; an output that is not wanted has array == kNoArray. Wanted outputs of integer type, constant
  // shape and at most kMaxElements elements carry their elements if these follow from known ones; so do small floating
  // outputs (scales of Resize) and truth values.
  Result<std::vector<Value>> expand(ir::Context& ctx, nest::Function& function, const Call& call) const;
  static constexpr uint32_t kNoArray = nest::kNoArray;

  // exp, log, sin, ... of `arg` by primitive operations (text: ops/math.mlop, where errors are stated). `op` is one of
  // the transcendental ir::Op (Exp .. Erf, Pow with two arguments). Works for f32 and f64 of any number of lanes; f16
  // and bf16 arguments are computed in f32. Never fails for those; null for any other op or type.
  const ir::Expr* expand_math(ir::Context& ctx, ir::Op op, const ir::Expr* arg, const ir::Expr* second = nullptr) const;

  struct Impl;

 private:
  Result<std::vector<Value>> expand_einsum(ir::Context& ctx, nest::Function& function, const Call& call) const;
  explicit Library(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace mlc::lang
