#include "bindings/triton/requests.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>

#include "bindings/triton/pipeline.h"

namespace mlc::triton {
namespace {

// An input as the library takes it. Bytes are borrowed from the request where they lie in one piece.
struct Given {
  std::vector<std::byte> copy;
  std::vector<MlcString> strings;
};

Result<uint64_t> count_of(const char* name, const int64_t* shape, uint32_t rank) {
  uint64_t count = 1;
  for (uint32_t i = 0; i < rank; ++i)
    if (shape[i] < 0 || __builtin_mul_overflow(count, static_cast<uint64_t>(shape[i]), &count)) return Status(Code::InputMismatch, "input '{}' has an extent of {}", name, shape[i]);
  return count;
}

// Triton's form of an array of strings: each behind its length in 4 bytes.
Status read_strings(const char* name, const std::byte* data, uint64_t bytes, uint64_t count, std::vector<MlcString>& out) {
  uint64_t at = 0;
  while (at < bytes) {
    uint32_t length = 0;
    if (bytes - at < sizeof length) return Status(Code::InputMismatch, "input '{}' ends within the length of a string", name);
    std::memcpy(&length, data + at, sizeof length);
    at += sizeof length;
    if (length > bytes - at) return Status(Code::InputMismatch, "input '{}' ends within a string of {} bytes", name, length);
    out.push_back({reinterpret_cast<const char*>(data + at), length});
    at += length;
  }
  return out.size() == count ? ok() : Status(Code::InputMismatch, "input '{}' has {} strings, {} expected for its shape", name, out.size(), count);
}

Result<MlcTensor> tensor_of(const Model& model, TRITONBACKEND_Input* input, Given& given) {
  const char* name = nullptr;
  int type = 0;
  const int64_t* shape = nullptr;
  uint32_t rank = 0, pieces = 0;
  uint64_t bytes = 0;
  MLC_RETURN_IF_ERROR(from_triton(TRITONBACKEND_InputProperties(input, &name, &type, &shape, &rank, &bytes, &pieces)));
  MLC_ASSIGN(const uint64_t count, count_of(name, shape, rank));
  const void* data = nullptr;
  for (uint32_t i = 0; i < pieces; ++i) {
    const void* piece = nullptr;
    uint64_t length = 0;
    int memory = kTritonCpu;
    int64_t memory_id = 0;
    MLC_RETURN_IF_ERROR(from_triton(TRITONBACKEND_InputBuffer(input, i, &piece, &length, &memory, &memory_id)));
    if (memory == kTritonGpu) return Status(Code::Unsupported, "input '{}' lies in memory of a GPU, memory of the processor expected", name);
    if (pieces == 1) {
      data = piece;
      bytes = length;
      break;
    }
    const auto* const begin = static_cast<const std::byte*>(piece);
    given.copy.insert(given.copy.end(), begin, begin + length);
  }
  if (pieces > 1) {
    data = given.copy.data();
    bytes = given.copy.size();
  }
  static std::byte nothing[64];
  if (data == nullptr) data = nothing;
  const auto port = std::find_if(model.inputs().begin(), model.inputs().end(), [&](const Port& one) { return one.name == name; });
  const bool is_scalar = port != model.inputs().end() && port->extents.empty() && rank == 1 && count == 1;  // Triton has no other form
  MlcTensor out = {};
  out.name = name;
  out.dtype = dtype_of(type);
  out.rank = is_scalar ? 0 : rank;
  out.shape = shape;
  if (type == kTritonBytes) {
    MLC_RETURN_IF_ERROR(read_strings(name, static_cast<const std::byte*>(data), bytes, count, given.strings));
    out.data = given.strings.empty() ? static_cast<void*>(nothing) : given.strings.data();
    out.bytes = count * sizeof(MlcString);
    return out;
  }
  const uint64_t size = mlc_dtype_bytes(out.dtype);
  if (size == 0 || count > UINT64_MAX / size || count * size != bytes)
    return Status(Code::InputMismatch, "input '{}' has {} bytes, {} elements of {} bytes expected for its shape", name, bytes, count, size);
  out.data = const_cast<void*>(data);  // the library reads it
  out.bytes = bytes;
  return out;
}

Status write_output(TRITONBACKEND_Response* response, const MlcTensor& tensor, const std::string& name) {
  const int type = triton_type(tensor.dtype);
  if (type == kTritonInvalid || tensor.list_depth > 0) return Status(Code::Unsupported, "output '{}' is no array of a type that Triton has", name);
  uint64_t bytes = tensor.bytes, count = 0;
  const auto* const strings = static_cast<const MlcString*>(tensor.data);
  if (tensor.dtype == MLC_STR) {
    count = tensor.bytes / sizeof(MlcString);
    bytes = 0;
    for (uint64_t i = 0; i < count; ++i) {
      if (strings[i].bytes > UINT32_MAX) return Status(Code::Unsupported, "output '{}' has a string of {} bytes", name, strings[i].bytes);
      bytes += sizeof(uint32_t) + strings[i].bytes;
    }
  }
  TRITONBACKEND_Output* output = nullptr;
  const int64_t one_element = 1;
  const bool is_scalar = tensor.rank == 0;
  MLC_RETURN_IF_ERROR(from_triton(TRITONBACKEND_ResponseOutput(response, &output, name.c_str(), type, is_scalar ? &one_element : tensor.shape, is_scalar ? 1 : tensor.rank)));
  void* place = nullptr;
  int memory = kTritonCpu;
  int64_t memory_id = 0;
  MLC_RETURN_IF_ERROR(from_triton(TRITONBACKEND_OutputBuffer(output, &place, bytes, &memory, &memory_id)));
  if (memory == kTritonGpu) return Status(Code::Unsupported, "output '{}' is wanted in memory of a GPU", name);
  if (tensor.dtype != MLC_STR) {
    if (bytes > 0) std::memcpy(place, tensor.data, bytes);
    return ok();
  }
  auto* at = static_cast<std::byte*>(place);
  for (uint64_t i = 0; i < count; ++i) {
    const auto length = static_cast<uint32_t>(strings[i].bytes);
    std::memcpy(at, &length, sizeof length);
    if (length > 0) std::memcpy(at + sizeof length, strings[i].data, length);
    at += sizeof length + length;
  }
  return ok();
}

Status run_program(const Model& model, MlcSession* session, const std::vector<MlcTensor>& inputs, std::vector<MlcTensor>& outputs) {
  outputs.resize(model.outputs().size());
  MlcRunOptions options = {};
  options.size = sizeof options;
  options.program = model.program().c_str();
  MlcError* error = nullptr;
  const int code = api().run(session, &options, inputs.data(), static_cast<uint32_t>(inputs.size()), outputs.data(), static_cast<uint32_t>(outputs.size()), &error);
  return status_of(code, error);
}

Result<SequenceTurn> turn_of(TRITONBACKEND_Request* request) {
  uint32_t flags = 0;
  uint64_t number = 0;
  MLC_RETURN_IF_ERROR(from_triton(TRITONBACKEND_RequestFlags(request, &flags)));
  SequenceTurn out{{}, (flags & kTritonSequenceStart) != 0, (flags & kTritonSequenceEnd) != 0};
  if (from_triton(TRITONBACKEND_RequestCorrelationId(request, &number)).ok()) {
    if (number != 0) out.id = std::to_string(number);
    return out;
  }
  const char* text = nullptr;
  MLC_RETURN_IF_ERROR(from_triton(TRITONBACKEND_RequestCorrelationIdString(request, &text)));
  MLC_ASSIGN(out.id, id_of_text(text == nullptr ? "" : text));
  return out;
}

// The arrays of a request, without what Triton's batcher of sequences adds.
Status read_inputs(const Model& model, TRITONBACKEND_Request* request, std::vector<MlcTensor>& inputs, std::deque<Given>& given) {
  uint32_t count = 0;
  MLC_RETURN_IF_ERROR(from_triton(TRITONBACKEND_RequestInputCount(request, &count)));
  for (uint32_t i = 0; i < count; ++i) {
    TRITONBACKEND_Input* input = nullptr;
    MLC_RETURN_IF_ERROR(from_triton(TRITONBACKEND_RequestInputByIndex(request, i, &input)));
    const char* name = nullptr;
    MLC_RETURN_IF_ERROR(from_triton(TRITONBACKEND_InputProperties(input, &name, nullptr, nullptr, nullptr, nullptr, nullptr)));
    if (model.is_control(name)) continue;
    MLC_ASSIGN(const MlcTensor tensor, tensor_of(model, input, given.emplace_back()));
    inputs.push_back(tensor);
  }
  return ok();
}

}  // namespace

Status from_triton(TRITONSERVER_Error* error) {
  if (error == nullptr) return ok();
  Status status(Code::Internal, "{}", TRITONSERVER_ErrorMessage(error));
  TRITONSERVER_ErrorDelete(error);
  return status;
}

TRITONSERVER_Error* to_triton(const Status& status) {
  if (status.ok()) return nullptr;
  int code = kTritonInternal;
  if (status.code == Code::InputMismatch || status.code == Code::Usage || status.code == Code::Malformed) code = kTritonInvalidArgument;
  if (status.code == Code::NotFound) code = kTritonNotFound;
  if (status.code == Code::Resource) code = kTritonUnavailable;
  if (status.code == Code::Cancelled) code = kTritonCancelled;
  if (status.code == Code::Unsupported || status.code == Code::NoVariant) code = kTritonUnsupported;
  std::string text = status.message;
  if (!status.help.empty()) text += "; help: " + status.help;
  return TRITONSERVER_ErrorNew(code, text.c_str());
}

uint64_t now_ns() { return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count()); }

