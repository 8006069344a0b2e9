#include "packager/compile/golden/golden.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "base/checked.h"
#include "packager/compile/estimate.h"
#include "packager/compile/golden/answer_facts.h"
#include "packager/compile/golden/candidates.h"
#include "packager/compile/golden/draw.h"
#include "packager/compile/golden/extents.h"
#include "packager/compile/golden/given.h"
#include "packager/compile/golden/shown.h"
#include "packager/ir/numeric.h"

namespace mlc::compile {
namespace {

// Answers that tell little are put up with after a few: an output may be empty whatever the extents are.
constexpr int kMaxPoor = 3;
constexpr size_t kLargeOutput = 1 << 20;  // bytes: a container should not consist of expected answers
// Work of the interpreter (InterpretOptions::work). It decides what is drawn, and the clock does not: equal builds give equal files.
constexpr double kLargeWork = 4e9;        // of one run: other extents are tried before
constexpr double kMostWork = 4e10;        // of one run
constexpr double kWorkToShow = 2e9;       // to see which statements show in a vector
constexpr double kWorkToRedraw = 2.5e9;   // after which a vector in which too little shows stays
constexpr double kWorkToSteady = 5e9;     // after which no other inputs are drawn for an answer that jumps
constexpr double kGainToMeasure = 1.2;    // times the worth of the best vector, as another one may have at most
constexpr double kEnoughShown = 0.9;      // share of the statements
constexpr double kEnoughSettled = 0.5;    // of an answer that jumps

// What the order of a sum of a few thousand products changes.
constexpr double kJitter = 0x1p-19;
constexpr const char* kNoWorkToShake = "too much work was done already to see how far its answer moves where sums are rounded in another order";
constexpr const char* kJumps = "its answer depends on the order in which sums are rounded: it jumps too far to tell right from wrong";
// Shares of what the order of a sum changes, by which an answer that moves far is shaken as well.
constexpr double kMoreShakes[] = {0.5, -0.5, 0.7, -0.7, 0.85, -0.85};

// Operations up to which an answer is shaken even if nothing in the model jumps: random inputs may lie where a difference of large sums
// is left, and what such an answer drifts by is cheap to see.
constexpr double kAlwaysShaken = 1e9;

struct Picture {
  const char* name;
  int64_t height, width;
};
// Margins and centres of such sizes are not whole. Larger ones with the same sides in turn, until the answer tells something.
constexpr Picture kLandscape = {"landscape", 27, 40}, kPortrait = {"portrait", 40, 27}, kOnePixel = {"one pixel", 1, 1};
constexpr int64_t kScales[] = {1, 2, 4, 8, 16, 32};
constexpr size_t kLargeAnswer = 16 << 20;       // bytes: of a second picture
constexpr double kMaxPictureOperations = 2e10;  // of a program that is answered, and run, for more than one picture
// Drawn until the answer does not jump: first a texture, then areas of one colour and patches in turn.
constexpr uint64_t kPictureDrawings = 17;
Draw picture_drawing(uint64_t k) { return k == 0 ? Draw::WithinBounds : k % 2 == 1 ? Draw::Areas : Draw::Patches; }

// How inputs are drawn, until enough shows in the answer. What saturates wants smaller numbers, what is added to a constant larger
// ones; where numbers are squared or exponents, those of some channels alone would be left to see.
struct Drawing {
  Magnitude magnitude;
  uint64_t seed = 0;
  int64_t total = 0;  // what integers add up to, Draw::Parts
};
constexpr Drawing kDrawings[] = {{{1, true}, 0}, {{0.25, true}, 0}, {{1, false}, 1}, {{8, false}, 1}, {{32, false}, 2}, {{0x1p-5, false}, 2}};
// GoldenOptions::are_tame. The first drawing but for magnitudes: no other seed, by which chance would choose what moves least. What is smaller
// hides behind constants, and so does what rounding does to it.
constexpr Drawing kTameDrawing = {{1, false}, 0};
constexpr size_t kTame = 2;  // of these: what comes out of it is finite where anything is

// What is drawn where the answers to all of them jump: inputs of few numbers and of many in turn, each time others.
constexpr uint64_t kSteadyDrawings = 32;
constexpr double kSteadyAmplitudes[] = {1, 0.25, 4, 32};

// Both ends are numbers that a double holds, and no mere limits of a type.
bool is_exact(Range range) { return range.lo > -0x1p52 && range.hi < 0x1p52; }

// An output is left to tell right from wrong, and the shapes of all are those of every variant.
bool tells_something(const GoldenVector& golden) {
  bool tells = false;
  for (size_t k = 0; k < golden.outputs.size(); ++k) {
    if (std::isinf(golden.spread_of(k))) return false;
    tells |= golden.tells(k);
  }
  return tells;
}

// Says why a vector is not there, behind those of which it was said before.
void add_reason(std::string& reasons, const std::string& name, const std::string& why) {
  reasons += (reasons.empty() ? "" : "; ") + name + ": " + why;
}

class GoldenMaker {
 public:
  GoldenMaker(const nest::Function& oracle, const GoldenOptions& options)
      : oracle_(oracle), options_(options), left_(options.work), finder_(oracle), may_jump_(may_jump(oracle)), has_sums_(has_sums(oracle)), coarsest_step_(coarsest_step(oracle)) {}

