// The functions that Triton looks for in libtriton_mlc.so. None of them throws: what cannot be had is an error of Triton.
#include <memory>
#include <new>
#include <string>

#include "bindings/triton/model.h"
#include "bindings/triton/requests.h"
#include "bindings/triton/sequences.h"
#include "bindings/triton/triton_api.h"

namespace {

using mlc::Code;
using mlc::Result;
using mlc::Status;
namespace triton = mlc::triton;

struct Instance {
  const triton::Model* model = nullptr;
  triton::SessionHandle session;
  std::unique_ptr<triton::Sequences> sequences;  // of the session
};

void log(int level, const std::string& text) { TRITONSERVER_ErrorDelete(TRITONSERVER_LogMessage(level, __FILE__, __LINE__, ("mlc: " + text).c_str())); }

// Memory that is not there is an error like others.
template <class Function>
TRITONSERVER_Error* guarded(const Function& function) {
  try {
    return triton::to_triton(function());
  } catch (const std::bad_alloc&) {
    return TRITONSERVER_ErrorNew(kTritonUnavailable, "mlc: no memory");
  }
}

Result<std::string> text_of(TRITONSERVER_Message* message) {
  const char* json = nullptr;
  size_t bytes = 0;
  MLC_RETURN_IF_ERROR(triton::from_triton(TRITONSERVER_MessageSerializeToJson(message, &json, &bytes)));
  return std::string(json, bytes);
}

Status begin_backend(TRITONBACKEND_Backend* backend) {
  uint32_t major = 0, minor = 0;
  MLC_RETURN_IF_ERROR(triton::from_triton(TRITONBACKEND_ApiVersion(&major, &minor)));
  if (major != kTritonApiMajor || minor < kTritonApiMinor)
    return Status(Code::Unsupported, "the server has version {}.{} of the backend API, {}.{} or later expected", major, minor, kTritonApiMajor, kTritonApiMinor);
  if (mlc_get_api(MLC_API_VERSION) == nullptr) return Status(Code::Unsupported, "libmlrt {} is older than this backend", mlc_version_string());
  TRITONSERVER_Message* config = nullptr;
  MLC_RETURN_IF_ERROR(triton::from_triton(TRITONBACKEND_BackendConfig(backend, &config)));
  MLC_ASSIGN(const std::string text, text_of(config));
  MLC_ASSIGN(triton::Host host, triton::Host::read(text));
  log(kTritonLogInfo, std::string("libmlrt ") + mlc_version_string());
  return triton::from_triton(TRITONBACKEND_BackendSetState(backend, new triton::Host(std::move(host))));
}

Result<std::string> config_of(TRITONBACKEND_Model* model) {
  TRITONSERVER_Message* config = nullptr;
  MLC_RETURN_IF_ERROR(triton::from_triton(TRITONBACKEND_ModelConfig(model, 1, &config)));
  Result<std::string> text = text_of(config);
  TRITONSERVER_ErrorDelete(TRITONSERVER_MessageDelete(config));
  return text;
}

Status complete_config(TRITONBACKEND_Model* model, triton::Model& opened, const std::string& config) {
  bool is_wanted = false;
  MLC_RETURN_IF_ERROR(triton::from_triton(TRITONBACKEND_ModelAutoCompleteConfig(model, &is_wanted)));
  if (!is_wanted) return mlc::ok();
  MLC_ASSIGN(const std::string completed, opened.complete(config));
  if (completed.empty()) return mlc::ok();
  TRITONSERVER_Message* message = nullptr;
  MLC_RETURN_IF_ERROR(triton::from_triton(TRITONSERVER_MessageNewFromSerializedJson(&message, completed.data(), completed.size())));
  const Status status = triton::from_triton(TRITONBACKEND_ModelSetConfig(model, 1, message));
  TRITONSERVER_ErrorDelete(TRITONSERVER_MessageDelete(message));
  return status;
}

Status begin_model(TRITONBACKEND_Model* model) {
  TRITONBACKEND_Backend* backend = nullptr;
  void* host = nullptr;
  MLC_RETURN_IF_ERROR(triton::from_triton(TRITONBACKEND_ModelBackend(model, &backend)));
  MLC_RETURN_IF_ERROR(triton::from_triton(TRITONBACKEND_BackendState(backend, &host)));
  int artifact = 0;
  const char* folder = nullptr;
  uint64_t version = 0;
  MLC_RETURN_IF_ERROR(triton::from_triton(TRITONBACKEND_ModelRepository(model, &artifact, &folder)));
  MLC_RETURN_IF_ERROR(triton::from_triton(TRITONBACKEND_ModelVersion(model, &version)));
  MLC_ASSIGN(const std::string config, config_of(model));
  MLC_ASSIGN(auto opened, triton::Model::open(*static_cast<const triton::Host*>(host), config, std::string(folder) + "/" + std::to_string(version)));
  MLC_RETURN_IF_ERROR(complete_config(model, *opened, config));
  log(kTritonLogInfo, opened->about());
  MLC_RETURN_IF_ERROR(triton::from_triton(TRITONBACKEND_ModelSetState(model, opened.get())));
  (void)opened.release();  // until TRITONBACKEND_ModelFinalize
  return mlc::ok();
}

Status begin_instance(TRITONBACKEND_ModelInstance* instance) {
  TRITONBACKEND_Model* model = nullptr;
  void* state = nullptr;
  MLC_RETURN_IF_ERROR(triton::from_triton(TRITONBACKEND_ModelInstanceModel(instance, &model)));
  MLC_RETURN_IF_ERROR(triton::from_triton(TRITONBACKEND_ModelState(model, &state)));
  auto made = std::make_unique<Instance>();
  made->model = static_cast<const triton::Model*>(state);
  MLC_ASSIGN(made->session, made->model->session());
  made->sequences = std::make_unique<triton::Sequences>(made->session.get(), made->model->most_sequences());
  MlcSessionInfo info = {};
  info.size = sizeof info;
  triton::api().session_info(made->session.get(), &info);
  log(kTritonLogInfo, std::string("variant ") + info.variant + ", " + std::to_string(info.threads) + " threads" + (info.device[0] != '\0' ? std::string(", on ") + info.device : "") +
                          (info.note[0] != '\0' ? std::string("; ") + info.note : ""));
  MLC_RETURN_IF_ERROR(triton::from_triton(TRITONBACKEND_ModelInstanceSetState(instance, made.get())));
  (void)made.release();  // until TRITONBACKEND_ModelInstanceFinalize
  return mlc::ok();
}

// Answers and releases it whatever happens.
void execute_one(TRITONBACKEND_ModelInstance* instance, Instance& state, TRITONBACKEND_Request* request) {
  const uint64_t begin = triton::now_ns();
  triton::Moments moments{begin, begin};
  TRITONBACKEND_Response* response = nullptr;
  TRITONSERVER_Error* error = TRITONBACKEND_ResponseNew(&response, request);
  const bool has_response = error == nullptr;
  if (has_response) error = guarded([&] { return triton::answer(*state.model, state.session.get(), *state.sequences, request, response, moments); });
  const bool is_good = error == nullptr;
  if (has_response) TRITONSERVER_ErrorDelete(TRITONBACKEND_ResponseSend(response, kTritonResponseFinal, error));
  else log(kTritonLogWarning, TRITONSERVER_ErrorMessage(error));
  if (error != nullptr) TRITONSERVER_ErrorDelete(error);
  const uint64_t end = triton::now_ns();
  if (moments.compute_end < moments.compute_begin) moments.compute_end = end;
  TRITONSERVER_ErrorDelete(TRITONBACKEND_ModelInstanceReportStatistics(instance, request, is_good, begin, moments.compute_begin, moments.compute_end, end));
  if (is_good) TRITONSERVER_ErrorDelete(TRITONBACKEND_ModelInstanceReportBatchStatistics(instance, 1, begin, moments.compute_begin, moments.compute_end, end));
  TRITONSERVER_ErrorDelete(TRITONBACKEND_RequestRelease(request, kTritonReleaseAll));
}

}  // namespace

