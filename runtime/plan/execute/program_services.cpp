// Steps that a service of the application does. It is no part of this library, so nothing that it says is believed.
#include <algorithm>
#include <utility>

#include "base/checked.h"
#include "base/compose.h"
#include "runtime/plan/execute/program.h"
#include "runtime/plan/execute/service.h"

namespace mlc::exec {

Status ServiceCall::make(uint32_t result, DType dtype, std::span<const int64_t> shape, void*& data) {
  const auto wrong = [&](const char* what) {
    return Status(Code::InputMismatch, compose("'{}' gives result {} {}", step.service, result, what));
  };
  if (result >= results_.size()) return wrong("of none");
  if (results_[result]) return wrong("twice");
  const int64_t* expected = step.results.data();  // decode_plan has made sure that it describes all of them
  for (uint32_t k = 0; k < result; ++k) expected += 2 + expected[1];
  if (static_cast<int64_t>(dtype) != expected[0]) return wrong("another type than the step wants");
  bool fits = static_cast<int64_t>(shape.size()) == expected[1];
  uint64_t bytes = bytes_of(dtype);
  for (size_t k = 0; fits && k < shape.size(); ++k) {
    fits = shape[k] >= 0 && (expected[2 + k] < 0 || shape[k] == expected[2 + k]);
    bytes = checked_mul(bytes, static_cast<uint64_t>(shape[k])).value_or(UINT64_MAX);
  }
  if (!fits) return wrong("another shape than the step wants");
  MLC_RETURN_IF_ERROR(make_array(pool_, dtype, shape, bytes, results_[result]));
  data = results_[result]->data;
  return ok();
}

const Service* find_service(std::span<const Service> services, std::string_view name) {
  const auto found = std::find_if(services.begin(), services.end(), [&](const Service& s) { return s.name == name; });
  return found == services.end() ? nullptr : &*found;
}

Status ProgramRunner::host_step(const Step& s, std::span<Value> args, std::span<Value> results) {
  view(args);
  ServiceCall call(s, inputs_, pool_, results);
  const Service& service = *find_service(executor_.services_, s.service);  // Executor::create has found it
  executor_.team_.dismiss();  // the service may take its time, and run other sessions
  Status status = service.run(service, call);
  if (!status.ok()) return std::move(status).note(service.name);
  for (const Value& value : results)
    if (!value) return Status(Code::InputMismatch, compose("'{}' does not give all of its results", s.service));
  return ok();
}

}  // namespace mlc::exec
