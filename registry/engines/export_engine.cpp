#include "registry/engines/export_engine.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <functional>

#include "base/cli/report.h"
#include "base/files/unfinished.h"
#include "packager/container/output_file.h"
#include "registry/engines/kubernetes.h"
#include "registry/engines/triton.h"
#include "registry/engines/yaml.h"
#include "registry/push.h"
#include "registry/texts/reference.h"
#include "runtime/container/container.h"
#include "runtime/container/source.h"
#include "signing/policy.h"
#include "signing/user_key.h"

namespace mlc::registry::engines {
namespace {

namespace fs = std::filesystem;

constexpr const char* kExampleHost = "registry.example.org/";
constexpr const char* kExampleServer = "registry.example.org/tritonserver-mlc:1.0.0";
constexpr size_t kMaxName = 50;  // of 63: engines add to it

bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// RFC 1035: what names a Service.
bool is_label(std::string_view name) {
  return !name.empty() && name.size() <= kMaxName && is_lower(name.front()) && name.back() != '-' &&
         std::all_of(name.begin(), name.end(), [](char c) { return is_lower(c) || is_digit(c) || c == '-'; });
}

// Digits with an optional fraction, and one of the suffixes.
bool is_quantity(std::string_view text, std::initializer_list<std::string_view> suffixes) {
  size_t at = 0;
  while (at < text.size() && is_digit(text[at])) ++at;
  if (at == 0 || at > 9) return false;
  if (at < text.size() && text[at] == '.') {
    const size_t begin = ++at;
    while (at < text.size() && is_digit(text[at])) ++at;
    if (at == begin || at - begin > 3) return false;
  }
  return text.find_first_of("123456789") != std::string_view::npos && std::find(suffixes.begin(), suffixes.end(), text.substr(at)) != suffixes.end();
}

// Room for weights that are copied, arenas and the server itself.
std::string memory_for(uint64_t file_bytes) { return std::to_string(512 + 128 * (1 + 3 * file_bytes / (128u << 20))) + "Mi"; }

struct File {
  std::string path;  // below the folder
  uint64_t size = 0;
  std::function<Status(uint64_t, std::span<std::byte>)> read;
};

File text_file(std::string path, const std::string& text) {
  const Upload upload = upload_of(text);
  return {std::move(path), upload.size, upload.read};
}

Status write_file(const std::string& path, const File& file) {
  MLC_ASSIGN(container::OutputFile out, container::OutputFile::create(path));
  std::vector<std::byte> piece(1u << 20);
  for (uint64_t at = 0; at < file.size; at += piece.size()) {
    piece.resize(static_cast<size_t>(std::min<uint64_t>(piece.size(), file.size - at)));
    MLC_RETURN_IF_ERROR(file.read(at, piece));
    MLC_RETURN_IF_ERROR(out.write(piece));
  }
  return out.commit();
}

// A folder that is written beside its place.
class Folder {
 public:
  // `beside`: a path in the folder where it is written.
  Folder(const std::string& beside, const std::string& place) : path_(beside + ".tmp" + std::to_string(::getpid())), place_(place) {}
  ~Folder() {
    std::error_code error;
    if (is_begun_) fs::remove_all(path_, error);
  }

  Status write(const std::vector<File>& files) {
    std::error_code error;
    if (!fs::create_directory(path_, error)) return Status(Code::NotFound, "cannot create {}: {}", cli::printable(path_), error.message());
    is_begun_ = true;
    // The inner folders first, since only empty ones can be removed where a signal ends it.
    for (const File& file : files)
      for (auto slash = file.path.rfind('/'); slash != std::string::npos; slash = slash == 0 ? std::string::npos : file.path.rfind('/', slash - 1))
        unfinished_.emplace_back(path_ + "/" + file.path.substr(0, slash));
    unfinished_.emplace_back(path_);
    for (const File& file : files) {
      fs::create_directories(fs::path(path_ + "/" + file.path).parent_path(), error);
      if (error) return Status(Code::NotFound, "cannot create a folder for {}: {}", file.path, error.message());
      MLC_RETURN_IF_ERROR(write_file(path_ + "/" + file.path, file));
    }
    return ok();
  }

  Status appear() {
    std::error_code error;
    fs::rename(path_, place_, error);  // also over an empty folder
    if (error) return Status(Code::NotFound, "cannot rename {} to {}: {}", cli::printable(path_), cli::printable(place_), error.message());
    is_begun_ = false;
    return ok();
  }

