// The library's contract for C++20: owners, spans and results over mlc.h, whose table is all that this header uses. What
// mlc.h says holds here too; its constants (MLC_F32, MLC_CANCELLED, MLC_VERIFY_FULL, ...) are those of this header.
//
//   auto model = mlrt::Model::open("net.mlc", {.trust_keys = {"publisher.pub.pem"}});
//   if (!model) return report(model.error().text());
//   auto session = model->session({.threads = 4});
//   if (!session) return report(session.error().text());
//   auto out = session->run({mlrt::Input("image", pixels, {1, 1, 28, 28})}, {.stop = token});
//   if (!out) return report(out.error().text());
//   auto logits = out->values<float>("logits");      // Result<std::span<const float>>
//
// Errors are values. A Result holds what was asked for or the Error, and must be looked at. Nothing here throws, and all of
// it works with -fno-exceptions; `value()`, `*` and `->` of an error, and `error()` of a value, are mistakes in the program and
// end it with a sentence. Memory that the wrapper itself needs (names, lists of tensors) comes from operator new.
//
// Owners (Model, Session, Pool, CancelSource, File) can be moved but not copied. What a session needs lives as long as the
// session: it keeps its model and its pool, whichever of the owners goes first; a model keeps its reader and its services.
// Memory that a container is read from, allocators, and a CancelSource while a run uses it, are kept by the caller.
//
// Views (View, spans and texts that are handed out) belong to the handle they came from: those of an output until the
// next run of its session, those of assets and golden inputs as long as the model or one of its sessions.
//
// Functions that are handed in (services, readers, what run_async calls) throw nothing: they are called from C.
//
// Threads: as in mlc.h. A Model, a Pool and a CancelSource may be used by several threads, a Session by one at a time.
#pragma once

#if !defined(__cplusplus) || __cplusplus < 202002L
#error "mlc.hpp needs C++20; mlc.h is for C and older C++"
#endif

#include <algorithm>
#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <memory>
#include <new>
#include <optional>
#include <ranges>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "mlc.h"

namespace mlrt {

// The table of the library; null if the library is older than this header.
inline const MlcApi* api() noexcept {
  static const MlcApi* const table = mlc_get_api(MLC_API_VERSION);
  return table;
}
inline std::string_view version() noexcept { return mlc_version_string(); }

// ---- Errors ---------------------------------------------------------------------------------------------------------

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

// ---- Tensors --------------------------------------------------------------------------------------------------------

namespace detail {

template <class T>
constexpr MlcDType dtype_of() noexcept {
  if constexpr (std::is_same_v<T, bool>) {
    return MLC_BOOL;
  } else if constexpr (std::is_same_v<T, float>) {
    return MLC_F32;
  } else if constexpr (std::is_same_v<T, double>) {
    return MLC_F64;
  } else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, char> && !std::is_same_v<T, wchar_t> &&
                       !std::is_same_v<T, char8_t> && !std::is_same_v<T, char16_t> && !std::is_same_v<T, char32_t>) {
    constexpr bool is_signed = std::is_signed_v<T>;
    return sizeof(T) == 1 ? is_signed ? MLC_I8 : MLC_U8
         : sizeof(T) == 2 ? is_signed ? MLC_I16 : MLC_U16
         : sizeof(T) == 4 ? is_signed ? MLC_I32 : MLC_U32
                          : is_signed ? MLC_I64 : MLC_U64;
  } else {
    return MLC_NONE;
  }
}

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

// The C++ types that are elements: float, double, bool and the integers. For others there are `raw` and `bytes`.
template <class T>
concept Element = detail::dtype_of<T>() != MLC_NONE;
template <Element T>
inline constexpr MlcDType dtype_of = detail::dtype_of<T>();

// Memory that runs use without copying it: aligned to 64 bytes.
template <class T>
struct AlignedAllocator {
  using value_type = T;
  AlignedAllocator() = default;
  template <class U>
  AlignedAllocator(const AlignedAllocator<U>&) noexcept {}
  T* allocate(size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), std::align_val_t(64))); }
  void deallocate(T* p, size_t) noexcept { ::operator delete(p, std::align_val_t(64)); }
  bool operator==(const AlignedAllocator&) const noexcept = default;
};
template <Element T>
using Vector = std::vector<T, AlignedAllocator<T>>;

// The extents of an array; none: a scalar. More than MLC_MAX_RANK are refused by the run.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> extents) : Shape(std::span(extents.begin(), extents.size())) {}
  explicit Shape(std::span<const int64_t> extents) : rank_(std::min(extents.size(), extents_.size())) {
    std::copy_n(extents.begin(), rank_, extents_.begin());
  }
  std::span<const int64_t> extents() const noexcept { return {extents_.data(), rank_}; }

 private:
  std::array<int64_t, MLC_MAX_RANK + 1> extents_{};
  size_t rank_ = 0;
};

// An array or a list that a handle holds: looked at, not owned.
class View {
 public:
  explicit View(const MlcTensor& tensor) noexcept : tensor_(tensor) {}

