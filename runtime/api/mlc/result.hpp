// The table of the library, errors and results: what all headers of this folder stand on. Read ../mlc.hpp first.
#pragma once

#if !defined(__cplusplus) || __cplusplus < 202002L
#error "mlc.hpp needs C++20; mlc.h is for C and older C++"
#endif

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "../mlc.h"

namespace mlrt {

// The table of the library; null if the library is older than this header.
inline const MlcApi* api() noexcept {
  static const MlcApi* const table = mlc_get_api(MLC_API_VERSION);
  return table;
}
inline std::string_view version() noexcept { return mlc_version_string(); }

// Why there is no result. Texts belong to the error.
class Error {
 public:
  // Takes the library's error, which may be null.
  Error(int code, MlcError* error) noexcept : code_(code), error_(error) {}
  // `message` is a literal.
  Error(int code, const char* message) noexcept : code_(code), message_(message) {}

  int code() const noexcept { return code_; }  // MLC_USAGE, ...
  // Of "E4001"; 0: none.
  int number() const noexcept { return error_ ? api()->error_number(error_.get()) : 0; }
  // The sentence, and with its facts and help in several lines.
  std::string_view message() const noexcept { return error_ ? api()->error_message(error_.get()) : message_; }
  std::string_view text() const noexcept { return error_ ? api()->error_text(error_.get()) : message_; }
  std::string_view help() const noexcept { return error_ ? api()->error_help(error_.get()) : ""; }
  std::vector<std::string_view> facts() const {
    std::vector<std::string_view> found;
    if (error_)
      for (uint32_t i = 0; const char* fact = api()->error_fact(error_.get(), i); ++i) found.emplace_back(fact);
    return found;
  }

 private:
  struct Release {
    void operator()(MlcError* e) const noexcept { api()->error_release(e); }
  };
  int code_;
  std::unique_ptr<MlcError, Release> error_;
  const char* message_ = "the library gave no reason";
};

namespace detail {

// A result was not looked at before it was used: `error` is what it held, if not a value.
[[noreturn]] inline void misused(const Error* error) {
  const std::string_view why = error ? error->text() : "no error";
  std::fprintf(stderr, "mlrt: the %s of a result was asked for that holds: %.*s\n", error ? "value" : "error",
               static_cast<int>(why.size()), why.data());
  std::abort();
}

}  // namespace detail

// A value, or the error that is there instead.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<1>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<0>, std::move(error)) {}

  bool ok() const noexcept { return state_.index() == 1; }
  explicit operator bool() const noexcept { return ok(); }

  // Of a result that is ok.
  T& value() & { return *wanted(std::get_if<1>(&state_)); }
  const T& value() const& { return *wanted(std::get_if<1>(&state_)); }
  T&& value() && { return std::move(*wanted(std::get_if<1>(&state_))); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  // Of a result that is not.
  const Error& error() const& { return *wanted(std::get_if<0>(&state_)); }
  Error&& error() && { return std::move(*wanted(std::get_if<0>(&state_))); }

 private:
  template <class P>
  P* wanted(P* found) const {
    if (!found) detail::misused(std::get_if<0>(&state_));
    return found;
  }
  std::variant<Error, T> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  bool ok() const noexcept { return !error_; }
  explicit operator bool() const noexcept { return ok(); }
  void value() const {
    if (error_) detail::misused(&*error_);
  }
  const Error& error() const& {
    if (!error_) detail::misused(nullptr);
    return *error_;
  }
  Error&& error() && {
    if (!error_) detail::misused(nullptr);
    return *std::move(error_);
  }

 private:
  std::optional<Error> error_;
};

namespace detail {

inline uint32_t count(size_t n) noexcept { return static_cast<uint32_t>(n); }
inline const char* or_null(const std::string& s) noexcept { return s.empty() ? nullptr : s.c_str(); }
inline std::string text(const char* s) { return s ? s : ""; }
inline Error too_old() { return {MLC_UNSUPPORTED, "libmlrt is older than the header that this program was built with"}; }
// Whether the table of the library reaches as far as a function, which is at `offset`: those behind its end an older library lacks.
inline bool has(size_t offset) noexcept { return offset + sizeof(void (*)()) <= api()->size; }

// A struct that the library fills, or whose later fields it shall not look for.
template <class Struct>
Struct sized() noexcept {
  Struct s{};
  s.size = sizeof(Struct);
  return s;
}

}  // namespace detail

}  // namespace mlrt
