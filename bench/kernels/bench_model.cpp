// Where the time of a model goes, kernel by kernel, without container and runtime: every statement is lowered, compiled
// and run on this machine, one thread.
//
//   bench_model MODEL.onnx [--target NAME] [--sym NAME=VALUE ...] [--top N] [--rounds N] [--check] [--print TEXT]
//
// --check runs the program on random inputs and compares its outputs with the Nest interpreter. --print shows the Loop
// form of kernels whose name contains TEXT.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <map>
#include <random>
#include <string>

#include "bench/kernels/module.h"
#include "packager/compile/expand.h"
#include "packager/import/onnx.h"
#include "packager/ir/numeric.h"
#include "packager/loop/print.h"
#include "packager/lower/lower.h"
#include "packager/nest/interpret.h"
#include "packager/passes/passes.h"
#include "tests/support/placement.h"

namespace {

using namespace mlc;

double now() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Launch {
  std::string name, schedule;
  size_t entry = 0;
  loop::Kernel kernel;
  size_t statement = 0;
  double flop = 0, best = 1e30;
};

// Multiply-adds of the folds and other operations of a statement, for the column of GFLOP/s.
double flop_of(const nest::Nest& n, const std::function<int64_t(const ir::Expr*)>& value) {
  double points = 1, per_point = 0;
  for (const ir::Dim* d : n.dims) points *= static_cast<double>(value(d->extent));
  for (const nest::Write& w : n.writes)
    ir::walk(w.value, [&](const ir::Expr* e) {
      if (e->op != ir::Op::Fold) return;
      double k = 2;
      for (const ir::Dim* d : e->fold->dims) k *= static_cast<double>(value(d->extent));
      per_point += k;
    });
  return points * std::max(1.0, per_point);
}

int run(int argc, char** argv) {
  std::string model_path, target_name = "x86-64-v3", print;
  std::map<std::string, int64_t> given;
  size_t top = 25;
  int rounds = 5;
  bool check = false;
  for (int k = 1; k < argc; ++k) {
    std::string a = argv[k];
    if (a == "--target" && k + 1 < argc) target_name = argv[++k];
    else if (a == "--top" && k + 1 < argc) top = static_cast<size_t>(std::atoi(argv[++k]));
    else if (a == "--rounds" && k + 1 < argc) rounds = std::atoi(argv[++k]);
    else if (a == "--print" && k + 1 < argc) print = argv[++k];
    else if (a == "--check") check = true;
    else if (a == "--sym" && k + 1 < argc) {
      std::string s = argv[++k];
      size_t eq = s.rfind('=');
      given[s.substr(0, eq)] = std::atoll(s.c_str() + eq + 1);
    } else model_path = a;
  }
  auto fail = [](const Status& s) {
    std::fprintf(stderr, "%s\n", s.text().c_str());
    return 1;
  };
  const targets::Target* target = targets::find_target(target_name);
  if (!target || model_path.empty())
    return std::fprintf(stderr, "usage: bench_model MODEL.onnx [--target NAME] ...\n"), 2;

  ir::Context ctx;
  auto library = lang::Library::parse(lang::Library::builtin_files());
  if (!library.ok()) return fail(library.status());
  auto model = import::import_onnx(model_path);
  if (!model.ok()) return fail(model.status());
  auto expanded = compile::expand_model(ctx, *library, *model, "main");
  if (!expanded.ok()) return fail(expanded.status());
  nest::Function& f = *expanded;
  if (Status s = passes::run(ctx, f); !s.ok()) return fail(s);

  std::unordered_map<const ir::Sym*, int64_t> symbols;
  auto value = [&](const ir::Expr* e) -> int64_t {
    auto v = ir::evaluate_extent(e, [&](const ir::Sym* s) -> std::optional<int64_t> {
      if (auto it = symbols.find(s); it != symbols.end()) return it->second;
      auto it = given.find(s->name);
      int64_t v = it != given.end() ? it->second : std::clamp<int64_t>(1, s->lo, s->hi);
      if (it == given.end())
        std::fprintf(stderr, "symbol %s = %lld (--sym)\n", s->name.c_str(), static_cast<long long>(v));
      return symbols[s] = v;
    });
    return v.value_or(0);
  };
  auto shape_of = [&](const nest::Array& a) {
    std::vector<int64_t> shape;
    for (const ir::Expr* e : a.shape) shape.push_back(value(e));
    return shape;
  };

  std::vector<Launch> launches;
  std::vector<loop::Kernel> kernels;
  const lower::MathExpander expand = [&](ir::Context& c, ir::Op op, const ir::Expr* arg) {
    return library->expand_math(c, op, arg);
  };
  double t0 = now();
  for (const nest::Statement& s : f.body) {
    auto lowered = lower::lower(ctx, f, s, *target, expand);
    if (!lowered.ok()) return fail(lowered.status());
    for (loop::Kernel& k : *lowered) {
      Launch l;
      l.name = k.name;
      l.schedule = k.schedule;
      l.entry = kernels.size();
      l.statement = static_cast<size_t>(&s - f.body.data());
      if (s.nest && k.name.find(".pack") == std::string::npos) l.flop = flop_of(*s.nest, value);
      if (!print.empty() && k.name.find(print) != std::string::npos) std::printf("%s", loop::to_string(k).c_str());
      l.kernel.params = k.params;
      l.kernel.scalars = k.scalars;
      l.kernel.tiles = k.tiles;
      l.kernel.cuts = k.cuts;
      launches.push_back(std::move(l));
      kernels.push_back(std::move(k));
    }
  }
  double t1 = now();
  auto module = bench::Loaded::compile(*target, kernels);
  if (!module.ok()) return fail(module.status());
  double t2 = now();
  std::printf("%zu statements, %zu kernels; lowering %.2f s, code generation %.2f s, module %.2f MB\n", f.body.size(),
              kernels.size(), t1 - t0, t2 - t1, static_cast<double>((*module)->code_bytes) * 1e-6);

  // Memory: constants and inputs in their layouts, everything else apart.
  std::mt19937 rng(1);
  std::vector<bench::Buffer> memory;
  std::vector<nest::Tensor> inputs(f.inputs.size());
  for (uint32_t a = 0; a < f.arrays.size(); ++a) {
    const nest::Array& array = f.arrays[a];
    std::vector<int64_t> shape = shape_of(array);
    test::Placement place(array, shape);
    const unsigned width = bytes_of(array.dtype);
    memory.emplace_back((static_cast<size_t>(place.elements) * width + 3) / 4 + 1, false);
    auto* to = reinterpret_cast<std::byte*>(memory.back().data);
    const std::byte* from = nullptr;
    for (size_t k = 0; k < f.inputs.size(); ++k)
      if (f.inputs[k] == a) {
        inputs[k] = nest::Tensor::zeros(array.dtype, shape);
        for (int64_t e = 0; e < inputs[k].elements(); ++e) {
          ir::Scalar v;
          v.f = static_cast<double>(rng() % 2000) / 1000.0 - 1;
          v.i = static_cast<int64_t>(rng() % 2);
          ir::store_element(array.dtype, inputs[k].bytes.data(), static_cast<uint64_t>(e), v);
        }
        from = inputs[k].bytes.data();
      }
    if (array.kind == nest::Array::Kind::Const && array.data) from = array.data->bytes.data();
    if (from)
      place.each([&](int64_t source, int64_t at) { std::memcpy(to + at * width, from + source * width, width); });
  }
  std::map<std::pair<size_t, uint32_t>, bench::Buffer> workspaces;
  std::vector<std::byte> scratch(1 << 20);
  auto execute = [&](Launch& l) {
    std::vector<void*> pointers;
    std::vector<uint64_t> lengths;
    std::vector<int64_t> scalars;
    for (const loop::Param& p : l.kernel.params) {
      bench::Buffer* b;
      if (p.role == loop::Role::Array) b = &memory[p.array];
      else {
        auto key = std::pair(l.statement, p.array + (p.role == loop::Role::Yields ? 1000u : 0u));
        b = &workspaces.try_emplace(key, static_cast<size_t>(value(p.elements)) * bytes_of(p.dtype) / 4 + 1)
                 .first->second;
      }
      pointers.push_back(b->data);
      lengths.push_back(b->bytes);
    }
    for (const ir::Sym* s : l.kernel.scalars) scalars.push_back(symbols.count(s) ? symbols[s] : value(ctx.sym(s)));
    for (const loop::Cut& cut : l.kernel.cuts) scalars.push_back(std::max<int64_t>(1, value(cut.units)));  // one worker: whole
    const MlrunEntry& e = (*module)->entry(l.entry);
    if (e.scratch_bytes > scratch.size()) scratch.resize(e.scratch_bytes);
    MlrunLaunch launch{pointers.data(), lengths.data(), scalars.data(), scratch.data(), 0, 1};
    int32_t fault = e.run(&launch, 0, static_cast<uint32_t>(value(l.kernel.tiles)));
    if (fault) std::fprintf(stderr, "%s: fault %d\n", l.name.c_str(), fault);
  };
  double whole = 1e30;
  for (int r = 0; r < rounds; ++r) {
    double begin = now();
    for (Launch& l : launches) {
      double a = now();
      execute(l);
      l.best = std::min(l.best, now() - a);
    }
    whole = std::min(whole, now() - begin);
  }
  double sum = 0;
  std::map<std::string, std::pair<double, size_t>> by_schedule;
  for (const Launch& l : launches) {
    sum += l.best;
    auto& entry = by_schedule[l.schedule.substr(0, l.schedule.find(' '))];
    entry.first += l.best;
    ++entry.second;
  }
  std::printf("best run %.3f ms, sum of best kernels %.3f ms\n", whole * 1e3, sum * 1e3);
  for (auto& [name, entry] : by_schedule)
    std::printf("  %-12s %9.3f ms in %zu\n", name.c_str(), entry.first * 1e3, entry.second);
  std::vector<const Launch*> order;
  for (const Launch& l : launches) order.push_back(&l);
  std::sort(order.begin(), order.end(), [](auto a, auto b) { return a->best > b->best; });
  for (size_t k = 0; k < std::min(top, order.size()); ++k)
    std::printf("%9.1f us %5.1f %%  %7.2f GFLOP/s  %-18s tiles %-5lld %s\n", order[k]->best * 1e6,
                100 * order[k]->best / sum, order[k]->flop / order[k]->best * 1e-9, order[k]->schedule.c_str(),
                static_cast<long long>(value(order[k]->kernel.tiles)), order[k]->name.c_str());

  if (!check) return 0;
  nest::InterpretOptions options;
  options.symbols = symbols;
  auto want = nest::interpret(f, inputs, options);
  if (!want.ok()) return fail(want.status());
  bool good = true;
  for (size_t k = 0; k < f.outputs.size(); ++k) {
    const nest::Array& array = f.arrays[f.outputs[k]];
    const nest::Tensor& w = (*want)[k];
    double worst = 0, largest = 0;
    test::Placement(array, w.shape).each([&](int64_t at, int64_t place) {
      ir::Scalar x = ir::load_element(w.dtype, w.bytes.data(), static_cast<uint64_t>(at));
      ir::Scalar y = ir::load_element(w.dtype, memory[f.outputs[k]].data, static_cast<uint64_t>(place));
      double a = is_float(w.dtype) ? x.f : static_cast<double>(x.i),
             b = is_float(w.dtype) ? y.f : static_cast<double>(y.i);
      largest = std::max(largest, std::abs(a));
      worst = std::max(worst, std::isnan(b) ? 1e30 : std::abs(a - b));
    });
    bool fits = worst <= 1e-3 * std::max(largest, 1e-6);
    good &= fits;
    std::printf("output %s: largest %.4g, worst difference %.3g %s\n", array.name.c_str(), largest, worst,
                fits ? "" : "WRONG");
  }
  return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) { return run(argc, argv); }
