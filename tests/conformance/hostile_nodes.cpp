// Node tests with damaged attributes, shapes and wiring: each must be refused with a sentence that names the place, or
// compile. A crash, an endless loop, more memory than any small model needs, and an internal error are failures.
//
//   hostile_nodes [--data DIR]... [--models FILE]... [--runs N] [--seed N] [--only TEXT] [--run N] [--build N] [--jobs N] [--verbose]
//
// --data: node tests; --models: one model per line, as protobuf's text. Each is damaged --runs times; every --build-th that
// is accepted is compiled for the portable form. --only NAME --run K --verbose repeats one and says what it is.
#include <google/protobuf/text_format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <thread>

#include "base/sanitized.h"
#include "packager/compile/expand.h"
#include "packager/compile/programs.h"
#include "packager/import/onnx.h"
#include "tests/conformance/case.h"
#include "tests/conformance/mutate.h"
#include "tests/conformance/run/process_pool.h"

namespace mlc::conformance {
namespace {

constexpr rlim_t kMemory = rlim_t{3} << 30;  // of addresses: libraries and a heap a hundred times what a node test takes
constexpr double kSeconds = 20;

struct Source {
  std::string name, bytes, folder;
};

struct Options {
  std::vector<Source> sources;
  std::string only;
  uint64_t runs = 3, seed = 1, build = 4, run = UINT64_MAX;
  unsigned jobs = std::max(1u, std::thread::hardware_concurrency());
  bool verbose = false;
};

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

// Of which something must be in a refusal: names in the file, and operators.
std::vector<std::string> places(const onnx::ModelProto& m) {
  std::vector<std::string> names;
  const auto add = [&](const std::string& name) {
    if (!name.empty()) names.push_back(name);
  };
  std::vector<const onnx::GraphProto*> open{&m.graph()};  // bodies of nodes, and of functions below
  std::vector<const onnx::NodeProto*> nodes;
  for (const onnx::FunctionProto& function : m.functions())
    for (const onnx::NodeProto& node : function.node()) nodes.push_back(&node);
  for (size_t next = 0, seen = 0; next < open.size() || seen < nodes.size();) {
    if (next < open.size()) {
      const onnx::GraphProto& graph = *open[next++];
      for (const auto& port : graph.input()) add(port.name());
      for (const auto& port : graph.output()) add(port.name());
      for (const auto& constant : graph.initializer()) add(constant.name());
      for (const onnx::NodeProto& node : graph.node()) nodes.push_back(&node);
      continue;
    }
    const onnx::NodeProto& node = *nodes[seen++];
    add(node.name());
    add(node.op_type());
    for (const std::string& output : node.output()) add(output);
    for (const std::string& input : node.input()) add(input);
    for (const onnx::AttributeProto& attribute : node.attribute())
      if (attribute.has_g()) open.push_back(&attribute.g());
  }
  return names;
}

Status build(const lang::Library& library, ir::Context& ctx, nest::Function function) {
  std::vector<compile::Program> programs;
  programs.push_back({.function = std::move(function)});
  compile::WeightStore weights;
  MLC_ASSIGN(const compile::Optimised parts, compile::optimise(ctx, programs, weights));
  auto variant = compile::compile_variant(ctx, library, parts.processors, weights, *targets::find_target("portable"));
  return variant.ok() ? ok() : variant.status();
}

struct Verdict {
  char kind;  // 'a'ccepted, 'b'uilt, 'r'efused, 'f'ailed
  std::string text;
};

Verdict judge(const lang::Library& library, const Source& source, uint64_t seed, bool compiled, std::string& damage) {
  onnx::ModelProto model;
  if (!model.ParseFromString(source.bytes)) return {'r', "no model"};
  damage = Mutator(seed).damage(model);
  std::string bytes;
  if (!model.SerializeToString(&bytes)) return {'r', "cannot be written"};
  const auto refusal = [&](const Status& status, const char* where) -> Verdict {
    const std::string text = std::string(where) + ": " + one_line(status.text());
    if (status.code == Code::Internal) return {'f', "internal error, " + text};
    const auto names = places(model);
    const bool named = std::any_of(names.begin(), names.end(), [&](const std::string& name) { return text.find(name) != std::string::npos; });
    return {named ? 'r' : 'f', (named ? "" : "names no place: ") + text};
  };
  auto imported = import::import_onnx(std::as_bytes(std::span(bytes)), "model.onnx", source.folder);
  if (!imported.ok()) return refusal(imported.status(), "import");
  const Status known = compile::check_operators(library, *imported);
  if (!known.ok()) return refusal(known, "operators");
  ir::Context ctx;
  auto function = compile::expand_model(ctx, library, *imported, "main");
  if (!function.ok()) return refusal(function.status(), "expansion");
  if (!compiled) return {'a', ""};
  const Status built = build(library, ctx, std::move(*function));
  return built.ok() ? Verdict{'b', ""} : refusal(built, "build");
}

bool read_models(const std::string& path, std::vector<Source>& out) {
  std::ifstream in(path);
  if (!in) return false;
  for (std::string line; std::getline(in, line);) {
    onnx::ModelProto model;
    if (line.empty() || line[0] == '#') continue;
    if (!google::protobuf::TextFormat::ParseFromString(line, &model)) return false;
    Source source{model.graph().name(), {}, "/nonexistent"};
    if (!model.SerializeToString(&source.bytes)) return false;
    out.push_back(std::move(source));
  }
  return true;
}

bool parse(int argc, char** argv, Options& o) {
  for (int k = 1; k < argc; ++k) {
    const std::string flag = argv[k];
    if (flag == "--verbose") {
      o.verbose = true;
      continue;
    }
    if (++k >= argc) return false;
    const std::string value = argv[k];
    const auto count = [&] { return std::strtoull(value.c_str(), nullptr, 10); };
    if (flag == "--data") {
      for (const Case& c : find_cases(value)) {
        std::ifstream in(c.folder + "/model.onnx", std::ios::binary);
        o.sources.push_back({c.name, {std::istreambuf_iterator<char>(in), {}}, c.folder});
      }
    } else if (flag == "--models") {
      if (!read_models(value, o.sources)) {
        std::fprintf(stderr, "%s cannot be read\n", value.c_str());
        return false;
      }
    } else if (flag == "--only") {
      o.only = value;
    } else if (flag == "--runs") {
      o.runs = count();
    } else if (flag == "--run") {
      o.run = count();
    } else if (flag == "--seed") {
      o.seed = count();
    } else if (flag == "--build") {
      o.build = std::max<uint64_t>(1, count());
    } else if (flag == "--jobs") {
      o.jobs = static_cast<unsigned>(std::max<uint64_t>(1, count()));
    } else {
      return false;
    }
  }
  return o.runs > 0;
}

uint64_t seed_of(const Options& o, const Source& source, uint64_t run) {  // FNV-1a; of the name, not of the place in the list
  uint64_t h = 14695981039346656037u ^ o.seed;
  for (const char c : source.name) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return (h ^ run) * 1099511628211u;
}

int run(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  Options o;
  if (!parse(argc, argv, o)) {
    std::fprintf(stderr, "usage: hostile_nodes [--data DIR]... [--models FILE]... [--runs N] [--seed N] [--only TEXT] [--run N] [--build N] [--jobs N]\n");
    return 2;
  }
  if (o.sources.empty()) {
    std::printf("skipped: no models\n");
    return 77;
  }
  auto library = lang::Library::parse(lang::Library::builtin_files());
  if (!library.ok()) return 1;
  PoolWork work;
  work.processes = o.jobs;
  work.seconds_per_item = kSeconds;
  for (uint64_t k = 0; k < o.sources.size() * o.runs; ++k)
    if ((o.only.empty() || o.sources[k / o.runs].name.find(o.only) != std::string::npos) && (o.run == UINT64_MAX || k % o.runs == o.run)) work.items.push_back(k);
  const auto verdict = [&](uint64_t item, std::string& damage) {
    const Source& source = o.sources[item / o.runs];
    const uint64_t seed = seed_of(o, source, item % o.runs);
    return judge(*library, source, seed, o.run != UINT64_MAX || seed % o.build == 0, damage);
  };
  work.work = [&](uint64_t item, const std::function<void(const std::string&)>& emit) {
#ifndef MLC_ADDRESS_SANITIZER  // which wants terabytes of addresses for itself
    const rlimit limit{kMemory, kMemory};
    setrlimit(RLIMIT_AS, &limit);
#endif
    std::string damage;
    const Verdict v = verdict(item, damage);
    emit(v.kind + one_line(v.text) + (o.verbose || v.kind == 'f' ? " [" + one_line(damage.substr(0, 300)) + "]" : ""));
  };
  std::map<char, uint64_t> counts;
  const auto say = [&](uint64_t item, const std::string& text) {
    std::printf("%s, --only %s --run %llu --runs %llu --seed %llu: %s\n", "FAILED", o.sources[item / o.runs].name.c_str(), static_cast<unsigned long long>(item % o.runs),
                static_cast<unsigned long long>(o.runs), static_cast<unsigned long long>(o.seed), text.substr(0, 700).c_str());
  };
  work.line = [&](uint64_t item, const std::string& line) {
    ++counts[line[0]];
    if (line[0] == 'f') say(item, line.substr(1));
    else if (o.verbose) std::printf("%s %llu %s\n", o.sources[item / o.runs].name.c_str(), static_cast<unsigned long long>(item % o.runs), line.c_str());
  };
  work.lost = [&](uint64_t item, const std::string& why, std::vector<uint64_t>&) {
    ++counts['f'];
    onnx::ModelProto model;
    const Source& source = o.sources[item / o.runs];
    std::string damage;
    if (model.ParseFromString(source.bytes)) damage = Mutator(seed_of(o, source, item % o.runs)).damage(model);
    say(item, why + " [" + one_line(damage.substr(0, 300)) + "]");
  };
  if (!run_pool(work)) return 1;
  std::printf("%zu damaged models: %llu refused with their place, %llu accepted, %llu of them built, %llu failed\n", work.items.size(),
              static_cast<unsigned long long>(counts['r']), static_cast<unsigned long long>(counts['a'] + counts['b']),
              static_cast<unsigned long long>(counts['b']), static_cast<unsigned long long>(counts['f']));
  return counts['f'] ? 1 : 0;
}

}  // namespace
}  // namespace mlc::conformance

int main(int argc, char** argv) { return mlc::conformance::run(argc, argv); }
