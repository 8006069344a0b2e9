#include "runtime/cli/embed/vector_index.h"

#include <algorithm>

#include "base/text/text.h"
#include "runtime/io/input_spec.h"
#include "runtime/io/npz.h"

namespace mlc::cli {
namespace {

constexpr const char *kFile = "file", *kLine = "line", *kText = "text", *kModel = "model", *kVectors = "vectors";
// NumPy's strings are all as wide as the longest: texts that would take more are left out.
constexpr uint64_t kMostTextBytes = uint64_t{64} << 20;

bool is_about_rows(const std::string& name) { return name == kFile || name == kLine || name == kText || name == kModel; }

Status no_index(const std::string& path, const std::string& why) {
  return Status(Code::InputMismatch, 4001, "{} is no index of vectors: {}", path, why).hint("mlrun embed FILE.mlc FOLDER -o INDEX.npz makes one");
}

Status place(NamedTensor t, const std::string& path, VectorIndex& index) {
  const auto count = static_cast<size_t>(t.tensor.elements());
  if (!is_about_rows(t.name)) {
    if (t.tensor.dtype != DType::F32 || t.tensor.shape.size() != 2) return no_index(path, "'" + t.name + "' is " + type_text(t.tensor.dtype, t.tensor.shape));
    if (!index.vectors.name.empty()) return no_index(path, "it has two arrays of vectors, '" + index.vectors.name + "' and '" + t.name + "'");
    const std::span<const float> from = t.tensor.as<float>();
    index.vectors = {t.name, static_cast<size_t>(t.tensor.shape[1]), {from.begin(), from.end()}};
    return ok();
  }
  const bool is_text = t.name != kLine;
  if (t.tensor.shape.size() != 1 || t.tensor.dtype != (is_text ? DType::Str : DType::I64))
    return no_index(path, "'" + t.name + "' is " + type_text(t.tensor.dtype, t.tensor.shape));
  if (t.name == kModel) {
    if (count > 0) index.model = t.tensor.strings[0];
    return ok();
  }
  if (index.rows.empty()) index.rows.resize(count);
  if (index.rows.size() != count) return no_index(path, "'" + t.name + "' has another number of rows than the others");
  for (size_t k = 0; k < count; ++k) {
    if (t.name == kFile) index.rows[k].file = std::move(t.tensor.strings[k]);
    if (t.name == kText) index.rows[k].text = std::move(t.tensor.strings[k]);
    if (t.name == kLine) index.rows[k].line = static_cast<uint64_t>(std::max<int64_t>(t.tensor.as<int64_t>()[k], 0));
  }
  return ok();
}

// A string for each row, of which NumPy takes four bytes for each letter of the longest.
HostTensor strings_of(const std::vector<Row>& rows, std::string Row::* which) {
  std::vector<std::string> strings;
  for (const Row& row : rows) strings.push_back(row.*which);
  return HostTensor::of_strings({static_cast<int64_t>(rows.size())}, std::move(strings));
}

}  // namespace

Result<VectorIndex> read_index(HostBuffer bytes, const std::string& path, const io::DecodeLimits& limits) {
  MLC_ASSIGN(io::LoadedInput input, io::load_bytes(std::move(bytes), "", path, limits));
  if (input.media != io::Media::Zip) return no_index(path, "it is " + std::string(io::describe_bytes(input.bytes.bytes())) + ", not .npz");
  VectorIndex index;
  for (NamedTensor& t : input.tensors) MLC_RETURN_IF_ERROR(place(std::move(t), path, index));
  if (index.vectors.width == 0 || index.vectors.rows() == 0) return no_index(path, "it has no vectors");
  if (index.rows.size() != index.vectors.rows()) return no_index(path, "'file' has another number of rows than the vectors");
  return index;
}

Status write_index(const VectorIndex& index, io::FileWriter& writer) {
  const auto rows = static_cast<int64_t>(index.rows.size());
  MLC_ASSIGN(const HostTensor vectors, HostTensor::from<float>(DType::F32, {rows, static_cast<int64_t>(index.vectors.width)}, index.vectors.elements));
  const HostTensor files = strings_of(index.rows, &Row::file), model = HostTensor::of_strings({1}, {index.model});
  HostTensor lines, texts;
  std::vector<io::NpzItem> items = {{is_about_rows(index.vectors.name) ? kVectors : index.vectors.name, &vectors}, {kFile, &files}};
  const bool has_lines = std::any_of(index.rows.begin(), index.rows.end(), [](const Row& row) { return row.line > 0; });
  if (has_lines) {
    std::vector<int64_t> numbers;
    uint64_t longest = 0;
    for (const Row& row : index.rows) numbers.push_back(static_cast<int64_t>(row.line)), longest = std::max<uint64_t>(longest, row.text.size());
    MLC_ASSIGN(lines, HostTensor::from<int64_t>(DType::I64, {rows}, numbers));
    items.push_back({kLine, &lines});
    texts = strings_of(index.rows, &Row::text);
    if (longest <= kMostTextBytes / sizeof(uint32_t) / index.rows.size()) items.push_back({kText, &texts});
  }
  items.push_back({kModel, &model});
  MLC_RETURN_IF_ERROR(io::write_npz(items, [&](Bytes b) { return writer.write(b); }));
  return writer.sync();
}

}  // namespace mlc::cli
