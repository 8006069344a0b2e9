#include "registry/net/http.h"

#include <curl/curl.h>

#include <algorithm>
#include <span>

#include "registry/texts/reference.h"

namespace mlc::registry {
namespace {

struct UrlRelease {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};
using Url = std::unique_ptr<CURLU, UrlRelease>;

struct ListRelease {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using List = std::unique_ptr<curl_slist, ListRelease>;

std::string part(const Url& url, CURLUPart which, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url.get(), which, &text, flags) != CURLUE_OK) return {};
  std::string out(text);
  curl_free(text);
  return out;
}

Url parsed(const std::string& text) {
  Url url(curl_url());
  if (!url || curl_url_set(url.get(), CURLUPART_URL, text.c_str(), 0) != CURLUE_OK) return nullptr;
  return url;
}

// What the callbacks of one exchange share.
struct Exchange {
  const Request& request;
  Answer answer;
  Status failure;         // of the caller's functions, or of a limit
  size_t header_bytes = 0;
  uint64_t sent = 0;
};

void lower(std::string& text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
}

size_t on_header(char* data, size_t, size_t length, void* user) {
  Exchange& exchange = *static_cast<Exchange*>(user);
  std::string_view line(data, length);
  if ((exchange.header_bytes += length) > kMaxHeaderBytes) {
    exchange.failure = Status(Code::Registry, "the header of the answer has more than {} bytes", kMaxHeaderBytes);
    return 0;
  }
  while (!line.empty() && (line.back() == '\r' || line.back() == '\n')) line.remove_suffix(1);
  if (line.starts_with("HTTP/")) {  // also behind "100 Continue"
    exchange.answer.headers.clear();
    const size_t blank = line.find(' ');
    exchange.answer.status = blank == std::string_view::npos ? 0 : std::atoi(std::string(line.substr(blank + 1, 3)).c_str());
    return length;
  }
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return length;
  std::string name(line.substr(0, colon));
  lower(name);
  std::string_view value = line.substr(colon + 1);
  while (!value.empty() && (value.front() == ' ' || value.front() == '\t')) value.remove_prefix(1);
  while (!value.empty() && (value.back() == ' ' || value.back() == '\t')) value.remove_suffix(1);
  std::string& place = exchange.answer.headers[name];
  place += (place.empty() ? "" : ", ") + std::string(value);
  return length;
}

size_t on_body(char* data, size_t, size_t length, void* user) {
  Exchange& exchange = *static_cast<Exchange*>(user);
  const Request& request = exchange.request;
  if (exchange.answer.is_success() && request.sink) {
    exchange.failure = request.sink(exchange.answer, std::as_bytes(std::span(data, length)));
    return exchange.failure.ok() ? length : 0;
  }
  const uint64_t limit = exchange.answer.is_success() ? request.body_limit : kMaxErrorBody;
  if (exchange.answer.body.size() + length > limit) {
    exchange.failure = Status(Code::Registry, "the answer has more than {} bytes", limit);
    return 0;
  }
  exchange.answer.body.append(data, length);
  return length;
}

size_t on_read(char* data, size_t, size_t length, void* user) {
  Exchange& exchange = *static_cast<Exchange*>(user);
  const Upload& upload = *exchange.request.upload;
  const auto take = static_cast<size_t>(std::min<uint64_t>(length, upload.size - exchange.sent));
  if (take == 0) return 0;
  exchange.failure = upload.read(exchange.sent, std::as_writable_bytes(std::span(data, take)));
  if (!exchange.failure.ok()) return CURL_READFUNC_ABORT;
  exchange.sent += take;
  return take;
}

int on_seek(void* user, curl_off_t offset, int origin) {
  if (origin != SEEK_SET) return CURL_SEEKFUNC_FAIL;
  static_cast<Exchange*>(user)->sent = static_cast<uint64_t>(offset);
  return CURL_SEEKFUNC_OK;
}

}  // namespace

struct Http::Handle {
  CURL* curl = curl_easy_init();
  ~Handle() { curl_easy_cleanup(curl); }
};

Http::Http(uint32_t seconds) : handle_(std::make_unique<Handle>()), seconds_(seconds) {}
Http::~Http() = default;

const std::string& Answer::header(const std::string& name) const {
  static const std::string none;
  const auto found = headers.find(name);
  return found == headers.end() ? none : found->second;
}