  Result<GoldenSet> given() {
    GoldenSet set;
    for (const GivenVector& vector : options_.given) {
      MLC_ASSIGN(GoldenVector golden, answered(vector, options_.work));
      golden.name = name_for(vector, set.vectors);
      set.vectors.push_back(settled(std::move(golden)));
    }
    return set;
  }

  Result<GoldenSet> of_texts() {
    GoldenSet set;
    for (const GivenVector& vector : options_.texts) {
      const bool is_first = set.vectors.empty();
      if (!is_first && set.vectors[0].operations > kMaxPictureOperations) {
        add_reason(set.left_out, vector.source, "one run is too much work");
        continue;
      }
      auto golden = answered(vector, is_first ? kMostWork : kLargeWork);
      if (!golden.ok()) {
        Status why = std::move(golden).status();
        if (is_first || (why.code != Code::Cancelled && why.code != Code::InputMismatch)) return std::move(why).note("golden vector");
        // A text of no words may be too short for a model; one that is cut is as long as the pipeline lets texts be.
        const bool is_long = vector.source == options_.texts.back().source;
        if (why.code == Code::InputMismatch && is_long) return std::move(why).note("golden vector");
        if (why.code == Code::Cancelled) add_reason(set.left_out, vector.source, why.message);
        continue;
      }
      golden->name = vector.source;
      *golden = settled(std::move(*golden));
      shorten(golden->outputs);
      set.vectors.push_back(std::move(*golden));
    }
    return set;
  }

  Result<GoldenSet> of_chunks() {
    GoldenSet set;
    std::vector<nest::Tensor> before;  // what the chunk before gave, to the bit
    for (GivenVector vector : options_.chunks) {
      for (const auto& [input, output] : vector.carried)
        for (size_t k = 0; k < before.size(); ++k)
          if (oracle_.arrays[oracle_.outputs[k]].name == output) vector.arrays[input] = before[k];
      auto golden = answered(vector, kLargeWork);
      if (!golden.ok()) {
        if (golden.status().code == Code::Internal) return std::move(golden).status().note("golden vector");
        add_reason(set.left_out, vector.source, golden.status().message);
        break;
      }
      before = golden->outputs;
      golden->name = vector.source;
      if (set.vectors.empty()) see_what_shows(*golden);
      *golden = settled(std::move(*golden));
      shorten(golden->outputs);
      set.vectors.push_back(std::move(*golden));
    }
    return set;
  }

  Result<GoldenSet> drawn_ones() {
    GoldenSet set;
    if (options_.takes_pictures) set.vectors = pictures();
    if (set.vectors.empty()) {
      any();
      if (chosen_) set.vectors.push_back(redrawn());
    }
    if (failure_.code == Code::Internal) return std::move(failure_).note("golden vector");
    set.missing = std::move(missing_);
    set.left_out = std::move(left_out_);
    if (set.vectors.empty()) set.missing = failure_.ok() ? "more work would be needed to find sizes for it" : failure_.message;
    return set;
  }

  bool has_work_left() const { return left_ > 0; }
  double spent() const { return options_.work - std::max(left_, 0.0); }

