#include "loaders/cuda/graph.h"

#include <utility>

namespace mlc::cuda {

Graph::~Graph() {
  if (!exists()) return;
  const Current current(context_);
  if (current.status().ok()) reset();
}

void Graph::reset() {
  if (exists()) (void)context_.check(context_.call().GraphExecDestroy(std::exchange(started_by_, nullptr)), "cuGraphExecDestroy");
}

Status Graph::capture(Handle stream, const std::function<Status()>& enqueue) {
  const Library& call = context_.call();
  MLC_RETURN_IF_ERROR(context_.check(call.StreamBeginCapture(stream, kCaptureThreadLocal), "cuStreamBeginCapture"));
  Status status = enqueue();
  Handle captured = nullptr;  // ended in any case: only so the stream is of use again
  const Status ended = context_.check(call.StreamEndCapture(stream, &captured), "cuStreamEndCapture");
  if (status.ok()) status = ended;
  if (status.ok() && !captured) status = Status(Code::Unsupported, "cuStreamEndCapture gave no graph");
  if (status.ok()) status = instantiate(captured);
  if (captured && context_.alive().ok()) (void)context_.check(call.GraphDestroy(captured), "cuGraphDestroy");
  return status;
}

Status Graph::instantiate(Handle captured) {
  const Library& call = context_.call();
  const bool by_flags = call.GraphInstantiateWithFlags != nullptr;
  const Code32 code = by_flags ? call.GraphInstantiateWithFlags(&started_by_, captured, 0)
                               : call.GraphInstantiate(&started_by_, captured, nullptr, nullptr, 0);
  if (code != kSuccess) started_by_ = nullptr;
  MLC_RETURN_IF_ERROR(context_.check(code, by_flags ? "cuGraphInstantiateWithFlags" : "cuGraphInstantiate"));
  return exists() ? ok() : Status(Code::Unsupported, "cuGraphInstantiate gave no graph");
}

Status Graph::launch(Handle stream) const { return context_.check(context_.call().GraphLaunch(started_by_, stream), "cuGraphLaunch"); }

}  // namespace mlc::cuda
