// Status and Result<T>: how every fallible call of this project answers.
//
// Two kinds of failure. A broken invariant is a bug and is asserted. Bad input or a missing resource is a value: the
// function returns a Status (or a Result<T>), the caller looks at it ([[nodiscard]]) and adds what it knows on the way
// up with `note`. Nothing here throws, prints or exits; `runtime/`, `loaders/` and `signing/` use nothing
// else. What has no memory for a Status is told by the standard library's exception: out_of_memory.h.
//
// Messages: lower case, no final full stop; name the item, the value found and the value expected, then one line of
// `help` that can be acted on.
#pragma once

#include <cassert>
#include <cstdint>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/compose.h"

namespace mlc {

// The class of a failure. The number is the exit code of the tools: a contract, never reused (`help exit-codes`).
enum class Code : uint8_t {
  Ok = 0,
  No = 1,             // the answer is no, or things differ
  Usage = 2,          // flag, key, value, pipeline
  NotFound = 3,       // file missing or not readable
  Malformed = 4,      // not a valid container or model: kind, truncated, corrupt, newer major version
  NoVariant = 5,      // --require or the policy was not met
  InputMismatch = 6,  // an input does not fit the model
  Resource = 7,       // out of memory, device lost, executable pages refused
  Cancelled = 8,
  Unsigned = 10,      // not signed, and the policy wants a signature
  Untrusted = 11,     // signer not trusted
  BadSignature = 12,  // signature or digest does not match
  Expired = 13,       // expired, revoked, or older than a version already seen
  Unsupported = 20,   // operators or shapes that no requested target supports
  SelfTest = 21,      // accuracy gate or self-test failed
  Performance = 22,   // performance gate failed
  Registry = 30,      // a registry was not reached, refused, or gave what it should not
  Internal = 70,      // a bug of ours
};

// One failure, with the facts that explain it. `number` is its permanent number, shown as E4001 (0: none).
struct [[nodiscard]] Status {
  Code code = Code::Ok;
  uint16_t number = 0;
  std::string message;
  std::vector<std::string> facts;  // indented lines below the message: the item, found, expected
  std::string help;                // at most one line that can be pasted

  // Out of line: every fallible call makes, moves and destroys one.
  Status();
  Status(Code c, std::string m);
  Status(Code c, const char* m);
  Status(Code c, uint16_t e, std::string m);
  Status(Code c, uint16_t e, const char* m);
  // The message out of pieces, as compose() makes it: Status(Code::Malformed, "'{}' has {} inputs", name, count).
  Status(Code c, uint16_t e, const char* pattern, Pieces pieces);
  template <class... Args>
    requires(sizeof...(Args) > 0)
  Status(Code c, const char* pattern, const Args&... args) : Status(c, 0, pattern, Pieces{args...}) {}
  template <class... Args>
    requires(sizeof...(Args) > 0)
  Status(Code c, uint16_t e, const char* pattern, const Args&... args) : Status(c, e, pattern, Pieces{args...}) {}
  Status(const Status&);
  Status(Status&&) noexcept;
  Status& operator=(const Status&);
  Status& operator=(Status&&) noexcept;
  ~Status();

  bool ok() const { return code == Code::Ok; }
  explicit operator bool() const = delete;  // neither `if (status)` reading is obvious

  // Prefixes the message with where it happened: "plan: " + message.
  Status&& note(std::string_view where) &&;
  Status&& fact(std::string line) &&;
  Status&& hint(std::string line) &&;
  // The same with what compose(pattern, args...) makes.
  template <class... Args>
  Status&& note(const char* pattern, const Args&... args) && {
    return note_of(pattern, {args...});
  }
  template <class... Args>
  Status&& fact(const char* pattern, const Args&... args) && {
    return fact_of(pattern, {args...});
  }
  template <class... Args>
  Status&& hint(const char* pattern, const Args&... args) && {
    return hint_of(pattern, {args...});
  }
  // "error[E1101]: cat.mlc is truncated: ...\n  cut off: ...\n  help: ..."
  std::string text() const;

 private:
  Status&& note_of(const char* pattern, Pieces pieces);
  Status&& fact_of(const char* pattern, Pieces pieces);
  Status&& hint_of(const char* pattern, Pieces pieces);
};

inline Status ok() { return {}; }

// A value or the reason why there is none; never built from an OK status.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T&& value) : ok_(true), value_(std::move(value)) {}
  Result(const T& value) : ok_(true), value_(value) {}
  Result(Status&& status) : ok_(false), status_(std::move(status)) {
    assert(!status_.ok() && "a Result cannot be built from OK");
  }
  Result(const Status& status) : Result(Status(status)) {}
  Result(Result&& other) noexcept : ok_(other.ok_) { take(std::move(other)); }
  Result(const Result& other) : ok_(other.ok_) { take(other); }
  Result& operator=(Result other) noexcept {
    this->~Result();
    return *new (this) Result(std::move(other));
  }
  ~Result() {
    if (ok_) value_.~T();
    else status_.~Status();
  }

  bool ok() const { return ok_; }
  explicit operator bool() const { return ok(); }
  T& value() & { assert(ok()); return value_; }
  const T& value() const& { assert(ok()); return value_; }
  T&& value() && { assert(ok()); return std::move(value_); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const Status& status() const& { assert(!ok()); return status_; }
  Status&& status() && { assert(!ok()); return std::move(status_); }

 private:
  template <class Other>
  void take(Other&& other) {
    if (ok_) new (&value_) T(std::forward<Other>(other).value_);
    else new (&status_) Status(std::forward<Other>(other).status_);
  }

  bool ok_;
  union {
    T value_;
    Status status_;
  };
};

}  // namespace mlc

#define MLC_CONCAT_(a, b) a##b
#define MLC_CONCAT(a, b) MLC_CONCAT_(a, b)
// Returns the Status of `expr` to the caller unless it is OK.
#define MLC_RETURN_IF_ERROR(expr)                        \
  do {                                                   \
    if (auto mlc_status_ = (expr); !mlc_status_.ok()) return mlc_status_; \
  } while (0)
// MLC_ASSIGN(auto x, f()): declares x from a Result or returns its Status.
#define MLC_ASSIGN(lhs, expr) MLC_ASSIGN_(MLC_CONCAT(mlc_result_, __LINE__), lhs, expr)
#define MLC_ASSIGN_(tmp, lhs, expr)              \
  auto tmp = (expr);                             \
  if (!tmp.ok()) return std::move(tmp).status(); \
  lhs = std::move(tmp).value()