  // Of values that lie in the same bounds whatever the extents are.
  std::vector<Range> ranges() {
    std::vector<Range> all(oracle_.inputs.size());
    const SizeChoice one = finder_.near(kFirstExtent, 1, left_), other = finder_.near(kFirstExtent / 4, 2, left_);
    if (one.bounds.num_conflicts > 0 || other.bounds.num_conflicts > 0) return all;
    for (size_t k = 0; k < all.size(); ++k) {
      const auto first = one.bounds.inputs.find(oracle_.inputs[k]), second = other.bounds.inputs.find(oracle_.inputs[k]);
      if (first == one.bounds.inputs.end() || second == other.bounds.inputs.end()) continue;
      if (first->second.range == second->second.range && is_exact(first->second.range) && !first->second.is_summed) all[k] = first->second.range;
    }
    return all;
  }

 private:
  // The vector of inputs that are made already.
  Result<GoldenVector> answered(const GivenVector& vector, double work) {
    GoldenVector golden;
    MLC_ASSIGN(golden.inputs, inputs_given(oracle_, vector));
    Sizes sizes;
    for (size_t k = 0; k < oracle_.inputs.size(); ++k) {
      const auto& shape = oracle_.arrays[oracle_.inputs[k]].shape;
      for (size_t axis = 0; axis < shape.size(); ++axis)
        if (shape[axis]->op == ir::Op::Sym) sizes[shape[axis]->sym] = golden.inputs[k].shape[axis];
    }
    auto outputs = answer(golden.inputs, work);
    if (!outputs.ok()) return std::move(outputs).status().note(vector.source);
    golden.outputs = std::move(outputs).value();
    return finished(std::move(golden), sizes);
  }

  struct Trial {
    GoldenVector golden;
    SizeChoice choice;
    double estimate = 0;  // operations
    Draw how = Draw::WithinBounds;
    size_t drawing = 0;
    int64_t total = 0;
  };

  bool takes_integers() const {
    return std::any_of(oracle_.inputs.begin(), oracle_.inputs.end(), [&](uint32_t input) { return !is_float(oracle_.arrays[input].dtype); });
  }

  bool takes_free_floats() const {
    return std::any_of(oracle_.inputs.begin(), oracle_.inputs.end(), [&](uint32_t input) { return is_float(oracle_.arrays[input].dtype); });
  }

  // Sets chosen_ to the first vector that tells enough, or to the best that there is; else failure_ to the first reason.
  void any() {
    for (const Draw how : {Draw::WithinBounds, Draw::Zeros, Draw::Ones, Draw::Parts}) {
      if (how != Draw::WithinBounds && !takes_integers()) return;
      try_all(how);
      if (chosen_ || failure_.code == Code::Internal || !has_work_left()) return;
    }
  }

  void try_all(Draw how) {
    bool is_large = false;
    int num_poor = 0;
    Candidates all(oracle_, finder_, left_);
    while (const Candidates::Candidate* candidate = all.next()) {
      // One that tells enough, and is only large, is worth no larger one.
      if (is_large && candidate->operations >= chosen_->estimate) continue;
      const double work = all.is_last() ? kMostWork : kLargeWork;
      auto trial = attempt(*candidate, how, 0, work);
      if (trial && !is_informative(trial->golden.outputs) && takes_free_floats())
        if (auto tame = attempt(*candidate, how, kTame, work); tame && is_informative(tame->golden.outputs)) trial = std::move(tame);
      if (failure_.code == Code::Internal) return;
      if (!trial) continue;
      const bool told = is_informative(trial->golden.outputs), small = bytes_of(trial->golden.outputs) <= kLargeOutput || finder_.free().empty();
      if (!told && is_large) return;
      if (told || !chosen_) chosen_ = std::move(trial);
      if (told && small) return;
      is_large = told;
      if (!told && ++num_poor == kMaxPoor) return;
    }
  }

  std::optional<Trial> attempt(const Candidates::Candidate& candidate, Draw how, size_t drawing, double work) {
    const std::vector<int64_t> totals = how == Draw::Parts ? extents_of_floats(candidate.choice.sizes) : std::vector<int64_t>{0};
    for (const int64_t total : totals) {
      auto golden = attempt(candidate.choice, how, with_total(drawing, total), work);
      if (golden) return Trial{std::move(*golden), candidate.choice, candidate.operations, how, drawing, total};
    }
    return std::nullopt;
  }

