#include "packager/cli/change/thin_ops.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/text/shell_word.h"
#include "packager/cli/change/stored.h"
#include "packager/cli/container_file.h"
#include "packager/container/kept_segments.h"
#include "schema/validate/validate.h"
#include "signing/envelope.h"
#include "signing/hash_tree.h"

namespace mlc::cli {
namespace {

using format::Manifest;

std::string names_of_variants(const Manifest& m) {
  std::string names;
  for (const format::Variant& variant : m.variants) names += (names.empty() ? "" : " ") + variant.name;
  return names;
}

bool is_complete(const container::Container& file, const format::Variant& variant) { return file.present(*variant.plan) && file.present(*variant.module); }

// The variants of `keep` and the portable one. An unknown name and one that this copy lacks are errors.
Result<std::vector<const format::Variant*>> kept_variants(const ContainerFile& file, const std::vector<std::string>& keep) {
  const Manifest& m = file.opened->manifest();
  std::vector<const format::Variant*> out;
  for (const std::string& name : keep) {
    const auto found = file.opened->find_variant(name);
    if (!found) return Status(Code::Usage, "--keep: " + file.path + " has no variant " + format::quoted(name)).fact("it has: " + names_of_variants(m));
    if (!is_complete(*file.opened, m.variants[*found]))
      return Status(Code::Usage, "--keep: this copy lacks " + name + ", it was thinned before").hint("mlpack fill " + shell_path(file.path) + " --from ORIGINAL");
    out.push_back(&m.variants[*found]);
  }
  for (const format::Variant& variant : m.variants)
    if (variant.module_format == format::ModuleFormat::Portable) out.push_back(&variant);
  return out;
}

// Where the bytes of a segment of a new copy come from; without a file it is absent there.
struct Origin {
  const ContainerFile* file = nullptr;
  uint32_t segment = 0;  // its index there
};
using Origins = std::vector<Origin>;

// Besides its digest, what a segment is stored as.
bool is_same(const format::Segment& a, const format::Segment& b) {
  return a.digest == b.digest && a.codec == b.codec && a.stored_len == b.stored_len && a.decoded_len == b.decoded_len;
}

Status check_copied(const OpenContainer& written, const Origins& origins) {
  Status all = written.opened->verify_all();
  if (all.ok()) return all;
  for (uint32_t i = 0; i < origins.size(); ++i)
    if (origins[i].file != nullptr)
      if (Status status = written.opened->check(i); !status.ok()) return std::move(status).note(origins[i].file->path);
  return all;
}

Result<CopyResult> write_copy(const ContainerFile& file, const Origins& origins, const std::string& output) {
  const Manifest& m = file.opened->manifest();
  MLC_ASSIGN(std::vector<container::StoredSegment> segments, stored_segments(file));
  std::map<const ContainerFile*, std::vector<container::StoredSegment>> others;
  for (size_t i = 0; i < origins.size(); ++i) {
    const auto [source, index] = origins[i];
    if (source == nullptr) segments[i].present = false;
    if (source == nullptr || source == &file) continue;
    if (others.count(source) == 0) {
      MLC_ASSIGN(others[source], stored_segments(*source));
    }
    segments[i] = others[source][index];
  }
  CopyResult result;
  result.root = file.opened->root();
  result.output = output;
  result.bytes_before = file.opened->file_size();
  const auto emit = [&](container::OutputFile& out) -> Status {
    MLC_RETURN_IF_ERROR(container::emit_body(file.core, file.manifest, segments, [&](Bytes bytes) { return out.write(bytes); }));
    return out.write(file.tail);
  };
  MLC_RETURN_IF_ERROR(write_checked(output, result.root, file.path, emit, [&](const OpenContainer& written) {
    result.bytes_after = written.opened->file_size();
    for (const format::Variant& variant : m.variants) (is_complete(*written.opened, variant) ? result.present : result.absent).push_back(variant.name);
    return check_copied(written, origins);
  }));
  for (uint32_t i = 0; i < origins.size(); ++i) {
    if (file.opened->present(i) != (origins[i].file != nullptr)) result.changed.push_back(m.segments[i].name);
    if (origins[i].file == nullptr) result.lacking.push_back(m.segments[i].name);
  }
  if (!file.tail.empty()) {
    MLC_ASSIGN(const signing::SignatureBlock block, signing::parse_block(file.tail));
    result.num_signatures = block.envelope.signatures.size();
  }
  return result;
}

// Where the copy goes, if it may be written there.
Result<std::string> place_of_copy(const std::string& file, const std::string& output, bool force) {
  const std::string& place = output.empty() ? file : output;
  MLC_RETURN_IF_ERROR(container::may_write(place, force));
  MLC_RETURN_IF_ERROR(container::OutputFile::try_create(place));
  return place;
}

}  // namespace

Result<CopyResult> thin_container(const ThinOptions& options) {
  MLC_ASSIGN(const ContainerFile file, open_container_file(options.file));
  MLC_ASSIGN(const auto kept, kept_variants(file, options.keep));
  MLC_ASSIGN(const std::string output, place_of_copy(options.file, options.output, options.force));
  const auto& segments = file.opened->manifest().segments;
  const std::set<uint32_t> stays = container::kept_segments(file.opened->manifest(), kept);
  Origins origins(segments.size());
  for (uint32_t i = 0; i < origins.size(); ++i)
    if (file.opened->present(i) && stays.count(i) > 0) origins[i] = {&file, i};
  return write_copy(file, origins, output);
}

Result<CopyResult> fill_container(const FillOptions& options) {
  MLC_ASSIGN(const ContainerFile file, open_container_file(options.file));
  MLC_ASSIGN(const ContainerFile from, open_container_file(options.from));
  const auto& wanted = file.opened->manifest().segments;
  const auto& offered = from.opened->manifest().segments;
  // By digest: a container that was labelled anew, or got one more target, has the segments of the one before.
  std::map<format::Digest, uint32_t> there;
  for (uint32_t k = 0; k < offered.size(); ++k)
    if (from.opened->present(k)) there.emplace(offered[k].digest, k);
  Origins origins(wanted.size());
  bool is_whole = true, finds = false;
  for (uint32_t i = 0; i < origins.size(); ++i) {
    const bool present = file.opened->present(i);
    if (present) origins[i] = {&file, i};
    else if (const auto found = there.find(wanted[i].digest); found != there.end() && is_same(wanted[i], offered[found->second])) origins[i] = {&from, found->second};
    is_whole = is_whole && present;
    finds = finds || (!present && origins[i].file != nullptr);
  }
  if (!is_whole && !finds && !options.may_find_nothing)
    return Status(Code::BadSignature, from.path + " has nothing of what " + file.path + " lacks")
        .fact("root found sha256:" + to_hex(from.opened->root()) + ", that of the file sha256:" + to_hex(file.opened->root()))
        .hint("name a copy of the file that was thinned");
  MLC_ASSIGN(const std::string output, place_of_copy(options.file, options.output, options.force));
  return write_copy(file, origins, output);
}

}  // namespace mlc::cli
