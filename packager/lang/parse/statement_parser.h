// Private to the parser: types, clauses and statements of a definition, and the blocks of procs (sections 2 to 6 of
// spec/operator-language.md).
#pragma once

#include "packager/lang/parse/expression_parser.h"

namespace mlc::lang {

class StatementParser : protected ExpressionParser {
 protected:
  using ExpressionParser::ExpressionParser;

  TypeSpec type_spec();
  std::vector<DimSpec> dims_in_brackets();
  // All statements up to the end that the layout says.
  void statements(Clauses& into);

 private:
  DimSpec dim_spec();
  Target target();

  void statement(Clauses& into);
  void attribute(Clauses& into);
  void attribute_type(AttrDecl& a);
  void lets(Clauses& into);
  Stmt clause();
  Stmt array_statement();
  void check(Stmt& s);
  void push(Stmt& s);
  void graph_call(Stmt& s);
  // The rest of `name = value`.
  void definition(Stmt& s, StmtKind kind, std::string_view name_of_what);

  std::vector<Stmt> block();
  Stmt proc_statement();
  void alloc(Stmt& s);
  void proc_for(Stmt& s);
  void proc_if(Stmt& s);
};

}  // namespace mlc::lang
