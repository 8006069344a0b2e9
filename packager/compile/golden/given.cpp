#include "packager/compile/golden/given.h"

#include <algorithm>
#include <filesystem>

#include "base/text/nearest_name.h"

namespace mlc::compile {
namespace {

std::string shape_text(const std::vector<std::string>& extents) {
  std::string text = "[";
  for (size_t k = 0; k < extents.size(); ++k) text += (k ? ", " : "") + extents[k];
  return text + "]";
}

std::string expected_text(const nest::Array& array) {
  std::vector<std::string> extents;
  for (const ir::Expr* e : array.shape) extents.push_back(e->op == ir::Op::Sym ? e->sym->name : ir::to_string(e));
  return std::string(name_of(array.dtype)) + shape_text(extents);
}

std::string found_text(const nest::Tensor& tensor) {
  std::vector<std::string> extents;
  for (int64_t d : tensor.shape) extents.push_back(std::to_string(d));
  return std::string(name_of(tensor.dtype)) + shape_text(extents);
}

// The free extents take their values from the first axis that has their name.
bool fits(const nest::Array& array, const nest::Tensor& tensor, std::map<const ir::Sym*, int64_t>& extents, std::string& why) {
  if (array.dtype != tensor.dtype || array.shape.size() != tensor.shape.size()) return false;
  for (size_t axis = 0; axis < array.shape.size(); ++axis) {
    const ir::Expr* extent = array.shape[axis];
    const int64_t found = tensor.shape[axis];
    if (extent->is_const() && extent->i != found) return false;
    if (extent->op != ir::Op::Sym) continue;
    const ir::Sym& sym = *extent->sym;
    const int64_t known = extents.emplace(&sym, found).first->second;
    if (known != found) why = ", and " + sym.name + " is " + std::to_string(known) + " elsewhere";
    else if (found < sym.lo || found > sym.hi || found % sym.multiple != 0) why = ", and " + sym.name + " may not be " + std::to_string(found);
    if (!why.empty()) return false;
  }
  return true;
}

}  // namespace

Status can_be_given(const nest::Function& function) {
  for (uint32_t input : function.inputs) {
    const nest::Array& array = function.arrays[input];
    if (array.list_depth > 0 || array.dtype == DType::Str)
      return Status(Code::Usage, "--golden: input '" + array.name + "' takes " + (array.list_depth ? "a list" : "strings") + ", and containers keep no golden vectors of such")
          .hint("leave --golden out: the file is built without vectors");
  }
  return ok();
}

Result<std::vector<nest::Tensor>> inputs_given(const nest::Function& function, const GivenVector& vector) {
  std::vector<std::string> problems, known;
  for (uint32_t input : function.inputs) known.push_back(function.arrays[input].name);
  for (const auto& [name, tensor] : vector.arrays)
    if (std::find(known.begin(), known.end(), name) == known.end()) problems.push_back(unknown_word("input", name, known));
  std::vector<nest::Tensor> all;
  std::map<const ir::Sym*, int64_t> extents;
  for (uint32_t input : function.inputs) {
    const nest::Array& array = function.arrays[input];
    const auto found = vector.arrays.find(array.name);
    if (found == vector.arrays.end()) {
      problems.push_back("input '" + array.name + "' is missing: " + expected_text(array) + " expected");
      continue;
    }
    std::string why;
    if (!fits(array, found->second, extents, why)) problems.push_back("'" + array.name + "' is " + found_text(found->second) + ", the model takes " + expected_text(array) + why);
    all.push_back(found->second);
  }
  if (problems.empty()) return all;
  Status status(Code::Usage, "--golden: " + vector.source + " does not fit the model: " + problems.front());
  status.facts.assign(problems.begin() + 1, problems.end());
  return status;
}

std::string name_for(const GivenVector& vector, const std::vector<GoldenVector>& others) {
  constexpr size_t kLongest = 100;  // letters of a name
  std::string stem;
  for (unsigned char c : std::filesystem::path(vector.source).stem().string())
    if (stem.size() < kLongest) stem += c >= ' ' && c < 0x7f ? static_cast<char>(c) : '_';
  std::string name = stem;
  for (int k = 2; std::any_of(others.begin(), others.end(), [&](const GoldenVector& g) { return g.name == name; }); ++k) name = stem + " " + std::to_string(k);
  return name;
}

}  // namespace mlc::compile
