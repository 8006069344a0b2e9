// Steps about lists. Items are shared, not copied; a list with one reference is changed in place.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/checked.h"
#include "base/compose.h"
#include "base/counted.h"
#include "runtime/plan/execute/program.h"

namespace mlc::exec {
namespace {

Status mismatch(std::string what) { return Status(Code::InputMismatch, std::move(what)); }

// Bytes of an element and of what lies behind an axis together.
uint64_t bytes_behind(const Value& array, size_t axis) {
  uint64_t bytes = bytes_of(array->dtype);
  for (size_t i = axis; i < array->rank; ++i) bytes *= static_cast<uint64_t>(array->shape[i]);
  return bytes;
}
uint64_t count_before(const Value& array, size_t axis) {
  uint64_t count = 1;
  for (size_t i = 0; i < axis; ++i) count *= static_cast<uint64_t>(array->shape[i]);
  return count;
}

// A position in a list, in [-size, size), or up to size itself for an insertion; as an index from the start.
Status place_in(const Value& list, const Value& position, bool insertion, uint64_t& out) {
  const auto size = static_cast<int64_t>(list->size);
  int64_t p = insertion ? size : size - 1;
  if (position) MLC_RETURN_IF_ERROR(read_number(position, "the position", p));
  const int64_t given = p;
  if (p < 0) p += p >= -size ? size : 0;
  if (p < 0 || p > size || (p == size && !insertion))
    return mismatch(compose("position {} in a list of {}", given, size));
  out = static_cast<uint64_t>(p);
  return ok();
}

}  // namespace

Status ProgramRunner::list_step(const Step& s, std::span<Value> args, std::span<Value> results) {
  Value& list = args.empty() ? results[0] : args[0];
  uint64_t at = 0;
  switch (s.op) {
    case StepOp::ListMake: {
      Value made;
      MLC_RETURN_IF_ERROR(make_list(pool_, s.dtype, s.list_depth, args.size(), made));
      for (const Value& item : args) MLC_RETURN_IF_ERROR(append(made, item));
      results[0] = std::move(made);
      return ok();
    }
    case StepOp::ListInsert: {
      MLC_RETURN_IF_ERROR(place_in(list, args[2], true, at));
      MLC_RETURN_IF_ERROR(spend(1 + list->size));
      MLC_RETURN_IF_ERROR(make_own(list, 1));
      MLC_RETURN_IF_ERROR(append(list, args[1]));
      ValueNode** items = list->items();
      std::rotate(items + at, items + list->size - 1, items + list->size);
      results[0] = std::move(list);
      return ok();
    }
    case StepOp::ListErase: {
      MLC_RETURN_IF_ERROR(place_in(list, args[1], false, at));
      MLC_RETURN_IF_ERROR(spend(1 + list->size));
      MLC_RETURN_IF_ERROR(make_own(list, 0));
      ValueNode** items = list->items();
      std::rotate(items + at, items + at + 1, items + list->size);
      Value::release(items[--list->size]);
      results[0] = std::move(list);
      return ok();
    }
    case StepOp::ListAt:
      MLC_RETURN_IF_ERROR(place_in(list, args[1], false, at));
      results[0] = list.item(at);
      return ok();
    case StepOp::ListLength: {
      const auto size = static_cast<int64_t>(list->size);
      MLC_RETURN_IF_ERROR(make_array(pool_, DType::I64, {}, sizeof size, results[0]));
      std::memcpy(results[0]->data, &size, sizeof size);
      return ok();
    }
    case StepOp::ListConcat: return concat(s, list, results[0]);
    case StepOp::ListSplit: return split(s, list, args[1], results[0]);
    default: return Status(Code::Internal, "no such step");
  }
}

Status ProgramRunner::concat(const Step& s, const Value& list, Value& out) {
  if (list->size == 0) return mismatch("an empty list has no shape to concatenate to");
  const Value first = list.item(0);
  const size_t rank = first->rank, axis = s.axis, result_rank = rank + (s.new_axis ? 1 : 0);
  if (axis >= result_rank || result_rank > format::kMaxRank)
    return mismatch(compose("axis {} of arrays with {}", axis, counted(rank, "axis", "axes")));
  uint64_t along = 0, bytes = 0;
  for (uint64_t i = 0; i < list->size; ++i) {
    if (!work_.spend(1)) return executor_.why_stopped();
    const Value item = list.item(i);
    bool same = item->rank == rank;
    for (size_t k = 0; same && k < rank; ++k)
      same = item->shape[k] == first->shape[k] || (k == axis && !s.new_axis);
    if (!same) return mismatch(compose("item {} does not fit to the first one", i));
    const auto sum = checked_add(along, s.new_axis ? 1 : static_cast<uint64_t>(item->shape[axis]));
    const auto total = checked_add(bytes, item->size);
    if (!sum || *sum > INT64_MAX || !total) return mismatch("the result is too large");
    along = *sum, bytes = *total;
  }
  if (list->size == 1 && !s.new_axis) {
    out = first;
    return ok();
  }
  int64_t shape[format::kMaxRank];
  std::copy_n(first->shape, axis, shape);
  shape[axis] = static_cast<int64_t>(along);
  const size_t skip = s.new_axis ? axis : axis + 1;  // axes of an item in front of what follows the axis
  std::copy(first->shape + skip, first->shape + rank, shape + axis + 1);
  MLC_RETURN_IF_ERROR(make_array(pool_, list->dtype, std::span(shape, result_rank), bytes, out));
  std::byte* to = out->data;
  const uint64_t rows = bytes == 0 ? 0 : count_before(first, axis);
  for (uint64_t row = 0; row < rows; ++row)
    for (uint64_t i = 0; i < list->size; ++i) {
      if (!work_.spend(1)) return executor_.why_stopped();  // items without elements are many for no memory
      const ValueNode& item = *list->items()[i];
      const uint64_t length = item.size / rows;
      if (length == 0) continue;
      if (!copy(to, item.data + row * length, length)) return executor_.why_stopped();
      to += length;
    }
  return ok();
}

Status ProgramRunner::split(const Step& s, const Value& array, const Value& lengths, Value& out) {
  const size_t rank = array->rank, axis = s.axis;
  if (axis >= rank) return mismatch(compose("axis {} of an array with {}", axis, counted(rank, "axis", "axes")));
  const int64_t extent = array->shape[axis];
  // Pieces of one length, or of those listed.
  int64_t each = 1;
  const bool listed = lengths && lengths->rank > 0;
  if (lengths && lengths->rank > 1) return mismatch("lengths of pieces with more than one axis");
  if (lengths && !listed) MLC_RETURN_IF_ERROR(read_number(lengths, "the length", each));
  if (!listed && each <= 0) return mismatch(compose("pieces of length {}", each));
  const int64_t pieces = listed ? lengths->shape[0] : extent / each + (extent % each != 0);
  const auto length_of = [&](int64_t i) -> int64_t {
    if (!listed) return std::min(each, extent - i * each);
    int64_t wide = 0;
    int32_t narrow = 0;
    if (lengths->dtype == DType::I64) std::memcpy(&wide, lengths->data + i * 8, 8);
    else std::memcpy(&narrow, lengths->data + i * 4, 4), wide = narrow;
    return wide;
  };
  for (int64_t i = 0, left = extent; listed && i <= pieces; ++i) {
    if (!work_.spend(1)) return executor_.why_stopped();
    if (i == pieces ? left != 0 : length_of(i) < 0 || length_of(i) > left)
      return mismatch(compose("the lengths of the pieces do not add up to {}", extent));
    if (i < pieces) left -= length_of(i);
  }
  const uint64_t rows = array->size == 0 ? 0 : count_before(array, axis);
  const uint64_t unit = rows == 0 ? 0 : bytes_behind(array, axis + 1);
  Value made;
  MLC_RETURN_IF_ERROR(make_list(pool_, array->dtype, 1, static_cast<uint64_t>(pieces), made));
  uint64_t from = 0;  // in bytes of a row
  for (int64_t i = 0; i < pieces; ++i) {
    if (!work_.spend(8)) return executor_.why_stopped();
    int64_t shape[format::kMaxRank];
    std::copy_n(array->shape, rank, shape);
    shape[axis] = length_of(i);
    const uint64_t length = unit * static_cast<uint64_t>(shape[axis]);
    size_t piece_rank = rank;
    if (s.drop_axis && shape[axis] == 1) {
      std::copy(shape + axis + 1, shape + rank, shape + axis);
      --piece_rank;
    }
    Value piece;
    MLC_RETURN_IF_ERROR(make_array(pool_, array->dtype, std::span(shape, piece_rank), length * rows, piece));
    const uint64_t row_bytes = unit * static_cast<uint64_t>(extent);
    for (uint64_t row = 0; row < rows && length > 0; ++row)
      if (!copy(piece->data + row * length, array->data + row * row_bytes + from, length)) return executor_.why_stopped();
    from += length;
    MLC_RETURN_IF_ERROR(append(made, piece));
  }
  out = std::move(made);
  return ok();
}

}  // namespace mlc::exec