  Drawing with_total(size_t drawing, int64_t total) const {
    Drawing with = options_.are_tame ? kTameDrawing : kDrawings[drawing];
    with.total = total;
    return with;
  }

  // What pieces may have to add up to: the first few extents of the arrays that hold no integers.
  std::vector<int64_t> extents_of_floats(const Sizes& sizes) const {
    constexpr size_t kMost = 4;
    std::vector<int64_t> extents;
    for (uint32_t input : oracle_.inputs) {
      const nest::Array& array = oracle_.arrays[input];
      const Result<std::vector<int64_t>> shape = is_float(array.dtype) ? shape_of(array, sizes) : std::vector<int64_t>{};
      for (size_t axis = 0; shape.ok() && axis < shape->size(); ++axis)
        if (extents.size() < kMost && std::find(extents.begin(), extents.end(), (*shape)[axis]) == extents.end()) extents.push_back((*shape)[axis]);
    }
    return extents;
  }

  std::optional<GoldenVector> attempt(const SizeChoice& choice, Draw how, const Drawing& drawing, double work) {
    GoldenVector golden;
    auto given = inputs(choice, how, drawing);
    const double before = left_;
    auto outputs = given.ok() ? answer(*given, work) : Result<std::vector<nest::Tensor>>(std::move(given).status());
    golden.work = before - left_;
    if (outputs.ok() && bytes_of(*given) + bytes_of(*outputs) > format::kMaxGoldenLen)
      outputs = Status(Code::Resource, "its arrays take more than the " + std::to_string(format::kMaxGoldenLen >> 20) + " MiB that a container may spend on them");
    if (!outputs.ok()) {
      const bool first = failure_.ok() || (how == Draw::WithinBounds && outputs.status().code == Code::Cancelled);
      last_failure_ = outputs.status();
      if (first || outputs.status().code == Code::Internal) failure_ = std::move(outputs).status();
      return std::nullopt;
    }
    golden.inputs = std::move(given).value();
    golden.outputs = std::move(outputs).value();
    return golden;
  }

  // How much a vector shows; less than 0: nothing. Elements that hide beside the largest one count where they are most of all.
  double worth(const GoldenVector& golden) const {
    if (!tells_something(golden)) return -1;
    return golden.shown.share() * most_worth(golden);
  }
  double most_worth(const GoldenVector& golden) const { return std::min(1.0, 1.5 - hidden_share(golden, options_.tolerance)); }

  // The chosen vector as it is, if enough shows in it, else the best of others with the same sizes.
  GoldenVector redrawn() {
    Trial& first = *chosen_;
    const double enough = left_ - kWorkToRedraw;
    GoldenVector best = measured(std::move(first.golden), first.choice.sizes);
    GoldenVector steadiest = best;  // of those that jump
    const size_t most = options_.are_tame ? 0 : std::size(kDrawings);
    for (size_t k = 0; k < most && worth(best) < kEnoughShown && left_ > std::max(enough, 0.0); ++k) {
      // Integers differ by the seed alone.
      if (k == first.drawing || (!takes_free_floats() && k > 0 && kDrawings[k].seed == kDrawings[k - 1].seed)) continue;
      auto other = attempt(first.choice, first.how, with_total(k, first.total), kMostWork);
      // What hides beside the largest element is seen before the work of measuring what shows.
      if (!other || !is_informative(other->outputs) || most_worth(*other) < kGainToMeasure * worth(best)) continue;
      GoldenVector golden = measured(std::move(*other), first.choice.sizes);
      if (worth(golden) > worth(best)) best = std::move(golden);
      else if (least_spread(golden) < least_spread(steadiest)) steadiest = std::move(golden);
    }
    return tells_something(best) ? best : steadied(first, std::move(steadiest));
  }