  std::string_view name() const noexcept { return tensor_.name ? tensor_.name : ""; }
  MlcDType dtype() const noexcept { return static_cast<MlcDType>(tensor_.dtype); }
  std::span<const int64_t> shape() const noexcept { return {tensor_.shape, tensor_.rank}; }
  std::span<const std::byte> bytes() const noexcept {
    return {static_cast<const std::byte*>(tensor_.data), static_cast<size_t>(tensor_.bytes)};
  }
  // The elements in C order. MLC_INPUT_MISMATCH if they are of another type, or this is a list.
  template <Element T>
  Result<std::span<const T>> values() const {
    if (tensor_.dtype != dtype_of<T> || tensor_.list_depth != 0)
      return Error(MLC_INPUT_MISMATCH, "the elements of this tensor are of another type");
    return std::span(static_cast<const T*>(tensor_.data), static_cast<size_t>(tensor_.bytes) / sizeof(T));
  }
  // The elements of an array of MLC_STR.
  Result<std::vector<std::string_view>> strings() const {
    if (tensor_.dtype != MLC_STR || tensor_.list_depth != 0)
      return Error(MLC_INPUT_MISMATCH, "the elements of this tensor are no strings");
    std::vector<std::string_view> found;
    const auto* s = static_cast<const MlcString*>(tensor_.data);
    for (size_t i = 0; i < tensor_.bytes / sizeof(MlcString); ++i) found.emplace_back(s[i].data, static_cast<size_t>(s[i].bytes));
    return found;
  }
  // 0: an array. The items of a list.
  uint32_t list_depth() const noexcept { return tensor_.list_depth; }
  uint32_t num_items() const noexcept { return tensor_.num_items; }
  View item(uint32_t index) const noexcept { return View(tensor_.items[index]); }

  const MlcTensor& tensor() const noexcept { return tensor_; }

 private:
  MlcTensor tensor_;
};

// What a run is given, under the name of a port of the program; an empty name: by position. The data is borrowed until
// the run has ended.
class Input {
 public:
  // Of anything that holds its elements one behind the other and outlives this: a vector, an array, a span.
  template <class Range>
    requires std::ranges::contiguous_range<Range> && std::ranges::sized_range<Range> && std::ranges::borrowed_range<Range> &&
             Element<std::ranges::range_value_t<Range>>
  Input(std::string name, Range&& data, const Shape& shape)
      : Input(std::move(name), dtype_of<std::ranges::range_value_t<Range>>,
              std::as_bytes(std::span(std::ranges::data(data), std::ranges::size(data))), shape) {}
  explicit Input(const View& view) : name_(view.name()), view_(view.tensor()), is_view_(true) {}

  // Elements of any type, as stored in memory.
  static Input raw(std::string name, MlcDType dtype, std::span<const std::byte> data, const Shape& shape) {
    return Input(std::move(name), dtype, data, shape);
  }
  // Texts; copied are only the views of them.
  static Input strings(std::string name, std::span<const std::string_view> texts, const Shape& shape) {
    Input made(std::move(name), MLC_STR, {}, shape);
    for (std::string_view s : texts) made.strings_.push_back({s.data(), s.size()});
    return made;
  }
  // A list. `depth` is 1 for a list of arrays, 2 for a list of such lists.
  static Input list(std::string name, std::vector<Input> items, uint32_t depth = 1) {
    Input made(std::move(name), MLC_NONE, {}, {});
    made.items_ = std::move(items);
    made.depth_ = depth;
    return made;
  }

  // As the C API wants it; valid until this input is changed, moved or bound again.
  MlcTensor bind() const {
    MlcTensor t = view_;
    t.name = detail::or_null(name_);
    if (is_view_) return t;
    t.shape = shape_.extents().data();
    t.rank = detail::count(shape_.extents().size());
    if (t.dtype == MLC_STR) t.data = const_cast<MlcString*>(strings_.data()), t.bytes = strings_.size() * sizeof(MlcString);
    if (depth_ == 0) return t;
    bound_items_.clear();
    for (const Input& item : items_) bound_items_.push_back(item.bind());
    t.list_depth = depth_;
    t.num_items = detail::count(bound_items_.size());
    t.items = bound_items_.data();
    return t;
  }

 private:
  Input(std::string name, MlcDType dtype, std::span<const std::byte> data, const Shape& shape)
      : name_(std::move(name)), shape_(shape) {
    view_.dtype = dtype;
    view_.data = const_cast<std::byte*>(data.data());  // an input is not written to
    view_.bytes = data.size();
  }
  std::string name_;
  Shape shape_;
  MlcTensor view_{};
  bool is_view_ = false;
  uint32_t depth_ = 0;
  std::vector<MlcString> strings_;
  std::vector<Input> items_;
  mutable std::vector<MlcTensor> bound_items_;
};

// Where an output of this name goes: into memory of the caller, which must hold all of it, or of the session.
class Output {
 public:
  explicit Output(std::string name) : name_(std::move(name)) {}
  template <class Range>
    requires std::ranges::contiguous_range<Range> && std::ranges::sized_range<Range> && std::ranges::borrowed_range<Range> &&
             Element<std::ranges::range_value_t<Range>> &&
             (!std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<Range>>>)
  Output(std::string name, Range&& memory)
      : name_(std::move(name)), memory_(std::as_writable_bytes(std::span(std::ranges::data(memory), std::ranges::size(memory)))) {}

  MlcTensor bind() const {
    MlcTensor t{};
    t.name = detail::or_null(name_);
    t.data = memory_.data();
    t.bytes = memory_.size();
    return t;
  }

 private:
  std::string name_;
  std::span<std::byte> memory_;
};

// What a run gave, in the order of the program's outputs or of those that were asked for.
class Outputs {
 public:
  explicit Outputs(std::vector<MlcTensor> tensors) : tensors_(std::move(tensors)) {}

  size_t size() const noexcept { return tensors_.size(); }
  View operator[](size_t index) const noexcept { return View(tensors_[index]); }
  std::optional<View> find(std::string_view name) const noexcept {
    for (const MlcTensor& t : tensors_)
      if (View(t).name() == name) return View(t);
    return std::nullopt;
  }
  template <Element T>
  Result<std::span<const T>> values(std::string_view name) const {
    const auto found = find(name);
    if (!found) return Error(MLC_NOT_FOUND, "the run gave no output of this name");
    return found->values<T>();
  }

