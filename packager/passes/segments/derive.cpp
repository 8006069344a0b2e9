#include "packager/passes/segments/derive.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "packager/nest/facts/key.h"
#include "packager/nest/facts/uses.h"
#include "packager/nest/layout.h"
#include "packager/nest/text/names.h"

namespace mlc::passes {
namespace {

using nest::Array;

class Collector {
 public:
  Collector(ir::Context& ctx, Parts& parts) : ctx_(ctx), parts_(parts), made_(std::make_unique<nest::Function>()) {}

  void run() {
    for (const auto& segment : parts_.segments) take_from(*segment);
    if (parts_.derived.empty()) return;
    const auto is_taken = [&](const std::string& name) {
      return std::any_of(parts_.segments.begin(), parts_.segments.end(), [&](const auto& s) { return s->name == name; }) ||
             std::any_of(parts_.programs.begin(), parts_.programs.end(), [&](const auto& p) { return p->interface.name == name; });
    };
    made_->name = "derive";
    while (is_taken(made_->name)) made_->name += "_";
    parts_.derive = made_->name;
    parts_.segments.push_back(std::move(made_));
  }

 private:
  void take_from(nest::Function& f) {
    numbers_.clear();
    std::vector<nest::Statement> left;
    for (nest::Statement& s : f.body) {
      const std::vector<uint32_t> results = s.nest ? nest::written(s) : std::vector<uint32_t>();
      if (results.size() == 1 && f.arrays[results[0]].kind == Array::Kind::Derived) take(f, std::move(s), f.arrays[results[0]]);
      else left.push_back(std::move(s));
    }
    f.body = std::move(left);
  }

  void take(nest::Function& f, nest::Statement statement, Array& result) {
    const nest::Nest* const nests[] = {statement.nest.get()};
    nest::LoweringKey key = nest::lowering_key(f, nests);
    for (const uint32_t array : key.arrays) {
      const Array& a = f.arrays[array];
      key.text += a.data ? " data " + std::to_string(reinterpret_cast<uintptr_t>(a.data->bytes.data())) : " derived " + std::to_string(a.derived);
      if (&a == &result) break;  // the last one, which has no number yet
    }
    const auto [found, is_new] = known_.emplace(std::move(key.text), static_cast<uint32_t>(parts_.derived.size()));
    result.derived = found->second;
    if (!is_new) return;
    const ir::Expr* elements = nest::stored_elements(ctx_, result.layout, result.shape);
    parts_.derived.push_back(static_cast<uint64_t>(elements->i) * bytes_of(result.dtype));
    statement.part = 0;
    nest::renumber(ctx_, statement, [&](uint32_t array) { return number_of(f, array); });
    made_->body.push_back(std::move(statement));
  }

  // Of an array of `f` in the new segment.
  uint32_t number_of(nest::Function& f, uint32_t array) {
    const auto [found, is_new] = numbers_.emplace(array, static_cast<uint32_t>(made_->arrays.size()));
    if (is_new) {
      Array a = f.arrays[array];
      a.name = nest::unique_name(*made_, a.name, "");
      made_->arrays.push_back(std::move(a));
    }
    return found->second;
  }

  ir::Context& ctx_;
  Parts& parts_;
  std::unique_ptr<nest::Function> made_;
  std::map<std::string, uint32_t> known_;             // derived constants, by what is computed of which constants
  std::unordered_map<uint32_t, uint32_t> numbers_;    // arrays of the segment at hand in the new one
};

}  // namespace

void collect_derived(ir::Context& ctx, Parts& parts) { Collector(ctx, parts).run(); }

}  // namespace mlc::passes