  // Whether an answer jumps is chance where few codes lie at ties: other inputs are drawn until one stands still that shows enough. Where none
  // does, the steadiest one is settled.
  GoldenVector steadied(const Trial& first, GoldenVector steadiest) {
    GoldenVector best;
    const double enough = left_ - kWorkToSteady;
    for (uint64_t k = 0; k < kSteadyDrawings && left_ > std::max(enough, 0.0); ++k) {
      const Draw how = k % 2 == 0 && first.how == Draw::WithinBounds ? Draw::Areas : first.how;
      const Drawing drawing{{kSteadyAmplitudes[k / 2 % std::size(kSteadyAmplitudes)], false}, 3 + k, first.total};
      auto other = attempt(first.choice, how, drawing, kMostWork);
      if (!other || !is_informative(other->outputs)) continue;
      GoldenVector golden = finished(std::move(*other), first.choice.sizes, least_spread(steadiest));
      if (least_spread(golden) >= least_spread(steadiest)) continue;
      if (tells_something(golden)) {
        see_what_shows(golden);
        if (worth(golden) > worth(best)) best = golden;
        if (worth(best) >= kEnoughSettled) return best;
      } else steadiest = std::move(golden);
    }
    GoldenVector last = settled(std::move(steadiest));
    return worth(best) > worth(last) ? best : last;
  }

  GoldenVector measured(GoldenVector golden, const Sizes& sizes) {
    golden = finished(std::move(golden), sizes);
    see_what_shows(golden);
    return golden;
  }

  void see_what_shows(GoldenVector& golden) {
    const double work = std::min(kWorkToShow, left_);
    double rest = work;
    golden.shown = shown_by(oracle_, golden, options_.tolerance, golden.work, rest);
    left_ -= work - rest;
  }

  // An answer that jumps is one of many right ones, which in a network of codes may all be as far from each other as two errors in one
  // of them. It is shaken until that distance is known well. With a tolerance that allows for it the vector tells something if errors
  // in most statements move the answer further; else it stays one that does not.
  GoldenVector settled(GoldenVector golden) {
    if (tells_something(golden) || !std::isfinite(least_spread(golden))) return golden;
    GoldenVector other = golden;
    other.is_settled = true;
    for (const double share : kMoreShakes)
      if (!shake(other, share * std::max(kJitter, coarsest_step_))) return golden;
    see_what_shows(other);
    return tells_something(other) && other.shown.tried > 0 && other.shown.share() >= kEnoughSettled ? other : golden;
  }

  // Of the outputs that are numbers.
  static double least_spread(const GoldenVector& golden) {
    double least = INFINITY;
    for (size_t k = 0; k < golden.outputs.size(); ++k) {
      if (std::isinf(golden.spread_of(k))) return INFINITY;
      if (is_recorded(golden.outputs[k])) least = std::min(least, golden.spread_of(k));
    }
    return least;
  }

  std::vector<GoldenVector> pictures() {
    std::vector<GoldenVector> all;
    int64_t scale = 0;
    int num_poor = 0;
    for (int64_t s : kScales) {
      auto golden = picture(kLandscape, s, kMostWork);
      if (!golden) continue;
      const bool told = is_informative(golden->outputs);
      if (told || all.empty()) {
        all.clear();
        all.push_back(std::move(*golden));
        scale = s;
      }
      if (told || ++num_poor == kMaxPoor) break;
    }
    if (all.empty() && last_failure_.code != Code::InputMismatch && !last_failure_.ok()) add_reason(missing_, kLandscape.name, last_failure_.message);
    if (all.empty() || all[0].inputs.empty()) return {};  // not of this form
    for (const auto& [other, at] : {std::pair{kOnePixel, int64_t{1}}, {kPortrait, scale}}) {
      if (all[0].operations > kMaxPictureOperations) {
        add_reason(left_out_, other.name, "one run is too much work");
        continue;
      }
      auto golden = picture(other, at, kLargeWork);
      // What refuses such a picture needs no vector of one.
      if (!golden && last_failure_.code == Code::InputMismatch) continue;
      // Of one colour alone the scores of all boxes may be equal: any order of them is right.
      if (golden && has_work_left() && !tells_something(*golden)) {
        add_reason(left_out_, other.name, kJumps);
        continue;
      }
      if (!golden) add_reason(has_work_left() && last_failure_.code == Code::Cancelled ? left_out_ : missing_, other.name, last_failure_.message);
      else if (bytes_of(golden->outputs) > kLargeAnswer) add_reason(left_out_, other.name, "its answer takes more than " + std::to_string(kLargeAnswer >> 20) + " MiB");
      else if (std::none_of(all.begin(), all.end(), [&](const GoldenVector& g) { return g.extents == golden->extents; })) all.push_back(std::move(*golden));
    }
    for (GoldenVector& golden : all) shorten(golden.outputs);
    return all;
  }