 private:
  std::vector<MlcTensor> tensors_;
};

// ---- What models ask of the application -----------------------------------------------------------------------------

// One call of a service: see MlcServiceCall.
class ServiceCall {
 public:
  explicit ServiceCall(MlcServiceCall* call) noexcept : call_(call) {}

  std::string_view options() const noexcept { return call_->options; }
  uint32_t num_inputs() const noexcept { return call_->num_inputs; }
  uint32_t num_outputs() const noexcept { return call_->num_outputs; }
  View input(uint32_t index) const noexcept { return View(call_->inputs[index]); }
  uint64_t memory_bytes() const noexcept { return call_->memory_bytes; }
  // Memory for a result, to be filled, once for each. Null: the function returns, with any code.
  template <Element T>
  T* result(uint32_t output, const Shape& shape) {
    return static_cast<T*>(result(output, dtype_of<T>, shape));
  }
  void* result(uint32_t output, MlcDType dtype, const Shape& shape) {
    return call_->result(call_, output, dtype, detail::count(shape.extents().size()), shape.extents().data());
  }
  // return call.fail(MLC_MALFORMED, "no picture");
  int fail(int code, std::string_view sentence) noexcept {
    const size_t length = std::min(sentence.size(), sizeof call_->message - 1);
    std::memcpy(call_->message, sentence.data(), length);
    call_->message[length] = 0;
    return code;
  }

 private:
  MlcServiceCall* call_;
};

struct Service {
  std::string name;
  std::function<int(ServiceCall&)> run;  // may be called by several threads at once
};

// A container that the application reads. `read` may be called by several threads at once.
class Reader {
 public:
  virtual ~Reader() = default;
  virtual uint64_t size() const = 0;
  virtual bool read(uint64_t offset, std::span<std::byte> out) = 0;
};

// ---- Opening --------------------------------------------------------------------------------------------------------

// Where a container is: a path, or one of the others.
class Source {
 public:
  Source(std::string path) : path_(std::move(path)) {}
  Source(const char* path) : path_(path) {}
  // At a multiple of 256; outlives the model and does not change.
  static Source memory(std::span<const std::byte> bytes) {
    Source s{std::string()};
    s.memory_ = bytes;
    return s;
  }
  // Stays the caller's, who may close it when the container is open.
  static Source descriptor(int fd) {
    Source s{std::string()};
    s.fd_ = fd;
    return s;
  }
  static Source reader(std::shared_ptr<Reader> reader) {
    Source s{std::string()};
    s.reader_ = std::move(reader);
    return s;
  }

 private:
  friend class File;
  std::string path_;
  std::span<const std::byte> memory_;
  std::optional<int> fd_;
  std::shared_ptr<Reader> reader_;
};

// MlcOpenOptions; empty texts are its nulls.
struct OpenOptions {
  std::vector<std::string> trust_keys = {};      // PEM files of public keys
  std::vector<std::string> trust_key_data = {};  // public keys as PEM
  std::string policy = {};
  std::string config_folder = {};
  std::string state_folder = {};
  bool allow_unsigned = false;
  bool allow_older = false;
  int32_t verify = MLC_VERIFY_AUTO;
  std::string name = {};
  std::vector<Service> services = {};
  std::vector<std::string> untrusted_services = {};
  const MlcAllocator* allocator = nullptr;
  // Devices beside the processor, of libmlrt-gpu: "gpu", "gpu0,cpu"; by program "detect=gpu0;read=cpu;auto". `probe_program`, a path
  // of mlrun, asks their drivers; empty: no device is known.
  std::string devices = {};
  std::string probe_program = {};
};

struct FileInfo {
  std::string file;
  int32_t native_code;  // MLC_NATIVE_*
  bool is_signed;
};
struct ModelInfo {
  std::string file, id;
  uint64_t version;
  std::string root, trust, trust_help;
  bool native_allowed, is_signed, is_copied;
  uint64_t file_bytes;
  uint32_t num_golden;
};
struct Extent {
  int64_t value;     // -1 where it depends on the input
  std::string name;  // the name or expression of such an extent
  int64_t min, max;  // of a named one; -1 where it follows from others
};
struct Port {
  std::string name;
  MlcDType dtype;
  std::vector<Extent> extents;
  uint32_t list_depth;
};
struct Program {
  std::string name;
  bool is_default;
  std::vector<Port> inputs, outputs;
};
struct Asset {
  std::string name, media_type;
  uint64_t bytes;
};
struct Clause {
  std::string clause, answer, source;
};
struct Variant {
  std::string name, target, family;
  int32_t fits;                       // MLC_FITS, ...
  std::string reason;                 // empty if it fits
  std::chrono::nanoseconds estimate;  // 0: none
  std::vector<Clause> failing;
};
struct Choice {
  uint32_t variant;    // its index in `explain`
  std::string name;    // of the variant
  std::string device;  // "gpu0"; empty: the processor
};

// ---- Runs -----------------------------------------------------------------------------------------------------------

// Ends runs, from any thread. A source that was cancelled stays so.
class CancelSource {
 public:
  static Result<CancelSource> create() {
    if (!api()) return detail::too_old();
    MlcCancel* token = nullptr;
    MlcError* error = nullptr;
    if (const int code = api()->cancel_create(&token, &error); code != MLC_OK) return Error(code, error);
    return CancelSource(token);
  }
  void cancel() const noexcept { api()->cancel(token_.get()); }
  MlcCancel* handle() const noexcept { return token_.get(); }

