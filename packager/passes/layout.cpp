#include "packager/passes/layout.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "packager/passes/contraction_form.h"
#include "packager/passes/uses.h"

namespace mlc::passes {
namespace {

constexpr int64_t kPanel = 16;

using Axis = uint8_t;

// The axis whose index is exactly `dim`.
std::optional<Axis> axis_of(std::span<const ir::Expr* const> index, const ir::Dim* dim) {
  for (size_t axis = 0; axis < index.size(); ++axis)
    if (index[axis]->op == ir::Op::Dim && index[axis]->dim == dim) return static_cast<Axis>(axis);
  return std::nullopt;
}

// Loads of a nest's values, its conditions left out.
std::vector<const ir::Expr*> loads_of(const nest::Nest& nest) {
  std::vector<const ir::Expr*> loads;
  for (const nest::Write& write : nest.writes)
    ir::walk(write.value, [&](const ir::Expr* e) {
      if (e->op == ir::Op::Load) loads.push_back(e);
    });
  return loads;
}

class Assignment {
 public:
  explicit Assignment(nest::Function& function) : function_(function) {
    for (const nest::Array& array : function.arrays) fixed_.push_back(array.kind != nest::Array::Kind::Temp);
    for (uint32_t output : function.outputs) fixed_[output] = true;
    // Procs address arrays of many shapes and are not worth a wish.
    for (const nest::Statement& statement : function.body)
      if (statement.proc) {
        for (uint32_t array : arrays_read(statement)) fixed_[array] = true;
        for (uint32_t array : arrays_written(statement)) fixed_[array] = true;
      }
  }

  void run() {
    collect_wishes();
    for (const auto& [array, wish] : wishes_) innermost_[array] = wish.axis;
    spread();
    for (const auto& [array, axis] : innermost_) set_innermost(function_.arrays[array], axis);
    pack_weights();
  }

 private:
  struct Wish {
    Axis axis = 0;
    double work = 0;
  };

  void wish(uint32_t array, std::optional<Axis> axis, double work) {
    if (!axis || fixed_[array]) return;
    auto [entry, is_new] = wishes_.emplace(array, Wish{*axis, work});
    if (!is_new && work > entry->second.work) entry->second = {*axis, work};
  }

  void collect_wishes() {
    for (const nest::Statement& statement : function_.body) {
      if (!statement.nest) continue;
      const auto form = contraction_in(function_, *statement.nest);
      if (!form) continue;
      const ir::Dim* column = form->column ? form->column : form->channel;
      if (!column) continue;
      wish(form->write->array, axis_of(form->write->index, column), form->work);
      // Of the left operand: the reduced axis that no window slides over, or for a depthwise one its channels.
      std::optional<Axis> reduced;
      for (const ir::Dim* dim : form->fold->fold->dims)
        if (!form->windows.count(dim))
          if (auto axis = axis_of(form->left->args, dim)) reduced = axis;
      if (!reduced && form->channel) reduced = axis_of(form->left->args, form->channel);
      wish(form->left->array, reduced, form->work);
      weights_.push_back(*form);
    }
  }

  // Arrays without a wish take their neighbours' order: from what a nest reads to what it writes, then back, until
  // nothing changes. Each round settles at least one array, so it ends.
  void spread() {
    const auto follow = [&](uint32_t from, std::span<const ir::Expr* const> from_index, uint32_t to, std::span<const ir::Expr* const> to_index) {
      auto known = innermost_.find(from);
      if (known == innermost_.end() || fixed_[to] || innermost_.count(to) || known->second >= from_index.size()) return false;
      const ir::Expr* index = from_index[known->second];
      if (index->op != ir::Op::Dim) return false;
      auto axis = axis_of(to_index, index->dim);
      if (!axis) return false;
      innermost_[to] = *axis;
      return true;
    };
    for (bool changed = true; changed;) {
      changed = false;
      for (const nest::Statement& statement : function_.body) {
        if (!statement.nest) continue;
        for (const ir::Expr* load : loads_of(*statement.nest))
          for (const nest::Write& write : statement.nest->writes) changed |= follow(load->array, load->args, write.array, write.index);
      }
      if (changed) continue;
      for (auto statement = function_.body.rbegin(); statement != function_.body.rend(); ++statement) {
        if (!statement->nest) continue;
        for (const ir::Expr* load : loads_of(*statement->nest))
          for (const nest::Write& write : statement->nest->writes) changed |= follow(write.array, write.index, load->array, load->args);
      }
    }
  }

