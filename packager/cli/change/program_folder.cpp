#include "packager/cli/change/program_folder.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <tuple>

#include "base/text/shell_word.h"
#include "packager/cli/container_file.h"
#include "packager/cli/extract/dense_elements.h"
#include "packager/compile/stored_program.h"
#include "packager/import/references.h"
#include "schema/layout_text.h"
#include "schema/validate/validate.h"
#include "signing/hash_tree.h"

namespace mlc::cli {
namespace {

namespace fs = std::filesystem;
constexpr char kModelFile[] = "program.onnx", kDataFile[] = "program.data", kPipelineFile[] = "pipeline.json";

Status put_file(const fs::path& path, Bytes bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return out.flush() ? ok() : Status(Code::Resource, path.string() + ": cannot be written");
}

// The elements of tensors of a container, behind each other in a file.
class ElementFile {
 public:
  ElementFile(const container::Container& file, const fs::path& path) : file_(file), out_(path, std::ios::binary | std::ios::trunc) {
    for (uint32_t k = 0; k < file.manifest().tensors.size(); ++k) tensors_.emplace(file.manifest().tensors[k].content, k);
  }
  Result<import::DataPlace> place(const import::Reference& reference, const std::vector<uint64_t>& shape) {
    const Key key{reference.tensor, reference.part ? reference.part->axis : 0, reference.part ? reference.part->from : 0, reference.part ? shape : std::vector<uint64_t>()};
    const auto known = placed_.find(key);
    if (known != placed_.end()) return known->second;
    const auto found = tensors_.find(reference.tensor);
    if (found == tensors_.end()) return Status(Code::Malformed, "the program refers to a tensor that the file does not have");
    const format::Tensor& tensor = file_.manifest().tensors[found->second];
    MLC_ASSIGN(std::vector<std::byte> bytes, elements(tensor));
    if (tensor_digest(tensor.dtype, tensor.shape, bytes) != reference.tensor) return Status(Code::BadSignature, "tensor {}: its elements are not those of its digest", format::quoted(tensor.name));
    if (reference.part) {
      // Parts lie side by side: together they are no more than the tensor, whatever the program says.
      const uint64_t whole = bytes.size();
      auto part = import::elements_of_part(tensor.dtype, tensor.shape, bytes, *reference.part, shape);
      if (!part.ok()) return std::move(part).status().note("tensor " + format::quoted(tensor.name));
      bytes = std::move(*part);
      uint64_t& parts = bytes_of_parts_[reference.tensor];
      if (bytes.size() > whole - parts) return Status(Code::Malformed, "the program refers to more parts of tensor {} than it has", format::quoted(tensor.name));
      parts += bytes.size();
    }
    const import::DataPlace place{at_, bytes.size()};
    out_.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    constexpr uint64_t kAlign = 64;
    const uint64_t end = (at_ + bytes.size() + kAlign - 1) / kAlign * kAlign;
    for (uint64_t k = at_ + bytes.size(); k < end; ++k) out_.put(0);
    at_ = end;
    placed_.emplace(key, place);
    return place;
  }
  bool flushed() { return static_cast<bool>(out_.flush()); }

 private:
  using Key = std::tuple<Digest, uint64_t, uint64_t, std::vector<uint64_t>>;  // tensor, axis, from, shape
  Result<std::vector<std::byte>> elements(const format::Tensor& tensor) const {
    if (tensor.copies.empty()) return std::vector<std::byte>();
    const format::Copy& copy = tensor.copies.front();
    const auto& layouts = file_.manifest().layouts;
    const auto layout = std::find_if(layouts.begin(), layouts.end(), [&](const format::Layout& l) { return l.id == copy.layout; });
    if (layout == layouts.end()) return Status(Code::Malformed, "tensor {} has no layout", format::quoted(tensor.name));
    MLC_ASSIGN(const format::ParsedLayout parsed, format::parse_layout(layout->text));
    MLC_ASSIGN(const std::byte* const stored, file_.acquire(copy.ref.segment, copy.ref.offset, copy.ref.length));
    return dense_elements(parsed, tensor.dtype, tensor.shape, Bytes(stored, copy.ref.length));
  }
  const container::Container& file_;
  std::ofstream out_;
  std::map<Digest, uint32_t> tensors_;
  std::map<Key, import::DataPlace> placed_;
  std::map<Digest, uint64_t> bytes_of_parts_;
  uint64_t at_ = 0;
};

// The pipeline and the lists that it names; names of assets are labels, so none leads out of the folder.
Result<std::string> put_pipeline(const container::Container& file, const fs::path& folder) {
  const format::Manifest& m = file.manifest();
  if (!file.find_asset(kPipelineFile)) return std::string();
  for (uint32_t k = 0; k < m.assets.size(); ++k) {
    if (!format::is_label(m.assets[k].name) || m.assets[k].name == kModelFile || m.assets[k].name == kDataFile)
      return Status(Code::Unsupported, "asset {} has a name that a program's folder needs", format::quoted(m.assets[k].name));
    MLC_ASSIGN(const VerifiedBytes bytes, file.asset(k));
    MLC_RETURN_IF_ERROR(put_file(folder / m.assets[k].name, bytes.bytes()));
  }
  return (folder / kPipelineFile).string();
}

Result<compile::StoredProgram> program_in(const ContainerFile& file) {
  const auto& portable = file.opened->manifest().portable;
  const std::string give = "give the model: --from MODEL, and --pipeline where it was built with one";
  if (!portable || portable->level != format::PortableLevel::Model) return Status(Code::NotFound, file.path + " keeps no program to compile from").hint(give);
  if (portable->text_version != compile::kProgramVersion)
    return Status(Code::Unsupported, "{} keeps a program of version {}, this mlpack reads {}", file.path, portable->text_version, compile::kProgramVersion).hint(give);
  if (!file.opened->present(portable->segment))
    return Status(Code::NotFound, "this copy of " + file.path + " lacks its program, it was thinned").hint("mlpack fill " + shell_path(file.path) + " --from ORIGINAL, or --from MODEL");
  MLC_ASSIGN(const VerifiedBytes bytes, file.opened->segment(portable->segment));
  return compile::decode_program(bytes.bytes());
}

}  // namespace

ProgramFolder::~ProgramFolder() {
  std::error_code error;
  if (path_) fs::remove_all(*path_, error);
}

Result<ProgramFolder> ProgramFolder::of(const std::string& file, const std::string& beside) {
  MLC_ASSIGN(const ContainerFile opened, open_container_file(file));
  MLC_ASSIGN(const compile::StoredProgram program, program_in(opened));
  ProgramFolder out(beside + ".program" + std::to_string(::getpid()));
  std::error_code error;
  if (!fs::create_directory(*out.path_, error)) return Status(Code::NotFound, *out.path_ + ": cannot be made" + (error ? ": " + error.message() : ""));
  const fs::path folder = *out.path_;
  MLC_ASSIGN(out.flags_, flags_of_text(program.options));
  ElementFile elements(*opened.opened, folder / kDataFile);
  auto model = import::model_with_data(program.model, kDataFile, [&](const import::Reference& reference, const std::vector<uint64_t>& shape) { return elements.place(reference, shape); });
  if (!model.ok()) return std::move(model).status().note(file + ": its program");
  if (!elements.flushed()) return Status(Code::Resource, *out.path_ + ": cannot be written");
  MLC_RETURN_IF_ERROR(put_file(folder / kModelFile, *model));
  out.flags_.path = (folder / kModelFile).string();
  MLC_ASSIGN(out.pipeline_, put_pipeline(*opened.opened, folder));
  return out;
}

}  // namespace mlc::cli
