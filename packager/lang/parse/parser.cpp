#include "packager/lang/parse/parser.h"

#include <algorithm>

#include "packager/lang/parse/embedded.h"
#include "packager/lang/parse/statement_parser.h"

namespace mlc::lang {
namespace {

// The definitions of a file.
class DefinitionParser : private StatementParser {
 public:
  DefinitionParser(Module& module, const Part& part)
      : StatementParser(module, part.text, part.file, part.line), file_(*part.file), domain_(part.domain) {}

  void run() {
    while (raw().kind != TokenKind::End) {
      Indented indented(*this, raw().pos.column);
      definition();
      accept(";");
    }
  }

 private:
  void definition() {
    if (at("domain")) domain();
    else if (at("fn")) fn();
    else if (at("combiner")) combiner();
    else if (at("op")) op();
    else if (at("clauses")) clauses();
    else error("'op', 'fn', 'combiner', 'clauses' or 'domain' expected, found '" + raw().text + "'");
  }

  void domain() {
    take();
    domain_ = name("a domain");
    while (accept(".")) domain_ += "." + name("a domain");
  }

  void fn() {
    FnDef f;
    f.domain = domain_;
    f.pos = take().pos;
    f.name = name();
    expect("(");
    if (!at(")")) f.params = names();
    expect(")");
    expect("=");
    f.body = expr();
    end_of_statement();
    const std::string key = domain_ + ":" + f.name;
    if ((module_.embedded && module_.embedded->fn(key)) || !module_.fns.emplace(key, f).second) fail_at(f.pos, "a second definition of the function " + f.name);
  }

  void combiner() {
    CombinerDef c;
    c.domain = domain_;
    c.pos = take().pos;
    c.name = name();
    c.type_variables = type_variables();
    expect("(");
    do {
      std::string field = name("a field");
      expect(":");
      c.fields.emplace_back(field, name("an element type"));
    } while (accept(","));
    expect(")");
    c.ordered = accept("ordered");
    expect("unit");
    const Node* unit = expr();
    if (c.fields.size() == 1) c.units = {unit};
    else if (unit->kind == NodeKind::Tuple) c.units = unit->kids;
    if (c.units.size() != c.fields.size()) fail_at(unit->pos, "the unit has one value per field");
    expect("join");
    c.left = name();
    expect(",");
    c.right = name();
    expect("=");
    c.joins = {expr()};
    end_of_statement();
    const std::string key = domain_ + ":" + c.name;
    if ((module_.embedded && module_.embedded->combiner(key)) || !module_.combiners.emplace(key, c).second) fail_at(c.pos, "a second definition of the combiner " + c.name);
  }

  void op() {
    const size_t begin = raw().offset;
    OpDef& o = module_.ops.emplace_back();
    o.domain = domain_;
    o.file = file_;
    o.pos = take().pos;
    o.name = name("the name of an operator");
    expect("@");
    if (peek().kind != TokenKind::Number) error("the opset version from which the definition is in force expected");
    o.since = take().integer;
    o.type_variables = type_variables();
    expect("(");
    {
      Bracket bracket(*this);
      while (!at(")")) {
        o.params.push_back(param());
        if (!accept(",")) break;
      }
      expect(")");
    }
    expect("->");
    do o.results.push_back(result());
    while (accept(","));
    statements(o);
    o.text = written_since(begin);
  }

  void clauses() {
    const size_t begin = raw().offset;
    Clauses block;
    block.domain = domain_;
    block.pos = take().pos;
    block.name = name("the name of the clauses");
    statements(block);
    block.text = written_since(begin);
    auto& others = module_.clauses[block.name];
    for (const Clauses& other : others)
      if (other.pos.file == block.pos.file) fail_at(block.pos, "a second block of clauses '" + block.name + "'");
    others.push_back(std::move(block));
  }

  std::vector<TypeVariable> type_variables() {
    std::vector<TypeVariable> r;
    if (!accept("<")) return r;
    do {
      TypeVariable v;
      v.name = name("a type variable");
      expect(":");
      do v.classes.push_back(name("a class of element types"));
      while (accept("|"));
      if (accept("=")) v.fallback = name("an element type");
      r.push_back(std::move(v));
    } while (accept(","));
    expect(">");
    return r;
  }

  Param param() {
    Param p;
    p.pos = raw().pos;
    p.name = name("a parameter");
    expect(":");
    if ((at("sym") || at("const")) && next().kind == TokenKind::Name)
      p.mode = take().text == "sym" ? ParamMode::Sym : ParamMode::Const;
    p.type = type_spec();
    p.many = accept("many");
    p.optional = accept("?");
    if (accept("=")) p.fallback = expr();
    if (p.fallback && !p.optional) error("a default belongs to an optional parameter: write '?' before '='");
    return p;
  }

  ResultDecl result() {
    ResultDecl r;
    r.pos = raw().pos;
    r.name = name("a result");
    expect(":");
    r.type = type_spec();
    r.many = accept("many");
    r.optional = accept("?");
    return r;
  }

  const std::string& file_;
  std::string domain_;
};

}  // namespace

void parse_file(Module& module, const std::string& file, const std::string& text) {
  const std::string* name = &module.files.emplace_back(file);
  if (text.size() > kMaxFile) fail_at({1, 1, name}, "the file is larger than 4 MiB");
  parse_part(module, {name, 1, "ai.onnx", text});
}

void parse_part(Module& module, const Part& part) { DefinitionParser(module, part).run(); }

}  // namespace mlc::lang
