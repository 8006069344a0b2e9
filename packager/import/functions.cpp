#include "packager/import/functions.h"

#include "packager/import/shown.h"

namespace mlc::import {
namespace {

// Fields of newer versions of the format than the generated classes know.
constexpr int kFunctionAttributeProto = 11, kFunctionOverload = 13, kNodeOverload = 8;

template <class Visit>
void unknown_fields(const google::protobuf::Message& message, int number, Visit visit) {
  const auto& fields = message.GetReflection()->GetUnknownFields(message);
  for (int k = 0; k < fields.field_count(); ++k)
    if (fields.field(k).number() == number && fields.field(k).type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED)
      visit(fields.field(k).length_delimited());
}

std::string key_of(const std::string& domain, const std::string& name, const google::protobuf::Message& message, int overload_field) {
  std::string overload;
  unknown_fields(message, overload_field, [&](const std::string& text) { overload = text; });
  return (domain.empty() ? "ai.onnx" : domain) + ":" + name + ":" + overload;
}

std::string title(const onnx::FunctionProto& function) {
  return shown((function.domain().empty() ? "" : function.domain() + ".") + function.name());
}

}  // namespace

Result<Functions> Functions::of(const onnx::ModelProto& model) {
  Functions functions;
  for (const auto& function : model.functions()) {
    const auto [at, is_new] = functions.table_.try_emplace(key_of(function.domain(), function.name(), function, kFunctionOverload));
    if (!is_new) return Status(Code::Malformed, 1012, "function " + title(function) + " is given twice");
    at->second.function = &function;
    Status status;
    unknown_fields(function, kFunctionAttributeProto, [&](const std::string& bytes) {
      auto attribute = std::make_unique<onnx::AttributeProto>();
      if (!attribute->ParseFromString(bytes)) status = Status(Code::Malformed, 1014, "an attribute of function " + title(function) + " is broken");
      at->second.defaults.push_back(std::move(attribute));
    });
    MLC_RETURN_IF_ERROR(std::move(status));
  }
  return functions;
}

const onnx::FunctionProto* Functions::called_by(const onnx::NodeProto& node) const {
  if (table_.empty()) return nullptr;
  const auto at = table_.find(key_of(node.domain(), node.op_type(), node, kNodeOverload));
  return at == table_.end() ? nullptr : at->second.function;
}

const std::vector<std::unique_ptr<onnx::AttributeProto>>& Functions::defaults(const onnx::FunctionProto& function) const {
  return table_.at(key_of(function.domain(), function.name(), function, kFunctionOverload)).defaults;
}

Result<Scope> Scope::of_call(const Functions& functions, const onnx::FunctionProto& function, const onnx::NodeProto& call,
                             const Scope& caller, size_t serial) {
  Scope scope;
  scope.function_ = &function;
  scope.caller_ = &caller;
  scope.depth_ = caller.depth_ + 1;
  for (const Scope* s = &caller; s; s = s->caller_)
    if (s->function_ == &function) return Status(Code::Malformed, 1017, "function " + title(function) + " calls itself");
  if (scope.depth_ > kMaxCallDepth)
    return Status(Code::Malformed, 1017, "functions call each other more than " + std::to_string(kMaxCallDepth) + " deep, at " + title(function));
  if (call.input_size() > function.input_size() || call.output_size() > function.output_size())
    return Status(Code::Malformed, 1017, "a call of function " + title(function) + " has " + std::to_string(call.input_size()) + " inputs and " +
                                             std::to_string(call.output_size()) + " outputs, the function has " +
                                             std::to_string(function.input_size()) + " and " + std::to_string(function.output_size()));
  // What the body calls its values is told apart by the node that calls, and by a number: nodes may share a name.
  const std::string label = !call.name().empty() ? call.name() : function.name();
  scope.prefix_ = caller.name_of(label) + "." + std::to_string(serial) + "/";
  for (int k = 0; k < function.input_size(); ++k)
    if (!scope.names_.emplace(function.input(k), k < call.input_size() ? caller.name_of(call.input(k)) : std::string()).second)
      return Status(Code::Malformed, 1017, "function " + title(function) + " has the input " + shown(function.input(k)) + " twice");
  for (int k = 0; k < function.output_size() && k < call.output_size(); ++k) {
    if (call.output(k).empty()) continue;
    const auto [at, is_new] = scope.names_.emplace(function.output(k), caller.name_of(call.output(k)));
    if (!is_new) scope.passed_.emplace_back(at->second, caller.name_of(call.output(k)));
  }
  for (const auto& fallback : functions.defaults(function)) scope.attributes_[fallback->name()] = {fallback.get(), &caller};
  for (const auto& attribute : call.attribute()) {
    const Scope* where = &caller;
    const onnx::AttributeProto* value = caller.resolve(attribute, where);
    if (value) scope.attributes_[attribute.name()] = {value, where};
  }
  for (const auto& opset : function.opset_import()) scope.opsets_[opset.domain().empty() ? "ai.onnx" : opset.domain()] = opset.version();
  return scope;
}

std::string Scope::name_of(const std::string& name) const {
  if (!function_ || name.empty()) return name;
  const auto at = names_.find(name);
  return at == names_.end() ? prefix_ + name : at->second;
}

const onnx::AttributeProto* Scope::resolve(const onnx::AttributeProto& attribute, const Scope*& where) const {
  where = this;
  if (!function_ || attribute.ref_attr_name().empty()) return &attribute;
  const auto at = attributes_.find(attribute.ref_attr_name());
  if (at == attributes_.end()) return nullptr;
  where = at->second.where;
  return at->second.attribute;
}

int64_t Scope::opset_of(const std::string& domain) const {
  const auto at = opsets_.find(domain);
  return at == opsets_.end() ? 0 : at->second;
}

std::vector<std::pair<std::string, std::string>> Scope::passed_through() const { return passed_; }

}  // namespace mlc::import
