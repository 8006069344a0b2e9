// The pipelines of libmlio as Python holds them.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <vector>

#include "inputs.h"
#include "model.h"

namespace mlrt {

class Pipeline {
 public:
  // Null if the container has none and none was named.
  static std::unique_ptr<Pipeline> open(std::shared_ptr<OpenModel> model, const std::string& name);
  ~Pipeline() { mlio().release(handle_); }

  std::string name() const;
  uint32_t program() const;
  nb::list inputs() const;   // (name, is_array, media types, (first, last bytes))
  // The input of that name; null: the only one.
  bool takes_text(const char* name) const;
  nb::list outputs() const;  // (name, "array" | "classes" | "text")
  const MlioPipeline* handle() const { return handle_; }

 private:
  Pipeline() = default;
  std::shared_ptr<OpenModel> model_;
  MlioPipeline* handle_ = nullptr;
};

struct ReleaseAnswers {
  void operator()(MlioAnswers* a) const { mlio().answers_release(a); }
};

// Inputs of a pipeline by name: bytes of files, arrays and texts of the dict, which outlives this.
class GivenInputs {
 public:
  GivenInputs(const Pipeline& pipeline, nb::dict given);
  std::vector<MlioGiven> all;

 private:
  Inputs arrays_;
  std::list<MlcTensor> views_;
};

// Answers as (name, kind, value): an array, [[(label or None, score, index)]], [(text, score)].
nb::list answers_of(const Session& session, const MlioAnswers& answers, bool tensors);
nb::list run_pipeline(Session& session, const Pipeline& pipeline, nb::dict inputs, uint32_t top, const Cancel* cancel,
                      uint64_t time_limit_ns, bool tensors);

void add_pipeline(nb::module_& m);

}  // namespace mlrt
