#include "packager/cli/container_file.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/files/links.h"
#include "runtime/container/header.h"
#include "runtime/container/source.h"
#include "schema/format.h"
#include "signing/hash_tree.h"

namespace mlc::cli {

namespace {

constexpr size_t kChunk = size_t{1} << 20;

Status read_failed(const std::string& path) { return Status(Code::NotFound, path + ": cannot be read completely"); }

Result<std::vector<std::byte>> read_range(const std::string& path, uint64_t offset, uint64_t length) {
  std::vector<std::byte> bytes(length);
  MLC_ASSIGN(const auto source, container::open_file(path));
  if (!source->read(offset, bytes).ok()) return read_failed(path);
  return bytes;
}

Result<OpenContainer> open_any_signer(const std::string& path) {
  auto file = container::AuthenticatedFile::open(path);
  SealedContainer sealed{path, std::move(file), Status(Code::Internal, path + ": not opened twice")};
  return look_into(sealed);
}

}  // namespace

Status copy_range(const std::string& path, uint64_t offset, uint64_t length, const container::Sink& sink) {
  MLC_ASSIGN(const auto source, container::open_file(path));
  std::vector<std::byte> chunk(std::min<uint64_t>(length, kChunk));
  for (uint64_t left = length; left > 0;) {
    const size_t take = static_cast<size_t>(std::min<uint64_t>(left, chunk.size()));
    if (!source->read(offset + (length - left), std::span(chunk).first(take)).ok()) return read_failed(path);
    MLC_RETURN_IF_ERROR(sink(Bytes(chunk).first(take)));
    left -= take;
  }
  return ok();
}

Result<ContainerFile> open_container_file(const std::string& path) {
  MLC_ASSIGN(OpenContainer open, open_any_signer(path));
  MLC_ASSIGN(const std::vector<std::byte> front, read_range(path, 0, format::kHeaderLen));
  MLC_ASSIGN(const container::Header header, container::parse_header(std::span(front).first<format::kHeaderLen>()));
  if (!range_within(header.manifest_off, header.manifest_len, open.opened->file_size()))
    return Status(Code::Malformed, path + " changed while it was read");
  MLC_ASSIGN(const std::vector<std::byte> manifest, read_range(path, header.manifest_off, header.manifest_len));
  MLC_ASSIGN(std::vector<std::byte> tail, read_range(path, open.opened->body_size(), open.opened->file_size() - open.opened->body_size()));
  std::array<std::byte, kCoreSize> core;
  std::copy_n(front.begin(), core.size(), core.begin());
  // The statement that is there is signed once more: it must be about the container that was read.
  MLC_ASSIGN(open.authentication, signing::authenticate(core, manifest, tail));
  if (open.authentication.root() != open.opened->root()) return Status(Code::Malformed, path + " changed while it was read");
  return ContainerFile{std::move(open), core, manifest, std::move(tail)};
}

Status write_checked(const std::string& output, const Digest& root, const std::string& of, const std::function<Status(container::OutputFile&)>& emit,
                     const std::function<Status(const OpenContainer&)>& accept) {
  MLC_ASSIGN(const std::string place, behind_links(output));
  std::error_code error;
  const std::string staged = place + ".unverified." + std::to_string(::getpid());
  const Unfinished unfinished(staged);
  {
    MLC_ASSIGN(container::OutputFile out, container::OutputFile::create(staged));
    MLC_RETURN_IF_ERROR(emit(out));
    MLC_RETURN_IF_ERROR(out.commit());
  }
  Status status;
  if (auto again = open_any_signer(staged); !again.ok()) status = std::move(again).status().note("written file");
  else if (again->opened->root() != root)
    status = Status(Code::Malformed, of + " changed while it was copied");
  else if (accept)
    status = accept(*again);
  if (status.ok()) {
    const auto existing = std::filesystem::status(place, error);
    if (std::filesystem::exists(existing)) std::filesystem::permissions(staged, existing.permissions(), error);
    std::filesystem::rename(staged, place, error);
    if (error) status = Status(Code::NotFound, output + ": cannot be replaced: " + error.message());
  }
  if (!status.ok()) std::filesystem::remove(staged, error);
  return status;
}

Status write_with_block(const ContainerFile& file, const std::vector<std::byte>& block, const std::string& output) {
  return write_checked(output, file.opened->root(), file.path, [&](container::OutputFile& out) -> Status {
    MLC_RETURN_IF_ERROR(copy_range(file.path, 0, file.opened->body_size(), [&](Bytes bytes) { return out.write(bytes); }));
    return out.write(block);
  });
}

}  // namespace mlc::cli
