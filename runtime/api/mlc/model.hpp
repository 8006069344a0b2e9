// Models, and files that were authenticated and not yet opened. Read ../mlc.hpp first.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "open.hpp"
#include "session.hpp"

namespace mlrt {

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