 private:
  struct Release {
    void operator()(MlcCancel* t) const noexcept { api()->cancel_release(t); }
  };
  explicit CancelSource(MlcCancel* token) noexcept : token_(token) {}
  std::unique_ptr<MlcCancel, Release> token_;
};

struct RunOptions {
  std::string program = {};                // empty: `main`, or the container's default one
  std::stop_token stop = {};               // ends the run
  const CancelSource* cancel = nullptr;    // ends it too; a stop that is requested cancels this source
  std::chrono::nanoseconds time_limit{0};  // instead of the session's
};

struct PoolOptions {
  uint32_t threads = 0;
  std::vector<int32_t> cpus = {};
  bool pin = false;
};

// Threads that sessions share.
class Pool {
 public:
  static Result<Pool> create(const PoolOptions& options = {}) {
    if (!api()) return detail::too_old();
    auto raw = detail::sized<MlcPoolOptions>();
    raw.threads = options.threads;
    raw.cpus = options.cpus.empty() ? nullptr : options.cpus.data();
    raw.num_cpus = detail::count(options.cpus.size());
    raw.pin = options.pin;
    MlcPool* pool = nullptr;
    MlcError* error = nullptr;
    if (const int code = api()->pool_create(&raw, &pool, &error); code != MLC_OK) return Error(code, error);
    return Pool(pool);
  }
  Pool(Pool&&) noexcept = default;
  Pool& operator=(Pool&&) noexcept = default;
  Pool(const Pool&) = delete;

 private:
  friend class Model;
  explicit Pool(MlcPool* pool) : pool_(pool, [](MlcPool* p) { api()->pool_release(p); }) {}
  std::shared_ptr<MlcPool> pool_;
};

struct SessionOptions {
  std::string variant = {};
  std::string require = {};
  uint32_t threads = 0;
  bool pin_caller = false;
  bool profile = false;
  std::chrono::nanoseconds time_limit{0};
  uint64_t memory_limit = 0;
  const Pool* pool = nullptr;
  const MlcAllocator* allocator = nullptr;
};

struct SessionInfo {
  std::string variant;
  bool is_portable;
  uint32_t threads;
  uint64_t arena_bytes;
  std::string note;
  std::string device;  // "gpu0"; empty: the processor
};
struct Selftest {
  uint32_t vectors, failures;
  double max_abs, max_rel;
  std::string text;  // the first failure
};
struct ProfileEntry {
  std::string name;
  std::chrono::nanoseconds time;
  uint64_t runs;
};

namespace detail {

// A model and what it uses; sessions keep it.
struct ModelState {
  std::vector<Service> services;
  std::shared_ptr<Reader> reader;
  std::optional<MlcReader> raw_reader;
  MlcFile* file = nullptr;
  MlcModel* model = nullptr;

  ModelState() = default;
  ModelState(const ModelState&) = delete;
  ~ModelState() {
    if (!api()) return;
    api()->model_release(model);
    api()->file_release(file);
  }
};

// Of a session: its handle, what it uses, and what a run needs, so that it need not be made again.
struct SessionState {
  struct Results {
    std::string_view program;
    bool is_default;
    std::vector<MlcTensor> outputs;  // all that the program has, to be in memory of the session
  };
  std::shared_ptr<ModelState> model;
  std::shared_ptr<MlcPool> pool;
  std::vector<Results> programs;
  std::vector<MlcTensor> inputs;
  MlcSession* session = nullptr;

  SessionState() = default;
  SessionState(const SessionState&) = delete;
  ~SessionState() {
    if (session) api()->session_release(session);
  }
  // Of a program that there is not: none, and the library says why.
  std::vector<MlcTensor> outputs_of(std::string_view program) const {
    const Results* found = nullptr;
    for (const Results& p : programs)
      if (program.empty() ? p.program == "main" || (!found && p.is_default) : p.program == program) found = &p;
    return found ? found->outputs : std::vector<MlcTensor>();
  }
};

inline int call_service(void* user, MlcServiceCall* raw) noexcept {
  ServiceCall call(raw);
  return static_cast<const Service*>(user)->run(call);
}
inline int call_reader(void* user, uint64_t offset, void* out, uint64_t bytes) noexcept {
  return static_cast<Reader*>(user)->read(offset, {static_cast<std::byte*>(out), static_cast<size_t>(bytes)}) ? 0 : 1;
}

// The token of one run: the caller's, or one for its stop token.
class RunToken {
 public:
  Result<void> set(const RunOptions& options) {
    token_ = options.cancel ? options.cancel->handle() : nullptr;
    if (!options.stop.stop_possible()) return {};
    if (!token_) {
      auto made = CancelSource::create();
      if (!made) return std::move(made).error();
      token_ = own_.emplace(*std::move(made)).handle();
    }
    callback_.emplace(options.stop, Cancel{token_});
    return {};
  }
  MlcCancel* token() const noexcept { return token_; }

 private:
  struct Cancel {
    MlcCancel* token;
    void operator()() const noexcept { api()->cancel(token); }
  };
  MlcCancel* token_ = nullptr;
  std::optional<CancelSource> own_;
  std::optional<std::stop_callback<Cancel>> callback_;  // last: it refers to the token
};

inline MlcRunOptions raw_options(const RunOptions& options, const RunToken& token) noexcept {
  auto raw = sized<MlcRunOptions>();
  raw.program = or_null(options.program);
  raw.cancel = token.token();
  raw.time_limit_ns = static_cast<uint64_t>(std::max<int64_t>(options.time_limit.count(), 0));
  return raw;
}

// A run that goes on by itself, with all that it uses.
template <class Function>
struct AsyncRun {
  std::vector<Input> given;
  std::vector<MlcTensor> inputs, outputs;
  RunToken token;
  Function done;

