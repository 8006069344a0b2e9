#include "packager/import/graph_order.h"

#include <algorithm>
#include <queue>
#include <unordered_map>
#include <unordered_set>

#include "packager/import/shown.h"

namespace mlc::import {
namespace {

constexpr size_t kMaxReported = 8;

// Values that the bodies of a node read from outside themselves. Iterative: bodies nest.
std::vector<std::string> captured_by(const model::Node& node) {
  std::vector<std::string> captured;
  std::vector<const model::Graph*> open;
  auto push_bodies = [&](const model::Node& n) {
    for (const auto& [name, value] : n.attributes)
      if (auto body = std::get_if<std::shared_ptr<const model::Graph>>(&value)) open.push_back(body->get());
  };
  push_bodies(node);
  while (!open.empty()) {
    const model::Graph& body = *open.back();
    open.pop_back();
    for (const model::Node& inner : body.nodes) {
      captured.insert(captured.end(), inner.inputs.begin(), inner.inputs.end());
      push_bodies(inner);
    }
    for (const model::Port& output : body.outputs) captured.push_back(output.name);
  }
  return captured;
}

}  // namespace

Status order_nodes(model::Graph& graph, bool outer_values_allowed) {
  constexpr size_t kGiven = SIZE_MAX;
  std::unordered_map<std::string, size_t> writer;
  Status status(Code::Malformed, 1012, "graph " + shown(graph.name) + " is not well formed");
  auto complain = [&](std::string line) {
    if (status.facts.size() < kMaxReported) status.facts.push_back(std::move(line));
  };
  for (const auto& [name, tensor] : graph.initializers) writer[name] = kGiven;
  for (const model::Port& port : graph.inputs)
    if (!writer.emplace(port.name, kGiven).second) complain("input " + shown(port.name) + " is given twice");
  for (size_t k = 0; k < graph.nodes.size(); ++k)
    for (const std::string& name : graph.nodes[k].outputs)
      if (!name.empty() && !writer.emplace(name, k).second) complain(described(graph.nodes[k]) + " writes " + shown(name) + ", which is written already");

  std::vector<std::vector<size_t>> readers(graph.nodes.size());
  std::vector<size_t> waiting(graph.nodes.size(), 0);
  for (size_t k = 0; k < graph.nodes.size(); ++k) {
    const model::Node& node = graph.nodes[k];
    std::unordered_set<size_t> sources;
    for (const std::string& name : node.inputs) {
      if (name.empty()) continue;
      auto found = writer.find(name);
      if (found == writer.end()) {
        if (!outer_values_allowed) complain(described(node) + " reads " + shown(name) + ", which nothing writes");
      } else if (found->second != kGiven) {
        sources.insert(found->second);
      }
    }
    for (const std::string& name : captured_by(node)) {
      auto found = writer.find(name);
      if (found != writer.end() && found->second != kGiven && found->second != k) sources.insert(found->second);
    }
    waiting[k] = sources.size();
    for (size_t source : sources) readers[source].push_back(k);
  }
  for (const model::Port& port : graph.outputs)
    if (!writer.count(port.name) && !outer_values_allowed) complain("output " + shown(port.name) + " is written by nothing");
  if (!status.facts.empty()) return status;

  // Kahn's algorithm; among the nodes that are ready the first of the file goes first, so sorted files keep their order.
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (size_t k = 0; k < waiting.size(); ++k)
    if (waiting[k] == 0) ready.push(k);
  std::vector<model::Node> ordered;
  ordered.reserve(graph.nodes.size());
  while (!ready.empty()) {
    const size_t k = ready.top();
    ready.pop();
    for (size_t reader : readers[k])
      if (--waiting[reader] == 0) ready.push(reader);
    ordered.push_back(std::move(graph.nodes[k]));
  }
  if (ordered.size() != graph.nodes.size()) {
    for (size_t k = 0; k < waiting.size(); ++k)
      if (waiting[k] != 0) complain(described(graph.nodes[k]) + " is part of a cycle, or waits for one");
    return status;
  }
  graph.nodes = std::move(ordered);
  return ok();
}

void drop_unused(model::Graph& graph) {
  std::unordered_set<std::string> used;
  for (const model::Port& output : graph.outputs) used.insert(output.name);
  std::vector<model::Node> kept;
  for (size_t k = graph.nodes.size(); k-- > 0;) {
    model::Node& node = graph.nodes[k];
    if (std::none_of(node.outputs.begin(), node.outputs.end(), [&](const std::string& name) { return !name.empty() && used.contains(name); })) continue;
    used.insert(node.inputs.begin(), node.inputs.end());
    for (std::string& name : captured_by(node)) used.insert(std::move(name));
    kept.push_back(std::move(node));
  }
  std::reverse(kept.begin(), kept.end());
  graph.nodes = std::move(kept);
}

}  // namespace mlc::import