Status answer(const Model& model, MlcSession* session, Sequences& sequences, TRITONBACKEND_Request* request, TRITONBACKEND_Response* response, Moments& moments) {
  bool is_cancelled = false;
  MLC_RETURN_IF_ERROR(from_triton(TRITONBACKEND_RequestIsCancelled(request, &is_cancelled)));
  if (is_cancelled) return Status(Code::Cancelled, "the request was cancelled");
  SequenceTurn turn;
  if (model.has_sequences()) {
    MLC_ASSIGN(turn, turn_of(request));
    if (turn.id.empty()) return ok();  // what Triton puts into an empty slot; it refuses requests of no sequence
  }
  std::vector<MlcTensor> inputs;
  std::deque<Given> given;
  MLC_RETURN_IF_ERROR(read_inputs(model, request, inputs, given));
  moments.compute_begin = now_ns();
  MLC_RETURN_IF_ERROR(sequences.enter(turn));
  std::vector<MlcTensor> arrays;
  PipelineRun pipeline;
  const Status ran = model.pipeline() == nullptr ? run_program(model, session, inputs, arrays) : pipeline.run(model, session, inputs);
  moments.compute_end = now_ns();
  const Status left = sequences.leave(turn, ran);
  MLC_RETURN_IF_ERROR(ran);
  MLC_RETURN_IF_ERROR(left);
  const std::span<const MlcTensor> outputs = model.pipeline() == nullptr ? std::span<const MlcTensor>(arrays) : pipeline.outputs();

  uint32_t count = 0;
  MLC_RETURN_IF_ERROR(from_triton(TRITONBACKEND_RequestOutputCount(request, &count)));
  for (uint32_t i = 0; i < count; ++i) {
    const char* name = nullptr;
    MLC_RETURN_IF_ERROR(from_triton(TRITONBACKEND_RequestOutputName(request, i, &name)));
    const auto port = std::find_if(model.outputs().begin(), model.outputs().end(), [&](const Port& one) { return one.name == name; });
    if (port == model.outputs().end()) return Status(Code::InputMismatch, "there is no output '{}'", name);
    MLC_RETURN_IF_ERROR(write_output(response, outputs[static_cast<size_t>(port - model.outputs().begin())], port->name));
  }
  return ok();
}

}  // namespace mlc::triton