  // The answer to pictures of this size, or as near to it as the program takes; nothing if it takes none.
  std::optional<GoldenVector> picture(const Picture& p, int64_t scale, double work) {
    Sizes sizes;
    for (const ir::Sym* sym : finder_.free()) sizes[sym] = admissible(sym, scale);
    for (uint32_t input : oracle_.inputs) {
      const std::vector<const ir::Expr*>& shape = oracle_.arrays[input].shape;
      for (const auto& [axis, side] : {std::pair{size_t{0}, p.height}, {size_t{1}, p.width}})
        if (shape.size() == 3 && shape[axis]->op == ir::Op::Sym) sizes[shape[axis]->sym] = admissible(shape[axis]->sym, side * scale);
    }
    const SizeChoice choice = finder_.fitted(std::move(sizes));
    std::optional<GoldenVector> kept;  // the steadiest
    const double enough = left_ - kWorkToSteady;
    for (uint64_t k = 0; k < kPictureDrawings && (!kept || left_ > std::max(enough, 0.0)); ++k) {
      auto golden = attempt(choice, picture_drawing(k), {kDrawings[0].magnitude, k / 2}, work);
      if (!golden) break;
      golden->name = p.name;
      const double least = kept ? least_spread(*kept) : INFINITY;
      *golden = finished(std::move(*golden), choice.sizes, least);
      if (kept && least_spread(*golden) >= least) continue;
      kept = std::move(golden);
      if (tells_something(*kept)) return kept;
    }
    if (kept) kept = settled(std::move(*kept));
    return kept;
  }

  Result<std::vector<nest::Tensor>> inputs(const SizeChoice& choice, Draw how, const Drawing& drawing) const {
    std::vector<nest::Tensor> all;
    uint64_t total = 0;
    for (size_t k = 0; k < oracle_.inputs.size(); ++k) {
      const nest::Array& array = oracle_.arrays[oracle_.inputs[k]];
      MLC_ASSIGN(std::vector<int64_t> shape, shape_of(array, choice.sizes));
      uint64_t bytes = std::max(1u, mlc::bytes_of(array.dtype));
      for (int64_t d : shape) bytes = checked_mul(bytes, static_cast<uint64_t>(std::max<int64_t>(d, 1))).value_or(UINT64_MAX);
      total = bytes > format::kMaxGoldenLen ? UINT64_MAX : total + bytes;
      if (total > format::kMaxGoldenLen)
        return Status(Code::Resource, "input '" + array.name + "' is larger than the " + std::to_string(format::kMaxGoldenLen >> 20) + " MiB that a container may spend on them");
      const auto bounds = choice.bounds.inputs.find(oracle_.inputs[k]);
      const bool is_free = bounds == choice.bounds.inputs.end();
      const uint64_t seed = k + 1 + (drawing.seed << 16);
      if (how == Draw::Parts && is_int(array.dtype) && shape.size() == 1 && is_free) all.push_back(parts(array.dtype, shape[0], drawing.total, seed));
      else all.push_back(drawn(array.dtype, std::move(shape), seed, is_free ? InputBounds{} : bounds->second, how, drawing.magnitude));
    }
    for (const auto& element : finder_.elements())
      for (size_t k = 0; k < all.size(); ++k)
        if (oracle_.inputs[k] == element.input && element.element < static_cast<uint64_t>(all[k].elements()))
          ir::store_element(all[k].dtype, all[k].bytes.data(), element.element, {choice.sizes.at(element.sym), 0});
    return all;
  }

  Result<std::vector<int64_t>> shape_of(const nest::Array& array, const Sizes& sizes) const {
    std::vector<int64_t> shape;
    for (const ir::Expr* e : array.shape) {
      const auto value = ir::evaluate_extent(e, [&](const ir::Sym* sym) -> std::optional<int64_t> {
        const auto found = sizes.find(sym);
        return found == sizes.end() ? std::nullopt : std::optional(found->second);
      });
      if (!value || *value < 0) return Status(Code::Internal, "the shape of input '" + array.name + "' does not follow from its symbols");
      shape.push_back(*value);
    }
    return shape;
  }

