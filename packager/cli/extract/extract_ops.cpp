#include "packager/cli/extract/extract_ops.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <set>

#include "base/text/shell_word.h"
#include "packager/cli/container_file.h"
#include "packager/cli/extract/dense_elements.h"
#include "packager/cli/inspect_json.h"
#include "packager/container/output_file.h"
#include "runtime/io/npz.h"
#include "schema/validate/validate.h"

namespace mlc::cli {
namespace {

namespace fs = std::filesystem;
using container::Container;
constexpr std::string_view kPipelineName = "pipeline.json", kContents = "contents.json";

// The folder that is filled. What was written goes again unless all of it is there.
class ExtractFolder {
 public:
  static Result<ExtractFolder> create(const std::string& path, bool force) {
    std::error_code error;
    const bool is_there = fs::exists(path, error);
    if (is_there && !fs::is_directory(path, error)) return Status(Code::Usage, path + " is no folder").hint("-o FOLDER, a new one");
    if (is_there && !force && !fs::is_empty(path, error)) return Status(Code::Usage, path + " has files in it").hint("name a new folder, or --force, which replaces files of the same names");
    ExtractFolder out(path);
    MLC_RETURN_IF_ERROR(out.make(path));
    return out;
  }
  ExtractFolder(ExtractFolder&& other) noexcept : path_(std::move(other.path_)), written_(std::exchange(other.written_, {})), made_(std::exchange(other.made_, {})) {}
  ExtractFolder& operator=(ExtractFolder&&) = delete;
  ~ExtractFolder() {
    std::error_code error;
    for (const std::string& file : written_) fs::remove(file, error);
    for (auto folder = made_.rbegin(); folder != made_.rend(); ++folder) fs::remove(*folder, error);
  }

  // `path` is ours: a name, or a folder and a name.
  Status write(const std::string& path, const std::function<Status(container::OutputFile&)>& emit) {
    const fs::path place = fs::path(path_) / path;
    if (!place.parent_path().empty()) MLC_RETURN_IF_ERROR(make(place.parent_path()));
    std::error_code error;
    // What is there by that name may lead elsewhere: a link is not followed.
    if (fs::is_symlink(fs::symlink_status(place, error))) return Status(Code::Usage, place.string() + " is a link").hint("name a new folder");
    MLC_ASSIGN(container::OutputFile out, container::OutputFile::create(place.string()));
    MLC_RETURN_IF_ERROR(emit(out));
    MLC_RETURN_IF_ERROR(out.commit());
    written_.push_back(place.string());
    return ok();
  }
  Status write(const std::string& path, Bytes bytes) {
    return write(path, [&](container::OutputFile& out) { return out.write(bytes); });
  }
  uint64_t bytes_of(const std::string& path) const {
    std::error_code error;
    return fs::file_size(fs::path(path_) / path, error);
  }
  void keep() { written_.clear(), made_.clear(); }

 private:
  explicit ExtractFolder(std::string path) : path_(std::move(path)) {}
  Status make(const fs::path& folder) {
    std::error_code error;
    if (fs::is_directory(folder, error)) return ok();
    if (fs::create_directories(folder, error)) made_.push_back(folder);
    return error ? Status(Code::NotFound, folder.string() + ": cannot be made: " + error.message()) : ok();
  }
  std::string path_;
  std::vector<std::string> written_;
  std::vector<fs::path> made_;
};

// The name of an entry of an archive. Some programs unpack archives to paths, so a name that would lead out of their folder is not used.
std::string entry_name(const std::string& name, size_t number, const std::set<std::string>& taken) {
  bool leads_out = name.find('\\') != name.npos;
  for (const fs::path& part : fs::path(name)) leads_out = leads_out || part == "..";
  if (!leads_out) return name;
  std::string own = "array-" + std::to_string(number);
  while (taken.count(own) > 0) own += "_";
  return own;
}

class Extraction {
 public:
  Extraction(const Container& file, ExtractFolder& folder) : file_(file), manifest_(file.manifest()), folder_(folder) {}

