#include "packager/compile/variant/variant.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "base/text/nearest_name.h"
#include "packager/compile/cache/code_cache.h"
#include "packager/compile/cache/recent_code.h"
#include "packager/compile/variant/lift_extents.h"
#include "packager/compile/variant/shared_kernels.h"
#include "packager/lower/lower.h"
#include "packager/nest/facts/figures.h"
#include "packager/nest/facts/group.h"
#include "packager/nest/facts/key.h"
#include "packager/nest/facts/parts.h"
#include "packager/nest/facts/uses.h"
#include "packager/nest/layout.h"
#include "packager/nest/text/print.h"
#include "packager/passes/segments/cut.h"
#include "packager/loop/back_edges.h"
#include "packager/loop/kernel_key.h"
#include "packager/loop/print.h"
#include "packager/plan/plan_builder.h"
#include "packager/plan/verify.h"
#include "packager/tune/records.h"
#include "targets/instructions.h"
#include "targets/print_kernel.h"

namespace mlc::compile {
namespace {

struct Place {
  const nest::Function* function = nullptr;
  const nest::Statement* statement = nullptr;
  bool is_group = false;  // the statement and those that join it
};

// Kernels of all statements, each once, and the plans that launch them.
struct Lowered {
  std::vector<loop::Kernel> kernels;
  std::unordered_map<std::string, uint32_t> entry_of;  // by loop::kernel_key
  std::vector<std::vector<Place>> users;  // per kernel
  std::vector<plan::FunctionPlan> plans;
};

// What a nest became, and the arrays of its function in the order of its key.
struct LoweredNest {
  std::vector<uint32_t> arrays;
  std::vector<plan::Launch> launches;
};
using LoweredNests = std::unordered_map<std::string, LoweredNest>;  // by candidate and nest::lowering_key

// Whether it handles one element at a time: point by point without lanes.
bool is_scalar(const loop::Kernel& kernel) {
  const auto how = schedule::parse(kernel.schedule);
  return how.ok() && (how->family == schedule::Family::Map || how->family == schedule::Family::Proc) && schedule::is_scalar(*how);
}

class VariantCompiler {
 public:
  VariantCompiler(ir::Context& ctx, const lang::Library& library, const passes::Parts& parts, const WeightStore& weights, const targets::Target& target,
                  const VariantOptions& options)
      : ctx_(ctx), parts_(parts), weights_(weights), target_(target), options_(options), store_(options.store ? *options.store : own_code_),
        expand_([&library](ir::Context& c, ir::Op op, const ir::Expr* arg) { return library.expand_math(c, op, arg); }) {
    for (const std::string& program : options.programs) wanted_.merge(passes::functions_of(parts, program));
  }

  Result<CompiledVariant> run() {
    CompiledVariant variant;
    variant.target = &target_;
    Lowered lowered;
    std::vector<uint32_t> shown;  // kernels
    while (true) {
      MLC_ASSIGN(lowered, lower_all());
      MLC_ASSIGN(shown, chosen_kernels(lowered));
      std::vector<targets::LargeFrame> large;
      MLC_ASSIGN(targets::Module module, emit(lowered.kernels, large, options_.progress));
      variant.module = std::move(module.bytes);
      if (large.empty()) break;
      for (const targets::LargeFrame& frame : large)
        MLC_RETURN_IF_ERROR(choose_another(lowered.users[frame.kernel], lowered.kernels[frame.kernel].name, frame.bytes));
    }
    MLC_RETURN_IF_ERROR(targets::audit_module(target_, variant.module));
    for (const plan::FunctionPlan& plan : whole(lowered)) variant.num_launches += plan.launches.size();
    variant.num_kernels = lowered.kernels.size();
    MLC_RETURN_IF_ERROR(dump(lowered, shown));
    MLC_ASSIGN(variant.plan, plan_of(lowered));
    if (options_.choose) variant.launches = launches_in(lowered);
    variant.programs = options_.programs;
    for (const auto& program : wanted_programs())
      for (const nest::Step& step : program->steps)
        if (!step.service.empty()) variant.services.insert(step.service);
    return variant;
  }

