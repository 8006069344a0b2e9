#include "registry/net/http.h"

#include <curl/curl.h>

#include <algorithm>
#include <chrono>
#include <list>
#include <span>

#include "registry/net/certificates.h"
#include "registry/texts/reference.h"

namespace mlc::registry {

struct ListRelease {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using List = std::unique_ptr<curl_slist, ListRelease>;

struct EasyRelease {
  void operator()(CURL* curl) const { curl_easy_cleanup(curl); }
};
using Easy = std::unique_ptr<CURL, EasyRelease>;

struct MultiRelease {
  void operator()(CURLM* multi) const { curl_multi_cleanup(multi); }
};

namespace {

struct UrlRelease {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};
using Url = std::unique_ptr<CURLU, UrlRelease>;

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

void lower(std::string& text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
}

}  // namespace

// What the callbacks of one exchange share. It stays where it is until it has ended.
struct Http::Exchange {
  uint64_t number;
  Request request;
  Answer answer;
  Status failure;         // of the caller's functions, or of a limit
  size_t header_bytes = 0;
  uint64_t sent = 0;
  List headers;
  char problem[CURL_ERROR_SIZE] = "";
  Easy curl;

  static size_t on_header(char* data, size_t, size_t length, void* user);
  static size_t on_body(char* data, size_t, size_t length, void* user);
  static size_t on_read(char* data, size_t, size_t length, void* user);
  static int on_seek(void* user, curl_off_t offset, int origin);
  void set_method();
  void set(uint32_t seconds);
};

size_t Http::Exchange::on_header(char* data, size_t, size_t length, void* user) {
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

size_t Http::Exchange::on_body(char* data, size_t, size_t length, void* user) {
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

size_t Http::Exchange::on_read(char* data, size_t, size_t length, void* user) {
  Exchange& exchange = *static_cast<Exchange*>(user);
  const Upload& upload = *exchange.request.upload;
  const auto take = static_cast<size_t>(std::min<uint64_t>(length, upload.size - exchange.sent));
  if (take == 0) return 0;
  exchange.failure = upload.read(exchange.sent, std::as_writable_bytes(std::span(data, take)));
  if (!exchange.failure.ok()) return CURL_READFUNC_ABORT;
  exchange.sent += take;
  return take;
}

int Http::Exchange::on_seek(void* user, curl_off_t offset, int origin) {
  if (origin != SEEK_SET) return CURL_SEEKFUNC_FAIL;
  static_cast<Exchange*>(user)->sent = static_cast<uint64_t>(offset);
  return CURL_SEEKFUNC_OK;
}

const std::string& Answer::header(const std::string& name) const {
  static const std::string none;
  const auto found = headers.find(name);
  return found == headers.end() ? none : found->second;
}

void Http::Exchange::set_method() {
  CURL* const handle = curl.get();
  if (request.method == "HEAD") {
    curl_easy_setopt(handle, CURLOPT_NOBODY, 1L);
  } else if (request.upload) {
    curl_easy_setopt(handle, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(handle, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(request.upload->size));
    curl_easy_setopt(handle, CURLOPT_READFUNCTION, &Exchange::on_read);
    curl_easy_setopt(handle, CURLOPT_READDATA, this);
    curl_easy_setopt(handle, CURLOPT_SEEKFUNCTION, &Exchange::on_seek);
    curl_easy_setopt(handle, CURLOPT_SEEKDATA, this);
    curl_easy_setopt(handle, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  } else if (request.method != "GET") {
    curl_easy_setopt(handle, CURLOPT_POSTFIELDS, "");
    curl_easy_setopt(handle, CURLOPT_POSTFIELDSIZE, 0L);
    curl_easy_setopt(handle, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  }
}

namespace {

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

void Http::Exchange::set(uint32_t seconds) {
  CURL* const handle = curl.get();
  curl_easy_reset(handle);  // what was set for another host is gone
  headers = headers_of(request);
  curl_easy_setopt(handle, CURLOPT_PRIVATE, this);
  curl_easy_setopt(handle, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, request.may_be_plain ? "http,https" : "https");
  curl_easy_setopt(handle, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(handle, CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
  curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, problem);
  curl_easy_setopt(handle, CURLOPT_USERAGENT, "mlpack");
  curl_easy_setopt(handle, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT, static_cast<long>(seconds));
  curl_easy_setopt(handle, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(handle, CURLOPT_LOW_SPEED_TIME, static_cast<long>(seconds));
  curl_easy_setopt(handle, CURLOPT_HEADERFUNCTION, &Exchange::on_header);
  curl_easy_setopt(handle, CURLOPT_HEADERDATA, this);
  curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, &Exchange::on_body);
  curl_easy_setopt(handle, CURLOPT_WRITEDATA, this);
  static const std::string certificates = other_certificate_file(curl_version_info(CURLVERSION_NOW)->cainfo);
  if (!certificates.empty()) curl_easy_setopt(handle, CURLOPT_CAINFO, certificates.c_str());
  const auto to = origin_of(request.url);
  if (to && is_loopback(to->host_and_port())) curl_easy_setopt(handle, CURLOPT_PROXY, "");  // another machine has another loopback
  set_method();
  set_proof(handle, request.proof);
}

// Connections are the multi handle's, so each exchange finds those of all before it. Those that ended lie in `ended` until `wait` hands them out.
struct Http::Handles {
  std::unique_ptr<CURLM, MultiRelease> multi{curl_multi_init()};
  std::vector<Easy> idle;
  std::list<Exchange> running;
  std::list<Ended> ended;
  uint64_t last_number = 0;

  ~Handles() {
    for (const Exchange& one : running) curl_multi_remove_handle(multi.get(), one.curl.get());
  }
};

Http::Http(uint32_t seconds) : handles_(std::make_unique<Handles>()), seconds_(seconds) {}
Http::~Http() = default;

uint64_t Http::begin(const Request& request) {
  Handles& all = *handles_;
  Exchange& exchange = all.running.emplace_back(Exchange{.number = ++all.last_number, .request = request, .answer = {}, .failure = {}, .headers = {}, .curl = {}});
  if (all.idle.empty()) {
    exchange.curl.reset(curl_easy_init());
  } else {
    exchange.curl = std::move(all.idle.back());
    all.idle.pop_back();
  }
  const uint64_t number = exchange.number;
  if (all.multi && exchange.curl) {
    exchange.set(seconds_);
    if (curl_multi_add_handle(all.multi.get(), exchange.curl.get()) == CURLM_OK) return number;
  }
  exchange.failure = Status(Code::Resource, "libcurl cannot be started");
  finish(exchange, CURLE_FAILED_INIT);
  return number;
}

void Http::finish(Exchange& exchange, int code) {
  Handles& all = *handles_;
  if (exchange.failure.ok()) {
    if (code != CURLE_OK) {
      exchange.answer.is_whole = false;
      exchange.answer.why_not_whole = exchange.problem[0] != 0 ? exchange.problem : curl_easy_strerror(static_cast<CURLcode>(code));
    }
    all.ended.push_back({exchange.number, std::move(exchange.answer)});
  } else {
    all.ended.push_back({exchange.number, std::move(exchange.failure)});
  }
  stop(exchange.number);
}

void Http::stop(uint64_t number) {
  Handles& all = *handles_;
  const auto found = std::find_if(all.running.begin(), all.running.end(), [&](const Exchange& one) { return one.number == number; });
  if (found == all.running.end()) {
    std::erase_if(all.ended, [&](const Ended& one) { return one.number == number; });
    return;
  }
  if (found->curl) {
    curl_multi_remove_handle(all.multi.get(), found->curl.get());
    curl_easy_reset(found->curl.get());  // it knows nothing any more of what is gone here
    all.idle.push_back(std::move(found->curl));
  }
  all.running.erase(found);
}

// Everything that can be done, then waits up to `ms` until there is more.
void Http::advance(uint64_t ms) {
  Handles& all = *handles_;
  int running = 0, left = 0;
  CURLMcode code = curl_multi_perform(all.multi.get(), &running);
  bool has_ended = false;
  while (const CURLMsg* message = curl_multi_info_read(all.multi.get(), &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    char* exchange = nullptr;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &exchange);
    const CURLcode result = message->data.result;  // the message goes with the handle
    finish(*reinterpret_cast<Exchange*>(exchange), result);
    has_ended = true;
  }
  if (code == CURLM_OK && !has_ended) code = curl_multi_poll(all.multi.get(), nullptr, 0, static_cast<int>(std::min<uint64_t>(ms, 1000)), nullptr);
  if (code == CURLM_OK) return;
  while (!all.running.empty()) {
    all.running.front().failure = Status(Code::Resource, "libcurl: {}", curl_multi_strerror(code));
    finish(all.running.front(), CURLE_FAILED_INIT);
  }
}

Result<Answer> Http::exchange(const Request& request) {
  const uint64_t number = begin(request);
  for (auto& ended = handles_->ended;; advance(1000)) {
    const auto found = std::find_if(ended.begin(), ended.end(), [&](const Ended& one) { return one.number == number; });
    if (found == ended.end()) continue;
    Result<Answer> answer = std::move(found->answer);
    ended.erase(found);
    return answer;
  }
}

std::optional<Http::Ended> Http::wait(uint64_t ms) {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + std::chrono::milliseconds(ms);
  for (auto& ended = handles_->ended;;) {
    if (!ended.empty()) {
      Ended first = std::move(ended.front());
      ended.pop_front();
      return first;
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    if (left <= 0) return std::nullopt;
    advance(static_cast<uint64_t>(left));
  }
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
