// Opening a container: options, files that are authenticated, models.
#include <utility>

#include "runtime/api/session/handles.h"
#include "runtime/api/session/service.h"
#include "runtime/api/sizes.h"
#include "runtime/api/table.h"

namespace mlc::api {
namespace {

static_assert(MLC_NATIVE_CERTAIN == static_cast<int>(signing::NativeCode::Certain));

Result<container::Verify> verify_mode(int32_t mode) {
  switch (mode) {
    case MLC_VERIFY_AUTO: return container::Verify::Auto;
    case MLC_VERIFY_LAZY: return container::Verify::Lazy;
    case MLC_VERIFY_FULL: return container::Verify::Full;
    case MLC_VERIFY_COPY: return container::Verify::Copy;
    default: return Status(Code::Usage, "open: unknown verify mode {}", mode);
  }
}

// Where the container is: the first of path, memory, descriptor and reader that is there.
Status read_place(const MlcOpenOptions& o, ModelOptions& out) {
  out.path = text_or_empty(o.path);
  out.name = text_or_empty(o.name);
  if (!out.path.empty()) return ok();
  out.memory = Bytes(static_cast<const std::byte*>(o.memory), o.memory ? static_cast<size_t>(o.memory_bytes) : 0);
  if (o.memory) return ok();
  if (o.use_fd != 0) {
    if (o.fd < 0) return Status(Code::Usage, "open: no valid descriptor");
    out.descriptor = o.fd;
    return ok();
  }
  if (!o.reader) return Status(Code::Usage, "open: no path, memory, descriptor or reader");
  MLC_ASSIGN(const MlcReader reader, read_options(o.reader, "MlcReader"));
  if (!reader.read) return Status(Code::Usage, "open: the reader has no function");
  out.reader = {reader.bytes, reader.read, reader.user};
  return ok();
}

Status read_names(const char* const* names, uint32_t count, const char* what, std::vector<std::string>& out) {
  for (uint32_t i = 0; i < count; ++i) {
    if (!names || !names[i]) return Status(Code::Usage, "open: {} {} of {} is null", what, i, count);
    out.emplace_back(names[i]);
  }
  return ok();
}

Status read_keys(const MlcOpenOptions& o, signing::TrustSources& out) {
  MLC_RETURN_IF_ERROR(read_names(o.trust_keys, o.num_trust_keys, "key", out.key_files));
  for (uint32_t i = 0; i < o.num_trust_key_data; ++i) {
    if (!o.trust_key_data || !o.trust_key_data[i].data)
      return Status(Code::Usage, "open: key {} of {} in memory is null", i, o.num_trust_key_data);
    out.key_texts.emplace_back(static_cast<const char*>(o.trust_key_data[i].data), static_cast<size_t>(o.trust_key_data[i].bytes));
  }
  return ok();
}

Result<ModelOptions> model_options(const MlcOpenOptions* given) {
  MLC_ASSIGN(const MlcOpenOptions o, read_options(given, "MlcOpenOptions"));
  ModelOptions options;
  MLC_RETURN_IF_ERROR(read_place(o, options));
  MLC_ASSIGN(options.verify, verify_mode(o.verify));
  options.allow_unsigned = o.allow_unsigned != 0;
  options.allow_older = o.allow_older != 0;
  options.state_folder = text_or_empty(o.state_folder);
  MLC_ASSIGN(options.allocator, allocator_of(o.allocator));
  options.trust.policy_file = text_or_empty(o.policy);
  options.trust.config_folder = text_or_empty(o.config_folder);
  MLC_RETURN_IF_ERROR(read_keys(o, options.trust));
  MLC_RETURN_IF_ERROR(read_names(o.untrusted_services, o.num_untrusted_services, "name of a service", options.untrusted_services));
  if (o.devices) options.devices.wanted = o.devices;
  options.devices.probe_program = text_or_empty(o.probe_program);
  options.devices.state_folder = options.state_folder;
  MLC_RETURN_IF_ERROR(check_choice(options.devices));
  for (uint32_t i = 0; i < o.num_services; ++i) {
    if (!o.services || !o.services[i].name || !o.services[i].run)
      return Status(Code::Usage, "open: service {} of {} has no name or function", i, o.num_services);
    options.services.push_back(service_of(o.services[i]));
  }
  return options;
}

std::string hex_of(const Digest& digest) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (std::byte b : digest) out += {kHex[std::to_integer<unsigned>(b) >> 4], kHex[std::to_integer<unsigned>(b) & 15]};
  return out;
}

}  // namespace

Result<std::optional<Allocator>> allocator_of(const MlcAllocator* given) {
  if (!given) return std::optional<Allocator>();
  MLC_ASSIGN(const MlcAllocator a, read_options(given, "MlcAllocator"));
  if (!a.allocate || !a.release) return Status(Code::Usage, "the allocator has no functions");
  return std::optional<Allocator>({a.allocate, a.release, a.user});
}

namespace table {

int authenticate(const MlcOpenOptions* o, MlcFile** out, MlcError** error) {
  if (!out) return fail(Status(Code::Usage, "authenticate: no place for the result"), error);
  *out = nullptr;
  auto options = model_options(o);
  if (!options) return fail(std::move(options).status(), error);
  auto file = ModelFile::authenticate(std::move(*options));
  if (!file) return fail(std::move(file).status(), error);
  auto handle = std::make_unique<MlcFile>();
  handle->name = file->file.name();
  handle->file.emplace(std::move(*file));
  *out = handle.release();
  return MLC_OK;
}

int file_info(const MlcFile* f, MlcFileInfo* out) {
  if (!f) return MLC_USAGE;
  MlcFileInfo info{};
  info.file = f->name.c_str();
  if (f->file) {
    const auto& authentication = f->file->file.authentication();
    info.native_code = static_cast<int32_t>(f->file->native_code);
    info.is_signed = authentication && authentication->is_signed();
  }
  return fill(info, out);
}

int open_file(MlcFile* f, MlcModel** out, MlcError** error) {
  if (out) *out = nullptr;
  if (!f || !f->file || !out) return fail(Status(Code::Usage, "open_file: no file, or no place for the result"), error);
  auto model = Model::open(std::move(*f->file));
  f->file.reset();
  if (!model) return fail(std::move(model).status(), error);
  auto handle = std::make_unique<MlcModel>();
  handle->model = std::move(*model);
  handle->root = hex_of(handle->model->container().root());
  for (const Assessment& a : handle->model->matcher().assessments()) handle->reasons.push_back(a.reason());
  handle->ranks.assign(handle->reasons.size(), UINT32_MAX);
  if (const auto order = handle->model->matcher().candidates({}, {}); order.ok())
    for (uint32_t i = 0; i < order->size(); ++i) handle->ranks[(*order)[i]] = i;
  handle->golden_shapes.resize(handle->model->manifest().methods.size());
  for (const auto& g : handle->model->manifest().golden) {
    auto& shapes = handle->golden_shapes[g.method];
    if (!shapes.empty()) continue;
    for (const auto& a : g.inputs) shapes.emplace_back(a.shape.begin(), a.shape.end());
  }
  *out = handle.release();
  return MLC_OK;
}

void file_release(MlcFile* f) { delete f; }

int open(const MlcOpenOptions* o, MlcModel** out, MlcError** error) {
  if (!out) return fail(Status(Code::Usage, "open: no place for the result"), error);
  *out = nullptr;
  MlcFile* file = nullptr;
  if (const int code = authenticate(o, &file, error); code != MLC_OK) return code;
  const std::unique_ptr<MlcFile> owner(file);
  return open_file(file, out, error);
}

}  // namespace table
}  // namespace mlc::api