  // Spends at most `work`, and no more than is left.
  Result<std::vector<nest::Tensor>> answer(const std::vector<nest::Tensor>& given, double work, double jitter = 0) {
    nest::InterpretOptions how;
    double rest = work = std::min(work, left_);
    how.work = &rest;
    how.jitter = jitter;
    if (options_.progress)
      how.after_statement = [&](size_t statement, const std::vector<nest::Tensor>&) { options_.progress(statement + 1, oracle_.body.size()); };
    auto outputs = nest::interpret(oracle_, given, how);
    left_ -= work - rest;
    return outputs;
  }

  // Notes how far the answer moves; false: there is too much work for it.
  bool shake(GoldenVector& golden, double jitter) {
    const auto shaken = answer(golden.inputs, options_.work, jitter);
    if (!shaken.ok()) return false;
    for (size_t k = 0; k < golden.outputs.size(); ++k) golden.spread[k] = std::max(golden.spread[k], spread_of(golden.outputs[k], (*shaken)[k]));
    return true;
  }

  // How far it moves beyond `most` is not looked at.
  GoldenVector finished(GoldenVector golden, const Sizes& sizes, double most = INFINITY) {
    for (const ir::Sym* sym : finder_.extents()) golden.extents[sym->name] = sizes.at(sym);
    golden.operations = estimate(oracle_, sizes).operations;
    golden.spread.assign(golden.outputs.size(), 0);
    const double change = std::max(kJitter, coarsest_step_);
    for (const double jitter : {change, -change}) {
      // What drifts and does not jump drifts as far the other way.
      if ((!has_sums_ && !may_jump_) || (!may_jump_ && jitter < 0)) break;
      if (!may_jump_ && coarsest_step_ == 0 && golden.operations > kAlwaysShaken) break;
      if (least_spread(golden) > most) break;
      if (shake(golden, jitter)) continue;
      // How far it moves is not known: a right variant might be off by any step.
      golden.spread.assign(golden.outputs.size(), INFINITY);
      break;
    }
    // What drifts and does not jump is off by less: steps of a thousand sums rarely agree.
    if (!may_jump_)
      for (double& spread : golden.spread) spread = std::min(spread, kMaxTolerance / 4);
    return golden;
  }

  const nest::Function& oracle_;
  const GoldenOptions& options_;
  double left_;  // of the work that may be done
  SizeFinder finder_;
  bool may_jump_, has_sums_;
  double coarsest_step_;
  std::optional<Trial> chosen_;
  Status failure_;  // of the first attempt
  Status last_failure_;
  std::string missing_, left_out_;  // of pictures
};

}  // namespace

Result<GoldenSet> make_golden(const nest::Function& oracle, const GoldenOptions& options) {
  const auto can_be_recorded = [&](uint32_t port) { return oracle.arrays[port].list_depth == 0 && oracle.arrays[port].dtype != DType::Str; };
  if (!options.given.empty()) MLC_RETURN_IF_ERROR(can_be_given(oracle));
  if (!std::all_of(oracle.inputs.begin(), oracle.inputs.end(), can_be_recorded) || std::none_of(oracle.outputs.begin(), oracle.outputs.end(), can_be_recorded))
    return GoldenSet{};
  if (asks_services(oracle)) return GoldenSet{};
  GoldenMaker maker(oracle, options);
  if (options.none) {
    GoldenSet set;
    set.ranges = maker.ranges();
    return set;
  }
  GoldenSet set;
  if (!options.chunks.empty()) {
    MLC_ASSIGN(set, maker.of_chunks());
  }
  if (set.vectors.empty()) {
    MLC_ASSIGN(set, !options.given.empty() ? maker.given() : !options.texts.empty() ? maker.of_texts() : maker.drawn_ones());
  }
  const bool some = !set.vectors.empty();
  const char* const why = maker.has_work_left() ? kJumps : kNoWorkToShake;
  if (options.takes_pictures)
    for (const GoldenVector& golden : set.vectors)
      if (!golden.name.empty() && !tells_something(golden)) add_reason(set.missing, golden.name, why);
  std::erase_if(set.vectors, [](const GoldenVector& golden) { return !tells_something(golden); });
  if (some && set.vectors.empty() && set.missing.empty()) set.missing = why;
  set.needs_work = !set.missing.empty() && !maker.has_work_left();
  set.work = maker.spent();
  set.ranges = maker.ranges();
  return set;
}

}  // namespace mlc::compile
