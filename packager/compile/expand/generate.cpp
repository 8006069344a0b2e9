// Decoding, greedy or by chance: the model runs once over the first tokens and then, in a loop, over the token that was chosen, with what it gave of
// the tokens before (its caches) carried from run to run.
#include <algorithm>

#include "base/checked.h"
#include "packager/compile/expand/graph_expander.h"
#include "packager/ir/numeric.h"
#include "packager/nest/text/names.h"

namespace mlc::compile {
namespace {

constexpr char kDomain[] = "mlc.pipeline";
constexpr uint64_t kMostZeros = uint64_t{64} << 20;  // bytes of a cache before the first run; those of models that grow have none

}  // namespace

// One decoding while it is built. `outer` is the function around the loop.
struct GraphExpander::Decoding {
  const model::Graph& graph;
  const Generation& generation;
  const std::map<std::string, Item>& given;
  const std::optional<Sampling>& sampling;
  std::string label;
  Item seed;  // in `outer`, where it samples

  // What a run takes and the next one gets otherwise.
  struct State {
    Item tokens, mask, positions;  // the last two only where the model takes them
    Item number;                   // of tokens that were chosen, where it samples
    Item ended;                    // i64 [rows, 1], of several rows
    std::vector<Item> caches;      // in the order of Generation::carry
  };

  const model::Port& port(const std::string& name) const {
    return *std::find_if(graph.inputs.begin(), graph.inputs.end(), [&](const model::Port& p) { return p.name == name; });
  }
  Result<Item> op(GraphExpander& in, const std::string& name, const std::vector<uint32_t>& inputs, std::map<std::string, lang::Attribute> attributes = {}) const {
    MLC_ASSIGN(const uint32_t array, in.text_call(kDomain, name, 1, inputs, std::move(attributes), label, ""));
    return Item::of(array);
  }
  // As the model takes it.
  Result<Item> typed(GraphExpander& in, const std::string& name, const Item& value) const {
    const DType wanted = port(name).dtype;
    if (in.function_.arrays[value.tensor.array].dtype == wanted) return value;
    MLC_ASSIGN(const auto cast, in.call("Cast", 13, {{"to", wanted}}, {value.tensor}, label));
    return Item{cast[0], nullptr};
  }

