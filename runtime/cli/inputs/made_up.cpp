#include "runtime/cli/inputs/made_up.h"

#include <algorithm>
#include <charconv>

#include "base/text/nearest_name.h"
#include "runtime/cli/inputs/program_io.h"

namespace mlc::cli {
namespace {

// Of a picture whose height and width a run tells, [height, width, channels]: its golden vectors are small or odd on purpose.
constexpr int64_t kPicture[] = {480, 640};

bool is_free(const MlcPort& port, uint32_t axis, int64_t value) {
  return port.extents[axis] < 0 && port.max[axis] >= value && port.min[axis] <= value;
}

}  // namespace

bool is_picture_of_any_size(const MlcPort& port) {
  return port.dtype == MLC_U8 && port.rank == 3 && (port.extents[2] == 1 || port.extents[2] == 3 || port.extents[2] == 4) && is_free(port, 0, kPicture[0]) &&
         is_free(port, 1, kPicture[1]) && std::string_view(port.dims[0]) != port.dims[1];
}

Result<MadeUpInputs> MadeUpInputs::of(const OpenModel& model, uint32_t program, const std::vector<std::string>& dims) {
  MadeUpInputs made(model, program);
  for (uint32_t i = 0; i < mlio::program_at(model, program).num_inputs; ++i)
    made.ports_.push_back(mlio::port_at(model, program, false, i));
  MLC_RETURN_IF_ERROR(made.read_dims(dims));
  return made;
}

// Every --dim names a free extent of some input.
Status MadeUpInputs::read_dims(const std::vector<std::string>& dims) {
  std::vector<std::string> known;
  for (const MlcPort& p : ports_)
    for (std::string& name : free_extents(p)) known.push_back(std::move(name));
  for (const std::string& text : dims) {
    const size_t equals = text.rfind('=');  // the name may be an expression
    int64_t value = 0;
    const char* end = text.data() + text.size();
    const char* begin = equals == std::string::npos ? end : text.data() + equals + 1;
    const auto r = std::from_chars(begin, end, value);
    if (r.ec != std::errc() || r.ptr != end || value < 0)
      return Status(Code::Usage, "--dim: '" + text + "' is not of the form NAME=N");
    const std::string name = text.substr(0, equals);
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      Status s(Code::Usage, "--dim: " + unknown_word("extent", name, known));
      if (known.empty()) s.facts.emplace_back("all extents of the inputs are fixed");
      for (const MlcPort& p : ports_) s.facts.push_back(std::string(p.name) + "   " + port_text(p));
      return s;
    }
    extents_[name] = value;
  }
  return ok();
}

Status MadeUpInputs::read_golden() {
  is_golden_read_ = true;
  golden_.resize(ports_.size());
  MlcError* error = nullptr;
  const int code = api().golden_inputs(model_->model.get(), program_, golden_.data(), static_cast<uint32_t>(golden_.size()), &error);
  if (code == MLC_OK) return ok();
  golden_.clear();
  Status why = status_of(code, error);
  return why.code == Code::NotFound ? ok() : why;
}

void MadeUpInputs::fit(const MlcPort& port, const HostTensor& given) {
  if (port.list_depth > 0 || given.shape.size() != port.rank) return;  // the session will say what is wrong
  for (uint32_t i = 0; i < port.rank; ++i)
    if (port.extents[i] < 0) extents_.emplace(port.dims[i], given.shape[i]);
}

Result<std::vector<int64_t>> MadeUpInputs::shape_of(size_t index) const {
  const MlcPort& port = ports_[index];
  const bool has_golden = !golden_.empty() && golden_[index].rank == port.rank;
  std::vector<int64_t> shape;
  for (uint32_t i = 0; i < port.rank; ++i) {
    const bool is_expression = port.max[i] < 0;  // it follows from other extents
    if (port.extents[i] >= 0) {
      shape.push_back(port.extents[i]);
    } else if (auto e = extents_.find(port.dims[i]); e != extents_.end()) {
      shape.push_back(e->second);
    } else if (is_picture_of_any_size(port)) {
      shape.push_back(kPicture[i]);
    } else if (has_golden && !(is_expression && !extents_.empty())) {
      shape.push_back(golden_[index].shape[i]);
    } else if (is_expression) {
      return Status(Code::InputMismatch, 4001, std::string(port.name) + ": extent '" + port.dims[i] + "' is not known")
          .hint("--dim " + std::string(port.dims[i]) + "=N, or give an array");
    } else {
      shape.push_back(std::max<int64_t>(1, port.min[i]));
    }
  }
  return shape;
}

Result<HostTensor> MadeUpInputs::make(size_t index, bool random, InputMemory& memory) {
  if (!is_golden_read_) MLC_RETURN_IF_ERROR(read_golden());
  const MlcPort& port = ports_[index];
  if (port.list_depth > 0)
    return Status(Code::InputMismatch, 4001, std::string(port.name) + " is a list, which is not made up")
        .hint("-i " + std::string(port.name) + "=FILE.npy for each item, in order");
  if (port.dtype == MLC_STR)
    return Status(Code::InputMismatch, 4001, std::string(port.name) + " takes strings, which are not made up")
        .hint("-i " + std::string(port.name) + "=FILE.npy, an array of U or S elements, or =FILE.txt, a line for each");
  const auto dtype = static_cast<DType>(port.dtype);
  MLC_ASSIGN(std::vector<int64_t> shape, shape_of(index));
  MLC_ASSIGN(const uint64_t bytes, tensor_size(dtype, shape));
  MLC_RETURN_IF_ERROR(memory.take_made_up(bytes, std::string(port.name) + " " + type_text(dtype, shape)));
  MLC_ASSIGN(HostTensor t, HostTensor::zeros(dtype, std::move(shape)));
  if (!random) return t;
  const MlcTensor* golden = golden_.empty() ? nullptr : &golden_[index];
  if (golden && !is_float(dtype) && golden->bytes >= bytes_of(dtype))
    io::draw_from({static_cast<const std::byte*>(golden->data), golden->bytes}, index + 1, t);
  else
    io::fill_random(t, index + 1);
  return t;
}

}  // namespace mlc::cli