  static void ended(void* user, int code, MlcError* error) noexcept {
    std::unique_ptr<AsyncRun> run(static_cast<AsyncRun*>(user));
    Result<Outputs> result = code == MLC_OK ? Result<Outputs>(Outputs(std::move(run->outputs))) : Error(code, error);
    Function done = std::move(run->done);
    run.reset();  // a function that starts the next run finds this one gone
    done(std::move(result));
  }
};

}  // namespace detail

// A run that was begun: to be asked for its end, by the thread that uses the session, which does nothing else meanwhile. One whose
// end was not asked for is waited for when this goes, and cancelled before unless a CancelSource of the caller does that. It keeps what
// outputs in memory of the session need.
class Ticket {
 public:
  // The end of the run, once.
  Result<Outputs> wait() { return *wait_for_ns(UINT64_MAX); }
  // None: it goes on after so long.
  template <class Rep, class Period>
  std::optional<Result<Outputs>> wait_for(std::chrono::duration<Rep, Period> at_most) {
    const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(at_most).count();
    return wait_for_ns(static_cast<uint64_t>(std::max<decltype(ns)>(ns, 0)));
  }
  // Whether `wait` would give the end without waiting.
  bool done() const { return !run_ || api()->run_done(run_->session->session) != 0; }

  Ticket(Ticket&&) noexcept = default;
  Ticket& operator=(Ticket&&) noexcept = default;
  Ticket(const Ticket&) = delete;

 private:
  friend class Session;
  struct Run {
    std::shared_ptr<detail::SessionState> session;
    std::vector<Input> given;
    std::vector<MlcTensor> inputs, outputs;
    CancelSource cancel;
    detail::RunToken token;
    bool is_begun = false;
    ~Run() {
      if (!is_begun) return;
      cancel.cancel();
      api()->run_wait(session->session, UINT64_MAX, nullptr);
    }
  };
  explicit Ticket(std::unique_ptr<Run> run) : session_(run->session), run_(std::move(run)) {}
  std::optional<Result<Outputs>> wait_for_ns(uint64_t ns) {
    if (!run_) return Result<Outputs>(Error(MLC_USAGE, "the end of this run was given already"));
    MlcError* error = nullptr;
    const int code = api()->run_wait(run_->session->session, ns, &error);
    if (code == MLC_NO) return std::nullopt;
    const auto run = std::move(run_);
    run->is_begun = false;
    if (code != MLC_OK) return Result<Outputs>(Error(code, error));
    return Result<Outputs>(Outputs(std::move(run->outputs)));
  }
  std::shared_ptr<detail::SessionState> session_;
  std::unique_ptr<Run> run_;  // null: its end was given
};

// One variant of a model, loaded, with its memory. Used by one thread at a time.
class Session {
 public:
  // All outputs of the program, in memory of the session.
  Result<Outputs> run(std::span<const Input> inputs, const RunOptions& options = {}) {
    return run_into(inputs, state_->outputs_of(options.program), options);
  }
  Result<Outputs> run(std::initializer_list<Input> inputs, const RunOptions& options = {}) {
    return run(std::span(inputs.begin(), inputs.size()), options);
  }
  // These outputs alone.
  Result<Outputs> run(std::span<const Input> inputs, std::span<const Output> outputs, const RunOptions& options = {}) {
    return run_into(inputs, bound(outputs, options.program), options);
  }
  Result<Outputs> run(std::initializer_list<Input> inputs, std::initializer_list<Output> outputs, const RunOptions& options = {}) {
    return run(std::span(inputs.begin(), inputs.size()), std::span(outputs.begin(), outputs.size()), options);
  }

  // Starts a run and returns. `done(Result<Outputs>)` is called once, by a thread of the library, unless this gives an
  // error; within, the session may be used again, but not destroyed. What inputs refer to stays until then. A session that
  // is destroyed waits for its run.
  template <class Function>
    requires std::invocable<Function&, Result<Outputs>> && std::move_constructible<std::decay_t<Function>>
  Result<void> run_async(std::vector<Input> inputs, Function&& done, const RunOptions& options = {}) {
    using Run = detail::AsyncRun<std::decay_t<Function>>;
    std::unique_ptr<Run> run(new Run{std::move(inputs), {}, state_->outputs_of(options.program), {}, std::forward<Function>(done)});
    if (auto set = run->token.set(options); !set) return set;
    for (const Input& i : run->given) run->inputs.push_back(i.bind());
    const MlcRunOptions raw = detail::raw_options(options, run->token);
    MlcError* error = nullptr;
    if (const int code = api()->run_async(state_->session, &raw, run->inputs.data(), detail::count(run->inputs.size()),
                                          run->outputs.data(), detail::count(run->outputs.size()), &Run::ended, run.get(), &error);
        code != MLC_OK)
      return Error(code, error);
    run.release();  // `ended` has it
    return {};
  }

  // Starts a run and returns: the caller asks the ticket for its end. On a device no thread waits meanwhile. What
  // inputs and outputs refer to stays until then; no outputs: all of the program, in memory of the session.
  Result<Ticket> start(std::vector<Input> inputs, std::span<const Output> outputs = {}, const RunOptions& options = {}) {
    auto cancel = CancelSource::create();
    if (!cancel) return std::move(cancel).error();
    RunOptions how = options;
    std::unique_ptr<Ticket::Run> run(new Ticket::Run{state_, std::move(inputs), {}, bound(outputs, options.program), *std::move(cancel), {}});
    if (!how.cancel) how.cancel = &run->cancel;
    if (auto set = run->token.set(how); !set) return std::move(set).error();
    for (const Input& i : run->given) run->inputs.push_back(i.bind());
    const MlcRunOptions raw = detail::raw_options(how, run->token);
    MlcError* error = nullptr;
    if (const int code = api()->run_start(state_->session, &raw, run->inputs.data(), detail::count(run->inputs.size()),
                                          run->outputs.data(), detail::count(run->outputs.size()), &error);
        code != MLC_OK)
      return Error(code, error);
    run->is_begun = true;
    return Ticket(std::move(run));
  }
  Result<Ticket> start(std::vector<Input> inputs, const RunOptions& options) { return start(std::move(inputs), {}, options); }

