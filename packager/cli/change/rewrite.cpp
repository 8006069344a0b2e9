#include "packager/cli/change/rewrite.h"

#include <algorithm>
#include <ctime>
#include <map>
#include <tuple>

#include "base/text/shell_word.h"
#include "packager/cli/change/stored.h"
#include "packager/cli/keys/signing_ops.h"
#include "runtime/container/header.h"
#include "signing/envelope.h"
#include "signing/policy.h"
#include "signing/user_key.h"

namespace mlc::cli {
namespace {

Status check_version(const ContainerFile& file) {
  const auto at = [&](size_t k) { return std::to_integer<unsigned>(file.core[k]); };
  const unsigned minor = at(10) | at(11) << 8;
  const bool has_flags = std::any_of(file.core.begin() + 20, file.core.begin() + 24, [](std::byte b) { return b != std::byte{0}; });
  if (minor <= format::kVersionMinor && !has_flags) return ok();
  return Status(Code::Unsupported, file.path + " is of format 1." + std::to_string(minor) + (has_flags ? " with optional flags" : "") + ", this mlpack writes 1." +
                                       std::to_string(format::kVersionMinor))
      .fact("what it does not know would be lost")
      .hint("change it with the mlpack that made it, or with a newer one; thin, fill and sign work");
}

Result<std::optional<signing::NamedKey>> key_for(const ContainerFile& file, const Resign& resign) {
  if (resign.no_sign && !resign.key_file.empty()) return Status(Code::Usage, "--key and --no-sign exclude each other");
  if (resign.no_sign || (resign.key_file.empty() && file.tail.empty())) return std::optional<signing::NamedKey>();
  if (resign.key_file.empty() && !is_signed_by_trusted(file))
    return Status(Code::Untrusted, file.path + " is not signed by a key that you trust, and the new file needs a new signature")
        .hint("--key KEY.pem signs it, which says that its code may run; --no-sign leaves it unsigned");
  MLC_ASSIGN(signing::NamedKey key, signing::named_key(resign.key_file, resign.passphrase));
  return std::optional<signing::NamedKey>(std::move(key));
}

}  // namespace

bool is_signed_by_trusted(const ContainerFile& file) {
  const auto trust = signing::TrustSet::load(signing::default_trust_sources());
  if (!trust.ok()) return false;
  signing::DecideOptions options;
  options.now = static_cast<uint64_t>(std::time(nullptr));
  options.file = file.path;
  return signing::decide_signer(file.authentication, *trust, options).trust == signing::Trust::Trusted;
}

Result<Rewrite> Rewrite::of(const std::string& path) {
  MLC_ASSIGN(ContainerFile file, open_container_file(path));
  MLC_RETURN_IF_ERROR(check_version(file));
  Rewrite out(std::move(file));
  MLC_ASSIGN(std::vector<container::StoredSegment> stored, stored_segments(*out.file_));
  format::Manifest& m = out.builder_.manifest;
  m = out.file_->opened->manifest();
  std::vector<format::Segment> segments = std::move(m.segments);
  m.segments.clear();
  for (size_t k = 0; k < segments.size(); ++k) out.builder_.keep_segment(std::move(segments[k]), std::move(stored[k]));
  for (format::Variant& variant : m.variants) variant.unusable.clear();  // absent is what this copy is; all else the writer finds again
  m.provenance.parents = {{out.file_->opened->root(), std::nullopt}};
  return out;
}

Result<std::vector<std::byte>> Rewrite::asset(uint32_t index) const {
  MLC_ASSIGN(const VerifiedBytes bytes, file_->opened->asset(index));
  return std::vector<std::byte>(bytes.bytes().begin(), bytes.bytes().end());
}

// Segments of assets are written anew, each with what it held, in that order.
Status Rewrite::replace_assets(const std::vector<NewAsset>& assets) {
  format::Manifest& m = builder_.manifest;
  std::map<std::string, const NewAsset*> by_name;
  for (const NewAsset& asset : assets) by_name[asset.name] = &asset;
  struct Item {
    format::Ref old;
    format::Ref* ref;
    container::Content bytes;
  };
  std::vector<Item> items;
  for (uint32_t k = 0; k < m.assets.size(); ++k) {
    format::Asset& asset = m.assets[k];
    MLC_ASSIGN(std::vector<std::byte> bytes, this->asset(k));
    if (const auto found = by_name.find(asset.name); found != by_name.end()) {
      bytes = found->second->bytes;
      asset.digest = sha256(bytes);
      by_name.erase(found);
    }
    items.push_back({asset.ref, &asset.ref, std::move(bytes)});
  }
  for (format::Extension& extension : m.extensions) {
    if (!extension.data || extension.data->length == 0) continue;
    MLC_ASSIGN(const VerifiedBytes bytes, file_->opened->bytes(*extension.data));
    items.push_back({*extension.data, &*extension.data, std::vector<std::byte>(bytes.bytes().begin(), bytes.bytes().end())});
  }
  std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return std::tie(a.old.segment, a.old.offset) < std::tie(b.old.segment, b.old.offset); });
  std::optional<uint32_t> first;
  for (uint32_t k = 0; k < m.segments.size(); ++k)
    if (m.segments[k].kind == format::SegmentKind::Asset) {
      builder_.renew_segment(k);
      if (!first) first = k;
    }
  for (Item& item : items) {
    if (container::view(item.bytes).empty()) {
      *item.ref = {};
      continue;
    }
    if (item.old.length == 0 && !first) first = builder_.add_segment("assets", format::SegmentKind::Asset);
    *item.ref = builder_.append(item.old.length == 0 ? *first : item.old.segment, std::move(item.bytes), 1);
  }
  for (const NewAsset& asset : assets) {
    if (by_name.count(asset.name) == 0) continue;
    if (!first) first = builder_.add_segment("assets", format::SegmentKind::Asset);
    format::Asset added{asset.name, asset.media, {}, sha256(asset.bytes)};
    if (!asset.bytes.empty()) added.ref = builder_.append(*first, asset.bytes, 1);
    m.assets.push_back(std::move(added));
  }
  return ok();
}

Result<Rewritten> Rewrite::write(const std::string& output, const Resign& resign, bool force, const std::function<Status(const OpenContainer&)>& accept) {
  const std::string& place = output.empty() ? file_->path : output;
  MLC_ASSIGN(const std::optional<signing::NamedKey> key, key_for(*file_, resign));
  MLC_RETURN_IF_ERROR(container::may_write(place, force));
  MLC_RETURN_IF_ERROR(builder_.finish());
  const auto emit = [&](container::OutputFile& out) { return builder_.emit(key ? &key->key : nullptr, [&](Bytes bytes) { return out.write(bytes); }); };
  Rewritten result;
  MLC_RETURN_IF_ERROR(write_checked(place, builder_.root(), file_->path, emit, [&](const OpenContainer& written) {
    result.bytes = written.opened->file_size();
    Status status = written.opened->verify_all();
    if (!status.ok()) return std::move(status).note(file_->path);
    return accept ? accept(written) : std::move(status);
  }));
  result.root = builder_.root();
  result.parent = file_->opened->root();
  result.output = place;
  if (key) result.key_name = key->name;
  if (!file_->tail.empty()) {
    MLC_ASSIGN(const signing::SignatureBlock block, signing::parse_block(file_->tail));
    result.signatures_before = block.envelope.signatures.size();
  }
  return result;
}

}  // namespace mlc::cli
