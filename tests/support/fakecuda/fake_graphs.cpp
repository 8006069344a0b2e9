// Graphs of the libcuda of the tests: a stream that captures keeps what is put into it, a graph that is launched does it all.
#include "tests/support/fakecuda/fake.h"

using namespace fakecuda;

extern "C" {

int cuStreamBeginCapture_v2(Handle handle, int mode) {
  FAKE_READY;
  const auto stream = fake().streams.find(handle);
  if (stream == fake().streams.end()) return 400;
  if (mode < 0 || mode > 2 || stream->second.captures) return 1;
  stream->second = {.captures = true, .broken = false, .is_global = mode == 0, .captured_by = std::this_thread::get_id(), .captured = {}};
  return 0;
}
int cuStreamEndCapture(Handle handle, Handle* graph) {
  FAKE_LOCK;
  if (const int code = ready()) return code;
  const auto found = fake().streams.find(handle);
  if (found == fake().streams.end()) return 400;
  *graph = nullptr;
  if (!found->second.captures) return 1;
  const Stream ended = std::exchange(found->second, {});
  if (const int code = told(__func__)) return code;
  if (ended.broken) return 901;
  fake().graphs[*graph = fake().handle()] = ended.captured;
  return 0;
}
int cuGraphInstantiateWithFlags(Handle* instance, Handle graph, uint64_t flags) {
  FAKE_READY;
  const auto found = fake().graphs.find(graph);
  if (found == fake().graphs.end() || flags != 0) return 1;
  fake().instances[*instance = fake().handle()] = found->second;
  return 0;
}
int cuGraphInstantiate_v2(Handle* instance, Handle graph, Handle*, char*, size_t) {
  FAKE_READY;
  const auto found = fake().graphs.find(graph);
  if (found == fake().graphs.end()) return 1;
  fake().instances[*instance = fake().handle()] = found->second;
  return 0;
}
int cuGraphLaunch(Handle instance, Handle stream) {
  FAKE_READY;
  const auto found = fake().instances.find(instance);
  if (found == fake().instances.end()) return 400;
  ++fake().graph_launches;
  return put(stream, [work = found->second] {
    for (const Work& one : work) {
      if (fake().sticky) break;  // told by later calls, as of launches
      if (const int code = one()) fake().sticky = code;
    }
    return 0;
  });
}
int cuGraphExecDestroy(Handle instance) {
  FAKE_READY;
  return fake().instances.erase(instance) ? 0 : 400;
}
int cuGraphDestroy(Handle graph) {
  FAKE_READY;
  return fake().graphs.erase(graph) ? 0 : 400;
}

}  // extern "C"