  // Type and shape of all outputs, without running. MLC_UNSUPPORTED where only a run tells.
  Result<Outputs> infer_shapes(std::span<const Input> inputs, const std::string& program = {}) {
    bind(inputs);
    auto outputs = state_->outputs_of(program);
    MlcError* error = nullptr;
    const int code = api()->infer_shapes(state_->session, detail::or_null(program), state_->inputs.data(),
                                         detail::count(inputs.size()), outputs.data(), detail::count(outputs.size()), &error);
    if (code != MLC_OK) return Error(code, error);
    return Outputs(std::move(outputs));
  }

  SessionInfo info() const {
    auto raw = detail::sized<MlcSessionInfo>();
    api()->session_info(state_->session, &raw);
    return info_of(raw);
  }
  // The same of one program, by its index in Model::programs: programs differ where devices were given by program. MLC_USAGE if there
  // is none of the index, MLC_UNSUPPORTED where the library is too old to tell.
  Result<SessionInfo> program_info(uint32_t program) const {
    if (!detail::has(offsetof(MlcApi, program_info))) return detail::too_old();
    auto raw = detail::sized<MlcSessionInfo>();
    if (const int code = api()->program_info(state_->session, program, &raw); code != MLC_OK)
      return Error(code, "the container has no such program");
    return info_of(raw);
  }

  Result<void> state_reset() {
    MlcError* error = nullptr;
    if (const int code = api()->state_reset(state_->session, &error); code != MLC_OK) return Error(code, error);
    return {};
  }
  // Valid until the session is used again.
  Result<std::span<const std::byte>> state_save() {
    MlcBytes bytes{};
    MlcError* error = nullptr;
    if (const int code = api()->state_save(state_->session, &bytes, &error); code != MLC_OK) return Error(code, error);
    return std::span(static_cast<const std::byte*>(bytes.data), static_cast<size_t>(bytes.bytes));
  }
  Result<void> state_restore(std::span<const std::byte> bytes) {
    MlcError* error = nullptr;
    if (const int code = api()->state_restore(state_->session, bytes.data(), bytes.size(), &error); code != MLC_OK)
      return Error(code, error);
    return {};
  }

  // The golden vector of this name; empty: all of them. Differences are a value: `failures`.
  Result<Selftest> selftest(const std::string& vector = {}) {
    auto raw = detail::sized<MlcSelftest>();
    MlcError* error = nullptr;
    const int code = api()->selftest(state_->session, detail::or_null(vector), &raw, &error);
    Error why(code, error);
    if (code != MLC_OK && !(code == MLC_SELFTEST && raw.failures > 0)) return why;
    return Selftest{raw.vectors, raw.failures, raw.max_abs, raw.max_rel, detail::text(raw.text)};
  }
  // The instructions of a program, after runs of a session with `profile`.
  std::vector<ProfileEntry> profile(const std::string& program = {}) const {
    std::vector<ProfileEntry> found;
    auto raw = detail::sized<MlcProfileEntry>();
    while (api()->profile(state_->session, detail::or_null(program), detail::count(found.size()), &raw) == MLC_OK)
      found.push_back({detail::text(raw.name), std::chrono::nanoseconds(raw.ns), raw.runs});
    return found;
  }

  MlcSession* handle() const noexcept { return state_->session; }

  Session(Session&&) noexcept = default;
  Session& operator=(Session&&) noexcept = default;
  Session(const Session&) = delete;

 private:
  friend class Model;
  explicit Session(std::shared_ptr<detail::SessionState> state) : state_(std::move(state)) {}

  static SessionInfo info_of(const MlcSessionInfo& raw) {
    return {detail::text(raw.variant), raw.is_portable != 0, raw.threads, raw.arena_bytes, detail::text(raw.note), detail::text(raw.device)};
  }
  // None: all of the program. What a run gives bears the model's names, for it outlives `outputs`.
  std::vector<MlcTensor> bound(std::span<const Output> outputs, std::string_view program) const {
    std::vector<MlcTensor> known = state_->outputs_of(program);
    if (outputs.empty()) return known;
    std::vector<MlcTensor> found;
    for (size_t i = 0; i < outputs.size(); ++i) {
      MlcTensor& t = found.emplace_back(outputs[i].bind());
      if (!t.name && i < known.size()) t.name = known[i].name;
      for (const MlcTensor& k : known)
        if (t.name && std::string_view(t.name) == k.name) t.name = k.name;
    }
    return found;
  }
  void bind(std::span<const Input> inputs) {
    state_->inputs.clear();
    for (const Input& i : inputs) state_->inputs.push_back(i.bind());
  }
  Result<Outputs> run_into(std::span<const Input> inputs, std::vector<MlcTensor> outputs, const RunOptions& options) {
    detail::RunToken token;
    if (auto set = token.set(options); !set) return std::move(set).error();
    bind(inputs);
    const MlcRunOptions raw = detail::raw_options(options, token);
    MlcError* error = nullptr;
    const int code = api()->run(state_->session, &raw, state_->inputs.data(), detail::count(inputs.size()), outputs.data(),
                                detail::count(outputs.size()), &error);
    if (code != MLC_OK) return Error(code, error);
    return Outputs(std::move(outputs));
  }
  std::shared_ptr<detail::SessionState> state_;  // of tickets as well
};

