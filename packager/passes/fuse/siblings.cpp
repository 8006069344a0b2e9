// Products of one and the same array with constant weights of one form (queries, keys and values of attention) are one product, whose weights
// lie side by side along the columns:
//
//   q[m, n] = sum(x[m, k] * wq[k, n]) + bq[n]
//   k[m, n] = sum(x[m, k] * wk[k, n]) + bk[n]      become      j[m, n] = sum(x[m, k] * w[k, n]) + b[n],  w = wq | wk,  b = bq | bk
//
// and what read k[m, n] reads j[m, N + n] with N columns of q: one launch with more work for each, and nothing is copied. Element by element the
// arithmetic is that of the products alone. What stands around the sums must be equal but for constant vectors along the columns, which are joined as
// the weights are.
//
// A file holds weights once: those that anything else reads stay as they are, in this function and in others (Options::reads_elsewhere).
#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "packager/ir/structure_key.h"
#include "packager/nest/facts/contraction.h"
#include "packager/nest/text/names.h"
#include "packager/passes/all.h"
#include "packager/passes/util.h"

namespace mlc::passes {
namespace {

using ir::Op;
using ir::StructureKey;

// Statements between the first product and the last one: further away their results would take memory for long.
constexpr size_t kMostBetween = 32;

struct Sibling {
  size_t statement = 0;
  PlainMap map;
  const ir::Dim* column = nullptr;
  size_t axis = 0;                   // of the columns, in what is written
  uint32_t weights = 0;
  std::vector<const Expr*> vectors;  // loads of constants along the columns, weights included, in order
  std::string key;                   // equal for products that may be one
};

class SiblingJoiner {
 public:
  SiblingJoiner(ir::Context& ctx, nest::Function& f, const ReadsElsewhere& reads_elsewhere, bool rounds_values)
      : ctx_(ctx), f_(f), reads_elsewhere_(reads_elsewhere), rounds_values_(rounds_values), uses_(uses_of(f)) {}

  void run() {
    std::map<std::string, std::vector<Sibling>> families;
    std::vector<std::vector<Sibling>> all;
    const auto close = [&](std::vector<Sibling>& family) {
      if (family.size() > 1) all.push_back(std::move(family));
      family.clear();
    };
    for (size_t s = 0; s < f_.body.size(); ++s)
      if (auto found = sibling_at(s)) {
        std::vector<Sibling>& family = families[found->key];
        if (!family.empty() && s - family.front().statement > kMostBetween) close(family);
        family.push_back(std::move(*found));
      }
    for (auto& [key, family] : families) close(family);
    for (const std::vector<Sibling>& family : all) join(family);
    std::erase_if(f_.body, [](const nest::Statement& s) { return s.nest && s.nest->writes.empty(); });
  }

 private:
  std::optional<Sibling> sibling_at(size_t s) const {
    Sibling found{.statement = s};
    if (!plain_map(f_.body[s], found.map) || f_.body[s].joins || !is_read_in_nests(found.map.write->array)) return std::nullopt;
    const nest::Nest& nest = *found.map.nest;
    auto c = nest::only_product(ctx_, nest.dims, found.map.write->value, nest::Factors::Elements);
    if (!c) return std::nullopt;
    if (is_constant_array(c->a.load)) c = c->swapped();
    if (is_constant_array(c->a.load) || !is_constant_array(c->b.load)) return std::nullopt;
    if (c->k.size() != 1 || !c->taps.empty() || !c->batch.empty() || c->n.size() != 1 || c->fold->fold->where) return std::nullopt;
    found.column = c->n[0];
    found.weights = c->b.load->array;
    found.axis = found.map.axis_dim.size() - 1;
    if (found.map.axis_dim.back() != found.column || !has_whole_panels(found) || !has_own_weights(*c, found) || !has_vectors(found)) return std::nullopt;
    found.key = key_of(*c, found);
    return found;
  }