extern "C" {

MLC_TRITON_EXPORT TRITONSERVER_Error* TRITONBACKEND_Initialize(TRITONBACKEND_Backend* backend) {
  return guarded([&] { return begin_backend(backend); });
}

MLC_TRITON_EXPORT TRITONSERVER_Error* TRITONBACKEND_Finalize(TRITONBACKEND_Backend* backend) {
  void* state = nullptr;
  TRITONSERVER_Error* const error = TRITONBACKEND_BackendState(backend, &state);
  delete static_cast<triton::Host*>(state);
  return error;
}

// Devices of a run are ours to choose: Triton counts instances on the processor.
MLC_TRITON_EXPORT TRITONSERVER_Error* TRITONBACKEND_GetBackendAttribute(TRITONBACKEND_Backend*, TRITONBACKEND_BackendAttribute* attributes) {
  return TRITONBACKEND_BackendAttributeAddPreferredInstanceGroup(attributes, kTritonInstanceOnCpu, 1, nullptr, 0);
}

MLC_TRITON_EXPORT TRITONSERVER_Error* TRITONBACKEND_ModelInitialize(TRITONBACKEND_Model* model) {
  return guarded([&] { return begin_model(model); });
}

MLC_TRITON_EXPORT TRITONSERVER_Error* TRITONBACKEND_ModelFinalize(TRITONBACKEND_Model* model) {
  void* state = nullptr;
  TRITONSERVER_Error* const error = TRITONBACKEND_ModelState(model, &state);
  delete static_cast<triton::Model*>(state);
  return error;
}

MLC_TRITON_EXPORT TRITONSERVER_Error* TRITONBACKEND_ModelInstanceInitialize(TRITONBACKEND_ModelInstance* instance) {
  return guarded([&] { return begin_instance(instance); });
}

MLC_TRITON_EXPORT TRITONSERVER_Error* TRITONBACKEND_ModelInstanceFinalize(TRITONBACKEND_ModelInstance* instance) {
  void* state = nullptr;
  TRITONSERVER_Error* const error = TRITONBACKEND_ModelInstanceState(instance, &state);
  delete static_cast<Instance*>(state);
  return error;
}

// Requests are answered one after the other, each by itself: what a server merges would change with its load.
MLC_TRITON_EXPORT TRITONSERVER_Error* TRITONBACKEND_ModelInstanceExecute(TRITONBACKEND_ModelInstance* instance, TRITONBACKEND_Request** requests, uint32_t count) {
  void* state = nullptr;
  if (TRITONSERVER_Error* const error = TRITONBACKEND_ModelInstanceState(instance, &state)) return error;  // the requests stay Triton's
  for (uint32_t i = 0; i < count; ++i) execute_one(instance, *static_cast<Instance*>(state), requests[i]);
  return nullptr;
}

}  // extern "C"