  static void set_innermost(nest::Array& array, Axis axis) {
    const size_t rank = array.shape.size();
    if (rank == 0 || axis + 1u == rank) return;  // row-major already
    std::vector<Axis> order;
    for (size_t k = 0; k < rank; ++k)
      if (k != axis) order.push_back(static_cast<Axis>(k));
    order.push_back(axis);
    array.layout = nest::permuted(order);
  }

  void pack_weights() {
    std::map<uint32_t, std::vector<nest::Layout>> wanted;
    std::set<uint32_t> read_otherwise;
    std::set<const ir::Expr*> as_weight;
    for (const ContractionForm& form : weights_) {
      if (function_.arrays[form.right->array].kind != nest::Array::Kind::Const) continue;
      if (auto layout = weight_layout(form)) {
        wanted[form.right->array].push_back(*layout);
        as_weight.insert(form.right);
      }
    }
    for (const nest::Statement& statement : function_.body) {
      if (statement.proc) {
        for (uint32_t array : arrays_read(statement)) read_otherwise.insert(array);
        continue;
      }
      for (const ir::Expr* load : loads_of(*statement.nest))
        if (!as_weight.count(load)) read_otherwise.insert(load->array);
    }
    for (uint32_t output : function_.outputs) read_otherwise.insert(output);
    for (const auto& [array, layouts] : wanted) {
      const bool agreed = std::all_of(layouts.begin(), layouts.end(), [&](const nest::Layout& l) { return l == layouts[0]; });
      if (agreed && !read_otherwise.count(array)) function_.arrays[array].layout = layouts[0];
    }
  }

  // Panels, or for depthwise weights channels innermost; nothing where the columns are not one plain axis.
  std::optional<nest::Layout> weight_layout(const ContractionForm& form) const {
    const auto& index = form.right->args;
    const ir::Dim* column = form.column ? form.column : form.channel;
    const auto column_axis = column ? axis_of(index, column) : std::nullopt;
    if (!column_axis) return std::nullopt;
    std::vector<Axis> taps, reduced;
    for (size_t axis = 0; axis < index.size(); ++axis) {
      if (axis == *column_axis) continue;
      const bool is_reduced = index[axis]->op == ir::Op::Dim && !form.windows.count(index[axis]->dim) &&
                              std::count(form.fold->fold->dims.begin(), form.fold->fold->dims.end(), index[axis]->dim);
      (is_reduced ? reduced : taps).push_back(static_cast<Axis>(axis));
    }
    nest::Layout layout;
    for (Axis axis : taps) layout.pieces.push_back({axis, 1, 0});
    if (form.column) layout.pieces.push_back({*column_axis, kPanel, 0});
    for (Axis axis : reduced) layout.pieces.push_back({axis, 1, 0});
    layout.pieces.push_back(form.column ? nest::Piece{*column_axis, 1, kPanel} : nest::Piece{*column_axis, 1, 0});
    return layout;
  }

  nest::Function& function_;
  std::vector<bool> fixed_;
  std::map<uint32_t, Wish> wishes_;
  std::map<uint32_t, Axis> innermost_;
  std::vector<ContractionForm> weights_;
};

}  // namespace

Status assign_layouts(ir::Context&, nest::Function& function) {
  Assignment(function).run();
  return ok();
}

}  // namespace mlc::passes