  Item constant(GraphExpander& in, DType dtype, const std::vector<int64_t>& shape, int64_t value) const;
  // Whether there are several rows of tokens, or the run says how many.
  bool has_rows(const GraphExpander& outer) const {
    const auto prompt = given.find(generation.tokens);
    if (prompt == given.end()) return false;
    const Ex rows = outer.function_.arrays[prompt->second.tensor.array].shape[0];
    return !rows->is_const() || rows->i != 1;
  }
  Result<Item> nothing_yet(GraphExpander& in, const model::Port& port) const;
  Result<State> first_state(GraphExpander& outer) const;
  Status bind(GraphExpander& run, const State& state, bool is_first) const;
  Result<Item> chosen(GraphExpander& run, const Item& number, const Item& seed_here) const;
  Result<Item> drawn(GraphExpander& run, const Item& last, const Item& number, const Item& seed_here) const;
  Result<State> after(GraphExpander& run, const State& before, const Item& token) const;
  Result<Item> mark_ends(GraphExpander& in, const Item& ended, Item& token) const;
  Result<Item> goes_on(GraphExpander& in, const Item& token, const State& next) const;
};

// All elements alike.
Item GraphExpander::Decoding::constant(GraphExpander& in, DType dtype, const std::vector<int64_t>& shape, int64_t value) const {
  size_t count = 1;
  std::vector<Ex> extents;
  for (const int64_t extent : shape) count *= static_cast<size_t>(extent), extents.push_back(in.ctx_.integer(extent));
  auto bytes = std::make_shared<std::vector<std::byte>>(count * bytes_of(dtype));
  for (size_t k = 0; k < count; ++k) ir::store_element(dtype, bytes->data(), k, {value, static_cast<double>(value)});
  const uint32_t array = Emit(in.ctx_, in.function_, label).array("", dtype, std::move(extents), nest::Array::Kind::Const);
  in.function_.arrays[array].data = std::make_shared<nest::ConstData>(nest::ConstData{Bytes(*bytes), bytes});
  return Item::of(array);
}

// A cache before the first run: sequences of no tokens.
Result<Item> GraphExpander::Decoding::nothing_yet(GraphExpander& in, const model::Port& cache) const {
  const model::Port& tokens = port(generation.tokens);
  const auto* batch = tokens.shape.empty() ? nullptr : std::get_if<std::string>(&tokens.shape[0]);
  std::vector<int64_t> shape;
  int64_t batch_axis = -1;
  for (size_t axis = 0; axis < cache.shape.size(); ++axis) {
    const auto* name = std::get_if<std::string>(&cache.shape[axis]);
    const bool is_batch = name && (name->empty() || *name == "?" ? axis == 0 : batch && *name == *batch);
    shape.push_back(name ? is_batch : std::get<int64_t>(cache.shape[axis]));
    if (is_batch && has_rows(in)) batch_axis = static_cast<int64_t>(axis);
  }
  uint64_t bytes = bytes_of(cache.dtype);
  for (const int64_t extent : shape) {
    const auto more = extent < 0 ? std::nullopt : checked_mul(bytes, static_cast<uint64_t>(extent));
    bytes = std::min(more.value_or(kMostZeros + 1), kMostZeros + 1);
  }
  if (bytes > kMostZeros || bytes_of(cache.dtype) == 0)
    return Status(Code::Unsupported, 5009, "the cache '{}' of {} with fixed extents takes more than {} MiB before the first run", cache.name, name_of(cache.dtype), kMostZeros >> 20)
        .hint("a model whose caches grow: exporters call that a free past length");
  if (batch_axis < 0) return constant(in, cache.dtype, shape, 0);
  shape[static_cast<size_t>(batch_axis)] = -1;
  return op(in, "NothingYet", {given.at(generation.tokens).tensor.array}, {{"shape", shape}, {"to", cache.dtype}});
}

Result<GraphExpander::Decoding::State> GraphExpander::Decoding::first_state(GraphExpander& outer) const {
  State state;
  if (const auto prompt = given.find(generation.tokens); prompt != given.end()) {
    state.tokens = prompt->second;
  } else {
    const uint32_t start = Emit(outer.ctx_, outer.function_, label).numbers(generation.start);
    MLC_ASSIGN(state.tokens, op(outer, "AddBatch", {start}));
  }
  const auto mask = generation.mask.empty() ? given.end() : given.find(generation.mask);
  if (mask != given.end()) {
    MLC_ASSIGN(const auto whole, outer.call("Cast", 13, {{"to", DType::I64}}, {mask->second.tensor}, label));
    state.mask = Item{whole[0], nullptr};
  } else if (!generation.mask.empty()) {
    MLC_ASSIGN(state.mask, op(outer, "OnesLike", {state.tokens.tensor.array}));
  }
  if (!generation.positions.empty()) {
    const bool has_mask = mask != given.end();
    MLC_ASSIGN(state.positions, op(outer, has_mask ? "PositionsIn" : "Positions", {(has_mask ? state.mask : state.tokens).tensor.array}));
  }
  if (has_rows(outer)) {
    MLC_ASSIGN(state.ended, op(outer, "NothingYet", {state.tokens.tensor.array}, {{"shape", std::vector<int64_t>{-1, 1}}, {"to", DType::I64}}));
  }
  if (sampling) state.number = constant(outer, DType::I64, {}, 0);
  for (const auto& [input, output] : generation.carry) {
    MLC_ASSIGN(Item cache, nothing_yet(outer, port(input)));
    state.caches.push_back(std::move(cache));
  }
  return state;
}

Status GraphExpander::Decoding::bind(GraphExpander& run, const State& state, bool is_first) const {
  MLC_ASSIGN(const Item tokens, typed(run, generation.tokens, state.tokens));
  run.bind(generation.tokens, tokens);
  if (!generation.mask.empty()) {
    MLC_ASSIGN(const Item mask, typed(run, generation.mask, state.mask));
    run.bind(generation.mask, mask);
  }
  if (!generation.positions.empty()) {
    MLC_ASSIGN(const Item positions, typed(run, generation.positions, state.positions));
    run.bind(generation.positions, positions);
  }
  for (size_t k = 0; k < generation.carry.size(); ++k) run.bind(generation.carry[k].first, state.caches[k]);
  if (!generation.again.empty()) {
    const std::vector<int64_t> shape(port(generation.again).shape.size(), 1);
    run.bind(generation.again, constant(run, port(generation.again).dtype, shape, is_first ? 0 : 1));
  }
  return ok();
}

// The token of the greatest logit behind the last one, i64 [1, 1]; of equal ones the first. Or one that is drawn.
Result<Item> GraphExpander::Decoding::chosen(GraphExpander& run, const Item& number, const Item& seed_here) const {
  MLC_ASSIGN(const Item logits, run.value_of(generation.logits));
  MLC_ASSIGN(const Item last, op(run, "LastRow", {logits.tensor.array}));
  if (sampling) return drawn(run, last, number, seed_here);
  MLC_ASSIGN(const auto best, run.call("ArgMax", 13, {{"axis", int64_t{1}}, {"keepdims", int64_t{1}}}, {last.tensor}, label));
  return Item::of(best[0].array);
}

Result<Item> GraphExpander::Decoding::drawn(GraphExpander& run, const Item& last, const Item& number, const Item& seed_here) const {
  MLC_ASSIGN(const Item logits, op(run, "Logits", {last.tensor.array}, {{"temperature", sampling->temperature}}));
  MLC_ASSIGN(Item weights, op(run, "Weights", {logits.tensor.array}));
  if (sampling->top_k > 0 || sampling->share < Sampling{}.share) {
    const Ex vocabulary = run.function_.arrays[logits.tensor.array].shape[1];
    constexpr int64_t kMostTokens = 1 << 20;  // whose weights, and parts of them, are numbers of 64 bits
    if (!vocabulary->is_const() || vocabulary->i > kMostTokens)
      return Status(Code::Usage, 5009, "'{}' has rows of a length that the run decides, or of more than {} tokens, and 'top_k' and 'top_p' choose among a known number", generation.logits, kMostTokens);
    const int64_t most = sampling->top_k > 0 ? std::min(sampling->top_k, vocabulary->i) : vocabulary->i;
    lang::Call top;
    top.domain = "ai.onnx", top.name = "TopK", top.opset = 1, top.source = label;
    top.attributes = {{"axis", int64_t{1}}, {"k", most}};
    top.inputs.emplace_back(logits.tensor);
    top.outputs = {true, true};
    MLC_ASSIGN(const auto best, run.all_.library.expand(run.ctx_, run.function_, top));
    MLC_ASSIGN(const Item count, op(run, "Nucleus", {best[1].array, weights.tensor.array}, {{"share", sampling->share}}));
    MLC_ASSIGN(weights, op(run, "Candidates", {logits.tensor.array, weights.tensor.array, best[0].array, best[1].array, count.tensor.array}));
  }
  return op(run, "Draw", {weights.tensor.array, seed_here.tensor.array, number.tensor.array});
}

Result<GraphExpander::Decoding::State> GraphExpander::Decoding::after(GraphExpander& run, const State& before, const Item& token) const {
  State state;
  state.tokens = token;
  if (!generation.mask.empty()) {
    MLC_ASSIGN(const Item one, op(run, "OnesLike", {token.tensor.array}));
    MLC_ASSIGN(const auto longer, run.call("Concat", 13, {{"axis", int64_t{1}}}, {before.mask.tensor, one.tensor}, label));
    state.mask = Item::of(longer[0].array);
  }
  if (!generation.positions.empty()) {
    MLC_ASSIGN(state.positions, op(run, "NextPosition", {before.positions.tensor.array}));
  }
  if (sampling) {
    MLC_ASSIGN(state.number, op(run, "NextNumber", {before.number.tensor.array}));
  }
  for (const auto& [input, output] : generation.carry) {
    MLC_ASSIGN(Item cache, run.value_of(output));
    state.caches.push_back(std::move(cache));
  }
  return state;
}

// Of several rows those that have ended get their end again, and are known to the next run.
Result<Item> GraphExpander::Decoding::mark_ends(GraphExpander& in, const Item& ended, Item& token) const {
  if (ended.tensor.array == nest::kNoArray) return Item{};
  MLC_ASSIGN(token, op(in, "Behind", {token.tensor.array, ended.tensor.array}, {{"end", generation.end.front()}}));
  return op(in, "Ended", {token.tensor.array, ended.tensor.array}, {{"ends", generation.end}});
}

// bool []: the token ends nothing, or some row has not ended.
Result<Item> GraphExpander::Decoding::goes_on(GraphExpander& in, const Item& token, const State& next) const {
  if (next.ended.tensor.array != nest::kNoArray) return op(in, "GoesOn", {next.ended.tensor.array});
  Emit emit(in.ctx_, in.function_, label);
  Ex all = in.ctx_.boolean(true);
  const Ex found = emit.load(token.tensor.array, {in.ctx_.integer(0), in.ctx_.integer(0)});
  for (const int64_t end : generation.end) all = in.ctx_.logical_and(all, in.ctx_.binary(ir::Op::Ne, found, in.ctx_.integer(end)));
  return Item::of(emit.truth("", all));
}

// Recursion: none; the body is expanded as any loop's.
Result<Item> GraphExpander::generate(const model::Graph& graph, const std::map<std::string, Item>& given, const Generation& generation, const std::optional<Sampling>& sampling,
                                     const std::string& label) {
  Decoding decoding{graph, generation, given, sampling, label, {}};
  if (sampling) decoding.seed = sampling->seed_value ? Item{*sampling->seed_value, nullptr} : decoding.constant(*this, DType::I64, {}, sampling->seed);
  GraphExpander first(all_, function_, this);
  for (const auto& [name, value] : given) first.bind(name, value);
  MLC_ASSIGN(const Decoding::State start, decoding.first_state(first));
  for (const auto& [input, output] : generation.once) {
    MLC_ASSIGN(const Item cache, decoding.nothing_yet(first, decoding.port(input)));
    first.bind(input, cache);
  }
  MLC_RETURN_IF_ERROR(decoding.bind(first, start, /*is_first=*/true));
  MLC_RETURN_IF_ERROR(first.expand(graph));
  MLC_ASSIGN(Item token, decoding.chosen(first, start.number, decoding.seed));
  MLC_ASSIGN(const Item ended, decoding.mark_ends(first, start.ended, token));
  MLC_ASSIGN(Decoding::State second, decoding.after(first, start, token));
  second.ended = ended;
  std::vector<Item> kept;
  for (const auto& [input, output] : generation.once) {
    MLC_ASSIGN(Item value, first.value_of(output));
    kept.push_back(std::move(value));
  }
  fresh_.insert(first.fresh_.begin(), first.fresh_.end());
  captures_.insert(captures_.end(), first.captures_.begin(), first.captures_.end());

  LoopPlan plan;
  plan.label = label;
  plan.trips = Emit(ctx_, function_, label).constant(generation.most - 1);
  plan.trip_count = ctx_.integer(generation.most - 1);
  MLC_ASSIGN(const Item goes_on, decoding.goes_on(*this, token, second));
  plan.condition = goes_on.tensor.array;
  const bool has_rows = second.ended.tensor.array != nest::kNoArray;
  plan.carried.push_back(second.tokens);
  if (!generation.mask.empty()) plan.carried.push_back(second.mask);
  if (!generation.positions.empty()) plan.carried.push_back(second.positions);
  if (sampling) plan.carried.push_back(second.number);
  if (has_rows) plan.carried.push_back(second.ended);
  plan.carried.insert(plan.carried.end(), second.caches.begin(), second.caches.end());
  plan.num_scanned = 1;
  plan.names.assign(plan.carried.size(), "");
  plan.names.push_back(label + ".tokens");
  plan.run = [&](GraphExpander& body, const Item&, const Item&, const std::vector<Item>& carried) -> Result<LoopPlan::Run> {
    Decoding::State state;
    size_t next = 0;
    state.tokens = carried[next++];
    if (!generation.mask.empty()) state.mask = carried[next++];
    if (!generation.positions.empty()) state.positions = carried[next++];
    if (sampling) state.number = carried[next++];
    if (has_rows) state.ended = carried[next++];
    state.caches.assign(carried.begin() + static_cast<std::ptrdiff_t>(next), carried.end());
    for (const auto& [name, value] : given)
      if (name != generation.tokens) body.bind(name, body.adopt(value));
    for (size_t k = 0; k < kept.size(); ++k) body.bind(generation.once[k].first, body.adopt(kept[k]));
    MLC_RETURN_IF_ERROR(decoding.bind(body, state, /*is_first=*/false));
    MLC_RETURN_IF_ERROR(body.expand(graph));
    LoopPlan::Run run;
    MLC_ASSIGN(Item chosen, decoding.chosen(body, state.number, sampling ? body.adopt(decoding.seed) : Item{}));
    MLC_ASSIGN(const Item ended_now, decoding.mark_ends(body, state.ended, chosen));
    MLC_ASSIGN(Decoding::State after, decoding.after(body, state, chosen));
    after.ended = ended_now;
    MLC_ASSIGN(run.condition, decoding.goes_on(body, chosen, after));
    run.carried.push_back(after.tokens);
    if (!generation.mask.empty()) run.carried.push_back(after.mask);
    if (!generation.positions.empty()) run.carried.push_back(after.positions);
    if (sampling) run.carried.push_back(after.number);
    if (has_rows) run.carried.push_back(after.ended);
    run.carried.insert(run.carried.end(), after.caches.begin(), after.caches.end());
    MLC_ASSIGN(const auto collected, body.call("Identity", 13, {}, {chosen.tensor}, label));  // a body gives no array twice
    run.scanned.push_back(Item::of(collected[0].array));
    nest::interface_names_first(body.function_);  // what is kept of the first run has names of this one's results
    return run;
  };
  MLC_ASSIGN(const std::vector<Item> results, build_loop(plan));
  return decoding.op(*this, "TokensFrom", {token.tensor.array, results.back().tensor.array});
}

}  // namespace mlc::compile
