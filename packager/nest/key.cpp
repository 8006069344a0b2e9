#include "packager/nest/key.h"

#include <algorithm>

#include "packager/ir/context.h"

namespace mlc::nest {
namespace {

using ir::Expr;
using ir::Op;
using ir::StructureKey;

template <class T>
void put(StructureKey& key, T value) {
  key.number(static_cast<int64_t>(value));
}

void put_array(StructureKey& key, const Array& array) {
  put(key, array.dtype), put(key, array.shape.size()), put(key, array.layout.pieces.size());
  for (const Expr* extent : array.shape) put(key, extent->id);
  for (const Piece& piece : array.layout.pieces) put(key, piece.axis), put(key, piece.divisor), put(key, piece.extent);
}

}  // namespace

std::string key_of(const Nest& nest, const std::function<void(StructureKey& key, uint32_t array)>& name) {
  std::vector<const ir::Dim*> dims;  // by number
  std::unordered_map<const ir::Dim*, size_t> numbers;
  const auto put_dim = [&](StructureKey& key, const ir::Dim* dim) {
    auto [found, is_new] = numbers.emplace(dim, dims.size());
    if (is_new) dims.push_back(dim);
    put(key, found->second);
  };
  StructureKey key([&](StructureKey& k, const Expr* e) {
    switch (e->op) {
      case Op::Dim: put_dim(k, e->dim); break;
      case Op::Load: name(k, e->array); break;
      case Op::Fold:
        put(k, reinterpret_cast<uintptr_t>(e->fold->combiner));  // those of one name may differ
        put(k, e->fold->dims.size());
        for (const ir::Dim* dim : e->fold->dims) put_dim(k, dim);
        break;
      default: put(k, e->id); break;
    }
  }, StructureKey::Extents::AsOne);
  put(key, nest.dims.size());
  for (const ir::Dim* dim : nest.dims) put_dim(key, dim);
  key.expression(nest.where);
  put(key, nest.scan_dim != nullptr);
  if (nest.scan_dim) {
    put_dim(key, nest.scan_dim);
    put(key, reinterpret_cast<uintptr_t>(nest.scan_combiner)), put(key, nest.scan_exclusive), put(key, nest.scan_reverse);
  }
  put(key, nest.writes.size());
  for (const Write& write : nest.writes) {
    put(key, write.push), put(key, write.join), put(key, write.index.size());
    for (const Expr* e : write.index) key.expression(e);
    key.expression(write.value);
  }
  for (const ir::Dim* dim : dims) put(key, dim->extent->id);
  return key.take();
}

LoweringKey lowering_key(const Function& function, std::span<const Nest* const> nests) {
  LoweringKey out;
  std::unordered_map<uint32_t, size_t> numbers;
  const auto name = [&](StructureKey& key, uint32_t array) {
    auto [found, is_new] = numbers.emplace(array, out.arrays.size());
    put(key, found->second);
    if (!is_new) return;
    out.arrays.push_back(array);
    put_array(key, function.arrays[array]);
  };
  for (const Nest* nest : nests) {
    out.text += key_of(*nest, name);
    StructureKey results({});
    for (const Write& write : nest->writes) name(results, write.array);
    out.text += results.text();
  }
  return out;
}

}  // namespace mlc::nest
