#include "runtime/api/session/service.h"

#include <cstring>
#include <utility>
#include <vector>

#include "base/out_of_memory.h"
#include "runtime/api/session/handles.h"

namespace mlc::api {
namespace {

struct Call : MlcServiceCall {
  exec::ServiceCall* inner;
  Status failure;
};

void* give(MlcServiceCall* call, uint32_t output, int32_t dtype, uint32_t rank, const int64_t* shape) {
  Call& c = *static_cast<Call*>(call);
  if (!c.failure.ok()) return nullptr;
  // A type that is none becomes None, which no step wants.
  const auto type = static_cast<DType>(dtype < 0 || dtype > static_cast<int>(kLastDType) ? 0 : dtype);
  const bool has_shape = shape && rank <= MLC_MAX_RANK;
  void* data = nullptr;
  // What calls this is no code that exceptions may go through.
  const bool enough = has_memory_for([&] {
    c.failure = c.inner->make(output, has_shape || rank == 0 ? type : DType::None, {shape, has_shape ? rank : 0}, data);
  });
  if (!enough) c.failure = no_memory();
  return enough ? data : nullptr;
}

Status run(const exec::Service& self, exec::ServiceCall& inner) {
  std::vector<MlcTensor> inputs;
  for (const exec::InputArg& in : inner.inputs) {
    MlcTensor& t = inputs.emplace_back();
    t.data = const_cast<void*>(in.data);
    t.bytes = in.bytes;
    t.dtype = static_cast<int32_t>(in.dtype);
    t.rank = static_cast<uint32_t>(in.shape.size());
    t.shape = in.shape.data();
  }
  Call call{};
  call.size = sizeof(MlcServiceCall);
  call.num_inputs = static_cast<uint32_t>(inputs.size());
  call.num_outputs = static_cast<uint32_t>(inner.step.outputs.size());
  call.options = inner.step.options.c_str();
  call.inputs = inputs.data();
  call.result = &give;
  call.memory_bytes = inner.available();
  call.inner = &inner;
  const int code = reinterpret_cast<int (*)(void*, MlcServiceCall*)>(self.function)(self.user, &call);
  if (!call.failure.ok() || code == MLC_OK) return std::move(call.failure);
  call.message[sizeof call.message - 1] = 0;
  const bool known =
      code == MLC_MALFORMED || code == MLC_INPUT_MISMATCH || code == MLC_RESOURCE || code == MLC_UNSUPPORTED;
  return Status(known ? static_cast<Code>(code) : Code::Internal, call.message[0] ? call.message : "failed");
}

}  // namespace

exec::Service service_of(const MlcService& service) {
  return {service.name, &run, reinterpret_cast<void (*)()>(service.run), service.user};
}

}  // namespace mlc::api
