#include "packager/cli/build/golden_files.h"

#include <filesystem>

#include "base/files/regular_file.h"
#include "runtime/io/npz.h"
#include "schema/format.h"

namespace mlc::cli {
namespace {

// Arrays of as many bytes as a container keeps, with their names and headers.
constexpr uint64_t kMostGoldenFile = format::kMaxGoldenLen + (uint64_t{16} << 20);

}  // namespace

Result<compile::GivenVector> read_golden(const std::string& path) {
  compile::GivenVector vector;
  vector.source = std::filesystem::path(path).filename().string();
  auto file = read_regular_file(path, kMostGoldenFile, Code::Usage);
  if (!file.ok()) return std::move(file).status().note("--golden: inputs of a vector are a file of arrays").hint("numpy.savez(FILE, name=array, ...) writes such a file");
  auto arrays = io::parse_npz(std::as_bytes(std::span(*file)), {.memory = format::kMaxGoldenLen});
  if (!arrays.ok()) return std::move(arrays).status().note("--golden: " + path).hint("numpy.savez(FILE, name=array, ...) writes such a file");
  for (NamedTensor& named : *arrays) {
    const HostTensor& from = named.tensor;
    nest::Tensor to{from.dtype, from.shape, {}};
    to.bytes.assign(from.data.data(), from.data.data() + from.data.size());
    to.strings = from.strings;
    vector.arrays.emplace(named.name, std::move(to));
  }
  return vector;
}

}  // namespace mlc::cli