// An open container and what of it fits this machine. Immutable; may be shared by threads.
class Model {
 public:
  static Result<Model> open(Source source, const OpenOptions& options = {});

  // The best variant that fits, or the one that the options name.
  Result<Session> session(const SessionOptions& options = {}) const {
    auto raw = detail::sized<MlcSessionOptions>();
    raw.variant = detail::or_null(options.variant);
    raw.require = detail::or_null(options.require);
    raw.threads = options.threads;
    raw.pin_caller = options.pin_caller;
    raw.profile = options.profile;
    raw.time_limit_ns = static_cast<uint64_t>(std::max<int64_t>(options.time_limit.count(), 0));
    raw.memory_limit = options.memory_limit;
    raw.allocator = options.allocator;
    auto state = std::make_shared<detail::SessionState>();
    state->model = state_;
    if (options.pool) raw.pool = (state->pool = options.pool->pool_).get();
    MlcError* error = nullptr;
    if (const int code = api()->session_create(handle(), &raw, &state->session, &error); code != MLC_OK) return Error(code, error);
    state->programs = results();
    return Session(std::move(state));
  }

  ModelInfo info() const {
    const MlcModelInfo raw = raw_info();
    return {detail::text(raw.file), detail::text(raw.id), raw.version, detail::text(raw.root), detail::text(raw.trust),
            detail::text(raw.trust_help), raw.native_allowed != 0, raw.is_signed != 0, raw.is_copied != 0, raw.file_bytes,
            raw.num_golden};
  }
  // Warnings: what was found while the file was opened.
  std::vector<std::string> notes() const {
    std::vector<std::string> found;
    while (const char* note = api()->model_note(handle(), detail::count(found.size()))) found.emplace_back(note);
    return found;
  }
  std::vector<Program> programs() const {
    std::vector<Program> found;
    auto raw = detail::sized<MlcProgram>();
    for (uint32_t p = 0; api()->program(handle(), p, &raw) == MLC_OK; ++p)
      found.push_back({detail::text(raw.name), raw.is_default != 0, ports(p, false, raw.num_inputs), ports(p, true, raw.num_outputs)});
    return found;
  }
  // Every variant, with what stands against it.
  std::vector<Variant> explain() const {
    std::vector<Variant> found;
    auto raw = detail::sized<MlcVariant>();
    for (uint32_t v = 0; api()->explain(handle(), v, &raw) == MLC_OK; ++v) {
      found.push_back({detail::text(raw.name), detail::text(raw.target), detail::text(raw.family), raw.fits, detail::text(raw.reason),
                       std::chrono::nanoseconds(raw.estimate_ns), {}});
      auto clause = detail::sized<MlcClause>();
      for (uint32_t i = 0; i < raw.num_failing && api()->failing(handle(), v, i, &clause) == MLC_OK; ++i)
        found.back().failing.push_back({detail::text(clause.clause), detail::text(clause.answer), detail::text(clause.source)});
    }
    return found;
  }
  // The index in `explain` of the variant that a session with these options would try first.
  Result<uint32_t> choose(const SessionOptions& options = {}) const {
    uint32_t index = 0;
    MlcError* error = nullptr;
    if (const int code = api()->choose(handle(), detail::or_null(options.variant), detail::or_null(options.require), &index, &error);
        code != MLC_OK)
      return Error(code, error);
    return index;
  }
  // The same of one program, by its index in `programs`, with its device. Errors are those of `choose` and of Session::program_info.
  Result<Choice> choose_for(uint32_t program, const SessionOptions& options = {}) const {
    if (!detail::has(offsetof(MlcApi, choose_for))) return detail::too_old();
    auto raw = detail::sized<MlcChoice>();
    MlcError* error = nullptr;
    if (const int code = api()->choose_for(handle(), program, detail::or_null(options.variant), detail::or_null(options.require), &raw, &error);
        code != MLC_OK)
      return Error(code, error);
    return Choice{raw.variant, detail::text(raw.name), detail::text(raw.device)};
  }
  std::vector<Asset> assets() const {
    std::vector<Asset> found;
    auto raw = detail::sized<MlcAsset>();
    while (api()->asset(handle(), detail::count(found.size()), &raw) == MLC_OK)
      found.push_back({detail::text(raw.name), detail::text(raw.media_type), raw.bytes});
    return found;
  }
  Result<std::span<const std::byte>> asset(const std::string& name) const {
    MlcBytes bytes{};
    MlcError* error = nullptr;
    if (const int code = api()->asset_data(handle(), name.c_str(), &bytes, &error); code != MLC_OK) return Error(code, error);
    return std::span(static_cast<const std::byte*>(bytes.data), static_cast<size_t>(bytes.bytes));
  }
  Result<std::string_view> asset_text(const std::string& name) const {
    auto bytes = asset(name);
    if (!bytes) return std::move(bytes).error();
    return std::string_view(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  }
  // The inputs of the first golden vector of a program, by its index. MLC_NOT_FOUND if there is none of arrays.
  Result<std::vector<View>> golden_inputs(uint32_t program = 0) const {
    auto raw = detail::sized<MlcProgram>();
    if (api()->program(handle(), program, &raw) != MLC_OK) return Error(MLC_NOT_FOUND, "the container has no such program");
    std::vector<MlcTensor> tensors(raw.num_inputs);
    MlcError* error = nullptr;
    if (const int code = api()->golden_inputs(handle(), program, tensors.data(), raw.num_inputs, &error); code != MLC_OK)
      return Error(code, error);
    return std::vector<View>(tensors.begin(), tensors.end());
  }

  MlcModel* handle() const noexcept { return state_->model; }

  Model(Model&&) noexcept = default;
  Model& operator=(Model&&) noexcept = default;
  Model(const Model&) = delete;

 private:
  friend class File;
  explicit Model(std::shared_ptr<detail::ModelState> state) : state_(std::move(state)) {}

  MlcModelInfo raw_info() const noexcept {
    auto raw = detail::sized<MlcModelInfo>();
    api()->model_info(handle(), &raw);
    return raw;
  }
  std::vector<Port> ports(uint32_t program, bool is_output, uint32_t count) const {
    std::vector<Port> found;
    auto raw = detail::sized<MlcPort>();
    for (uint32_t i = 0; i < count && api()->port(handle(), program, is_output, i, &raw) == MLC_OK; ++i) {
      found.push_back({detail::text(raw.name), raw.dtype, {}, raw.list_depth});
      for (uint32_t axis = 0; axis < std::min<uint32_t>(raw.rank, MLC_MAX_RANK); ++axis)
        found.back().extents.push_back({raw.extents[axis], detail::text(raw.dims[axis]), raw.min[axis], raw.max[axis]});
    }
    return found;
  }
  std::vector<detail::SessionState::Results> results() const {
    std::vector<detail::SessionState::Results> found;
    auto raw = detail::sized<MlcProgram>();
    for (uint32_t p = 0; api()->program(handle(), p, &raw) == MLC_OK; ++p) {
      found.push_back({raw.name, raw.is_default != 0, {}});
      auto port = detail::sized<MlcPort>();
      for (uint32_t i = 0; i < raw.num_outputs && api()->port(handle(), p, 1, i, &port) == MLC_OK; ++i) {
        found.back().outputs.emplace_back();
        found.back().outputs.back().name = port.name;
      }
    }
    return found;
  }
  std::shared_ptr<detail::ModelState> state_;
};

// A container whose signatures were checked and which was not yet looked into: opening in two steps, see MlcFileInfo.
class File {
 public:
  static Result<File> authenticate(Source source, const OpenOptions& options = {}) {
    if (!api()) return detail::too_old();
    auto state = std::make_shared<detail::ModelState>();
    state->services = options.services;
    state->reader = std::move(source.reader_);
    auto raw = detail::sized<MlcOpenOptions>();
    raw.path = detail::or_null(source.path_);
    raw.memory = source.memory_.data();
    raw.memory_bytes = source.memory_.size();
    raw.use_fd = source.fd_.has_value();
    raw.fd = source.fd_.value_or(-1);
    if (state->reader) {
      auto& reader = state->raw_reader.emplace(detail::sized<MlcReader>());
      reader.bytes = state->reader->size();
      reader.read = detail::call_reader;
      reader.user = state->reader.get();
      raw.reader = &reader;
    }
    return take(std::move(state), raw, options);
  }

