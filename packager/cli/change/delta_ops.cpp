#include "packager/cli/change/delta_ops.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <memory>

#include "base/files/links.h"
#include "base/text/shell_word.h"
#include "packager/cli/change/delta_parts.h"
#include "packager/cli/container_file.h"
#include "packager/delta/patch.h"
#include "packager/delta/rebuild.h"
#include "signing/envelope.h"

namespace mlc::cli {
namespace {

using container::OutputFile;

Status may_write_delta(const std::string& path, bool force) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return ok();
  if (std::filesystem::is_directory(path, error)) return Status(Code::Usage, path + " is a folder").hint("--delta " + (path.ends_with('/') ? path : path + "/") + "NAME.mld");
  std::array<char, delta::kFrontLen> front{};
  std::ifstream in(path, std::ios::binary);
  in.read(front.data(), front.size());
  if (force || (std::filesystem::is_regular_file(path, error) && delta::front_len(std::as_bytes(std::span(front)), UINT64_MAX).ok())) return ok();
  return Status(Code::Usage, path + " exists and is no delta").hint("--force replaces it");
}

// One piece of the new file as a part, whose stored bytes go to `spill`.
Result<delta::Part> part_for(const Piece& piece, Bytes bytes, PlacedBytes& a, OutputFile& spill) {
  delta::Part part{delta::PartKind::Stored, piece.length, 0, {}};
  if (piece.kind == Piece::Kind::Zeros) part.kind = delta::PartKind::Zeros;
  if (piece.kind == Piece::Kind::Same) part.kind = delta::PartKind::Copy;
  if (piece.kind == Piece::Kind::Same) part.source = piece.source;
  if (piece.kind != Piece::Kind::Other) return part;
  std::vector<std::byte> alike;
  if (piece.source.where != delta::Where::None) {
    MLC_ASSIGN(alike, a.read(piece.source));
  }
  if (alike.size() >= bytes.size() && std::equal(bytes.begin(), bytes.end(), alike.begin())) {
    part.kind = delta::PartKind::Copy;
    part.source = piece.source;
    part.source.length = part.length;
    return part;
  }
  MLC_ASSIGN(const std::vector<std::byte> packed, delta::pack(bytes, alike));
  if (packed.size() < bytes.size()) {
    part.kind = alike.empty() ? delta::PartKind::Packed : delta::PartKind::Patch;
    part.source = piece.source;
  }
  const Bytes stored = packed.size() < bytes.size() ? Bytes(packed) : bytes;
  part.stored = static_cast<uint32_t>(stored.size());
  MLC_RETURN_IF_ERROR(spill.write(stored));
  return part;
}

Result<delta::Delta> make_delta(PlacedBytes& a, PlacedBytes& b, OutputFile& spill) {
  delta::Delta out;
  out.size = b.file().opened->file_size();
  out.from = a.file().opened->root();
  out.root = b.file().opened->root();
  Sha256 hasher;
  for (const Piece& piece : pieces_of(a, b)) {
    MLC_ASSIGN(const std::vector<std::byte> bytes, b.read_file(piece.offset, piece.length));
    hasher.update(bytes);
    MLC_ASSIGN(const delta::Part part, part_for(piece, bytes, a, spill));
    out.parts.push_back(part);
  }
  out.file = hasher.finish();
  return out;
}

// A delta as it is read: its front, then what it stores, in order.
class DeltaFile {
 public:
  static Result<DeltaFile> open(const std::string& path) {
    std::error_code error;
    DeltaFile out;
    if (!std::filesystem::is_regular_file(path, error)) return Status(Code::NotFound, path + ": no such file, or not a regular one");
    out.path_ = path;
    out.bytes_ = std::filesystem::file_size(path, error);
    if (error) return out.unreadable();
    out.in_.open(path, std::ios::binary);
    auto parsed = out.parse_front();
    if (!parsed.ok()) return std::move(parsed).note(path);
    return out;
  }
  const delta::Delta& delta() const { return delta_; }
  uint64_t bytes() const { return bytes_; }
  Result<std::vector<std::byte>> next(uint64_t length) {
    std::vector<std::byte> out(length);
    in_.read(reinterpret_cast<char*>(out.data()), static_cast<std::streamsize>(length));
    if (!in_ || static_cast<uint64_t>(in_.gcount()) != length) return unreadable();
    return out;
  }

