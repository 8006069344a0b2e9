#include "tests/conformance/onnx_case.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "packager/import/tensor.h"
#include "packager/ir/numeric.h"

namespace mlc::conformance {
namespace fs = std::filesystem;

std::vector<Case> find_cases(const std::string& data) {
  std::vector<Case> cases;
  std::error_code ec;
  for (auto it = fs::recursive_directory_iterator(data, ec); !ec && it != fs::recursive_directory_iterator(); it.increment(ec))
    if (it->path().filename() == "model.onnx") {
      const fs::path folder = it->path().parent_path();
      cases.push_back({folder.filename().string(), folder.string()});
    }
  std::sort(cases.begin(), cases.end(), [](const Case& a, const Case& b) { return a.folder < b.folder; });
  return cases;
}

Result<std::vector<CaseTensor>> read_tensors(const std::string& folder, const std::string& prefix) {
  std::vector<CaseTensor> r;
  for (size_t k = 0;; ++k) {
    const std::string path = folder + "/" + prefix + std::to_string(k) + ".pb";
    std::ifstream in(path, std::ios::binary);
    if (!in) return r;
    std::ostringstream text;
    text << in.rdbuf();
    onnx::TensorProto proto;
    const std::string bytes = text.str();
    if (!proto.ParseFromString(bytes) || (proto.data_type() == 0 && !bytes.empty()))
      return Status(Code::Unsupported, prefix + std::to_string(k) + " is no tensor");
    auto t = import::tensor_of(proto, {});
    if (!t.ok()) return Status(Code::Unsupported, t.status().message);
    if (t->dtype == DType::Str) return Status(Code::Unsupported, prefix + std::to_string(k) + " is a string tensor");
    CaseTensor c;
    c.name = proto.name();
    c.tensor.dtype = t->dtype;
    c.tensor.shape = t->shape;
    c.tensor.bytes.assign(t->bytes.begin(), t->bytes.end());
    r.push_back(std::move(c));
  }
}

std::string compare(const nest::Tensor& got, const nest::Tensor& want, double relative, double absolute) {
  auto shape = [](const nest::Tensor& t) {
    std::string s(name_of(t.dtype));
    s += "[";
    for (size_t k = 0; k < t.shape.size(); ++k) s += (k ? ", " : "") + std::to_string(t.shape[k]);
    return s + "]";
  };
  if (got.dtype != want.dtype || got.shape != want.shape) return "is " + shape(got) + ", expected " + shape(want);
  const int64_t n = want.elements();
  for (int64_t k = 0; k < n; ++k) {
    const ir::Scalar a = ir::load_element(got.dtype, got.bytes.data(), static_cast<uint64_t>(k));
    const ir::Scalar b = ir::load_element(want.dtype, want.bytes.data(), static_cast<uint64_t>(k));
    bool equal;
    if (is_float(want.dtype)) {
      equal = (std::isnan(a.f) && std::isnan(b.f)) || a.f == b.f || std::abs(a.f - b.f) <= absolute + relative * std::abs(b.f);
    } else {
      equal = a.i == b.i;
    }
    if (!equal) {
      char line[128];
      if (is_float(want.dtype)) std::snprintf(line, sizeof line, "element %lld is %.9g, expected %.9g", static_cast<long long>(k), a.f, b.f);
      else std::snprintf(line, sizeof line, "element %lld is %lld, expected %lld", static_cast<long long>(k), static_cast<long long>(a.i), static_cast<long long>(b.i));
      return line;
    }
  }
  return "";
}

}  // namespace mlc::conformance
