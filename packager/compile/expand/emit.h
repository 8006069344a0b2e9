// Statements that expansion writes itself, beside those that come out of operator texts.
#pragma once

#include <string>
#include <vector>

#include "packager/ir/context.h"
#include "packager/nest/nest.h"

namespace mlc::compile {

class Emit {
 public:
  Emit(ir::Context& ctx, nest::Function& function, std::string source) : ctx_(ctx), function_(function), source_(std::move(source)) {}

  // A new array; the name is made unique, an empty one is made of the source.
  uint32_t array(const std::string& name, DType dtype, std::vector<const ir::Expr*> shape, nest::Array::Kind kind = nest::Array::Kind::Temp,
                 uint8_t list_depth = 0);
  uint32_t constant(int64_t value, DType dtype = DType::I64);  // of rank 0
  uint32_t numbers(const std::vector<int64_t>& values);         // a constant i64 [n] array
  uint32_t number(const ir::Expr* value);                       // an i64 [] array of a value made of symbols
  nest::Control& control(StepOp kind, std::vector<uint32_t> inputs, std::vector<uint32_t> outputs);

  // Part of `array`: along `axis` the places from `start` on, `count` of them.
  uint32_t piece(const std::string& name, uint32_t array, size_t axis, const ir::Expr* start, const ir::Expr* count);
  // The slice of `array` at place `at` of `axis`, which is gone; `at` may read arrays (it is checked then).
  uint32_t slice(const std::string& name, uint32_t array, size_t axis, const ir::Expr* at);
  // The first axis of `array` becomes `axis`, from its end to its start if `reversed`.
  uint32_t move_first(const std::string& name, uint32_t array, size_t axis, bool reversed);
  // The first `count` of axis 0 (an expression that may read arrays), zeros behind, `extent` in all.
  uint32_t padded(const std::string& name, uint32_t array, const ir::Expr* count, const ir::Expr* extent);
  uint32_t with_first_axis(const std::string& name, uint32_t array);  // of extent 1
  uint32_t truth(const std::string& name, const ir::Expr* value);     // a bool [] array
  const ir::Expr* load(uint32_t array, std::vector<const ir::Expr*> index = {}, ir::Access access = ir::Access::Proved);

 private:
  uint32_t write(uint32_t out, std::vector<const ir::Dim*> dims, std::vector<const ir::Expr*> index, const ir::Expr* value);
  const ir::Expr* index_of(const ir::Expr* extent, std::vector<const ir::Dim*>& dims);

  ir::Context& ctx_;
  nest::Function& function_;
  std::string source_;
};

}  // namespace mlc::compile