  bool is_constant_array(const Expr* load) const { return f_.arrays[load->array].kind == nest::Array::Kind::Const; }

  // Reads of it can be those of another array.
  bool is_read_in_nests(uint32_t array) const {
    const nest::Array& a = f_.arrays[array];
    if (a.kind != nest::Array::Kind::Temp || a.list_depth > 0 || uses_.output[array] || uses_.writers[array].size() != 1 || uses_.readers[array].empty()) return false;
    for (const size_t reader : uses_.readers[array]) {
      if (!f_.body[reader].nest) return false;
      bool checked = false;
      for_loads(f_.body[reader], [&](const Expr* e) { checked |= e->array == array && e->access == ir::Access::Checked; });
      if (checked) return false;
    }
    return true;
  }

  // Each part begins where a panel of the weights and a vector of the result do.
  static bool has_whole_panels(const Sibling& s) { return s.column->extent->is_const() && s.column->extent->i > 0 && s.column->extent->i % nest::kPanel == 0; }

  // A matrix that nothing else reads.
  bool has_own_weights(const nest::Contraction& c, const Sibling& s) const {
    const auto is_plain = [&](const Expr* index) { return index == ctx_.dim(s.column) || index == ctx_.dim(c.k[0]); };
    if (c.b.load->args.size() != 2 || !std::all_of(c.b.load->args.begin(), c.b.load->args.end(), is_plain)) return false;
    return uses_.readers[s.weights].size() == 1 && !uses_.output[s.weights] && !(reads_elsewhere_ && reads_elsewhere_(f_, s.weights));
  }

  // What depends on the columns is loaded from constants along them; finds these.
  bool has_vectors(Sibling& s) const {
    const Expr* column = ctx_.dim(s.column);
    bool good = true;
    std::vector<const Expr*> in_loads;
    ir::walk(s.map.write->value, [&](const Expr* e) {
      if (e->op == Op::Load && ir::depends_on(e, column)) {
        const nest::Array& a = f_.arrays[e->array];
        const auto along = std::count(e->args.begin(), e->args.end(), column);
        const auto depending = std::count_if(e->args.begin(), e->args.end(), [&](const Expr* index) { return ir::depends_on(index, column); });
        const auto is_plain = [](const Expr* index) { return index->is_const() || index->op == Op::Dim; };
        const auto is_constant_extent = [](const Expr* extent) { return extent->is_const(); };
        good &= a.kind == nest::Array::Kind::Const && a.data && bits_of(a.dtype) >= 8 && along == 1 && depending == 1 &&
                std::all_of(e->args.begin(), e->args.end(), is_plain) && e->access != ir::Access::Checked &&
                std::all_of(a.shape.begin(), a.shape.end(), is_constant_extent) && a.shape[axis_of(e, s)] == s.column->extent;
        s.vectors.push_back(e);
      } else if (e != column) {
        good &= std::find(e->args.begin(), e->args.end(), column) == e->args.end();
      }
    });
    return good && s.map.write->value != column;
  }

  // Of the columns, in a constant.
  size_t axis_of(const Expr* load, const Sibling& s) const {
    return static_cast<size_t>(std::find(load->args.begin(), load->args.end(), ctx_.dim(s.column)) - load->args.begin());
  }

  // What products of two values alone read is stored rounded where that is asked for (weights/precision.cpp), and not with what others read.
  bool is_factor_of_values(uint32_t array) const {
    size_t loads = 0, factors = 0;
    for (const size_t reader : uses_.readers[array])
      for_roots(f_.body[reader], [&](const Expr* root) {
        ir::walk(root, [&](const Expr* e) {
          loads += e->op == Op::Load && e->array == array;
          const auto c = nest::contraction_of(ctx_, f_.body[reader].nest->dims, e);
          if (!c || is_constant_array(c->a.load) || is_constant_array(c->b.load)) return;
          factors += c->a.load->array == array;
          factors += c->b.load->array == array && c->b.load != c->a.load;
        });
      });
    return loads == factors;
  }