namespace {

void set_method(CURL* curl, const Request& request, Exchange& exchange) {
  if (request.method == "HEAD") {
    curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
  } else if (request.upload) {
    curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(request.upload->size));
    curl_easy_setopt(curl, CURLOPT_READFUNCTION, on_read);
    curl_easy_setopt(curl, CURLOPT_READDATA, &exchange);
    curl_easy_setopt(curl, CURLOPT_SEEKFUNCTION, on_seek);
    curl_easy_setopt(curl, CURLOPT_SEEKDATA, &exchange);
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  } else if (request.method != "GET") {
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, "");
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, 0L);
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  }
}

// libcurl sends these to the host of the URL only, and to no other one.
void set_proof(CURL* curl, const Proof& proof) {
  if (!proof.token.empty()) {
    curl_easy_setopt(curl, CURLOPT_HTTPAUTH, static_cast<long>(CURLAUTH_BEARER));
    curl_easy_setopt(curl, CURLOPT_XOAUTH2_BEARER, proof.token.c_str());
  } else if (!proof.user.empty() || !proof.password.empty()) {
    curl_easy_setopt(curl, CURLOPT_HTTPAUTH, static_cast<long>(CURLAUTH_BASIC));
    curl_easy_setopt(curl, CURLOPT_USERNAME, proof.user.c_str());
    curl_easy_setopt(curl, CURLOPT_PASSWORD, proof.password.c_str());
  }
}

List headers_of(const Request& request) {
  List list;
  const auto add = [&](const std::string& line) {
    if (curl_slist* longer = curl_slist_append(list.get(), line.c_str())) {
      (void)list.release();
      list.reset(longer);
    }
  };
  for (const auto& [name, value] : request.headers) add(name + ": " + value);
  add("Expect:");           // registries answer uploads at the end
  add("Transfer-Encoding:");
  if (request.headers.count("Content-Type") == 0) add("Content-Type:");
  return list;
}

}  // namespace

Result<Answer> Http::exchange(const Request& request) {
  CURL* curl = handle_->curl;
  if (curl == nullptr) return Status(Code::Resource, "libcurl cannot be started");
  curl_easy_reset(curl);  // what was set for another host is gone; connections stay
  Exchange exchange{request, {}, {}, 0, 0};
  char problem[CURL_ERROR_SIZE] = "";
  const List headers = headers_of(request);
  curl_easy_setopt(curl, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, request.may_be_plain ? "http,https" : "https");
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(curl, CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, problem);
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "mlpack");
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, static_cast<long>(seconds_));
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, static_cast<long>(seconds_));
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &exchange);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &exchange);
  const auto to = origin_of(request.url);
  if (to && is_loopback(to->host_and_port())) curl_easy_setopt(curl, CURLOPT_PROXY, "");  // another machine has another loopback
  set_method(curl, request, exchange);
  set_proof(curl, request.proof);
  const CURLcode code = curl_easy_perform(curl);
  if (!exchange.failure.ok()) return std::move(exchange.failure);
  if (code == CURLE_OK) return std::move(exchange.answer);
  exchange.answer.is_whole = false;
  exchange.answer.why_not_whole = problem[0] != 0 ? problem : curl_easy_strerror(code);
  return std::move(exchange.answer);
}

std::optional<Origin> origin_of(const std::string& text) {
  const Url url = parsed(text);
  if (!url || !part(url, CURLUPART_USER).empty() || !part(url, CURLUPART_PASSWORD).empty()) return std::nullopt;
  Origin out{part(url, CURLUPART_SCHEME), part(url, CURLUPART_HOST), part(url, CURLUPART_PORT, CURLU_DEFAULT_PORT)};
  if (out.scheme != "http" && out.scheme != "https") return std::nullopt;
  lower(out.host);
  if (out.host.size() > 2 && out.host.front() == '[') out.host = out.host.substr(1, out.host.size() - 2);
  return out;
}

std::optional<std::string> resolved(const std::string& url, const std::string& location) {
  const Url base = parsed(url);
  if (!base || location.empty() || curl_url_set(base.get(), CURLUPART_URL, location.c_str(), 0) != CURLUE_OK) return std::nullopt;
  std::string out = part(base, CURLUPART_URL);
  return out.empty() ? std::nullopt : std::optional(out);
}

std::string with_parameter(const std::string& url, std::string_view name, std::string_view value) {
  const Url parts = parsed(url);
  const std::string query = std::string(name) + "=" + std::string(value);
  if (!parts || curl_url_set(parts.get(), CURLUPART_QUERY, query.c_str(), CURLU_APPENDQUERY | CURLU_URLENCODE) != CURLUE_OK) return url;
  return part(parts, CURLUPART_URL);
}

}  // namespace mlc::registry
