// Text to syntax tree. Layout matters: a statement ends where a line starts at or left of the column of the line that
// the statement began on; brackets suspend that; `;` joins statements on one line.
#pragma once

#include <string>
#include <string_view>

#include "packager/lang/parse/ast.h"

namespace mlc::lang {

constexpr size_t kMaxFile = 4u << 20;  // bytes

// Adds the definitions of one file. Throws Failure with file:line:column. Nesting of expressions and blocks is bounded.
void parse_file(Module& module, const std::string& file, const std::string& text);

// Whole definitions of a file.
struct Part {
  const std::string* file;  // its name, as positions keep it
  int line;                 // of the first of them
  std::string domain;       // they belong to, up to a line that says another
  std::string_view text;
};
void parse_part(Module& module, const Part& part);

// Puts the clauses that definitions `use` where they are used. Call after all files are parsed.
void put_clauses(Module& module);
// Those of one definition.
void put_clauses(const Module& module, OpDef& op);

// What parsing cannot see: unknown names, targets that are not results, attributes that hide each other, matches that
// miss a case, unknown element types. Call after put_clauses.
void check_names(const Module& module);

}  // namespace mlc::lang