  // All that is read and computed but for the number of columns and the vectors along them. The factors come first: their order in the product does not matter.
  std::string key_of(const nest::Contraction& c, const Sibling& s) const {
    std::vector<const ir::Dim*> dims;
    const auto put_dim = [&](StructureKey& key, const ir::Dim* dim) {
      const auto at = std::find(dims.begin(), dims.end(), dim);
      key.number(at - dims.begin());
      if (at != dims.end()) return;
      dims.push_back(dim);
      key.number(dim == s.column ? -1 : static_cast<int64_t>(dim->extent->id));
      if (dim != s.column && dim->extent->is_const()) key.number(dim->extent->i);
    };
    const Expr* product = c.fold->args[0];
    StructureKey key(
        [&](StructureKey& k, const Expr* e) {
          if (e->op == Op::Dim) return put_dim(k, e->dim);
          if (e->op == Op::Fold) {
            k.number(static_cast<int64_t>(reinterpret_cast<uintptr_t>(e->fold->combiner)));
            for (const ir::Dim* dim : e->fold->dims) put_dim(k, dim);
          } else if (e->op == Op::Load) {
            if (std::find(s.vectors.begin(), s.vectors.end(), e) == s.vectors.end()) return k.number(e->array);
            const nest::Array& a = f_.arrays[e->array];
            k.number(-1), k.number(static_cast<int64_t>(a.dtype)), k.number(static_cast<int64_t>(axis_of(e, s)));
            for (size_t axis = 0; axis < a.shape.size(); ++axis) k.number(axis == axis_of(e, s) ? -1 : a.shape[axis]->i);
          } else {
            k.number(static_cast<int64_t>(e->id));
          }
        },
        StructureKey::Extents::AsOne, [&](const Expr* node, size_t) { return node == product; });
    const nest::Array& written = f_.arrays[s.map.write->array];
    key.number(rounds_values_ && is_factor_of_values(s.map.write->array)), key.number(f_.body[s.statement].part), key.number(static_cast<int64_t>(written.dtype));
    for (const ir::Dim* dim : s.map.axis_dim) {
      if (dim) put_dim(key, dim);
      else key.number(-1);
    }
    for (const Expr* e : {c.a.factor, c.b.factor, s.map.write->value}) key.expression(e);
    return key.take();
  }

  // The first one becomes all of them; the others are left without writes.
  void join(const std::vector<Sibling>& family) {
    const Sibling& first = family.front();
    int64_t columns = 0;
    for (const Sibling& s : family) columns += s.column->extent->i;
    const Expr* extent = ctx_.integer(columns);
    const ir::Dim* column = ctx_.declare_dim(first.column->name, extent);

    std::unordered_map<const Expr*, const Expr*> at{{ctx_.dim(first.column), ctx_.dim(column)}};
    for (size_t v = 0; v < first.vectors.size(); ++v) {
      const Expr* load = first.vectors[v];
      std::vector<const Expr*> index(load->args.begin(), load->args.end());
      const size_t axis = axis_of(load, first);
      index[axis] = ctx_.dim(column);
      at.emplace(load, ctx_.load(joined_constant(family, v, axis, extent), load->type, std::move(index), load->access));
    }
    nest::Nest& nest = *f_.body[first.statement].nest;
    const Expr* value = ctx_.substitute(nest.writes[0].value, at);

    nest::Array whole = f_.arrays[first.map.write->array];
    whole.name = joined_name(family, [](const Sibling& s) { return s.map.write->array; });
    whole.shape[first.axis] = extent;
    const auto array = static_cast<uint32_t>(f_.arrays.size());
    f_.arrays.push_back(std::move(whole));

    int64_t begin = 0;
    for (const Sibling& s : family) {
      const uint32_t part = s.map.write->array;
      for (const size_t reader : uses_.readers[part])
        map_roots(f_.body[reader], [&](const Expr* root) {
          return replace_loads(ctx_, root, part, [&](const Expr* load) {
            std::vector<const Expr*> index(load->args.begin(), load->args.end());
            index[s.axis] = ctx_.add(index[s.axis], ctx_.integer(begin));
            return ctx_.load(array, load->type, std::move(index), load->access);
          });
        });
      begin += s.column->extent->i;
    }
    for (size_t k = 1; k < family.size(); ++k) f_.body[family[k].statement].nest->writes.clear();
    std::replace(nest.dims.begin(), nest.dims.end(), first.column, column);
    nest::Write& write = nest.writes[0];
    write.array = array, write.index[first.axis] = ctx_.dim(column), write.value = value;
  }