  Result<std::vector<LoweredStatement>> try_out() {
    MLC_ASSIGN(const Lowered lowered, lower_all());
    if (auto plan = plan_of(lowered); !plan.ok()) return std::move(plan).status();
    std::vector<LoweredStatement> all;
    for (size_t segment = 0; segment < lowered.plans.size(); ++segment)
      for (const plan::Launch& launch : lowered.plans[segment].launches) {
        const bool is_new = all.empty() || all.back().segment != segment || all.back().statement != launch.statement;
        if (is_new) all.push_back({segment, launch.statement, true});
        all.back().is_scalar = all.back().is_scalar && is_scalar(lowered.kernels[launch.entry]);
      }
    return all;
  }

  Result<std::vector<RefusedStatement>> refused() {
    std::vector<RefusedStatement> all;
    refused_ = &all;
    MLC_ASSIGN(const Lowered lowered, lower_all());
    for (size_t k = 0; k < lowered.kernels.size(); ++k) MLC_RETURN_IF_ERROR(try_code(lowered, k));
    if (!all.empty()) return all;
    if (auto plan = plan_of(lowered); !plan.ok()) return std::move(plan).status();
    return all;
  }

 private:
  // Code for the kernel alone, which is thrown away.
  Status try_code(const Lowered& lowered, size_t k) {
    std::vector<targets::LargeFrame> large;
    const auto module = emit({&lowered.kernels[k], 1}, large, {});
    if (module.ok() && large.empty()) return ok();
    const Status status = module.ok() ? choose_another(lowered.users[k], lowered.kernels[k].name, large.front().bytes) : module.status();
    for (const Place& place : lowered.users[k])
      if (!refuse(place, status)) return status;
    return ok();
  }

  // Whether it was noted: what nothing is to be known of ends the work.
  bool refuse(const Place& place, const Status& status) {
    if (status.ok()) return true;
    if (!refused_ || status.code != Code::Unsupported) return false;
    const auto in = std::find_if(parts_.segments.begin(), parts_.segments.end(), [&](const auto& segment) { return segment.get() == place.function; });
    const auto first = static_cast<size_t>(place.statement - place.function->body.data());
    const size_t count = place.is_group ? nest::marked_group(*place.function, first) : 1;
    for (size_t k = first; k < first + count; ++k) refused_->push_back({static_cast<size_t>(in - parts_.segments.begin()), k, status.message});
    return true;
  }

  Result<targets::Module> emit(std::span<const loop::Kernel> kernels, std::vector<targets::LargeFrame>& large, const Progress& progress) {
    std::vector<std::string> keys;
    for (const loop::Kernel& kernel : kernels) keys.push_back(code_key(code_generator_identity(), targets::least_target(target_, kernel), loop::kernel_key(kernel)));
    return targets::emit_module(target_, kernels, &large, {.threads = options_.threads, .progress = progress, .keys = keys, .store = &store_});
  }

  // Which of its candidates.
  size_t choice_of(const nest::Statement& statement) const {
    const auto found = choice_.find(&statement);
    return found == choice_.end() ? 0 : found->second;
  }

  Result<Lowered> lower_all() {
    Lowered all;
    LoweredNests known;
    for (const auto& segment : parts_.segments) {
      const nest::Function* function = segment.get();
      if (!is_wanted(function->name)) continue;
      plan::FunctionPlan plan;
      plan.function = function;
      plan.constant = [this, function](uint32_t array) { return weights_.place_of(*function, array); };
      plan.alignment = target_.buffer_alignment;
      plan.parts = nest::parts_of_outputs(ctx_, *function, plan.alignment);
      const nest::Lifetimes lifetimes(*function);
      for (size_t k = 0; k < function->body.size(); ++k) {
        if (plan.parts.is_done[k] || nest::is_in_place(ctx_, *function, function->body[k])) continue;
        if (const size_t count = nest::marked_group(*function, k); count > 1) {
          const auto done = add_group(*function, lifetimes, k, count, all, known, plan);
          if (!done.ok() && !refuse({function, &function->body[k], true}, done.status())) return Status(done.status());
          if (!done.ok() || *done) {
            k += count - 1;
            continue;
          }
        }
        auto launches = launches_of({function, &function->body[k]}, all, known);
        if (!launches.ok() && !refuse({function, &function->body[k]}, launches.status())) return std::move(launches).status();
        if (!launches.ok()) continue;
        for (plan::Launch& launch : *launches) plan.launches.push_back(std::move(launch));
      }
      all.plans.push_back(std::move(plan));
    }
    share(all);
    return all;
  }

