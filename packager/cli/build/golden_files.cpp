#include "packager/cli/build/golden_files.h"

#include <filesystem>

#include "runtime/io/file.h"
#include "runtime/io/npz.h"
#include "schema/format.h"

namespace mlc::cli {

Result<compile::GivenVector> read_golden(const std::string& path) {
  compile::GivenVector vector;
  vector.source = std::filesystem::path(path).filename().string();
  MLC_ASSIGN(const HostBuffer file, io::read_file(path));
  auto arrays = io::parse_npz(file.bytes(), {.memory = format::kMaxGoldenLen});
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
