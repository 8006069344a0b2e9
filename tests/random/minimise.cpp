#include "tests/random/minimise.h"

#include <algorithm>
#include <chrono>
#include <cctype>
#include <map>
#include <set>

#include "packager/import/onnx.h"
#include "tests/conformance/run/answers.h"
#include "tests/conformance/run/process_pool.h"

namespace mlc::random_graphs {
namespace {

using Clock = std::chrono::steady_clock;

// Errors are one if their sentences are, numbers and names aside.
std::string kind_of(const std::string& text) {
  std::string kind;
  for (char c : text)
    if (!std::isdigit(static_cast<unsigned char>(c))) kind += c;
  return kind.substr(0, 24);
}

// Nodes that no output needs, and what only they read.
void prune(Trial& t) {
  onnx::GraphProto& g = *t.model.mutable_graph();
  std::set<std::string> needed;
  for (const auto& port : g.output()) needed.insert(port.name());
  google::protobuf::RepeatedPtrField<onnx::NodeProto> kept;
  for (int k = g.node_size() - 1; k >= 0; --k) {
    const onnx::NodeProto& node = g.node(k);
    if (std::none_of(node.output().begin(), node.output().end(),
                     [&](const std::string& name) { return needed.count(name) != 0; }))
      continue;
    needed.insert(node.input().begin(), node.input().end());
    *kept.Add() = node;
  }
  std::reverse(kept.pointer_begin(), kept.pointer_end());
  g.mutable_node()->Swap(&kept);
  google::protobuf::RepeatedPtrField<onnx::TensorProto> constants;
  for (const auto& c : g.initializer())
    if (needed.count(c.name())) *constants.Add() = c;
  g.mutable_initializer()->Swap(&constants);
  google::protobuf::RepeatedPtrField<onnx::ValueInfoProto> ports;
  std::vector<nest::Tensor> inputs;
  for (int k = 0; k < g.input_size(); ++k)
    if (needed.count(g.input(k).name())) *ports.Add() = g.input(k), inputs.push_back(t.inputs[static_cast<size_t>(k)]);
  g.mutable_input()->Swap(&ports);
  t.inputs = std::move(inputs);
}

int onnx_type(DType t) {
  switch (t) {
    case DType::F32: return onnx::TensorProto::FLOAT;
    case DType::F16: return onnx::TensorProto::FLOAT16;
    case DType::F64: return onnx::TensorProto::DOUBLE;
    case DType::I64: return onnx::TensorProto::INT64;
    case DType::I32: return onnx::TensorProto::INT32;
    case DType::I8: return onnx::TensorProto::INT8;
    case DType::U8: return onnx::TensorProto::UINT8;
    case DType::Bool: return onnx::TensorProto::BOOL;
    default: return onnx::TensorProto::UNDEFINED;
  }
}

class Minimiser {
 public:
  Minimiser(const MinimiseOptions& options, const Trial& whole, const Report& failure)
      : options_(options),
        now_(whole),
        failure_(failure),
        deadline_(Clock::now() + std::chrono::milliseconds(static_cast<int64_t>(options.seconds * 1000))) {}

  Trial run() {
    learn_values();
    for (bool smaller = true; smaller && !late();) {
      smaller = one_output();
      smaller = earlier_output() || smaller;
      smaller = inputs_for_values() || smaller;
      smaller = bypasses() || smaller;
    }
    return now_;
  }
  const Report& failure() const { return failure_; }

 private:
  bool late() const { return Clock::now() > deadline_; }