  void share(Lowered& all) {
    const std::vector<SharedKernel> shared = share_kernels(ctx_, all.kernels);
    std::vector<std::vector<Place>> users(all.kernels.size());
    for (size_t k = 0; k < shared.size(); ++k) users[shared[k].number].insert(users[shared[k].number].end(), all.users[k].begin(), all.users[k].end());
    all.users = std::move(users);
    for (plan::FunctionPlan& plan : all.plans)
      for (plan::Launch& launch : plan.launches) {
        const SharedKernel& kernel = shared[launch.entry];
        launch.scalars.insert(launch.scalars.end(), kernel.scalars.begin(), kernel.scalars.end());
        launch.entry = kernel.number;
      }
  }

  // Networks repeat their blocks: what does the same as something before it is not lowered again.
  static std::vector<plan::Launch> repeated(const LoweredNest& same, const std::vector<uint32_t>& arrays, const Place& place, Lowered& all) {
    std::unordered_map<uint32_t, uint32_t> here;
    for (size_t k = 0; k < arrays.size(); ++k) here.emplace(same.arrays[k], arrays[k]);
    std::vector<plan::Launch> launches = same.launches;
    for (plan::Launch& launch : launches) {
      for (loop::Param& param : launch.params)
        if (param.role == loop::Role::Array) param.array = here.at(param.array), param.name = place.function->arrays[param.array].name;
      take_place(launch, place, all);
    }
    return launches;
  }

  Result<std::vector<plan::Launch>> launches_of(const Place& place, Lowered& all, LoweredNests& known) {
    const nest::Statement& statement = *place.statement;
    LoweredNest* same = nullptr;
    nest::LoweringKey key;
    if (statement.nest) {
      const nest::Nest* const nest = statement.nest.get();
      key = nest::lowering_key(*place.function, {&nest, 1});
      auto [found, is_new] = known.try_emplace(std::to_string(choice_of(statement)) + ":" + key.text);
      same = &found->second;
      if (!is_new) return repeated(*same, key.arrays, place, all);
    }
    auto launches = lower_statement(place, all);
    if (same && launches.ok()) *same = {std::move(key.arrays), *launches};
    if (same && !launches.ok()) known.erase(std::to_string(choice_of(statement)) + ":" + key.text);
    return launches;
  }

  static std::string text_of(const nest::LoweringKey& key, const nest::Group& group) {
    std::string text = "group:" + key.text;
    for (const nest::Group::Local& local : group.locals)
      text += ":" + std::to_string(std::find(key.arrays.begin(), key.arrays.end(), local.array) - key.arrays.begin());
    return text;
  }

  // False: its statements are lowered one by one.
  Result<bool> add_group(const nest::Function& function, const nest::Lifetimes& lifetimes, size_t first, size_t count, Lowered& all,
                         LoweredNests& known, plan::FunctionPlan& plan) {
    const Place place{&function, &function.body[first], true};
    const auto group = apart_.contains(place.statement) ? std::nullopt : nest::group_of(function, lifetimes, first, count);
    if (!group) return false;
    nest::LoweringKey key = nest::lowering_key(function, group->nests);
    const bool is_own = not_chosen_.contains(place.statement);
    auto [found, is_new] = known.try_emplace((is_own ? "own " : "") + text_of(key, *group));
    if (options_.choose) group_names_[place.statement] = tune::nest_name(text_of(nest::lasting_key(function, group->nests), *group));
    std::vector<plan::Launch> launches;
    if (!is_new) {
      launches = repeated(found->second, key.arrays, place, all);
    } else {
      auto lowered = is_own ? lower::lower_group(ctx_, function, *group, place.statement->source, target_, expand_) : lowered_as_chosen(place, *group);
      if (!lowered.ok()) {
        known.erase(found);
        return std::move(lowered).status().note(place.statement->source + " for " + target_.name);
      }
      if (*lowered) {
        std::vector<uint32_t> locals;
        for (const nest::Group::Local& local : group->locals) locals.push_back(local.array);
        launches = launches_of_kernels(**lowered, nest::figures_of(ctx_, function, group->nests, locals), place, all);
      }
      found->second = {std::move(key.arrays), launches};
    }
    for (plan::Launch& launch : launches) plan.launches.push_back(std::move(launch));
    return !launches.empty();
  }

