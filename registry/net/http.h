// Exchanges over HTTP, by libcurl, several at once if need be. Nothing here follows a redirect, repeats a request or knows a password by itself: client.h
// decides that.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/checked.h"
#include "base/status.h"
#include "registry/texts/upload.h"

namespace mlc::registry {

inline constexpr size_t kMaxHeaderBytes = 64u << 10, kMaxErrorBody = 64u << 10;

// What proves to a server which user asks. At most one of the two is set.
struct Proof {
  std::string token;           // Bearer
  std::string user, password;  // Basic

  bool empty() const { return token.empty() && user.empty() && password.empty(); }
};

struct Request {
  std::string method = "GET";
  std::string url;
  std::map<std::string, std::string> headers;
  Proof proof;
  bool may_be_plain = false;  // http://
  std::optional<Upload> upload;
  // Takes the body of an answer with a status from 200 to 299 as it arrives, with the header it has; what it answers ends the exchange unless it is OK.
  std::function<Status(const struct Answer& head, Bytes bytes)> sink;
  uint64_t body_limit = 0;    // of a body that no sink takes; a longer one ends the exchange
};

struct Answer {
  int status = 0;             // 0: nothing was answered, `why_not_whole` says why
  std::map<std::string, std::string> headers;  // names in lower case; of one that comes twice the values joined by ", "
  std::string body;
  bool is_whole = true;       // false: the connection ended before the body did, or stalled
  std::string why_not_whole;

  [[nodiscard]] const std::string& header(const std::string& name) const;
  [[nodiscard]] bool is_success() const { return status >= 200 && status < 300; }
};

// Keeps connections open between exchanges. Used from one thread, in which the functions of all requests are called as well: by `exchange` and `wait`.
class Http {
 public:
  // `seconds`: how long to wait for a connection, and how long nothing may arrive.
  explicit Http(uint32_t seconds);
  ~Http();
  Http(const Http&) = delete;

  // An error is one of `sink`, of `upload`, or a limit of this header. No answer, or a broken one, is no error here. What was begun
  // goes on meanwhile.
  [[nodiscard]] Result<Answer> exchange(const Request& request);

  // The same in two steps, so that several are on their way at once. The number is what `wait` and `stop` call it.
  [[nodiscard]] uint64_t begin(const Request& request);
  struct Ended {
    uint64_t number;
    Result<Answer> answer;
  };
  // One that has ended; none where none does within `ms`.
  [[nodiscard]] std::optional<Ended> wait(uint64_t ms);
  // It ends at once, and `wait` does not tell of it.
  void stop(uint64_t number);

 private:
  struct Handles;
  struct Exchange;
  void advance(uint64_t ms);
  void finish(Exchange& exchange, int code);

  std::unique_ptr<Handles> handles_;
  uint32_t seconds_;
};

// The parts of a URL that say to which host it leads.
struct Origin {
  std::string scheme, host, port;
  friend bool operator==(const Origin&, const Origin&) = default;
  [[nodiscard]] std::string host_and_port() const { return (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + port; }
};
// None: no URL of http or https, or one with a user's name in it.
[[nodiscard]] std::optional<Origin> origin_of(const std::string& url);
// `location`, which may be relative, seen from `url`. None: no URL.
[[nodiscard]] std::optional<std::string> resolved(const std::string& url, const std::string& location);
// With another parameter behind its query.
[[nodiscard]] std::string with_parameter(const std::string& url, std::string_view name, std::string_view value);

}  // namespace mlc::registry
