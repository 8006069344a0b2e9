// The value of one extent for many values of its symbols: what evaluate_extent (context.h) gives, without walking the expression each time.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "packager/ir/context.h"
#include "packager/ir/numeric.h"

namespace mlc::ir {

using SymValues = std::function<std::optional<int64_t>(const Sym*)>;

class ExtentEvaluator {
 public:
  explicit ExtentEvaluator(const Expr* extent);
  // 64-bit overflow and division by zero have no value. With `larger_arms` a choice is the larger of what it chooses from.
  std::optional<int64_t> operator()(const SymValues& value_of, bool larger_arms = false);

 private:
  struct Step {
    const Expr* expr;
    uint32_t args[3];  // earlier steps
  };
  std::optional<Scalar> value_of_step(const Step& step, const SymValues& value_of, bool larger_arms) const;

  std::vector<Step> steps_;  // the last is the extent
  std::vector<std::optional<Scalar>> values_;
};

}  // namespace mlc::ir