  // The first of these that fails as the whole did is what goes on.
  bool take_first(const std::vector<Trial>& candidates) {
    for (size_t from = 0; from < candidates.size() && !late(); from += std::max(1u, options_.jobs)) {
      std::vector<Report> reports(candidates.size());
      conformance::PoolWork work;
      work.processes = options_.jobs;
      work.seconds_per_item = options_.seconds_per_trial;
      for (size_t k = from; k < std::min(candidates.size(), from + std::max(1u, options_.jobs)); ++k)
        work.items.push_back(k);
      work.work = [&](uint64_t k, const std::function<void(const std::string&)>& emit) {
        std::vector<conformance::Path> paths;
        if (!options_.on_oracle) paths.push_back(options_.path);
        run_trial(*options_.library, candidates[k], paths, 0,
                  [&](const Report& r) { emit(std::to_string(static_cast<int>(r.sort)) + r.path + "\t" + r.text); });
      };
      work.line = [&](uint64_t k, const std::string& line) {
        const size_t tab = line.find('\t');
        reports[k] = {line.substr(1, tab - 1), static_cast<Sort>(line[0] - '0'), line.substr(tab + 1)};
      };
      work.lost = [&](uint64_t k, const std::string& why, std::vector<uint64_t>&) {
        reports[k] = {failure_.path, Sort::Crash, why};
      };
      if (!conformance::run_pool(work)) return false;
      for (uint64_t k : work.items)
        if (is_same(reports[k])) {
          now_ = candidates[k];
          failure_ = reports[k];
          return true;
        }
    }
    return false;
  }

  bool is_same(const Report& r) const {
    if (r.sort != failure_.sort || r.path != failure_.path) return false;
    return r.sort != Sort::Error || kind_of(r.text) == kind_of(failure_.text);
  }

  // What every value holds, by the slow interpreter: it can take the place of what computes it.
  void learn_values() {
    Trial all = now_;
    all.model.mutable_graph()->clear_output();
    std::vector<std::string> names;
    for (const auto& node : all.model.graph().node())
      for (const std::string& name : node.output()) {
        if (name.empty()) continue;
        all.model.mutable_graph()->add_output()->set_name(name);
        names.push_back(name);
      }
    std::string bytes;
    if (!all.model.SerializeToString(&bytes)) return;
    auto model = import::import_onnx(std::as_bytes(std::span(bytes)), "model.onnx", ".");
    if (!model.ok()) return;
    conformance::LoadedCase c;
    c.model = std::move(*model);
    c.inputs = all.inputs;
    conformance::Answers answers(*options_.library, std::move(c));
    if (!answers.begin().ok()) return;
    const auto values = answers.on({"interpreter", nullptr, {}});
    for (size_t k = 0; values.ok() && k < names.size() && k < values->size(); ++k) values_[names[k]] = (*values)[k];
  }

  Trial with_outputs(const std::vector<std::string>& names) const {
    Trial t = now_;
    t.model.mutable_graph()->clear_output();
    for (const std::string& name : names) {
      onnx::ValueInfoProto& port = *t.model.mutable_graph()->add_output();
      port.set_name(name);
      const auto value = values_.find(name);
      if (value != values_.end())
        port.mutable_type()->mutable_tensor_type()->set_elem_type(onnx_type(value->second.dtype));
    }
    prune(t);
    return t;
  }

  bool one_output() {
    const auto& outputs = now_.model.graph().output();
    if (outputs.size() < 2) return false;
    std::vector<Trial> some;
    std::vector<std::string> names;
    for (const auto& port : outputs) names.push_back(port.name()), some.push_back(with_outputs({port.name()}));
    if (take_first(some)) return true;
    some.clear();
    for (size_t k = 0; k < names.size() && names.size() > 2; ++k) {
      std::vector<std::string> others = names;
      others.erase(others.begin() + static_cast<ptrdiff_t>(k));
      some.push_back(with_outputs(others));
    }
    return take_first(some);
  }

  // The value that an output is computed from, in its place.
  bool earlier_output() {
    std::vector<std::string> names;
    for (const auto& port : now_.model.graph().output()) names.push_back(port.name());
    std::vector<Trial> some;
    for (size_t k = 0; k < names.size(); ++k)
      for (const auto& node : now_.model.graph().node()) {
        if (std::find(node.output().begin(), node.output().end(), names[k]) == node.output().end()) continue;
        for (const std::string& from : node.input()) {
          if (!values_.count(from) || std::find(names.begin(), names.end(), from) != names.end()) continue;
          std::vector<std::string> others = names;
          others[k] = from;
          Trial t = with_outputs(others);
          if (t.model.graph().node_size() < now_.model.graph().node_size()) some.push_back(std::move(t));
        }
      }
    return take_first(some);
  }

