#include "registry/net/client.h"

#include <time.h>

#include <algorithm>
#include <charconv>

#include "base/cli/report.h"
#include "base/text/json.h"
#include "registry/net/call.h"
#include "registry/texts/challenge.h"

namespace mlc::registry {

std::optional<uint64_t> number_in(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return text.empty() || error != std::errc() || end != text.data() + text.size() ? std::nullopt : std::optional(value);
}

std::string first_line(std::string_view body) { return cli::printable(body.substr(0, std::min<size_t>(body.find('\n'), 300))); }

namespace {

constexpr int kMaxSilences = 3;  // no connection, or one that ends without an answer

void sleep_ms(uint64_t ms) {
  timespec left{static_cast<time_t>(ms / 1000), static_cast<long>(ms % 1000 * 1'000'000)};
  while (::nanosleep(&left, &left) != 0) {
  }
}

bool is_redirect(int status) { return status == 301 || status == 302 || status == 303 || status == 307 || status == 308; }
// The request may be right, and was not answered: too many, or a server that is not well.
bool is_worth_asking_again(int status) { return status == 429 || status == 502 || status == 503 || status == 504; }

// What the registry says of a failure: {"errors":[{"code":"DENIED","message":"..."}]}
std::string complaint(const Answer& answer) {
  const auto document = parse_json(answer.body, "answer", {kMaxErrorBody, 16, 1024});
  const JsonValue* errors = document.ok() ? document->root().find("errors") : nullptr;
  if (errors == nullptr) return first_line(answer.body);
  for (const JsonValue& error : errors->items()) {
    const JsonValue* code = error.find("code");
    const JsonValue* message = error.find("message");
    return cli::printable(code ? code->text().substr(0, 100) : "") + ": " + cli::printable(message ? message->text().substr(0, 300) : "");
  }
  return {};
}

std::string base_url(const std::string& host, const ClientOptions& options) {
  if (host == "docker.io" || host == "index.docker.io") return "https://registry-1.docker.io";
  return (options.plain_http || is_loopback(host) ? "http://" : "https://") + host;
}

// Link: <...>; rel="next"
std::optional<std::string> next_page(const std::string& url, const std::string& link) {
  const size_t begin = link.find('<'), end = link.find('>');
  if (begin == std::string::npos || end == std::string::npos || end < begin || link.find("next", end) == std::string::npos) return std::nullopt;
  return resolved(url, link.substr(begin + 1, end - begin - 1));
}

}  // namespace

Client::Client(std::string host, const ClientOptions& options)
    : host_(std::move(host)), options_(options), base_(base_url(host_, options)), http_(options.timeout) {}

std::string Client::url(const std::string& repository, std::string_view what) const { return base_ + "/v2/" + repository + "/" + std::string(what); }

std::string Client::manifest_name(const std::string& repository, const std::string& object) const {
  return host_ + "/" + repository + (parse_digest(object) ? "@" : ":") + object;
}

Status Client::refused(const Answer& answer, const std::string& what) const {
  if (answer.status == 0) return Status(Code::Registry, "no answer from {}: {}", host_, answer.why_not_whole);
  if (answer.status == 401 || answer.status == 403)
    return Status(Code::Registry, "{} is denied by {} (status {})", what, host_, answer.status).fact(complaint(answer)).hint("docker login " + host_);
  if (answer.status == 404) return Status(Code::Registry, "{} is not at {}", what, host_).fact(complaint(answer));
  return Status(Code::Registry, "{}: {} answers with status {}", what, host_, answer.status).fact(complaint(answer));
}

// ---- Who asks

Proof Client::proof_for(const std::string& target, const std::string& repository, Access access) const {
  const auto found = proofs_.find({repository, access});
  return found != proofs_.end() && origin_of(target) == origin_of(base_) ? found->second : Proof{};
}

Result<std::string> Client::fetch_token(const Challenge& challenge, const std::string& repository, Access access) {
  const auto value = [&](const char* name) {
    const auto found = challenge.parameters.find(name);
    return found == challenge.parameters.end() ? std::string() : found->second;
  };
  const std::string realm = value("realm");
  const auto origin = origin_of(realm);
  if (!origin || (origin->scheme == "http" && !may_be_plain()))
    return Status(Code::Registry, "{} sends for a token to '{}', an address of https expected", host_, cli::printable(realm));
  std::string scope = value("scope");
  if (scope.empty()) scope = "repository:" + repository + (access == Access::Push ? ":pull,push" : ":pull");
  Request request;
  request.url = realm;
  request.may_be_plain = may_be_plain();
  request.body_limit = kMaxErrorBody;
  std::string form;
  if (!credentials_->refresh_token.empty()) {
    std::string fields = "http://form";  // only its query is used
    for (const auto& [name, text] : {std::pair<const char*, std::string>{"grant_type", "refresh_token"}, {"client_id", "mlpack"}, {"service", value("service")},
                                     {"scope", scope}, {"refresh_token", credentials_->refresh_token}})
      fields = with_parameter(fields, name, text);
    form = fields.substr(fields.find('?') + 1);
    request.method = "POST";
    request.headers["Content-Type"] = "application/x-www-form-urlencoded";
    request.upload = Upload{form.size(), [&form](uint64_t offset, std::span<std::byte> out) {
      std::copy_n(std::as_bytes(std::span(form)).begin() + static_cast<ptrdiff_t>(offset), out.size(), out.begin());
      return ok();
    }};
  } else {
    if (!value("service").empty()) request.url = with_parameter(request.url, "service", value("service"));
    request.url = with_parameter(request.url, "scope", scope);
    request.proof = {{}, credentials_->user, credentials_->password};
  }
  MLC_ASSIGN(const Answer answer, http_.exchange(request));
  if (!answer.is_success()) return refused(answer, "a token");
  const auto document = parse_json(answer.body, "token", {kMaxErrorBody, 8, 256});
  for (const char* name : {"token", "access_token"}) {
    const JsonValue* token = document.ok() ? document->root().find(name) : nullptr;
    if (token == nullptr || token->text().empty()) continue;
    if (token->text().find_first_of("\r\n") != std::string_view::npos) break;
    return std::string(token->text());
  }
  return Status(Code::Registry, "{} gives no token where {} sends for one", origin->host_and_port(), host_);
}

Status Client::authorise(const Answer& answer, const std::string& repository, Access access) {
  MLC_ASSIGN(const std::vector<Challenge> challenges, parse_challenges(answer.header("www-authenticate")));
  if (!credentials_) {
    MLC_ASSIGN(credentials_, credentials_for(host_));
  }
  for (const Challenge& challenge : challenges) {
    if (challenge.scheme == "bearer") {
      MLC_ASSIGN(std::string token, fetch_token(challenge, repository, access));
      proofs_[{repository, access}] = Proof{std::move(token), {}, {}};
      return ok();
    }
    if (challenge.scheme == "basic" && !credentials_->user.empty()) {
      proofs_[{repository, access}] = Proof{{}, credentials_->user, credentials_->password};
      return ok();
    }
  }
  return refused(answer, repository);
}

// ---- One request

void Client::give_proof(Call& call) const {
  call.request.proof = proof_for(call.request.url, call.repository, call.access);
  call.proof_round = proof_round_;
}

Client::Call Client::call_of(Request request, const std::string& repository, Access access) const {
  request.may_be_plain = may_be_plain();
  Call call{.request = std::move(request), .repository = repository, .access = access};
  give_proof(call);
  return call;
}

// What is read may lie elsewhere. A proof goes to the registry alone, and from https no way leads to http.
Status Client::redirect(Call& call, const Answer& answer) const {
  if (call.hops++ == kMaxRedirects) return Status(Code::Registry, "{} sends on more than {} times", host_, kMaxRedirects);
  Request& request = call.request;
  const auto target = resolved(request.url, answer.header("location"));
  const auto from = origin_of(request.url), to = target ? origin_of(*target) : std::nullopt;
  if (!to || (to->scheme == "http" && (from->scheme != "http" || !may_be_plain())))
    return Status(Code::Registry, "{} sends on to '{}', which is not followed", host_, first_line(answer.header("location")));
  if (*to != *origin_of(base_)) request.proof = {};
  request.url = *target;
  return ok();
}

// Of several that were refused at once the first asks for a token; those behind it have what it was given, or its refusal.
Status Client::prove(Call& call, const Answer& answer) {
  call.asked_who = true;
  if (call.proof_round == proof_round_) {
    if (denied_) return *denied_;
    if (Status status = authorise(answer, call.repository, call.access); !status.ok()) return *(denied_ = std::move(status));
    ++proof_round_;
  }
  give_proof(call);
  return ok();
}

Result<std::optional<Answer>> Client::heard(Call& call, Answer answer) {
  const bool reads = call.request.method == "GET" || call.request.method == "HEAD";
  call.wait_ms = 0;
  call.is_busy = false;
  if (is_redirect(answer.status) && reads) {
    MLC_RETURN_IF_ERROR(redirect(call, answer));
    return std::optional<Answer>();
  }
  if (call.hops > 0) return std::optional(std::move(answer));
  if (answer.status == 0) {
    if (!reads || call.attempt == kMaxSilences) return refused(answer, call.repository);
    call.wait_ms = 100u << call.attempt++;
    return std::optional<Answer>();
  }
  if (answer.status == 401 && !call.asked_who) {
    MLC_RETURN_IF_ERROR(prove(call, answer));
    ++call.attempt;
    return std::optional<Answer>();
  }
  if (!is_worth_asking_again(answer.status) || call.attempt == kMaxAttempts || call.request.method == "PATCH") return std::optional(std::move(answer));
  const std::string& stated = answer.header("retry-after");
  const uint64_t wait = stated.empty() ? uint64_t{1} << (call.attempt - 1) : number_in(stated).value_or(5);
  if (wait > kMaxRetryAfter) return Status(Code::Registry, "{} wants to be asked again in {} seconds", host_, wait);
  ++call.attempt;
  call.wait_ms = wait * 1000;
  call.is_busy = true;
  return std::optional<Answer>();
}

Result<Answer> Client::send(Request request, const std::string& repository, Access access) {
  denied_.reset();
  Call call = call_of(std::move(request), repository, access);
  for (;;) {
    MLC_ASSIGN(Answer answer, http_.exchange(call.request));
    MLC_ASSIGN(auto whole, heard(call, std::move(answer)));
    if (whole) return std::move(*whole);
    sleep_ms(call.wait_ms);
  }
}

// ---- Manifests

Result<std::optional<FetchedManifest>> Client::manifest_if_there(const std::string& repository, const std::string& object) {
  Request request;
  request.url = url(repository, "manifests/" + object);
  for (const std::string_view type : {kManifestType, kIndexType, kDockerManifestType, kDockerIndexType}) {
    std::string& accepted = request.headers["Accept"];
    accepted += (accepted.empty() ? "" : ", ") + std::string(type);
  }
  request.body_limit = kMaxManifestBytes;
  MLC_ASSIGN(Answer answer, send(std::move(request), repository, Access::Pull));
  const std::string what = manifest_name(repository, object);
  if (answer.status == 404) return std::optional<FetchedManifest>();
  if (!answer.is_success()) return refused(answer, what);
  if (!answer.is_whole) return Status(Code::Registry, "{}: the manifest was cut off: {}", what, answer.why_not_whole);
  received_ += answer.body.size();
  FetchedManifest out{std::move(answer.body), {}, answer.header("content-type")};
  out.digest = sha256(out.text);
  const auto wanted = parse_digest(object), stated = parse_digest(answer.header("docker-content-digest"));
  for (const auto& expected : {wanted, stated})
    if (expected && *expected != out.digest)
      return Status(Code::BadSignature, 3102, "the manifest of {} is another one than its digest says", what)
          .fact("expected  " + digest_text(*expected))
          .fact("found     " + digest_text(out.digest));
  return std::optional(std::move(out));
}

Result<FetchedManifest> Client::manifest(const std::string& repository, const std::string& object) {
  MLC_ASSIGN(auto found, manifest_if_there(repository, object));
  if (!found) return Status(Code::Registry, "{} is not at {}", manifest_name(repository, object), host_);
  return std::move(*found);
}

Result<std::vector<std::string>> Client::listed_referrers(const std::string& repository, const Digest& subject) {
  std::vector<std::string> pages;
  for (std::string next = url(repository, "referrers/" + digest_text(subject)); !next.empty();) {
    if (pages.size() == kMaxPages) return Status(Code::Registry, "{} lists referrers on more than {} pages", host_, kMaxPages);
    Request request;
    request.url = next;
    request.headers["Accept"] = kIndexType;
    request.body_limit = kMaxManifestBytes;
    MLC_ASSIGN(Answer answer, send(std::move(request), repository, Access::Pull));
    // Registries of before answer 404, and some what they answer to any path that they do not know.
    if (answer.status == 404 || answer.status == 400 || answer.status == 405) return pages;
    if (!answer.is_success()) return refused(answer, "the listing of referrers");
    if (!answer.is_whole) return Status(Code::Registry, "the listing of referrers was cut off: {}", answer.why_not_whole);
    received_ += answer.body.size();
    const auto more = next_page(next, answer.header("link"));
    if (more && origin_of(*more) != origin_of(base_)) return Status(Code::Registry, "{} continues its listing of referrers elsewhere", host_);
    next = more.value_or("");
    pages.push_back(std::move(answer.body));
  }
  return pages;
}

Status Client::put_manifest(const std::string& repository, const std::string& object, std::string_view media_type, std::string_view text) {
  Request request;
  request.method = "PUT";
  request.url = url(repository, "manifests/" + object);
  request.headers["Content-Type"] = media_type;
  request.body_limit = kMaxErrorBody;
  request.upload = Upload{text.size(), [text](uint64_t offset, std::span<std::byte> out) {
    std::copy_n(std::as_bytes(std::span(text)).begin() + static_cast<ptrdiff_t>(offset), out.size(), out.begin());
    return ok();
  }};
  MLC_ASSIGN(const Answer answer, send(std::move(request), repository, Access::Push));
  if (!answer.is_success()) return refused(answer, "the manifest " + object);
  sent_ += text.size();
  const auto stated = parse_digest(answer.header("docker-content-digest"));
  if (!stated || *stated == sha256(text)) return ok();
  return Status(Code::Registry, "{} has stored the manifest {} with another digest, {}", host_, object, digest_text(*stated));
}

}  // namespace mlc::registry
