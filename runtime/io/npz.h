// NumPy's archive of arrays: a ZIP file with one stored or deflated .npy per name, ZIP64 where sizes need it.
//
// The central directory decides; every local header must agree with it. Refused: encryption, other methods, entries
// that overlap each other or the directory, two entries of one name, sizes that deflate cannot have produced (bombs),
// and checksums that do not match. Format: PKWARE APPNOTE 6.3.9, sections 4.3 to 4.5.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/io/limits.h"
#include "runtime/io/tensor.h"

namespace mlc::io {

// The names (without ".npy") and places of the arrays of an archive; nothing is unpacked yet.
struct NpzEntry {
  std::string name;
  uint64_t offset = 0, packed = 0, unpacked = 0;  // of the data, in bytes
  uint32_t crc = 0;
  bool deflated = false;
};
// Sorted as in the directory. `file` must outlive nothing: entries hold offsets. They take at most limits.beyond(file).
Result<std::vector<NpzEntry>> list_npz(Bytes file, const DecodeLimits& limits = {});
// It takes at most limits.memory, an unpacked entry included.
Result<HostTensor> read_npz_entry(Bytes file, const NpzEntry& entry, const DecodeLimits& limits = {});
// All arrays of the archive: together they take at most limits.beyond(file).
Result<std::vector<NamedTensor>> parse_npz(Bytes file, const DecodeLimits& limits = {});

// A view of what to write. The tensor must live until the call returns.
struct NpzItem {
  std::string name;
  const HostTensor* tensor;
};
// Where written bytes go, in order; a status that is not OK stops the writer and is returned.
using ByteSink = std::function<Status(Bytes)>;
// Stored entries in the given order, all dates 1980-01-01: equal arrays give equal bytes, on every machine.
Status write_npz(std::span<const NpzItem> items, const ByteSink& sink);

}  // namespace mlc::io
