// The open sequence (spec/container.md, "Opening"): each step fails closed and reads nothing of a later one.
#include <algorithm>
#include <array>
#include <ctime>

#include "base/byte_cursor.h"
#include "base/compose.h"
#include "runtime/container/allocate.h"
#include "runtime/container/foreign.h"
#include "runtime/container/manifest_decode.h"
#include "runtime/container/state.h"
#include "schema/audit.h"
#include "schema/validate/validate.h"
#include "signing/hash_tree.h"

namespace mlc::container {
namespace {

// Step 2. A file that ends inside the header page or is something else is named as what it is.
Result<Header> read_header(const Source& source) {
  std::array<std::byte, format::kHeaderLen> page{};
  uint64_t len = std::min<uint64_t>(page.size(), source.size());
  MLC_RETURN_IF_ERROR(source.read(0, std::span(page).first(len)));
  MLC_RETURN_IF_ERROR(recognise(std::span(page).first(len), source.size(), source.name()));
  return parse_header(page);
}

// Presence, from the placement table: an offset that is not zero. The offsets themselves are compared later.
Result<std::vector<uint64_t>> read_placement_table(const Source& source, uint32_t segments) {
  MLC_ASSIGN(std::vector<std::byte> bytes, allocate(uint64_t{segments} * 8));
  if (Status status = source.read(format::kHeaderLen, bytes); !status.ok())
    return std::move(status).note("placement table");
  std::vector<uint64_t> offsets;
  offsets.reserve(segments);
  for (ByteCursor in(bytes); in.left() > 0;) offsets.push_back(in.take<uint64_t>());
  return offsets;
}

Result<format::Placement> place(const format::Manifest& manifest, uint64_t manifest_len,
                                const std::vector<uint64_t>& offsets) {
  std::vector<format::SegmentShape> shapes;
  for (size_t i = 0; i < manifest.segments.size(); ++i) {
    const format::Segment& s = manifest.segments[i];
    shapes.push_back({s.codec, s.stored_len, s.decoded_len, offsets[i] != 0});
  }
  auto placement = format::place(manifest_len, shapes);
  if (!placement) return Status(Code::Malformed, "placement: offsets exceed 2^64");
  return std::move(*placement);
}

// A file that ends before its body does. The manifest is not verified (the signature is gone), so it is only used to
// say what is missing; it went through the same checks as that of an unsigned file. Where such a file would be refused,
// its manifest is not looked at.
Status truncated(const Source& source, const Header& header, bool may_parse) {
  Status status(Code::Malformed, 1101,
                "{} is truncated: {} bytes found, at least {} expected", source.name(), source.size(), header.body_size);
  status.help = "copy or download it again";
  if (const std::string& last = source.file_at(source.size()); last != source.name()) status.facts.push_back("the last part is " + last);
  if (header.manifest_off + header.manifest_len > source.size())
    return std::move(status).fact("cut off: the manifest and all segments");
  if (!may_parse) return status;
  auto bytes = allocate(header.manifest_len);
  if (!bytes.ok() || !source.read(header.manifest_off, *bytes).ok()) return status;
  auto manifest = decode_manifest(*bytes);
  auto offsets = read_placement_table(source, header.segment_count);
  if (!manifest.ok() || !offsets.ok() || manifest->segments.size() != offsets->size())
    return std::move(status).fact("cut off: segments");
  auto placement = place(*manifest, header.manifest_len, *offsets);
  if (!placement.ok()) return status;
  std::string missing;
  for (size_t i = 0; i < manifest->segments.size(); ++i) {
    const format::Segment& s = manifest->segments[i];
    uint64_t offset = placement->segments[i].offset;
    if (offset == 0 || offset + s.stored_len <= source.size()) continue;
    missing += compose("{}segment {}", missing.empty() ? "" : ", ", format::quoted(s.name));
    if (source.size() > offset && s.codec == format::Codec::Raw)
      missing += compose(" from leaf {} of {}", (source.size() - offset) / format::kLeafLen,
                         placement->segments[i].leaves);
  }
  return std::move(status).fact("cut off: " + (missing.empty() ? std::string("leaf tables and signature") : missing));
}

// The block is found from body_size and, independently, from the end of the file: if only the latter works, the
// header page is what is wrong.
Status explain_tail(const Source& source, const Header& header, Status status) {
  std::array<std::byte, 16> end;
  if (source.size() >= end.size() && source.read(source.size() - end.size(), end).ok()) {
    ByteCursor in(end);
    const auto len = in.take<uint64_t>();
    const bool magic = in.text(format::kBlockMagic.size()) == format::kBlockMagic;
    if (magic && len <= source.size() && source.size() - len != header.body_size)
      return Status(Code::Malformed, "header page or signature block: body_size is {}, the signature block "
                    "begins at {}", header.body_size, source.size() - len);
    if (!magic) return std::move(status).note("signature block (or what follows the end of the container)");
  }
  return std::move(status).note("signature block");
}

// Step 3: nothing of the manifest is looked at before some key vouches for it, or the file is known to be unsigned.
Result<signing::Authentication> authenticate(const Source& source, const Header& header, Bytes manifest) {
  uint64_t tail_len = source.size() - header.body_size;
  if (tail_len > format::kMaxBlockLen)
    return Status(Code::Malformed, "signature block: {} bytes follow the body, at most 16 MiB expected", tail_len);
  MLC_ASSIGN(std::vector<std::byte> tail, allocate(tail_len));
  if (Status status = source.read(header.body_size, tail); !status.ok())
    return std::move(status).note("signature block");
  auto result = signing::authenticate(header.core, manifest, tail);
  if (result.ok()) return result;
  if (result.status().code == Code::Malformed) return explain_tail(source, header, std::move(result).status());
  return std::move(result).status().note("signature over header page and manifest");
}

// Step 6: every offset has one legal value.
Status compare_placement(const Header& h, const format::Manifest& m, const format::Placement& p,
                         const std::vector<uint64_t>& offsets) {
  auto check = [](std::string_view what, uint64_t found, uint64_t expected) {
    if (found == expected) return ok();
    return Status(Code::Malformed, "{} is {}, {} expected", what, found, expected);
  };
  for (size_t i = 0; i < offsets.size(); ++i) {
    if (offsets[i] == 0 && !m.segments[i].droppable)
      return Status(Code::Malformed, "placement table: {} is absent and not droppable", label_of(m.segments[i]));
    if (offsets[i] != p.segments[i].offset)
      return check("placement table: offset of " + label_of(m.segments[i]), offsets[i], p.segments[i].offset);
  }
  MLC_RETURN_IF_ERROR(check("header page: body_size", h.body_size, p.body_size));
  MLC_RETURN_IF_ERROR(check("header page: leaves_off", h.leaves_off, p.leaves_off));
  return check("header page: leaves_len", h.leaves_len, p.leaves_len);
}

// What lies before a gap, for the message.
std::string before(const format::Manifest& m, const format::Placement& p, uint64_t gap) {
  if (gap < p.manifest_off) return "the placement table";
  std::string name = "the manifest";
  for (size_t i = 0; i < m.segments.size(); ++i)
    if (p.segments[i].offset != 0 && p.segments[i].offset + m.segments[i].stored_len == gap)
      name = label_of(m.segments[i]);
  return name;
}

Status check_padding(const Source& source, const format::Manifest& m, const format::Placement& p) {
  std::vector<std::byte> buffer;
  for (const format::Placement::Gap& gap : p.gaps) {
    buffer.resize(gap.length);  // below 65536
    MLC_RETURN_IF_ERROR(source.read(gap.offset, buffer));
    auto bad = std::find_if(buffer.begin(), buffer.end(), [](std::byte b) { return b != std::byte{0}; });
    if (bad != buffer.end())
      return Status(Code::Malformed, "padding behind {}: byte {} is not zero", before(m, p, gap.offset),
                    gap.offset + static_cast<uint64_t>(bad - buffer.begin()));
  }
  return ok();
}

Status check_audits(const format::Manifest& m) {
  for (const format::Variant& variant : m.variants)
    if (variant.audit &&
        sha256(format::audit_preimage(variant, m.segments[*variant.module].digest)) != variant.audit->digest)
      return Status(Code::Malformed, "manifest: variant {}: its audit is about another module or other "
                    "features", format::quoted(variant.name));
  return ok();
}

// A variant whose segments were left out of this copy is no candidate, and says so.
void mark_absent(format::Manifest& m, const format::Placement& p) {
  for (format::Variant& variant : m.variants)
    for (uint32_t segment : {*variant.plan, *variant.module})
      if (p.segments[segment].offset == 0) variant.unusable = "absent (thinned): " + label_of(m.segments[segment]);
}

std::vector<std::string> collect_notes(const Header& header, const format::Manifest& m) {
  std::vector<std::string> notes;
  if (header.ver_minor > format::kVersionMinor)
    notes.push_back(compose("format 1.{} is newer than 1.{}; what this version does not know is ignored",
                            header.ver_minor, format::kVersionMinor));
  if (header.optional_flags != 0)
    notes.push_back(compose("unknown optional flags {} are ignored", header.optional_flags));
  for (const format::Segment& s : m.segments)
    if (static_cast<uint8_t>(s.kind) > format::kLastSegmentKind)
      notes.push_back(compose("{} of unknown kind {} is ignored", label_of(s), static_cast<uint8_t>(s.kind)));
  for (const format::Extension& e : m.extensions) notes.push_back(compose("extension {} is ignored",
                                                                          format::quoted(e.id)));
  return notes;
}

// Steps 4 and 7: whom the caller trusts, and how.
struct Judge {
  signing::DecideOptions options;
  const signing::TrustSet& trust;