  Result<std::vector<plan::Launch>> lower_statement(const Place& place, Lowered& all) {
    const nest::Statement& statement = *place.statement;
    auto lowered = lowered_by(place, choice_of(statement));
    if (!lowered.ok()) return std::move(lowered).status().note(statement.source + " for " + target_.name);
    const nest::Nest* const nest = statement.nest.get();
    return launches_of_kernels(*lowered, nest ? nest::figures_of(ctx_, *place.function, {&nest, 1}) : nest::Figures(), place, all);
  }

  Result<std::vector<loop::Kernel>> lowered_by(const Place& place, size_t candidate) {
    if (candidate == 0) {
      MLC_ASSIGN(auto chosen, lowered_as_chosen(place));
      if (chosen) return std::move(*chosen);
      return lower::lower(ctx_, *place.function, *place.statement, target_, expand_);
    }
    MLC_ASSIGN(const std::vector<schedule::Schedule> all, lower::candidates(ctx_, *place.function, *place.statement, target_));
    return lower::lower(ctx_, *place.function, *place.statement, target_, expand_, &all[std::min(candidate, all.size() - 1)]);
  }

  // None: no schedule was chosen, or what does not suit.
  Result<std::optional<std::vector<loop::Kernel>>> lowered_as_chosen(const Place& place) {
    std::optional<std::vector<loop::Kernel>> none;
    if (!options_.choose || !place.statement->nest) return none;
    MLC_ASSIGN(const std::vector<schedule::Schedule> all, lower::alternatives(ctx_, *place.function, *place.statement, target_));
    const std::optional<schedule::Schedule> how = options_.choose(target_, nest_of(place), all);
    if (!how) return none;
    auto kernels = lower::lower(ctx_, *place.function, *place.statement, target_, expand_, &*how);
    if (!kernels.ok() && kernels.status().code == Code::Malformed) return none;
    if (!kernels.ok()) return std::move(kernels).status();
    return std::optional(std::move(kernels).value());
  }

  // The compiler's own where no schedule was chosen, or what does not suit.
  Result<std::optional<std::vector<loop::Kernel>>> lowered_as_chosen(const Place& place, const nest::Group& group) {
    const auto by = [&](const schedule::Schedule* how) { return lower::lower_group(ctx_, *place.function, group, place.statement->source, target_, expand_, how); };
    if (!options_.choose) return by(nullptr);
    MLC_ASSIGN(const std::vector<schedule::Schedule> all, lower::group_alternatives(ctx_, *place.function, group, target_));
    const std::optional<schedule::Schedule> how = all.empty() ? std::nullopt : options_.choose(target_, nest_of(place), all);
    if (!how) return by(nullptr);
    auto kernels = by(&*how);
    return !kernels.ok() && kernels.status().code == Code::Malformed ? by(nullptr) : std::move(kernels);
  }

  std::string nest_of(const Place& place) const {
    if (place.is_group) return group_names_.at(place.statement);
    if (!place.statement->nest) return "";
    const nest::Nest* const nest = place.statement->nest.get();
    return tune::nest_name(nest::lasting_key(*place.function, {&nest, 1}).text);
  }

  // Whether a segment or a program gets code.
  bool is_wanted(const std::string& function) const { return options_.programs.empty() || function == parts_.derive || wanted_.contains(function); }

  std::vector<std::shared_ptr<const nest::Program>> wanted_programs() const {
    std::vector<std::shared_ptr<const nest::Program>> out;
    std::copy_if(parts_.programs.begin(), parts_.programs.end(), std::back_inserter(out), [&](const auto& program) { return is_wanted(program->interface.name); });
    return out;
  }

  // Plans of the segments that are not those of the cut forms, which are behind them.
  std::span<const plan::FunctionPlan> whole(const Lowered& all) const {
    size_t count = 0;
    for (size_t k = 0; k < std::min(parts_.segments.size(), parts_.num_whole); ++k) count += is_wanted(parts_.segments[k]->name);
    return std::span(all.plans).first(count);
  }
  std::vector<CompiledLaunch> launches_in(const Lowered& lowered) const {
    std::vector<CompiledLaunch> all;
    for (const plan::FunctionPlan& plan : whole(lowered))
      for (const plan::Launch& launch : plan.launches) {
        const nest::Statement& statement = plan.function->body[launch.statement];
        const bool is_group = std::any_of(lowered.users[launch.entry].begin(), lowered.users[launch.entry].end(),
                                          [&](const Place& user) { return user.statement == &statement && user.is_group; });
        all.push_back({plan.function->name, launch.source, launch.statement, nest_of({plan.function, &statement, is_group}), lowered.kernels[launch.entry].schedule});
      }
    return all;
  }

