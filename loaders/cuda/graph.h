// Calls on a stream, kept by the driver so that one call starts them all (CUDA graphs).
#pragma once

#include <functional>

#include "loaders/cuda/context.h"

namespace mlc::cuda {

// The context is current whenever something is asked of it. Library::has_graphs() holds.
class Graph {
 public:
  // `context` outlives it.
  explicit Graph(Context& context) : context_(context) {}
  ~Graph();
  Graph(const Graph&) = delete;

  bool exists() const { return started_by_ != nullptr; }
  // Of what `enqueue` puts into the stream, of which nothing is executed. If this fails there is no graph, and the stream is as it was.
  Status capture(Handle stream, const std::function<Status()>& enqueue);
  Status launch(Handle stream) const;
  void reset();

 private:
  Status instantiate(Handle captured);

  Context& context_;
  Handle started_by_ = nullptr;  // CUgraphExec
};

}  // namespace mlc::cuda