  Judge(const OpenOptions& o, const std::string& name) : trust(o.trust != nullptr ? *o.trust : nobody()) {
    options.allow_unsigned = o.allow_unsigned;
    options.allow_older = o.allow_older;
    options.marks = o.marks;
    options.now = o.now != 0 ? o.now : static_cast<uint64_t>(std::time(nullptr));
    options.file = name;
  }
  static const signing::TrustSet& nobody() {
    static const signing::TrustSet set = signing::TrustSet::of({});
    return set;
  }
};

signing::ModelFacts facts_of(const format::Manifest& m, const format::Placement& p) {
  signing::ModelFacts facts;
  facts.id = m.model.id;
  facts.version = m.model.version;
  facts.not_after = m.model.not_after;
  facts.complete = std::all_of(p.segments.begin(), p.segments.end(), [](const auto& item) { return item.offset != 0; });
  for (const format::Variant& variant : m.variants)
    if (p.segments[*variant.plan].offset != 0 && p.segments[*variant.module].offset != 0)
      facts.variants.push_back(variant.name);
  return facts;
}

// Steps 5 and 6: a manifest that obeys every rule, and a file that looks as it says.
struct Layout {
  format::Placement placement;
  std::vector<format::SegmentGap> gaps;
};
Result<Layout> read_layout(const Source& source, const Header& header, Bytes manifest_bytes, format::Manifest& manifest) {
  MLC_ASSIGN(manifest, decode_manifest(manifest_bytes));
  if (manifest.segments.size() != header.segment_count)
    return Status(Code::Malformed, "header page: segment_count is {}, the manifest has {}",
                  header.segment_count, manifest.segments.size());
  MLC_RETURN_IF_ERROR(check_audits(manifest));
  MLC_ASSIGN(std::vector<uint64_t> offsets, read_placement_table(source, header.segment_count));
  Layout layout;
  MLC_ASSIGN(layout.placement, place(manifest, header.manifest_len, offsets));
  MLC_RETURN_IF_ERROR(compare_placement(header, manifest, layout.placement, offsets));
  MLC_RETURN_IF_ERROR(check_padding(source, manifest, layout.placement));
  MLC_ASSIGN(layout.gaps, format::tile_segments(manifest));
  return layout;
}

// Who may write the file decides, unless the caller does; under a strict rule nothing that can change is trusted.
bool must_copy(const OpenOptions& options, const Source& source, const std::string& model_id) {
  if (options.verify == Verify::Copy || !source.is_mappable()) return true;
  if (source.writers() == Writers::Nobody) return false;
  const auto is_strict_in = [&](const signing::TrustSet* trust) {
    return trust != nullptr && trust->rule_for(model_id).level == signing::Level::Strict;
  };
  const bool is_strict = options.trust != nullptr && (is_strict_in(options.trust) || is_strict_in(options.trust->binding()));
  return is_strict || (options.verify == Verify::Auto && source.writers() == Writers::Others);
}

}  // namespace

AuthenticatedFile::AuthenticatedFile(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
AuthenticatedFile::AuthenticatedFile(AuthenticatedFile&&) noexcept = default;
AuthenticatedFile::~AuthenticatedFile() = default;
const std::string& AuthenticatedFile::name() const { return parts_->source->name(); }
const std::optional<signing::Authentication>& AuthenticatedFile::authentication() const { return parts_->authentication; }
uint64_t AuthenticatedFile::manifest_len() const { return parts_->header.manifest_len; }

Result<Digest> AuthenticatedFile::file_digest() const {
  const Source& source = *parts_->source;
  Sha256 sha;
  std::vector<std::byte> piece(size_t{1} << 20);
  for (uint64_t at = 0; at < source.size(); at += piece.size()) {
    piece.resize(static_cast<size_t>(std::min<uint64_t>(piece.size(), source.size() - at)));
    MLC_RETURN_IF_ERROR(source.read(at, piece));
    sha.update(piece);
  }
  MLC_RETURN_IF_ERROR(source.unchanged());
  return sha.finish();
}

Result<AuthenticatedFile> AuthenticatedFile::open_source(std::unique_ptr<Source> opened) {
  auto parts = std::make_unique<Parts>();
  parts->source = std::move(opened);
  const Source& source = *parts->source;
  MLC_ASSIGN(parts->header, read_header(source));
  const Header& header = parts->header;
  if (source.size() < header.body_size) return AuthenticatedFile(std::move(parts));
  MLC_ASSIGN(parts->manifest, allocate(header.manifest_len));
  MLC_RETURN_IF_ERROR(source.read(header.manifest_off, parts->manifest));
  MLC_ASSIGN(parts->authentication, authenticate(source, header, parts->manifest));
  return AuthenticatedFile(std::move(parts));
}

Result<AuthenticatedFile> AuthenticatedFile::open(const std::string& path) {
  MLC_ASSIGN(std::unique_ptr<Source> source, open_file(path));
  return open_source(std::move(source));
}

Result<AuthenticatedFile> AuthenticatedFile::open_memory(Bytes bytes, const std::string& name) {
  return open_source(memory_source(bytes, name));
}

Result<std::unique_ptr<Container>> Container::open(AuthenticatedFile file, const OpenOptions& options) {
  auto state = std::make_unique<State>();
  state->source = std::move(file.parts_->source);
  state->header = file.parts_->header;
  state->workers = options.workers;
  const Source& source = *state->source;
  const Header& header = state->header;
  const Judge judge(options, source.name());
  if (!file.authentication()) return truncated(source, header, !judge.trust.refuses_unsigned(options.allow_unsigned));
  const signing::Authentication& authentication = *file.authentication();
  state->root = authentication.root();
  signing::Verdict signer = signing::decide_signer(authentication, judge.trust, judge.options);
  if (signer.may_run == signing::MayRun::Refused) return std::move(signer.status);

  format::Manifest& manifest = state->manifest;
  MLC_ASSIGN(Layout layout, read_layout(source, header, file.parts_->manifest, manifest));
  state->verdict = signing::decide_model(signer, authentication, facts_of(manifest, layout.placement), judge.trust,
                                         judge.options);
  if (state->verdict.may_run == signing::MayRun::Refused) return std::move(state->verdict.status);

  mark_absent(manifest, layout.placement);
  state->notes = collect_notes(header, manifest);
  state->native_module = std::vector<uint8_t>(manifest.segments.size());
  for (const format::Variant& variant : manifest.variants)
    if (variant.module_format != format::ModuleFormat::Portable) state->native_module[*variant.module] = true;
  state->store = std::make_unique<SegmentStore>(source, manifest, std::move(layout.placement), std::move(layout.gaps),
                                                must_copy(options, source, manifest.model.id), options.allocator);

  std::unique_ptr<Container> container(new Container(std::move(state)));
  if (options.verify == Verify::Full) MLC_RETURN_IF_ERROR(container->verify_all());
  return container;
}

Result<std::unique_ptr<Container>> Container::open_source(std::unique_ptr<Source> source, const OpenOptions& options) {
  MLC_ASSIGN(AuthenticatedFile file, AuthenticatedFile::open_source(std::move(source)));
  return open(std::move(file), options);
}

Result<std::unique_ptr<Container>> Container::open(const std::string& path, const OpenOptions& options) {
  MLC_ASSIGN(std::unique_ptr<Source> source, open_file(path));
  return open_source(std::move(source), options);
}

Result<std::unique_ptr<Container>> Container::open_memory(Bytes bytes, const std::string& name,
                                                          const OpenOptions& options) {
  return open_source(memory_source(bytes, name), options);
}

}  // namespace mlc::container