  FileInfo info() const {
    auto raw = detail::sized<MlcFileInfo>();
    api()->file_info(state_->file, &raw);
    return {detail::text(raw.file), raw.native_code, raw.is_signed != 0};
  }
  // The rest of opening; the file is used up.
  Result<Model> open() && {
    MlcError* error = nullptr;
    if (const int code = api()->open_file(state_->file, &state_->model, &error); code != MLC_OK) return Error(code, error);
    return Model(std::move(state_));
  }
  MlcFile* handle() const noexcept { return state_->file; }

  File(File&&) noexcept = default;
  File& operator=(File&&) noexcept = default;
  File(const File&) = delete;

 private:
  explicit File(std::shared_ptr<detail::ModelState> state) : state_(std::move(state)) {}

  static std::vector<const char*> pointers(const std::vector<std::string>& texts) {
    std::vector<const char*> found;
    for (const std::string& s : texts) found.push_back(s.c_str());
    return found;
  }
  static Result<File> take(std::shared_ptr<detail::ModelState> state, MlcOpenOptions raw, const OpenOptions& options) {
    const auto keys = pointers(options.trust_keys), allowed = pointers(options.untrusted_services);
    std::vector<MlcBytes> key_data;
    for (const std::string& pem : options.trust_key_data) key_data.push_back({pem.data(), pem.size()});
    std::vector<MlcService> services;
    for (Service& s : state->services) services.push_back({s.name.c_str(), detail::call_service, &s});
    raw.verify = options.verify;
    raw.allow_unsigned = options.allow_unsigned;
    raw.allow_older = options.allow_older;
    raw.trust_keys = keys.data();
    raw.num_trust_keys = detail::count(keys.size());
    raw.trust_key_data = key_data.data();
    raw.num_trust_key_data = detail::count(key_data.size());
    raw.policy = detail::or_null(options.policy);
    raw.config_folder = detail::or_null(options.config_folder);
    raw.state_folder = detail::or_null(options.state_folder);
    raw.services = services.data();
    raw.num_services = detail::count(services.size());
    raw.untrusted_services = allowed.data();
    raw.num_untrusted_services = detail::count(allowed.size());
    raw.name = detail::or_null(options.name);
    raw.allocator = options.allocator;
    raw.devices = detail::or_null(options.devices);
    raw.probe_program = detail::or_null(options.probe_program);
    MlcError* error = nullptr;
    if (const int code = api()->authenticate(&raw, &state->file, &error); code != MLC_OK) return Error(code, error);
    return File(std::move(state));
  }
  std::shared_ptr<detail::ModelState> state_;
};

inline Result<Model> Model::open(Source source, const OpenOptions& options) {
  auto file = File::authenticate(std::move(source), options);
  if (!file) return std::move(file).error();
  return std::move(*file).open();
}

}  // namespace mlrt