 private:
  Status unreadable() const { return Status(Code::NotFound, path_ + ": cannot be read completely"); }
  Status parse_front() {
    MLC_ASSIGN(std::vector<std::byte> front, next(std::min<uint64_t>(bytes_, delta::kFrontLen)));
    MLC_ASSIGN(const uint64_t length, delta::front_len(front, bytes_));
    MLC_ASSIGN(const std::vector<std::byte> parts, next(length - front.size()));
    front.insert(front.end(), parts.begin(), parts.end());
    MLC_ASSIGN(delta_, delta::parse(front, bytes_));
    return ok();
  }
  std::string path_;
  uint64_t bytes_ = 0;
  std::ifstream in_;
  delta::Delta delta_;
};

Status check_room(const std::string& output, uint64_t bytes) {
  MLC_ASSIGN(const std::string place, behind_links(output));
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::path(place).parent_path();
  const auto space = std::filesystem::space(folder.empty() ? "." : folder, error);
  if (error || space.available >= bytes) return ok();
  return Status(Code::Resource, output + " would have " + std::to_string(bytes) + " bytes, and " + std::to_string(space.available) + " are free there");
}

// What is wrong is the file or the delta: the file can be asked.
Status blamed(Status status, const ContainerFile& file, const std::string& delta) {
  if (status.code == Code::NotFound || status.code == Code::Resource) return status;
  if (Status damage = file.opened->verify_all(); !damage.ok()) return std::move(damage).note(file.path).fact("the delta was applied to it, and makes other bytes than it says").hint("copy or download the file again");
  return std::move(status).note(delta).hint("copy or download the delta again, or make it anew: mlpack diff A B --delta D");
}

}  // namespace

Result<DeltaResult> write_delta(const DeltaOptions& options) {
  MLC_ASSIGN(const ContainerFile a, open_container_file(options.a));
  MLC_ASSIGN(const ContainerFile b, open_container_file(options.b));
  MLC_RETURN_IF_ERROR(may_write_delta(options.output, options.force));
  for (const ContainerFile* file : {&a, &b})
    if (Status status = file->opened->verify_all(); !status.ok()) return std::move(status).note(file->path);
  MLC_ASSIGN(PlacedBytes of_a, PlacedBytes::of(a));
  MLC_ASSIGN(PlacedBytes of_b, PlacedBytes::of(b));
  MLC_ASSIGN(OutputFile out, OutputFile::create(options.output));
  MLC_ASSIGN(const std::string place, behind_links(options.output));
  DeltaResult result{a.opened->root(), b.opened->root(), 0, a.opened->file_size(), b.opened->file_size(), 0, 0};
  {
    MLC_ASSIGN(OutputFile spill, OutputFile::create(place + ".parts"));
    MLC_ASSIGN(const delta::Delta made, make_delta(of_a, of_b, spill));
    const std::vector<std::byte> front = delta::encode(made);
    MLC_RETURN_IF_ERROR(out.write(front));
    uint64_t stored = 0;
    for (const delta::Part& part : made.parts) {
      stored += part.stored;
      if (part.kind == delta::PartKind::Copy) result.copied += part.length;
      else if (part.kind != delta::PartKind::Zeros) ++result.num_stored;
    }
    MLC_ASSIGN(const std::string spilled, spill.flushed());
    MLC_RETURN_IF_ERROR(copy_range(spilled, 0, stored, [&](Bytes bytes) { return out.write(bytes); }));
    result.bytes = front.size() + stored;
  }
  MLC_RETURN_IF_ERROR(out.commit());
  return result;
}

Result<ApplyResult> apply_delta(const ApplyOptions& options) {
  MLC_ASSIGN(const ContainerFile file, open_container_file(options.file));
  MLC_ASSIGN(DeltaFile delta, DeltaFile::open(options.delta));
  const delta::Delta& front = delta.delta();
  if (front.from != file.opened->root())
    return Status(Code::BadSignature, options.delta + " is for another container than " + options.file)
        .fact("root found sha256:" + to_hex(file.opened->root()) + ", the delta is for sha256:" + to_hex(front.from))
        .hint("name the file that mlpack diff --delta was given first, or a copy of it");
  const std::string& output = options.output.empty() ? options.file : options.output;
  MLC_RETURN_IF_ERROR(container::may_write(output, options.force));
  MLC_RETURN_IF_ERROR(OutputFile::try_create(output));
  MLC_RETURN_IF_ERROR(check_room(output, front.size));
  MLC_ASSIGN(PlacedBytes there, PlacedBytes::of(file));
  const delta::Inputs inputs{[&](uint32_t length) { return delta.next(length); }, [&](const delta::Source& source) { return there.read(source); }};
  const auto emit = [&](OutputFile& out) -> Status { return delta::rebuild(front, inputs, [&](Bytes bytes) { return out.write(bytes); }); };
  ApplyResult result{file.opened->root(), front.root, output, 0, file.opened->file_size(), delta.bytes(), 0};
  Status status = write_checked(output, front.root, options.delta, emit, [&](const OpenContainer& written) {
    result.bytes = written.opened->file_size();
    result.num_signatures = written.authentication.signatures().size();
    return written.opened->verify_all();
  });
  if (!status.ok()) return blamed(std::move(status), file, options.delta);
  return result;
}

}  // namespace mlc::cli