  // Of a kernel that prepares what the last one of its statement reads, and of a block whose steps are not counted.
  nest::Figures moved_by(const loop::Kernel& kernel, const nest::Function& function) {
    std::vector<const ir::Expr*> read, written;
    for (const loop::Param& param : kernel.params) {
      const ir::Expr* bytes = nullptr;
      if (param.role == loop::Role::Array) bytes = nest::stored_bytes(ctx_, function.arrays[param.array]);
      else if (const ir::Expr* elements = ir::with_value(ctx_, param.elements))
        bytes = ctx_.binary(ir::Op::Mul, ctx_.cast(DType::F64, elements), ctx_.number(bytes_of(param.dtype), DType::F64));
      (param.written ? written : read).push_back(bytes);
    }
    return nest::moved(ctx_, read, written);
  }

  // `figures`: of the statement.
  std::vector<plan::Launch> launches_of_kernels(std::vector<loop::Kernel>& kernels, const nest::Figures& figures, const Place& place, Lowered& all) {
    std::vector<plan::Launch> launches;
    // The last kernel does what is left of the statement; of what it reads and writes others may have most.
    const ir::Expr* operations = figures.operations;
    bool is_shared = false;
    for (const loop::Kernel& kernel : kernels) {
      const ir::Expr* own = lower::product_operations(ctx_, kernel, target_);
      if (&kernel == &kernels.back() || !own || !operations) continue;
      operations = ctx_.max(ctx_.sub(operations, own), ctx_.integer(0));
      is_shared = true;
    }
    for (loop::Kernel& kernel : kernels) {
      const bool is_last = &kernel == &kernels.back();
      plan::Launch& launch = launches.emplace_back();
      launch.params = kernel.params;
      launch.tiles = kernel.tiles;
      launch.cuts = kernel.cuts;
      launch.work = kernel.work;
      launch.scratch = symbolic_scratch(kernel);
      if (target_.is_device()) launch.steps = loop::back_edges(ctx_, kernel);
      launch.figures = is_last && figures.operations && !is_shared ? figures : moved_by(kernel, *place.function);
      if (is_last) launch.figures.operations = operations;
      else if (const ir::Expr* own = lower::product_operations(ctx_, kernel, target_)) launch.figures.operations = own;
      std::vector<const ir::Expr*> sizes;
      for (const loop::Param& param : kernel.params) {
        if (param.role != loop::Role::Array) continue;
        const nest::Array& array = place.function->arrays[param.array];
        sizes.push_back(nest::stored_elements(ctx_, array.layout, array.shape));
      }
      launch.scalars = lift_extents(ctx_, kernel, sizes);
      auto [found, is_new] = all.entry_of.emplace(loop::kernel_key(kernel), all.kernels.size());
      launch.entry = found->second;
      if (is_new) {
        all.kernels.push_back(std::move(kernel));
        all.users.emplace_back();
      }
      take_place(launch, place, all);
    }
    return launches;
  }

  // What --only may call a kernel: as profiles do, as it is called in code, or by one of the statements that are in it.
  std::set<std::string> names_of(const Lowered& all, size_t k) const {
    std::set<std::string> names{all.kernels[k].name};
    for (const Place& place : all.users[k]) {
      names.insert(source_of(place));
      const auto first = static_cast<size_t>(place.statement - place.function->body.data());
      const size_t count = place.is_group ? nest::marked_group(*place.function, first) : 1;
      for (size_t at = first; at < first + count; ++at) names.insert(place.function->body[at].source);
    }
    return names;
  }

  // Those of which --dump shows something, by number.
  Result<std::vector<uint32_t>> chosen_kernels(const Lowered& all) const {
    std::vector<uint32_t> chosen;
    if (!options_.dump || !options_.dump->wants_kernels()) return chosen;
    std::set<std::string> known;
    for (uint32_t k = 0; k < all.kernels.size(); ++k) {
      const std::set<std::string> names = names_of(all, k);
      if (options_.dump->only.empty() || names.contains(options_.dump->only)) chosen.push_back(k);
      known.insert(names.begin(), names.end());
    }
    if (!chosen.empty() || options_.dump->only.empty()) return chosen;
    return Status(Code::Usage, "--only: " + unknown_word("kernel", options_.dump->only, {known.begin(), known.end()}))
        .fact("kernels are called as 'mlrun profile' calls them, or as '--dump schedule' does");
  }