  Status golden() {
    for (size_t k = 0; k < manifest_.golden.size(); ++k) {
      const format::Golden& g = manifest_.golden[k];
      const format::Method& method = manifest_.methods[g.method];
      const bool is_core = g.entry == format::GoldenEntry::Core;
      const std::string place = "golden/" + std::to_string(k);
      MLC_RETURN_IF_ERROR(arrays(place + ".inputs.npz", "golden", g.name, g.inputs, is_core && !method.core_inputs.empty() ? method.core_inputs : method.inputs));
      MLC_RETURN_IF_ERROR(arrays(place + ".answers.npz", "golden", g.name, g.outputs, is_core && !method.core_outputs.empty() ? method.core_outputs : method.outputs));
    }
    return ok();
  }
  Status interface() {
    Json programs = Json::array();
    for (const format::Method& method : manifest_.methods) programs.push_back(program_json(manifest_, method));
    const Json json = {{"model", model_json(manifest_)}, {"programs", programs}, {"golden", golden_json(manifest_)}};
    return put_text("interface.json", "interface", "", json.print());
  }
  // The pipeline is beside the lists that it names, as `mlpack build` takes it.
  Status assets(bool pipeline) {
    for (uint32_t k = 0; k < manifest_.assets.size(); ++k) {
      const format::Asset& asset = manifest_.assets[k];
      if ((asset.name == kPipelineName) != pipeline) continue;
      MLC_ASSIGN(const std::string name, label(asset.name));
      MLC_ASSIGN(const VerifiedBytes bytes, file_.asset(k));
      MLC_RETURN_IF_ERROR(put("assets/" + name, pipeline ? "pipeline" : "assets", asset.name, bytes.bytes()));
    }
    return ok();
  }
  Status modules() {
    std::map<uint32_t, std::string> there;  // variants share modules
    for (const format::Variant& variant : manifest_.variants) {
      if (!variant.module || !file_.present(*variant.module) || !there.emplace(*variant.module, variant.name).second) continue;
      MLC_ASSIGN(const std::string name, label(variant.name));
      MLC_ASSIGN(const VerifiedBytes bytes, file_.segment(*variant.module));
      MLC_RETURN_IF_ERROR(put("modules/" + name + "." + std::string(name_of(variant.module_format)), "modules", variant.name, bytes.bytes()));
    }
    return ok();
  }
  Status weights() {
    std::vector<std::unique_ptr<std::vector<std::byte>>> owned;
    std::vector<HostTensor> tensors;
    tensors.reserve(manifest_.tensors.size());
    for (const format::Tensor& tensor : manifest_.tensors) {
      auto made = dense_tensor(tensor, owned);
      if (!made.ok()) return std::move(made).status().note("tensor " + format::quoted(tensor.name));
      tensors.push_back(std::move(*made));
    }
    std::vector<std::string> names;
    for (const format::Tensor& tensor : manifest_.tensors) names.push_back(tensor.name);
    return archive("weights.npz", "weights", "", names, tensors);
  }
  Status contents(const std::string& file) {
    Json list = Json::array();
    for (const ExtractedFile& each : files) list.push_back({{"file", each.path}, {"what", each.what}, {"name", each.name}, {"bytes", each.bytes}});
    const std::string text = Json({{"container", fs::path(file).filename().string()}, {"root", "sha256:" + to_hex(file_.root())}, {"files", list}, {"renamed", renamed_}}).print() + "\n";
    return folder_.write(std::string(kContents), std::as_bytes(std::span(text.data(), text.size())));
  }
  std::vector<ExtractedFile> files;

