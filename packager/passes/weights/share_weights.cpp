// A constant that is the transpose of another one, of which rows are looked up: the product with it reads the other one instead. So do language
// models whose last product has the weights of their embedding; exporters write these as two constants, or as one with a Transpose that is
// computed by now. The weights are stored once, in the panels that the product wants (layout.cpp): it reads all of them, a look-up one row
// for each token, of which each element then comes from a line of its own.
#include <algorithm>
#include <cstring>

#include "packager/passes/all.h"
#include "packager/passes/util.h"

namespace mlc::passes {
namespace {

using ir::Op;

constexpr int64_t kLeastBytes = 1 << 16;  // of a constant: of less, two are no matter
constexpr int64_t kBlock = 64;            // rows and columns that are compared at once: their lines stay in L1

bool is_matrix(const nest::Array& a) {
  return a.kind == nest::Array::Kind::Const && a.data && is_float(a.dtype) && a.shape.size() == 2 && a.shape[0]->is_const() && a.shape[1]->is_const() &&
         static_cast<int64_t>(a.data->bytes.size()) >= kLeastBytes;
}

template <size_t kBytes>
bool is_transpose(const std::byte* a, const std::byte* b, int64_t rows, int64_t columns) {
  const auto same = [&](int64_t r, int64_t c) { return std::memcmp(a + (r * columns + c) * static_cast<int64_t>(kBytes), b + (c * rows + r) * static_cast<int64_t>(kBytes), kBytes) == 0; };
  for (int64_t first = 0; first < rows; first += kBlock)
    for (int64_t column = 0; column < columns; column += kBlock)
      for (int64_t r = first; r < std::min(first + kBlock, rows); ++r)
        for (int64_t c = column; c < std::min(column + kBlock, columns); ++c)
          if (!same(r, c)) return false;
  return true;
}

bool is_transpose(const nest::Array& a, const nest::Array& b) {
  const int64_t rows = a.shape[0]->i, columns = a.shape[1]->i;
  if (a.dtype != b.dtype || !b.shape[0]->is_int(columns) || !b.shape[1]->is_int(rows) || a.data->bytes.size() != b.data->bytes.size()) return false;
  const std::byte *x = a.data->bytes.data(), *y = b.data->bytes.data();
  switch (bytes_of(a.dtype)) {
    case 2: return is_transpose<2>(x, y, rows, columns);
    case 4: return is_transpose<4>(x, y, rows, columns);
    case 8: return is_transpose<8>(x, y, rows, columns);
    default: return false;
  }
}

// What the loads of each array are.
struct Reads {
  bool looked_up = false;   // a row that another array says
  bool multiplied = false;  // in a fold
  bool in_proc = false;
};

std::vector<Reads> reads_of(const nest::Function& f) {
  std::vector<Reads> all(f.arrays.size());
  for (const nest::Statement& s : f.body) {
    if (s.proc)
      for (uint32_t a : read(s)) all[a].in_proc = true;
    if (!s.nest) continue;
    for_roots(s, [&](const Expr* root) {
      ir::walk(root, [&](const Expr* e) {
        if (e->op == Op::Load && !e->args.empty()) ir::walk(e->args[0], [&](const Expr* x) { all[e->array].looked_up |= x->op == Op::Load; });
        if (e->op != Op::Fold) return;
        for (const Expr* body : e->args)
          ir::walk(body, [&](const Expr* x) {
            if (x->op == Op::Load) all[x->array].multiplied = true;
          });
      });
    });
  }
  return all;
}

}  // namespace

Status share_weights(ir::Context& ctx, nest::Function& f) {
  const std::vector<Reads> reads = reads_of(f);
  for (uint32_t table = 0; table < reads.size(); ++table) {
    if (!reads[table].looked_up || reads[table].multiplied || reads[table].in_proc || !is_matrix(f.arrays[table])) continue;
    for (uint32_t weights = 0; weights < reads.size(); ++weights) {
      if (!reads[weights].multiplied || reads[weights].looked_up || reads[weights].in_proc || !is_matrix(f.arrays[weights]) || !is_transpose(f.arrays[table], f.arrays[weights])) continue;
      for (nest::Statement& s : f.body)
        if (s.nest)
          map_roots(s, [&](const Expr* root) {
            return replace_loads(ctx, root, weights, [&](const Expr* l) { return ctx.load(table, l->type, {l->args[1], l->args[0]}, l->access); });
          });
    }
  }
  remove_dead(f);
  return ok();
}

}  // namespace mlc::passes
