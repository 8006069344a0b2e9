#include <fstream>

#include "tests/conformance/run/emulate.h"

namespace mlc::conformance {
namespace {

constexpr uint64_t kLargest = uint64_t{1} << 32;  // bytes of a tensor, items of a list

void put(std::ofstream& out, const auto& value) { out.write(reinterpret_cast<const char*>(&value), sizeof value); }

void write_tensor(std::ofstream& out, const nest::Tensor& t) {
  put(out, static_cast<uint32_t>(t.dtype));
  put(out, static_cast<uint32_t>(t.list_depth));
  if (t.list_depth > 0) {
    put(out, static_cast<uint64_t>(t.items.size()));
    for (const nest::Tensor& item : t.items) write_tensor(out, item);
    return;
  }
  put(out, static_cast<uint32_t>(t.shape.size()));
  for (int64_t extent : t.shape) put(out, extent);
  if (t.dtype == DType::Str) {
    put(out, static_cast<uint64_t>(t.strings.size()));
    for (const std::string& s : t.strings) {
      put(out, static_cast<uint64_t>(s.size()));
      out.write(s.data(), static_cast<std::streamsize>(s.size()));
    }
    return;
  }
  put(out, static_cast<uint64_t>(t.bytes.size()));
  out.write(reinterpret_cast<const char*>(t.bytes.data()), static_cast<std::streamsize>(t.bytes.size()));
}

bool get(std::ifstream& in, auto& value) { return static_cast<bool>(in.read(reinterpret_cast<char*>(&value), sizeof value)); }

// What follows the element type. False if it is damaged.
bool read_tensor(std::ifstream& in, uint32_t dtype, nest::Tensor& t) {
  uint32_t depth = 0, rank = 0;
  uint64_t size = 0;
  t.dtype = static_cast<DType>(dtype);
  if (!get(in, depth) || depth > 8) return false;
  t.list_depth = static_cast<uint8_t>(depth);
  if (depth > 0) {
    if (!get(in, size) || size > kLargest) return false;
    for (uint64_t k = 0; k < size; ++k) {
      uint32_t type = 0;
      if (!get(in, type) || !read_tensor(in, type, t.items.emplace_back()) || t.items.back().list_depth != depth - 1) return false;
    }
    return true;
  }
  if (!get(in, rank) || rank > 64) return false;
  t.shape.resize(rank);
  for (int64_t& extent : t.shape)
    if (!get(in, extent)) return false;
  if (!get(in, size) || size > kLargest) return false;
  if (t.dtype == DType::Str) {
    for (uint64_t k = 0, length = 0; k < size; ++k) {
      if (!get(in, length) || length > kLargest) return false;
      if (length > 0 && !in.read(t.strings.emplace_back(length, ' ').data(), static_cast<std::streamsize>(length))) return false;
      if (length == 0) t.strings.emplace_back();
    }
    return true;
  }
  t.bytes.resize(size);
  return size == 0 || in.read(reinterpret_cast<char*>(t.bytes.data()), static_cast<std::streamsize>(size));
}

}  // namespace

Status write_tensors(const std::string& path, const std::vector<nest::Tensor>& tensors) {
  std::ofstream out(path, std::ios::binary);
  for (const nest::Tensor& t : tensors) write_tensor(out, t);
  out.flush();
  return out ? ok() : Status(Code::Resource, path + " cannot be written");
}

Result<std::vector<nest::Tensor>> read_tensors(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return Status(Code::NotFound, path + " is not there");
  std::vector<nest::Tensor> tensors;
  for (uint32_t dtype = 0; get(in, dtype);)
    if (!read_tensor(in, dtype, tensors.emplace_back())) return Status(Code::Malformed, path + " is damaged");
  return tensors;
}

}  // namespace mlc::conformance