  Status dump(const Lowered& all, const std::vector<uint32_t>& kernels) const {
    for (const uint32_t k : kernels) MLC_RETURN_IF_ERROR(dump_kernel(all, k));
    return ok();
  }

  Status dump_kernel(const Lowered& all, uint32_t k) const {
    const DumpOptions& options = *options_.dump;
    const loop::Kernel& kernel = all.kernels[k];
    const Place& place = all.users[k].front();
    const auto show = [&](const char* level, const std::string& text) {
      return options.wants(level) && !text.empty() ? options.show({target_.name, std::to_string(k) + "-" + kernel.name, level, text}) : ok();
    };
    const auto first = static_cast<size_t>(place.statement - place.function->body.data());
    if (options.wants("nest"))
      MLC_RETURN_IF_ERROR(show("nest", nest::print_statements(*place.function, first, place.is_group ? nest::marked_group(*place.function, first) : 1)));
    MLC_RETURN_IF_ERROR(show("schedule", schedule_text(all, k)));
    if (options.wants("loop")) MLC_RETURN_IF_ERROR(show("loop", loop::to_string(kernel)));
    if (!options.wants("llvm") && !options.wants("asm")) return ok();
    MLC_ASSIGN(const targets::KernelText text, targets::print_kernel(target_, kernel));
    MLC_RETURN_IF_ERROR(show("llvm", text.llvm));
    return show("asm", text.assembly);
  }

  // Its schedule, what it computes wherever it is launched, and along what it may be cut.
  static std::string schedule_text(const Lowered& all, uint32_t k) {
    const loop::Kernel& kernel = all.kernels[k];
    std::string out = kernel.schedule + "\n";
    std::set<std::string> sources;
    for (const Place& place : all.users[k]) sources.insert(source_of(place));
    for (const std::string& source : sources) out += "  of " + source + "\n";
    out += "  tiles " + ir::to_string(kernel.tiles) + "\n";
    for (const loop::Cut& cut : kernel.cuts) out += (cut.in_turns ? "  turns " : "  cut ") + ir::to_string(cut.units) + ", bytes of each " + ir::to_string(cut.bytes) + "\n";
    return out;
  }

  // Bytes of the local arrays whose size follows from extents; null if there are none.
  const ir::Expr* symbolic_scratch(const loop::Kernel& kernel) {
    const ir::Expr* bytes = nullptr;
    for (const loop::LocalArray& local : kernel.locals) {
      if (local.count->is_const()) continue;
      const ir::Expr* more = ctx_.mul(local.count, ctx_.integer(bytes_of(local.dtype)));
      bytes = bytes ? ctx_.add(bytes, more) : more;
    }
    return bytes;
  }

  // "add_58 (Add) to matmul_60 (MatMul)"
  static std::string source_of(const Place& place) {
    const std::string& first = place.statement->source;
    if (!place.is_group) return first;
    const auto at = static_cast<size_t>(place.statement - place.function->body.data());
    const std::string& last = place.function->body[at + nest::marked_group(*place.function, at) - 1].source;
    return first == last ? first : first + " to " + last;
  }

  static void take_place(plan::Launch& launch, const Place& place, Lowered& all) {
    launch.statement = static_cast<uint32_t>(place.statement - place.function->body.data());
    launch.source = source_of(place);
    all.users[launch.entry].push_back(place);
  }

  Result<std::vector<std::byte>> plan_of(const Lowered& lowered) {
    MLC_ASSIGN(std::vector<std::byte> plan, plan::write_plan(ctx_, lowered.plans, wanted_programs(), {parts_.derive, parts_.derived}));
    MLC_RETURN_IF_ERROR(plan::verify(plan, static_cast<uint32_t>(lowered.kernels.size()),
                                     [&](uint32_t kernel, size_t operand) { return lowered.kernels[kernel].params[operand].written; }));
    return plan;
  }

