#include "tests/conformance/run/interpreter_services.h"

#include "runtime/services/services.h"

namespace mlc::conformance {
namespace {

struct Call : MlcServiceCall {
  std::vector<nest::Tensor>* results;
};

void* give(MlcServiceCall* call, uint32_t output, int32_t dtype, uint32_t rank, const int64_t* shape) {
  std::vector<nest::Tensor>& results = *static_cast<Call*>(call)->results;
  if (output >= results.size()) return nullptr;
  results[output] = nest::Tensor::zeros(static_cast<DType>(dtype), {shape, shape + rank});
  results[output].bytes.reserve(1);  // no null for nothing
  return results[output].bytes.data();
}

}  // namespace

nest::HostService interpreter_services() {
  return [](const nest::Control& control,
            const std::vector<const nest::Tensor*>& inputs) -> Result<std::vector<nest::Tensor>> {
    for (const MlcService& service : services::all()) {
      if (service.name != control.service) continue;
      std::vector<nest::Tensor> results(control.outputs.size());
      std::vector<MlcTensor> tensors;
      for (const nest::Tensor* t : inputs)
        tensors.push_back(mlc_tensor(const_cast<std::byte*>(t->bytes.data()), static_cast<int32_t>(t->dtype),
                                     static_cast<uint32_t>(t->shape.size()), t->shape.data()));
      Call call{};
      call.size = sizeof(MlcServiceCall);
      call.num_inputs = static_cast<uint32_t>(tensors.size());
      call.num_outputs = static_cast<uint32_t>(results.size());
      call.options = control.options.c_str();
      call.inputs = tensors.data();
      call.result = &give;
      call.results = &results;
      call.memory_bytes = uint64_t{1} << 30;
      if (const int code = service.run(service.user, &call)) return Status(static_cast<Code>(code), call.message);
      return results;
    }
    return Status(Code::Unsupported, "no service '" + control.service + "'");
  };
}

}  // namespace mlc::conformance
