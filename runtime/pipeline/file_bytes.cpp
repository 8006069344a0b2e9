#include <algorithm>

#include "base/counted.h"
#include "runtime/pipeline/host_steps.h"

namespace mlc::pipeline {
namespace {

bool is_white_space(std::byte b) { return b == std::byte{' '} || (b >= std::byte{'\t'} && b <= std::byte{'\r'}); }

// The bytes at one end of the file that a part looks at, less white space on the outer side, cut to its length. Nothing where some of
// them are left out.
std::optional<Bytes> bytes_of_part(const FileBytes::Part& part, const FileContent& file) {
  const uint64_t wanted = std::min(static_cast<uint64_t>(part.within), file.size());
  const uint64_t there = file.gap == 0 ? file.size() : part.from_end ? file.bytes.size() - file.gap_at : file.gap_at;
  if (wanted > there) return std::nullopt;
  Bytes bytes = part.from_end ? file.bytes.last(wanted) : file.bytes.first(wanted);
  const auto length = static_cast<size_t>(part.length);
  if (!part.from_end) {
    const auto begin = part.strips ? std::find_if_not(bytes.begin(), bytes.end(), is_white_space) : bytes.begin();
    bytes = bytes.subspan(static_cast<size_t>(begin - bytes.begin()));
    return bytes.first(std::min(length, bytes.size()));
  }
  while (part.strips && !bytes.empty() && is_white_space(bytes.back())) bytes = bytes.first(bytes.size() - 1);
  return bytes.last(std::min(length, bytes.size()));
}

}  // namespace

Result<HostTensor> file_bytes(const FileBytes& step, const FileContent& file, const io::DecodeLimits& limits) {
  if (file.gap_at > file.bytes.size()) return Status(Code::Usage, "bytes of a file are left out at {}, and it has {} before and behind them", file.gap_at, uint64_t{file.bytes.size()});
  io::MemoryNeed need;
  MLC_RETURN_IF_ERROR(need.add(static_cast<uint64_t>(step.length()), sizeof(int32_t)).check(limits, "file_bytes"));
  MLC_ASSIGN(HostTensor numbers, HostTensor::zeros(DType::I32, {step.length()}));
  std::span<int32_t> to = numbers.as<int32_t>();
  std::fill(to.begin(), to.end(), static_cast<int32_t>(step.fill));
  for (size_t k = 0; k < step.parts.size(); ++k) {
    const FileBytes::Part& part = step.parts[k];
    const auto bytes = bytes_of_part(part, file);
    if (!bytes) return Status(Code::Usage, "a step reads {} bytes at {} of the file, and some of them are left out", part.within, part.from_end ? "the end" : "the start");
    if (k == 0 && bytes->size() < static_cast<size_t>(step.least))
      return Status(Code::InputMismatch, 4001, "the file has {}, and step 'file_bytes' takes {} at least{}", counted(bytes->size(), "byte"), step.least,
                    part.strips ? ", white space not counted" : "");
    const auto length = static_cast<size_t>(part.length);
    const std::span<int32_t> place = to.first(length).last(part.from_end ? bytes->size() : length);
    std::transform(bytes->begin(), bytes->end(), place.begin(), [](std::byte b) { return std::to_integer<int32_t>(b); });
    to = to.subspan(length);
  }
  return numbers;
}

}  // namespace mlc::pipeline