  // Takes the next candidate whose frames are small enough, for all statements that have a kernel, compiling one alone.
  Status choose_another(const std::vector<Place>& users, const std::string& kernel, uint64_t bytes) {
    // A group by a schedule that was chosen is one by the compiler's own first.
    bool was_group = false;
    for (const Place& user : users) {
      if (!user.is_group) continue;
      const bool was_chosen = options_.choose && not_chosen_.insert(user.statement).second;
      was_group |= was_chosen || apart_.insert(user.statement).second;
    }
    if (was_group) return ok();
    const Place& place = users.front();
    MLC_ASSIGN(const std::vector<schedule::Schedule> all, lower::candidates(ctx_, *place.function, *place.statement, target_));
    for (size_t next = choice_of(*place.statement) + 1; next < all.size(); ++next) {
      auto lowered = lower::lower(ctx_, *place.function, *place.statement, target_, expand_, &all[next]);
      if (!lowered.ok()) continue;
      std::vector<targets::LargeFrame> large;
      auto module = emit(*lowered, large, {});
      if (!module.ok()) return std::move(module).status();
      if (large.empty()) {
        for (const Place& user : users) choice_[user.statement] = std::max(choice_of(*user.statement), next);
        return ok();
      }
      bytes = large.front().bytes;
    }
    return Status(Code::Unsupported, place.statement->source + ": kernel " + kernel + " needs a stack frame of " + std::to_string(bytes) + " bytes for " +
                                         target_.name + ", at most " + std::to_string(targets::kMaxFrame) + " are allowed")
        .fact("write its operator as several, each of a part");
  }

  ir::Context& ctx_;
  const passes::Parts& parts_;
  const WeightStore& weights_;
  const targets::Target& target_;
  const VariantOptions& options_;
  RecentCode own_code_{nullptr};
  targets::CodeStore& store_;  // of kernels that may be compiled again, as where one of them is lowered in another way
  lower::MathExpander expand_;
  std::unordered_map<const nest::Statement*, size_t> choice_;  // of those that need another candidate than the first
  std::unordered_set<const nest::Statement*> apart_;           // of groups whose statements are lowered one by one
  std::unordered_set<const nest::Statement*> not_chosen_;      // of groups that are lowered by the compiler's own schedule, whatever was chosen
  std::unordered_map<const nest::Statement*, std::string> group_names_;  // of groups, in records of tuning
  std::vector<RefusedStatement>* refused_ = nullptr;           // where all are asked for
  std::set<std::string> wanted_;                               // functions of VariantOptions::programs
};

}  // namespace

Result<CompiledVariant> compile_variant(ir::Context& ctx, const lang::Library& library, const passes::Parts& parts,
                                        const WeightStore& weights, const targets::Target& target, const VariantOptions& options) {
  return VariantCompiler(ctx, library, parts, weights, target, options).run();
}

Result<std::vector<LoweredStatement>> try_variant(ir::Context& ctx, const lang::Library& library, const passes::Parts& parts,
                                                  const WeightStore& weights, const targets::Target& target) {
  return VariantCompiler(ctx, library, parts, weights, target, {}).try_out();
}

Result<std::vector<RefusedStatement>> refused_by_device(ir::Context& ctx, const lang::Library& library, const passes::Parts& parts, const WeightStore& weights,
                                                        const targets::Target& device) {
  return VariantCompiler(ctx, library, parts, weights, device, {}).refused();
}

std::vector<std::string> possible_programs(const passes::Parts& parts, std::span<const std::string> programs, std::span<const RefusedStatement> refused) {
  std::vector<std::string> possible;
  for (const std::string& program : programs) {
    const std::set<std::string> functions = passes::functions_of(parts, program);
    const auto needs = [&](const RefusedStatement& r) { return parts.segments[r.segment]->name == parts.derive || functions.contains(parts.segments[r.segment]->name); };
    if (std::none_of(refused.begin(), refused.end(), needs)) possible.push_back(program);
  }
  return possible;
}

void drop_equal_variants(std::vector<CompiledVariant>& variants) {
  const auto is_superfluous = [&](const CompiledVariant& v) {
    for (const targets::Target* base = targets::find_target(v.target->base); base; base = targets::find_target(base->base))
      for (const CompiledVariant& other : variants)
        if (other.target == base && other.module == v.module && other.plan == v.plan && other.services == v.services) return true;
    return false;
  };
  std::vector<bool> superfluous;
  for (const CompiledVariant& v : variants) superfluous.push_back(is_superfluous(v));
  std::vector<CompiledVariant> kept;
  for (size_t k = 0; k < variants.size(); ++k)
    if (!superfluous[k]) kept.push_back(std::move(variants[k]));
  variants = std::move(kept);
}

}  // namespace mlc::compile