 private:
  // Of a validated manifest; asked once more, since it becomes the name of a file.
  static Result<std::string> label(const std::string& name) {
    if (format::is_label(name)) return name;
    return Status(Code::Malformed, "{} is no name for a file", format::quoted(name));
  }
  Status put(const std::string& path, const std::string& what, const std::string& name, Bytes bytes) {
    MLC_RETURN_IF_ERROR(folder_.write(path, bytes));
    files.push_back({path, what, name, bytes.size()});
    return ok();
  }
  Status put_text(const std::string& path, const std::string& what, const std::string& name, const std::string& text) {
    const std::string line = text + "\n";
    return put(path, what, name, std::as_bytes(std::span(line.data(), line.size())));
  }
  Status archive(const std::string& path, const std::string& what, const std::string& name, const std::vector<std::string>& names, const std::vector<HostTensor>& tensors) {
    const std::set<std::string> taken(names.begin(), names.end());
    std::vector<io::NpzItem> items;
    for (size_t k = 0; k < tensors.size(); ++k) {
      items.push_back({entry_name(names[k], k, taken), &tensors[k]});
      if (items.back().name != names[k]) renamed_.push_back({{"file", path}, {"array", items.back().name}, {"name", names[k]}});
    }
    MLC_RETURN_IF_ERROR(folder_.write(path, [&](container::OutputFile& out) { return io::write_npz(items, [&](Bytes bytes) { return out.write(bytes); }); }));
    files.push_back({path, what, name, folder_.bytes_of(path)});
    return ok();
  }
  // As they lie in a golden vector: row-major, a byte for each element of less than 8 bits.
  Status arrays(const std::string& path, const std::string& what, const std::string& name, const std::vector<format::GoldenArray>& from, const std::vector<format::Port>& ports) {
    std::vector<VerifiedBytes> kept;
    std::vector<HostTensor> tensors;
    std::vector<std::string> names;
    for (const format::GoldenArray& array : from) {
      if (array.port >= ports.size()) return Status(Code::Malformed, "golden vector {}: no such port", format::quoted(name));
      HostTensor& tensor = tensors.emplace_back();
      tensor.dtype = array.dtype;
      tensor.shape.assign(array.shape.begin(), array.shape.end());
      if (array.ref.length > 0) {
        MLC_ASSIGN(VerifiedBytes bytes, file_.bytes(array.ref));
        kept.push_back(std::move(bytes));
        tensor.data = HostBuffer::borrow(const_cast<std::byte*>(kept.back().bytes().data()), kept.back().bytes().size());
      }
      names.push_back(ports[array.port].name);
    }
    return archive(path, what, name, names, tensors);
  }
  // Borrowed where the file has it as it is wanted.
  Result<HostTensor> dense_tensor(const format::Tensor& tensor, std::vector<std::unique_ptr<std::vector<std::byte>>>& owned) {
    HostTensor out;
    out.dtype = tensor.dtype;
    out.shape.assign(tensor.shape.begin(), tensor.shape.end());
    if (tensor.copies.empty()) return out;
    const auto layout_of = [&](const format::Copy& copy) {
      const auto found = std::find_if(manifest_.layouts.begin(), manifest_.layouts.end(), [&](const format::Layout& l) { return l.id == copy.layout; });
      return found == manifest_.layouts.end() ? Result<format::ParsedLayout>(Status(Code::Malformed, "its layout is not there")) : format::parse_layout(found->text);
    };
    const format::Copy& copy = tensor.copies.front();
    MLC_ASSIGN(const format::ParsedLayout layout, layout_of(copy));
    MLC_ASSIGN(const std::byte* stored, file_.acquire(copy.ref.segment, copy.ref.offset, copy.ref.length));
    if (layout.dense && bits_of(tensor.dtype) >= 8) {
      out.data = HostBuffer::borrow(const_cast<std::byte*>(stored), copy.ref.length);
    } else {
      MLC_ASSIGN(std::vector<std::byte> dense, dense_elements(layout, tensor.dtype, tensor.shape, Bytes(stored, copy.ref.length)));
      owned.push_back(std::make_unique<std::vector<std::byte>>(std::move(dense)));
      out.data = HostBuffer::borrow(owned.back()->data(), owned.back()->size());
    }
    if (bits_of(tensor.dtype) >= 8 && tensor_digest(tensor.dtype, tensor.shape, out.data.bytes()) != tensor.content)
      return Status(Code::BadSignature, "its elements are not those of its digest");
    return out;
  }

  const Container& file_;
  const format::Manifest& manifest_;
  ExtractFolder& folder_;
  Json renamed_ = Json::array();
};

}  // namespace

const std::vector<std::string>& extract_words() {
  static const std::vector<std::string> words = {"interface", "pipeline", "assets", "golden", "weights", "modules"};
  return words;
}

Result<ExtractResult> extract(const ExtractOptions& options) {
  const std::vector<std::string>& known = extract_words();
  for (const std::string& word : options.what)
    if (std::find(known.begin(), known.end(), word) == known.end()) {
      std::string all;
      for (const std::string& each : known) all += " " + each;
      return Status(Code::Usage, "--what: '" + word + "' is not known").fact("known:" + all);
    }
  MLC_ASSIGN(const ContainerFile opened, open_container_file(options.file));  // of any signer: nothing is run
  const Container* const file = opened.opened.get();
  MLC_ASSIGN(ExtractFolder folder, ExtractFolder::create(options.output, options.force));
  Extraction extraction(*file, folder);
  const auto wants = [&](const char* word) { return std::find(options.what.begin(), options.what.end(), word) != options.what.end(); };
  if (wants("interface")) MLC_RETURN_IF_ERROR(extraction.interface());
  if (wants("pipeline")) MLC_RETURN_IF_ERROR(extraction.assets(true));
  if (wants("assets")) MLC_RETURN_IF_ERROR(extraction.assets(false));
  if (wants("golden")) MLC_RETURN_IF_ERROR(extraction.golden());
  if (wants("weights")) MLC_RETURN_IF_ERROR(extraction.weights());
  if (wants("modules")) MLC_RETURN_IF_ERROR(extraction.modules());
  if (extraction.files.empty()) return Status(Code::NotFound, options.file + " has nothing of what is asked for").hint("mlpack inspect " + shell_path(options.file) + " says what it has");
  MLC_RETURN_IF_ERROR(extraction.contents(options.file));
  folder.keep();
  return ExtractResult{file->root(), std::move(extraction.files)};
}

}  // namespace mlc::cli