  // An input that holds what a node computed, from the last node to the first.
  bool inputs_for_values() {
    bool any = false;
    for (int k = now_.model.graph().node_size() - 1; k >= 0 && !late(); --k) {
      if (k >= now_.model.graph().node_size()) continue;
      const onnx::NodeProto node = now_.model.graph().node(k);
      std::vector<Trial> some;
      for (const bool free : {false, true}) {
        Trial t = now_;
        if (replace_by_input(t, node, free)) some.push_back(std::move(t));
        if (!has_free()) break;
      }
      any = take_first(some) || any;
    }
    return any;
  }

  bool has_free() const {
    for (const auto& port : now_.model.graph().input())
      for (const auto& dim : port.type().tensor_type().shape().dim())
        if (!dim.has_dim_value()) return true;
    return false;
  }

  bool replace_by_input(Trial& t, const onnx::NodeProto& node, bool free) const {
    onnx::GraphProto& g = *t.model.mutable_graph();
    for (const auto& port : g.output())
      if (std::find(node.output().begin(), node.output().end(), port.name()) != node.output().end()) return false;
    for (int k = 0; k < g.node_size(); ++k)
      if (g.node(k).output(0) == node.output(0)) {
        g.mutable_node()->DeleteSubrange(k, 1);
        break;
      }
    for (const std::string& name : node.output()) {
      const auto value = values_.find(name);
      if (value == values_.end() || onnx_type(value->second.dtype) == onnx::TensorProto::UNDEFINED) return false;
      onnx::ValueInfoProto& port = *g.add_input();
      port.set_name(name);
      auto& type = *port.mutable_type()->mutable_tensor_type();
      type.set_elem_type(onnx_type(value->second.dtype));
      type.mutable_shape();
      for (int64_t e : value->second.shape) {
        auto& dim = *type.mutable_shape()->add_dim();
        if (free && e > 1) dim.set_dim_param("D" + std::to_string(e));
        else dim.set_dim_value(e);
      }
      t.inputs.push_back(value->second);
    }
    prune(t);
    return true;
  }

  // What a node reads in the place of what it writes, where both have one form.
  bool bypasses() {
    bool any = false;
    for (int k = now_.model.graph().node_size() - 1; k >= 0 && !late(); --k) {
      if (k >= now_.model.graph().node_size()) continue;
      const onnx::NodeProto node = now_.model.graph().node(k);
      std::vector<Trial> some;
      for (const std::string& from : node.input()) {
        if (!same_form(from, node.output(0))) continue;
        Trial t = now_;
        bool is_output = false;
        for (const auto& port : t.model.graph().output()) is_output = is_output || port.name() == node.output(0);
        if (is_output) continue;
        for (auto& other : *t.model.mutable_graph()->mutable_node())
          for (std::string& name : *other.mutable_input())
            if (name == node.output(0)) name = from;
        prune(t);
        some.push_back(std::move(t));
      }
      any = take_first(some) || any;
    }
    return any;
  }

  const nest::Tensor* value_of(const std::string& name) const {
    const auto value = values_.find(name);
    if (value != values_.end()) return &value->second;
    for (int k = 0; k < now_.model.graph().input_size(); ++k)
      if (now_.model.graph().input(k).name() == name) return &now_.inputs[static_cast<size_t>(k)];
    return nullptr;
  }
  bool same_form(const std::string& a, const std::string& b) const {
    const nest::Tensor *x = value_of(a), *y = value_of(b);
    return x && y && x->dtype == y->dtype && x->shape == y->shape;
  }

  const MinimiseOptions& options_;
  Trial now_;
  Report failure_;
  Clock::time_point deadline_;
  std::map<std::string, nest::Tensor> values_;  // of the whole graph
};

}  // namespace

Trial minimise(const MinimiseOptions& options, const Trial& whole, Report& failure) {
  Minimiser minimiser(options, whole, failure);
  Trial small = minimiser.run();
  failure = minimiser.failure();
  return small;
}

std::string operators_of(const onnx::GraphProto& graph) {
  std::string text;
  for (const auto& node : graph.node()) text += (text.empty() ? "" : " ") + node.op_type();
  return text;
}

}  // namespace mlc::random_graphs