 private:
  std::string path_, place_;
  bool is_begun_ = false;
  std::vector<Unfinished> unfinished_;
};

bool is_free(const std::string& place) {
  std::error_code error;
  return !fs::exists(fs::symlink_status(place, error)) || (fs::is_directory(place, error) && fs::is_empty(place, error));
}

std::string without_slash(std::string folder) {
  while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  return folder;
}

Result<std::unique_ptr<container::Container>> opened(const std::string& path, const signing::TrustSet* trust) {
  container::OpenOptions how;
  how.verify = container::Verify::Lazy;
  how.allow_unsigned = trust == nullptr;
  how.trust = trust;
  if (trust == nullptr) how.now = 1;  // the host of the repository decides
  MLC_ASSIGN(auto file, container::Container::open(path, how));
  MLC_RETURN_IF_ERROR(file->verify_all());
  return file;
}

// The keys that vouch for the file: they go along, and are the only ones that the servers trust.
Result<std::vector<std::string>> keys_of(const EngineOptions& options, const signing::TrustSet& trust, const signing::Verdict& verdict) {
  if (verdict.trust != signing::Trust::Trusted) {
    const bool is_signed = !verdict.signatures.empty();
    return std::move(Status(is_signed ? Code::Untrusted : Code::Unsigned, "{}: {}; a signer of --trust expected, the servers would refuse the file", cli::printable(options.file),
                            cli::printable(verdict.reason)))
        .hint(is_signed ? "--trust KEY.pem: the public key of who signed it" : "mlpack sign signs it");
  }
  std::vector<std::string> keys;
  for (const signing::TrustedKey& one : trust.keys()) {
    const bool counts = !options.trust.empty() || std::find(verdict.signers.begin(), verdict.signers.end(), one.key.id()) != verdict.signers.end();
    if (std::string pem = one.key.pem(); counts && std::find(keys.begin(), keys.end(), pem) == keys.end()) keys.push_back(std::move(pem));
  }
  return keys;
}

Status check(const EngineOptions& options) {
  if (!options.name.empty() && !is_label(options.name))
    return Status(Code::Usage, "--name: '{}' found, at most {} lower-case letters, digits and hyphens expected, a letter first", cli::printable(options.name), kMaxName);
  if (!is_quantity(options.cpu, {"", "m"})) return Status(Code::Usage, "--cpu: '{}' found, a number such as 2, 0.5 or 500m expected", cli::printable(options.cpu));
  if (!options.memory.empty() && !is_quantity(options.memory, {"", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"}))
    return Status(Code::Usage, "--memory: '{}' found, an amount such as 512Mi or 4Gi expected", cli::printable(options.memory));
  if (!options.server.empty()) {
    const auto server = parse_reference(options.server);
    if (!server.ok()) return Status(server.status()).note("--server");
  }
  return ok();
}

// Where the model will be, named by the digest that it has there.
Result<std::string> image_of(const EngineOptions& options, const std::string& name) {
  const std::string text = options.image.empty() ? kExampleHost + name : options.image;
  auto reference = parse_reference(text);
  if (!reference.ok()) return Status(reference.status()).note("--image");
  MLC_ASSIGN(const PushResult described, describe(options.file, ShapeKind::Image));
  if (reference->digest && *reference->digest != described.manifest)
    return Status(Code::Usage, "--image names {}, but {} is {} as an image", digest_text(*reference->digest), cli::printable(options.file), digest_text(described.manifest));
  return reference->repository_text() + "@" + digest_text(described.manifest);
}

EngineResult result_of(const container::Container& file, const EngineOptions& options, const TritonConfig& config) {
  EngineResult result;
  result.id = file.manifest().model.id;
  result.version = file.manifest().model.version;
  result.root = digest_text(file.root());
  result.name = options.name.empty() ? name_of_id(result.id) : options.name;
  result.program = config.program;
  result.max_batch_size = config.max_batch_size;
  result.pipeline = options.pipeline;
  if (options.pipeline.empty() && has_pipeline(file.manifest()))
    result.notes.push_back("clients send and get the arrays of '" + cli::printable(config.program) + "'; with --pipeline default they send files and texts as BYTES");
  return result;
}

Result<EngineResult> export_triton(const EngineOptions& options) {
  MLC_ASSIGN(const auto file, opened(options.file, nullptr));
  const std::string name = options.name.empty() ? name_of_id(file->manifest().model.id) : options.name;
  MLC_ASSIGN(const TritonConfig config, triton_config(file->manifest(), {name, options.program, options.pipeline, options.max_batch}));
  EngineResult result = result_of(*file, options, config);
  if (file->verdict().signatures.empty()) result.notes.push_back("the file is not signed: the backend refuses it, unless the server was told otherwise");

  const std::string repository = without_slash(options.folder), place = repository + "/" + name;
  std::error_code error;
  if (fs::exists(repository, error) && !fs::is_directory(repository, error))
    return Status(Code::Usage, "{} is a file, a folder expected: Triton's model repository", cli::printable(repository));
  if (!is_free(place)) return std::move(Status(Code::Usage, "{} is there already", cli::printable(place))).hint("--name gives the model another name");
  MLC_ASSIGN(const auto source, container::open_file(options.file));
  const bool is_new = !fs::exists(repository, error);
  const std::string inner = is_new ? name + "/" : "";
  const std::vector<File> files = {{inner + "1/model.mlc", source->size(), [&](uint64_t offset, std::span<std::byte> out) { return source->read(offset, out); }},
                                   text_file(inner + "config.pbtxt", config.text)};
  // Not within the repository: what is there is a model to a server that looks.
  Folder folder(repository, is_new ? repository : place);
  MLC_RETURN_IF_ERROR(folder.write(files));
  MLC_RETURN_IF_ERROR(source->unchanged());
  MLC_RETURN_IF_ERROR(folder.appear());
  result.files = {name + "/1/model.mlc", name + "/config.pbtxt"};
  return result;
}

Result<EngineResult> export_objects(const EngineOptions& options) {
  signing::TrustSources sources = signing::default_trust_sources();
  if (!options.trust.empty()) sources = {{}, options.trust, {}, {}, {}};
  MLC_ASSIGN(const signing::TrustSet trust, signing::TrustSet::load(sources));
  MLC_ASSIGN(const auto file, opened(options.file, &trust));
  MLC_ASSIGN(std::vector<std::string> keys, keys_of(options, trust, file->verdict()));
  const std::string name = options.name.empty() ? name_of_id(file->manifest().model.id) : options.name;
  MLC_ASSIGN(const TritonConfig config, triton_config(file->manifest(), {name, options.program, options.pipeline, options.max_batch}));
  EngineResult result = result_of(*file, options, config);
  MLC_ASSIGN(result.image, image_of(options, name));

  Deployed what{name, result.id, std::to_string(result.version), result.root, result.image, options.storage, options.server, options.cpu, options.memory, options.replicas, config.text, std::move(keys)};
  if (what.storage.empty()) what.storage = "oci://" + result.image;
  if (what.server.empty()) what.server = kExampleServer;
  if (what.memory.empty()) what.memory = memory_for(file->file_size());
  if (options.image.empty() && options.storage.empty()) result.notes.push_back("--image was not given: registry.example.org stands in its place");
  if (options.server.empty()) result.notes.push_back("--server was not given: registry.example.org/tritonserver-mlc stands in its place; docs/serving.md builds that image");

  const std::string place = without_slash(options.folder);
  if (!is_free(place)) return Status(Code::Usage, "{} is there already, a new or an empty folder expected", cli::printable(place));
  std::vector<File> files;
  for (const Document& one : options.engine == Engine::Kserve ? kserve_documents(what) : kubernetes_documents(what)) {
    files.push_back(text_file(one.file, yaml_text(one.object)));
    result.files.push_back(one.file);
  }
  Folder folder(place, place);
  MLC_RETURN_IF_ERROR(folder.write(files));
  MLC_RETURN_IF_ERROR(folder.appear());
  return result;
}

}  // namespace

std::string name_of_id(const std::string& id) {
  std::string name;
  for (const char c : id.substr(id.rfind('/') + 1)) {
    const char lower = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (is_lower(lower) || (is_digit(lower) && !name.empty())) name += lower;
    else if (!name.empty() && name.back() != '-' && !is_digit(lower)) name += '-';
  }
  name = name.substr(0, kMaxName);
  while (!name.empty() && name.back() == '-') name.pop_back();
  return name.empty() ? "model" : name;
}

Result<EngineResult> export_engine(const EngineOptions& options) {
  MLC_RETURN_IF_ERROR(check(options));
  return options.engine == Engine::Triton ? export_triton(options) : export_objects(options);
}

}  // namespace mlc::registry::engines
