#include "registry/texts/reference.h"

#include <algorithm>

#include "base/cli/report.h"

namespace mlc::registry {
namespace {

constexpr std::string_view kDigestPrefix = "sha256:";

bool is_lower(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }
bool is_alphanumeric(char c) { return is_lower(c) || (c >= 'A' && c <= 'Z'); }

// [a-z0-9]+((.|_|__|-+)[a-z0-9]+)*
bool is_path_component(std::string_view text) {
  if (text.empty() || !is_lower(text.front()) || !is_lower(text.back())) return false;
  for (size_t at = 0; at < text.size();) {
    if (is_lower(text[at])) {
      ++at;
      continue;
    }
    const size_t begin = at;
    while (at < text.size() && text[at] == text[begin]) ++at;
    const size_t count = at - begin;
    const char mark = text[begin];
    if (!((mark == '.' && count == 1) || (mark == '_' && count <= 2) || mark == '-')) return false;
    if (at < text.size() && !is_lower(text[at])) return false;  // two marks of different kinds
  }
  return true;
}

bool is_repository(std::string_view text) {
  if (text.size() > kMaxRepository) return false;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('/', begin), text.size());
    if (!is_path_component(text.substr(begin, end - begin))) return false;
    begin = end + 1;
  }
  return true;
}

bool is_port(std::string_view text) {
  return !text.empty() && text.size() <= 5 && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; }) &&
         std::stoul(std::string(text)) <= 65535;
}

bool is_ipv6(std::string_view text) {
  const auto fits = [](char c) { return c == ':' || c == '.' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); };
  return text.size() >= 2 && text.size() <= 45 && std::all_of(text.begin(), text.end(), fits);
}

// Labels of letters, digits and hyphens, between points.
bool is_host_name(std::string_view text) {
  if (text.empty() || text.size() > 253) return false;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('.', begin), text.size());
    const std::string_view label = text.substr(begin, end - begin);
    if (label.empty() || label.size() > 63 || !is_alphanumeric(label.front()) || !is_alphanumeric(label.back())) return false;
    if (!std::all_of(label.begin(), label.end(), [](char c) { return is_alphanumeric(c) || c == '-'; })) return false;
    begin = end + 1;
  }
  return true;
}

struct HostParts {
  std::string_view name, port;
  bool in_brackets = false;
};

HostParts split_host(std::string_view host) {
  if (host.starts_with('[')) {
    const size_t end = host.find(']');
    if (end == std::string_view::npos) return {};
    const std::string_view rest = host.substr(end + 1);
    if (!rest.empty() && (rest[0] != ':' || rest.size() == 1)) return {};
    return {host.substr(1, end - 1), rest.empty() ? rest : rest.substr(1), true};
  }
  const size_t colon = host.find(':');
  if (colon == std::string_view::npos) return {host, {}, false};
  if (colon + 1 == host.size()) return {};
  return {host.substr(0, colon), host.substr(colon + 1), false};
}

bool is_host(std::string_view host) {
  const auto [name, port, in_brackets] = split_host(host);
  if (!port.empty() && !is_port(port)) return false;
  return in_brackets ? is_ipv6(name) : is_host_name(name);
}

// As every tool tells them apart: "acme/cat" has no host, "localhost/cat" and "acme.org/cat" have one.
bool looks_like_host(std::string_view text) { return text.find_first_of(".:[") != std::string_view::npos || text == "localhost"; }

Status refused(std::string_view text, std::string_view why) {
  return Status(Code::Usage, "'" + cli::printable(text) + "' names no artifact of a registry: " + std::string(why))
      .hint("HOST[:PORT]/REPOSITORY[:TAG], or @sha256:... behind it, as in registry.example.org/acme/cat:2");
}

}  // namespace

bool is_tag(std::string_view text) {
  const auto may_follow = [](char c) { return is_alphanumeric(c) || c == '_' || c == '.' || c == '-'; };
  return !text.empty() && text.size() <= kMaxTag && text[0] != '.' && text[0] != '-' && std::all_of(text.begin(), text.end(), may_follow);
}

std::optional<Digest> parse_digest(std::string_view text) {
  if (!text.starts_with(kDigestPrefix)) return std::nullopt;
  return digest_from_hex(text.substr(kDigestPrefix.size()));
}

std::string digest_text(const Digest& digest) { return std::string(kDigestPrefix) + to_hex(digest); }

std::string Reference::object() const { return digest ? digest_text(*digest) : tag; }

std::string Reference::text() const {
  return repository_text() + (tag.empty() ? "" : ":" + tag) + (digest ? "@" + digest_text(*digest) : "");
}

bool is_loopback(std::string_view host_and_port) {
  const HostParts host = split_host(host_and_port);
  if (host.in_brackets) return host.name == "::1";
  if (host.name == "localhost") return true;
  // All of 127/8, written out: other spellings of numbers are names to this program.
  if (!host.name.starts_with("127.")) return false;
  size_t points = 0;
  for (const char c : host.name) {
    if (c == '.') ++points;
    else if (c < '0' || c > '9') return false;
  }
  return points == 3;
}

Result<Reference> parse_reference(std::string_view text) {
  if (text.empty() || text.size() > kMaxReference) return refused(text.substr(0, kMaxReference), "it is empty or too long");
  Reference out;
  std::string_view rest = text;
  if (const size_t at = rest.find('@'); at != std::string_view::npos) {
    out.digest = parse_digest(rest.substr(at + 1));
    if (!out.digest) return refused(text, "a digest is sha256: and 64 hex digits in lower case");
    rest = rest.substr(0, at);
  }
  const size_t slash = rest.find('/');
  if (slash == std::string_view::npos || !looks_like_host(rest.substr(0, slash))) return refused(text, "it does not begin with a host");
  out.host = rest.substr(0, slash);
  if (!is_host(out.host)) return refused(text, "'" + cli::printable(out.host) + "' is no host");
  rest = rest.substr(slash + 1);
  if (const size_t colon = rest.find(':'); colon != std::string_view::npos) {
    out.tag = rest.substr(colon + 1);
    if (!is_tag(out.tag)) return refused(text, "'" + cli::printable(out.tag) + "' is no tag");
    rest = rest.substr(0, colon);
  } else if (!out.digest) {
    out.tag = "latest";
  }
  out.repository = rest;
  if (!is_repository(out.repository))
    return refused(text, "'" + cli::printable(out.repository) + "' is no repository (lower case, digits and . _ - between them)");
  return out;
}

}  // namespace mlc::registry
