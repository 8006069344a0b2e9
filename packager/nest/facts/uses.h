// What statements are made of: their expressions, the arrays they read and write, the symbols they need.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "packager/nest/nest.h"

namespace mlc::nest {

// Calls `visit` for every root expression of a statement (conditions, indices, values; all of a proc's). A control has none.
void for_roots(const Statement& s, const std::function<void(const ir::Expr*)>& visit);
// Calls `visit` for every distinct Load below the roots, once.
void for_loads(const Statement& s, const std::function<void(const ir::Expr*)>& visit);
// Replaces every root by what `change` returns for it.
void map_roots(Statement& s, const std::function<const ir::Expr*(const ir::Expr*)>& change);

std::vector<uint32_t> written(const Statement& s);  // distinct, ascending
std::vector<uint32_t> read(const Statement& s);     // distinct, ascending; a push does not read what it writes
// Replaces every array number of the statement.
// Whether all that a statement does is to copy a part to its place in the whole: nothing is left to do.
bool is_in_place(ir::Context& ctx, const Function& f, const Statement& s);
void renumber(ir::Context& ctx, Statement& s, const std::function<uint32_t(uint32_t)>& number);

struct SymbolOrder {
  bool operator()(const ir::Sym* a, const ir::Sym* b) const { return a->name < b->name; }
};
using SymbolSet = std::set<const ir::Sym*, SymbolOrder>;  // by name: the order does not depend on addresses

// Symbols of an expression and of the extents of its dims.
void add_symbols(const ir::Expr* e, SymbolSet& symbols);
// Symbols that must have values before the statement runs: those of its expressions and of the shapes of its arrays; for
// a control those that its bodies need from outside.
void add_symbols(const Function& f, const Statement& s, SymbolSet& symbols);
// Symbols that a function uses but does not set: a body's, of the functions around it.
SymbolSet foreign_symbols(const Function& f);

}  // namespace mlc::nest
