#include <fstream>

#include "tests/conformance/emulate.h"

namespace mlc::conformance {

Status write_tensors(const std::string& path, const std::vector<nest::Tensor>& tensors) {
  std::ofstream out(path, std::ios::binary);
  const auto put = [&](const auto& value) { out.write(reinterpret_cast<const char*>(&value), sizeof value); };
  for (const nest::Tensor& t : tensors) {
    put(static_cast<uint32_t>(t.dtype));
    put(static_cast<uint32_t>(t.shape.size()));
    for (int64_t extent : t.shape) put(extent);
    put(static_cast<uint64_t>(t.bytes.size()));
    out.write(reinterpret_cast<const char*>(t.bytes.data()), static_cast<std::streamsize>(t.bytes.size()));
  }
  out.flush();
  return out ? ok() : Status(Code::Resource, path + " cannot be written");
}

Result<std::vector<nest::Tensor>> read_tensors(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return Status(Code::NotFound, path + " is not there");
  const auto get = [&](auto& value) { return static_cast<bool>(in.read(reinterpret_cast<char*>(&value), sizeof value)); };
  std::vector<nest::Tensor> tensors;
  for (uint32_t dtype = 0; get(dtype);) {
    nest::Tensor t;
    t.dtype = static_cast<DType>(dtype);
    uint32_t rank = 0;
    uint64_t bytes = 0;
    if (!get(rank) || rank > 64) return Status(Code::Malformed, path + " is damaged");
    t.shape.resize(rank);
    for (int64_t& extent : t.shape)
      if (!get(extent)) return Status(Code::Malformed, path + " is damaged");
    if (!get(bytes) || bytes > (uint64_t{1} << 32)) return Status(Code::Malformed, path + " is damaged");
    t.bytes.resize(bytes);
    if (bytes && !in.read(reinterpret_cast<char*>(t.bytes.data()), static_cast<std::streamsize>(bytes))) return Status(Code::Malformed, path + " ends early");
    tensors.push_back(std::move(t));
  }
  return tensors;
}

}  // namespace mlc::conformance
