// What several passes ask about a function.
#pragma once

#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "packager/ir/typical.h"
#include "packager/nest/facts/uses.h"
#include "packager/nest/nest.h"

namespace mlc::passes {

using ir::Expr;

using nest::for_loads;
using nest::for_roots;
using nest::map_roots;
using nest::read;
using nest::written;
// Every load of `array` below root replaced by what `with` makes of it, innermost first (its result must not load it).
const Expr* replace_loads(ir::Context& ctx, const Expr* root, uint32_t array, const std::function<const Expr*(const Expr*)>& with);

// Readers and writers of each array. A pass asks for it once and keeps it true, so that its work does not grow with the square of
// the statements.
struct Uses {
  std::vector<std::vector<size_t>> writers;  // statements, by array; ascending, distinct
  std::vector<std::set<size_t>> readers;     // statements, by array
  std::vector<std::vector<uint32_t>> reads;  // arrays, by statement; ascending, distinct
  std::vector<bool> output;
};
Uses uses_of(const nest::Function& f);
// Statement `s` of `f` was rewritten and reads other arrays than before.
void update_reads(Uses& uses, const nest::Function& f, size_t s);

// A nest that writes one array, a value per element: no push, scan or condition, and the write index is plain dims (each
// of the nest's once) and zeros. `axis_dim` has the dim of each axis, null where the index is 0.
struct PlainMap {
  const nest::Nest* nest = nullptr;
  const nest::Write* write = nullptr;
  std::vector<const ir::Dim*> axis_dim;
};
bool plain_map(const nest::Statement& s, PlainMap& out);
// The array of f32 whose elements a statement writes in 16 bits, each at its own index; nothing: it does something else.
std::optional<uint32_t> rounded_array(const nest::Statement& s);
// What it writes where `load` reads it.
const Expr* composed(ir::Context& ctx, const PlainMap& p, const Expr* load);

// Writes each element of array `from` to `to`, which has the same shape and may lie otherwise or be of another type.
nest::Statement copy_statement(ir::Context& ctx, const nest::Function& f, uint32_t from, uint32_t to, std::string source);

// Whether what it writes depends on nothing but constants, and no point of it can fail.
bool is_constant(const nest::Function& f, const nest::Nest& n);
// By array: temporary ones that one statement computes from constants alone, a value per element.
std::vector<bool> constant_temporaries(const nest::Function& f, const Uses& uses);
// Whether a statement that writes its elements writes all of it that counts: padding would have to be zero, but for columns of a panel,
// from which nothing is written on.
bool is_stored_whole(const nest::Array& a);
// What arrays of kind Derived take.
uint64_t derived_bytes(ir::Context& ctx, const nest::Function& f);

// Appends the terms of a conjunction, each once; e may be null: none.
void add_conjuncts(const Expr* e, std::vector<const Expr*>& out);

bool has_fold(const Expr* e);
using ir::estimate;
// Points of all of them.
double estimate(const std::vector<const ir::Dim*>& dims);
// Arithmetic below e, folds not included; transcendental functions count 15, divisions 4.
double cost_of(const Expr* e);
// Operations in the index of a load that are not linear.
bool is_nonlinear(const Expr* e);
size_t nonlinear_operations(const Expr* load);
// Operations below e; a transcendental function counts as what its text expands to, roughly.
size_t node_count(const Expr* e, size_t limit);

}  // namespace mlc::passes
