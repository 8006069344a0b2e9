#include "packager/nest/interpret/lists.h"

#include <algorithm>
#include <cstring>

namespace mlc::nest {
namespace {

Status refuse(std::string message) { return Status(Code::InputMismatch, std::move(message)); }

Result<int64_t> number(const Tensor* t, const char* what) {
  if (!t || t->list_depth != 0 || t->dtype != DType::I64 || t->bytes.size() != sizeof(int64_t))
    return refuse(std::string(what) + " is not one i64 number");
  return t->values<int64_t>()[0];
}

// A place among `count`, counted from the end if it is negative.
Result<size_t> place(const Tensor* position, size_t count, const char* what) {
  MLC_ASSIGN(const int64_t given, number(position, what));
  const int64_t n = static_cast<int64_t>(count);
  if (given < -n || given >= n)
    return refuse("position " + std::to_string(given) + " in a list of " + std::to_string(n));
  return static_cast<size_t>(given < 0 ? given + n : given);
}

bool fits(const Tensor& item, const Tensor& list) { return item.dtype == list.dtype && item.list_depth + 1 == list.list_depth; }

Result<Tensor> make(const Array& result, const std::vector<const Tensor*>& inputs) {
  Tensor list = Tensor::list(result.dtype, {}, result.list_depth);
  for (const Tensor* t : inputs) {
    if (!t || !fits(*t, list)) return refuse("an item does not fit into the list");
    list.items.push_back(*t);
  }
  return list;
}

Result<Tensor> insert(const std::vector<const Tensor*>& inputs) {
  Tensor list = *inputs[0];
  if (!fits(*inputs[1], list)) return refuse("an item does not fit into the list");
  size_t at = list.items.size();
  if (inputs.size() > 2 && inputs[2]) {
    MLC_ASSIGN(at, place(inputs[2], list.items.size() + 1, "the position"));
    // -1 is the place before the last item, not behind it.
    if (inputs[2]->values<int64_t>()[0] < 0) {
      if (at == 0) return refuse("position " + std::to_string(inputs[2]->values<int64_t>()[0]) + " in a list of " + std::to_string(list.items.size()));
      --at;
    }
  }
  list.items.insert(list.items.begin() + static_cast<long>(at), *inputs[1]);
  return list;
}

Result<Tensor> concat(const Control& c, const Tensor& list, const Array& result) {
  const size_t rank = result.shape.size(), axis = c.set.axis;
  if (list.list_depth != 1) return refuse("only lists of arrays are concatenated");
  if (list.items.empty()) return refuse("an empty list is concatenated");
  if (axis >= rank) return refuse("axis " + std::to_string(axis) + " does not exist");
  auto shape_of = [&](const Tensor& t) {
    std::vector<int64_t> shape = t.shape;
    if (c.set.new_axis && axis <= shape.size()) shape.insert(shape.begin() + static_cast<long>(axis), 1);
    return shape;
  };
  std::vector<int64_t> shape = shape_of(list.items[0]);
  if (shape.size() != rank) return refuse("items have rank " + std::to_string(list.items[0].shape.size()) + ", which does not fit");
  int64_t total = 0;
  for (const Tensor& t : list.items) {
    std::vector<int64_t> other = shape_of(t);
    if (other.size() != rank) return refuse("items of different rank are concatenated");
    if (__builtin_add_overflow(total, other[axis], &total)) return refuse("the items are too long");
    other[axis] = shape[axis];
    if (other != shape) return refuse("items whose shapes differ beside the axis are concatenated");
  }
  shape[axis] = total;
  Tensor out = Tensor::zeros(list.dtype, shape);
  size_t outer = 1, inner = bytes_of(list.dtype), offset = 0;
  for (size_t k = 0; k < rank; ++k) (k < axis ? outer : inner) *= k == axis ? 1 : static_cast<size_t>(shape[k]);
  const size_t stride = inner * static_cast<size_t>(total);
  for (const Tensor& t : list.items) {
    const size_t run = outer ? t.bytes.size() / outer : 0;
    for (size_t o = 0; o < outer && run; ++o) std::memcpy(out.bytes.data() + o * stride + offset, t.bytes.data() + o * run, run);
    offset += run;
  }
  return out;
}

Result<Tensor> split(const Control& c, const Tensor& whole, const Tensor* lengths, const Array& result) {
  const size_t axis = c.set.axis;
  if (whole.list_depth != 0 || axis >= whole.shape.size()) return refuse("axis " + std::to_string(axis) + " does not exist");
  const int64_t extent = whole.shape[axis];
  std::vector<int64_t> pieces;
  if (!lengths || lengths->shape.empty()) {
    int64_t each = 1;
    if (lengths) { MLC_ASSIGN(each, number(lengths, "the length of the pieces")); }
    if (each < 1) return refuse("pieces of length " + std::to_string(each));
    for (int64_t at = 0; at < extent; at += std::min(each, extent - at)) pieces.push_back(std::min(each, extent - at));
  } else {
    if (lengths->dtype != DType::I64 || lengths->shape.size() != 1) return refuse("the lengths of the pieces are not i64 numbers");
    pieces = lengths->values<int64_t>();
    int64_t rest = extent;
    for (int64_t n : pieces) {
      if (n < 0 || n > rest) return refuse("the pieces do not add up to " + std::to_string(extent));
      rest -= n;
    }
    if (rest != 0) return refuse("the pieces do not add up to " + std::to_string(extent));
  }
  size_t outer = 1, inner = bytes_of(whole.dtype);
  for (size_t k = 0; k < whole.shape.size(); ++k) (k < axis ? outer : inner) *= k == axis ? 1 : static_cast<size_t>(whole.shape[k]);
  const size_t stride = inner * static_cast<size_t>(extent);
  Tensor list = Tensor::list(result.dtype, {}, result.list_depth);
  size_t offset = 0;
  for (int64_t n : pieces) {
    std::vector<int64_t> shape = whole.shape;
    shape[axis] = n;
    Tensor piece = Tensor::zeros(whole.dtype, shape);
    const size_t run = inner * static_cast<size_t>(n);
    for (size_t o = 0; o < outer && run; ++o) std::memcpy(piece.bytes.data() + o * run, whole.bytes.data() + o * stride + offset, run);
    offset += run;
    if (c.set.drop_axis) {
      if (n != 1) return refuse("a piece of " + std::to_string(n) + " has no single place to drop");
      piece.shape.erase(piece.shape.begin() + static_cast<long>(axis));
    }
    list.items.push_back(std::move(piece));
  }
  return list;
}

}  // namespace

Result<Tensor> run_list(const Control& c, const Array& result, const std::vector<const Tensor*>& inputs) {
  if (c.kind == StepOp::ListMake) return make(result, inputs);
  const size_t needed = c.kind == StepOp::ListInsert || c.kind == StepOp::ListAt ? 2 : 1;
  if (inputs.size() < needed || !inputs[0] || (needed == 2 && !inputs[1])) return Status(Code::Internal, "a list operation lacks an input");
  const Tensor& list = *inputs[0];
  if (c.kind == StepOp::ListSplit) return split(c, list, inputs.size() > 1 ? inputs[1] : nullptr, result);
  if (list.list_depth == 0) return Status(Code::Internal, "a list operation on an array");
  switch (c.kind) {
    case StepOp::ListInsert: return insert(inputs);
    case StepOp::ListErase: {
      Tensor r = list;
      if (r.items.empty()) return refuse("an item of an empty list is erased");
      size_t at = r.items.size() - 1;
      if (inputs.size() > 1 && inputs[1]) { MLC_ASSIGN(at, place(inputs[1], r.items.size(), "the position")); }
      r.items.erase(r.items.begin() + static_cast<long>(at));
      return r;
    }
    case StepOp::ListAt: {
      MLC_ASSIGN(const size_t at, place(inputs[1], list.items.size(), "the position"));
      return list.items[at];
    }
    case StepOp::ListLength: return Tensor::of<int64_t>(DType::I64, {}, {static_cast<int64_t>(list.items.size())});
    case StepOp::ListConcat: return concat(c, list, result);
    default: break;
  }
  return Status(Code::Internal, "no list operation");
}

Result<Tensor> stack(const std::vector<Tensor>& items, Tensor like) {
  if (items.empty()) return like;
  Tensor r{items[0].dtype, items[0].shape, {}};
  r.shape.insert(r.shape.begin(), static_cast<int64_t>(items.size()));
  r.bytes.reserve(items.size() * items[0].bytes.size());
  for (const Tensor& t : items) {
    if (t.shape != items[0].shape || t.dtype != r.dtype || t.list_depth != 0)
      return refuse("what is collected has another shape in run " + std::to_string(&t - items.data()) + " than in the first");
    r.bytes.insert(r.bytes.end(), t.bytes.begin(), t.bytes.end());
  }
  return r;
}

}  // namespace mlc::nest