  // The constants of load `v`, side by side along its axis of columns.
  uint32_t joined_constant(const std::vector<Sibling>& family, size_t v, size_t axis, const Expr* extent) {
    nest::Array whole = f_.arrays[family[0].vectors[v]->array];
    size_t rows = 1, element = bytes_of(whole.dtype);
    for (size_t k = 0; k < whole.shape.size(); ++k)
      if (k != axis) (k < axis ? rows : element) *= static_cast<size_t>(whole.shape[k]->i);
    const size_t stride = element * static_cast<size_t>(extent->i);
    auto bytes = std::make_shared<std::vector<std::byte>>(rows * stride);
    std::vector<std::shared_ptr<const nest::ConstData>> parts;
    size_t begin = 0;
    for (const Sibling& s : family) {
      const nest::Array& part = f_.arrays[s.vectors[v]->array];
      const size_t length = element * static_cast<size_t>(part.shape[axis]->i);
      for (size_t row = 0; row < rows && length > 0; ++row) std::memcpy(bytes->data() + row * stride + begin, part.data->bytes.data() + row * length, length);
      begin += length;
      parts.push_back(part.data);
    }
    whole.name = joined_name(family, [&](const Sibling& s) { return s.vectors[v]->array; });
    whole.shape[axis] = extent;
    whole.data = std::make_shared<nest::ConstData>(nest::ConstData{Bytes(*bytes), bytes, std::move(parts), axis});
    f_.arrays.push_back(std::move(whole));
    return static_cast<uint32_t>(f_.arrays.size()) - 1;
  }

  std::string joined_name(const std::vector<Sibling>& family, const std::function<uint32_t(const Sibling&)>& array) {
    std::string name;
    for (const Sibling& s : family) name += (name.empty() ? "" : " | ") + f_.arrays[array(s)].name;
    return nest::unique_name(f_, name, "");
  }

  ir::Context& ctx_;
  nest::Function& f_;
  const ReadsElsewhere& reads_elsewhere_;
  const bool rounds_values_;
  const Uses uses_;
};

}  // namespace

Status join_products(ir::Context& ctx, nest::Function& f, const ReadsElsewhere& reads_elsewhere, bool rounds_values) {
  SiblingJoiner(ctx, f, reads_elsewhere, rounds_values).run();
  return ok();
}

ReadsElsewhere reads_elsewhere_in(const std::vector<std::unique_ptr<nest::Function>>& functions) {
  if (functions.size() < 2) return {};
  std::vector<std::pair<const nest::Function*, std::shared_ptr<const nest::ConstData>>> all;
  for (const auto& f : functions)
    for (const uint32_t array : used_constants(*f)) all.emplace_back(f.get(), f->arrays[array].data);
  return [all = std::move(all)](const nest::Function& f, uint32_t array) {
    const nest::ConstData& data = *f.arrays[array].data;
    return std::any_of(all.begin(), all.end(), [&](const auto& other) {
      const auto& [reader, read] = other;
      if (reader == &f || read->bytes.size() != data.bytes.size()) return false;
      return read.get() == &data || data.bytes.empty() || std::memcmp(read->bytes.data(), data.bytes.data(), data.bytes.size()) == 0;
    });
  };
}

}  // namespace mlc::passes
