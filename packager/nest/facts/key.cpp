#include "packager/nest/facts/key.h"

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

// How things are named that belong to a Context, not to a nest.
class Names {
 public:
  virtual ~Names() = default;
  virtual StructureKey::Extents extents() const = 0;
  virtual void leaf(StructureKey& key, const Expr* e) = 0;  // Var, Sym
  virtual void combiner(StructureKey& key, const ir::Combiner& c) = 0;
  virtual void extent(StructureKey& key, const Expr* e) = 0;
};

// Short, and good for things of one Context.
class OfContext final : public Names {
 public:
  StructureKey::Extents extents() const override { return StructureKey::Extents::AsOne; }
  void leaf(StructureKey& key, const Expr* e) override { put(key, e->id); }
  void combiner(StructureKey& key, const ir::Combiner& c) override { put(key, reinterpret_cast<uintptr_t>(&c)); }  // those of one name may differ
  void extent(StructureKey& key, const Expr* e) override { put(key, e->id); }
};

// By what they are: symbols and variables are numbered as they are met.
class OfAllContexts final : public Names {
 public:
  StructureKey::Extents extents() const override { return StructureKey::Extents::Inside; }
  void leaf(StructureKey& key, const Expr* e) override {
    put(key, numbers_.emplace(e->op == Op::Sym ? static_cast<const void*>(e->sym) : e, numbers_.size()).first->second);
  }
  void combiner(StructureKey& key, const ir::Combiner& c) override {
    put(key, c.join), put(key, c.commutative);
    for (const auto* list : {&c.units, &c.left, &c.right, &c.joins}) {
      put(key, list->size());
      for (const Expr* e : *list) key.expression(e);
    }
  }
  void extent(StructureKey& key, const Expr* e) override { key.expression(e); }

 private:
  std::unordered_map<const void*, size_t> numbers_;
};

using ArrayNames = std::function<void(StructureKey& key, uint32_t array)>;

std::string text_of(const Nest& nest, Names& names, const ArrayNames& array) {
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
      case Op::Load: array(k, e->array); break;
      case Op::Fold:
        names.combiner(k, *e->fold->combiner);
        put(k, e->fold->dims.size());
        for (const ir::Dim* dim : e->fold->dims) put_dim(k, dim);
        break;
      default: names.leaf(k, e); break;
    }
  }, names.extents());
  put(key, nest.dims.size());
  for (const ir::Dim* dim : nest.dims) put_dim(key, dim);
  key.expression(nest.where);
  put(key, nest.scan_dim != nullptr);
  if (nest.scan_dim) {
    put_dim(key, nest.scan_dim);
    names.combiner(key, *nest.scan_combiner), put(key, nest.scan_exclusive), put(key, nest.scan_reverse);
  }
  put(key, nest.writes.size());
  for (const Write& write : nest.writes) {
    put(key, write.push), put(key, write.join), put(key, write.index.size());
    for (const Expr* e : write.index) key.expression(e);
    key.expression(write.value);
  }
  for (size_t k = 0; k < dims.size(); ++k) names.extent(key, dims[k]->extent);
  return key.take();
}

LoweringKey lowering_key_by(Names& names, const Function& function, std::span<const Nest* const> nests) {
  LoweringKey out;
  std::unordered_map<uint32_t, size_t> numbers;
  const auto name = [&](StructureKey& key, uint32_t number) {
    auto [found, is_new] = numbers.emplace(number, out.arrays.size());
    put(key, found->second);
    if (!is_new) return;
    out.arrays.push_back(number);
    const Array& array = function.arrays[number];
    put(key, array.dtype), put(key, array.shape.size()), put(key, array.layout.pieces.size());
    for (const Expr* extent : array.shape) names.extent(key, extent);
    for (const Piece& piece : array.layout.pieces) put(key, piece.axis), put(key, piece.divisor), put(key, piece.extent);
    put(key, array.layout.within.size());
    for (const auto* part : {&array.layout.within, &array.layout.at})
      for (const Expr* e : *part) names.extent(key, e);
  };
  for (const Nest* nest : nests) {
    out.text += text_of(*nest, names, name);
    StructureKey results([&](StructureKey& k, const Expr* e) { names.leaf(k, e); }, names.extents());
    for (const Write& write : nest->writes) name(results, write.array);
    out.text += results.text();
  }
  return out;
}

}  // namespace

std::string key_of(const Nest& nest, const ArrayNames& name) {
  OfContext names;
  return text_of(nest, names, name);
}

LoweringKey lowering_key(const Function& function, std::span<const Nest* const> nests) {
  OfContext names;
  return lowering_key_by(names, function, nests);
}

LoweringKey lasting_key(const Function& function, std::span<const Nest* const> nests) {
  OfAllContexts names;
  return lowering_key_by(names, function, nests);
}

}  // namespace mlc::nest
