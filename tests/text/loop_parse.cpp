#include "tests/text/loop_text.h"

#include <cctype>
#include <charconv>
#include <cstdlib>
#include <unordered_map>

#include "packager/loop/ops.h"
#include "packager/loop/print.h"

namespace mlc::loop {

using ir::Expr;
using ir::Op;
using ir::Type;

namespace {

constexpr size_t kMaxDepth = 256;          // nested blocks
constexpr size_t kMaxExprDepth = 100'000;  // open parentheses; parsed without recursion

class Parser {
 public:
  Parser(ir::Context& ctx, std::string_view text) : ctx_(ctx), text_(text) { next(); }

  Result<std::vector<Kernel>> run() {
    std::vector<Kernel> kernels;
    while (!failed() && !at_end()) kernels.push_back(kernel());
    if (failed()) return Status(Code::Malformed, "loop text, line " + std::to_string(error_line_) + ": " + error_);
    return kernels;
  }

 private:
  // Tokens: punctuation { } [ ] ( ) = .. ; strings; words (everything else up to a space or punctuation).
  void next() {
    while (pos_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[pos_]))) line_ += text_[pos_++] == '\n';
    token_.clear();
    is_string_ = false;
    if (pos_ >= text_.size()) return;
    char c = text_[pos_];
    if (c == '"') return string_token();
    if (std::string_view("{}[]()=").find(c) != std::string_view::npos) {
      token_ = text_.substr(pos_++, 1);
      return;
    }
    size_t begin = pos_;
    while (pos_ < text_.size() && !std::isspace(static_cast<unsigned char>(text_[pos_])) &&
           std::string_view("{}[]()=\"").find(text_[pos_]) == std::string_view::npos)
      ++pos_;
    token_ = text_.substr(begin, pos_ - begin);
  }
  void string_token() {
    is_string_ = true;
    ++pos_;
    while (pos_ < text_.size() && text_[pos_] != '"') {
      if (text_[pos_] == '\\' && pos_ + 3 < text_.size() && text_[pos_ + 1] == 'x') {
        unsigned value = 0;
        std::from_chars(text_.data() + pos_ + 2, text_.data() + pos_ + 4, value, 16);
        token_ += static_cast<char>(value);
        pos_ += 4;
        continue;
      }
      if (text_[pos_] == '\\' && pos_ + 1 < text_.size()) ++pos_;
      token_ += text_[pos_++];
    }
    if (pos_ >= text_.size()) return fail("string without end");
    ++pos_;
  }
  bool at_end() const { return token_.empty() && !is_string_; }
  bool failed() const { return !error_.empty(); }
  void fail(std::string what) {
    if (failed()) return;
    error_ = std::move(what);
    error_line_ = line_;
  }
  bool is(std::string_view word) const { return !is_string_ && token_ == word; }
  bool accept(std::string_view word) {
    if (!is(word)) return false;
    next();
    return true;
  }
  void expect(std::string_view word) {
    if (!accept(word)) fail("expected '" + std::string(word) + "', found '" + token_ + "'");
  }
  std::string string() {
    if (!is_string_) fail("expected a string, found '" + token_ + "'");
    std::string r = token_;
    next();
    return r;
  }
  int64_t number() {
    int64_t value = 0;
    auto [end, ec] = std::from_chars(token_.data(), token_.data() + token_.size(), value);
    if (is_string_ || ec != std::errc() || end != token_.data() + token_.size())
      fail("expected a number, found '" + token_ + "'");
    next();
    return value;
  }
  uint32_t index_number() {
    int64_t v = number();
    if (v < 0 || v > UINT32_MAX) fail("number out of range");
    return static_cast<uint32_t>(v);
  }
  DType dtype(std::string_view name) {
    auto t = dtype_named(name);
    if (!t || *t == DType::None || *t == DType::Str) {
      fail("unknown element type '" + std::string(name) + "'");
      return DType::I64;
    }
    return *t;
  }
  Type type(std::string_view text) {
    // "f32x16": the lanes follow the last x, which is not part of any type name.
    size_t x = text.rfind('x');
    if (x == std::string_view::npos) return {dtype(text), 1};
    unsigned lanes = 0;
    auto [end, ec] = std::from_chars(text.data() + x + 1, text.data() + text.size(), lanes);
    if (ec != std::errc() || end != text.data() + text.size() || lanes < 2 || lanes > 1024) fail("bad lanes");
    return {dtype(text.substr(0, x)), static_cast<uint16_t>(lanes)};
  }

  const Expr* fallback() { return ctx_.integer(0); }

  // A variable mentioned; `declare` says with which type it is met for the first time.
  const Expr* var(std::optional<Type> declare) {
    std::string name = token_;
    if (is_string_ || name.size() < 2 || name[0] != '%') {
      fail("expected a variable, found '" + token_ + "'");
      return fallback();
    }
    Type t = {DType::I64, 1};
    if (size_t dot = name.find('.'); dot != std::string::npos) {
      t = type(std::string_view(name).substr(dot + 1));
      name.resize(dot);
    } else if (declare) {
      t = *declare;
    }
    next();
    auto it = vars_.find(name);
    if (declare) {
      if (it != vars_.end()) fail("variable " + name + " declared twice");
      return vars_[name] = ctx_.fresh_var(t);
    }
    if (it == vars_.end()) {
      fail("unknown variable " + name);
      return fallback();
    }
    return it->second;
  }

  // Leaves, or null if the token opens a node.
  const Expr* leaf() {
    if (is("(")) return nullptr;
    if (token_.empty() || is_string_) {
      fail("expected an expression");
      return fallback();
    }
    if (token_[0] == '%') return var(std::nullopt);
    if (token_ == "$") {
      next();
      std::string name = string();
      return ctx_.sym(ctx_.declare_sym(name));
    }
    if (token_[0] == '#') return nullptr;
    if (size_t colon = token_.find(':'); colon != std::string::npos) {
      DType t = dtype(std::string_view(token_).substr(0, colon));
      std::string digits = token_.substr(colon + 1);
      char* end = nullptr;
      const Expr* e;
      if (is_float(t)) e = ctx_.number(std::strtod(digits.c_str(), &end), t);
      else if (t == DType::Bool) e = ctx_.boolean(std::strtoll(digits.c_str(), &end, 10) != 0);
      else e = ctx_.integer(std::strtoll(digits.c_str(), &end, 10), t);
      if (digits.empty() || *end) fail("bad constant '" + token_ + "'");
      next();
      return e;
    }
    return ctx_.integer(number());
  }

  const Expr* expr() {
    struct Frame { Expr node; std::vector<const Expr*> args; std::string label; const OpInfo* info; };
    std::vector<Frame> stack;
    for (;;) {
      if (failed()) return fallback();
      const Expr* done = nullptr;
      if (!stack.empty() && accept(")")) {
        Frame f = std::move(stack.back());
        stack.pop_back();
        int n = static_cast<int>(f.args.size());
        if (n < f.info->min_args || n > f.info->max_args) {
          fail("'" + std::string(f.info->name) + "' has the wrong number of operands");
          return fallback();
        }
        done = ctx_.raw(f.node, std::move(f.args));
        if (!f.label.empty()) labels_[f.label] = done;
      } else if (const Expr* l = leaf()) {
        done = l;
      } else {
        std::string label;
        if (!is("(")) {  // #n or #n=(
          label = token_;
          next();
          if (!accept("=")) {
            auto it = labels_.find(label);
            if (it == labels_.end()) {
              fail("unknown node " + label);
              return fallback();
            }
            done = it->second;
          }
        }
        if (!done) {
          expect("(");
          std::string name = token_;
          next();
          Type t = {DType::I64, 1};
          if (size_t dot = name.find('.'); dot != std::string::npos) {
            t = type(std::string_view(name).substr(dot + 1));
            name.resize(dot);
          }
          const OpInfo* info = op_named(name);
          if (!info || stack.size() > kMaxExprDepth) {
            fail("unknown operation '" + name + "'");
            return fallback();
          }
          Frame f{{}, {}, label, info};
          f.node.op = info->op;
          f.node.type = t;
          if (info->op == Op::Load) f.node.array = index_number();
          if (info->op == Op::Ramp || info->op == Op::Extract) f.node.i = number();
          stack.push_back(std::move(f));
          continue;
        }
      }
      if (stack.empty()) return done;
      stack.back().args.push_back(done);
    }
  }

  void block(std::vector<StmtPtr>& out, size_t depth) {
    expect("{");
    if (depth > kMaxDepth) fail("blocks nested too deeply");
    while (!failed() && !accept("}")) {
      if (at_end()) return fail("block without end");
      out.push_back(stmt(depth));
    }
  }

  void tiles(Stmt& s) {
    s.kind = StmtKind::Tiles;
    if (accept("begin")) {
      s.step = index_number();
    } else if (accept("dot")) {
      s.tile_op = TileOp::Dot;
      s.tile = static_cast<uint8_t>(std::min<uint32_t>(index_number(), UINT8_MAX));
      expect("bytes");
      s.step = index_number();
      s.index = {expr(), expr(), expr()};
    } else {
      expect("store");
      s.tile_op = TileOp::Store;
      s.tile = static_cast<uint8_t>(std::min<uint32_t>(index_number(), UINT8_MAX));
      expect("to");
      s.array = index_number();
      expect("[");
      s.index = {expr()};
      expect("]");
    }
  }

  void group_mma(Stmt& s) {
    s.kind = StmtKind::GroupMma;
    s.array = index_number();
    s.factors = dtype(token_);
    next();
    if (s.factors == DType::I8 || s.factors == DType::U8) {
      s.b_factors = dtype(token_);
      next();
    }
    s.transposed = accept("transposed");
    s.index.push_back(expr());
    s.b_transposed = accept("transposed");
    s.index.push_back(expr());
    expect("to");
    expect("[");
    while (!failed() && !accept("]")) s.sums.push_back(var({}));
    if (s.sums.empty()) fail("a product without sums");
  }

  void matrix(Stmt& s) {
    s.kind = StmtKind::Matrix;
    const auto place = [&] {
      expect("[");
      s.index.push_back(expr());
      s.index.push_back(expr());
      expect("]");
    };
    if (accept("begin")) return;
    if (accept("add")) {
      s.matrix_op = MatrixOp::Add;
      s.factors = dtype(token_);
      next();
      s.array = index_number();
      place(), place();
      return;
    }
    expect("store");
    s.matrix_op = MatrixOp::Store;
    s.step = number();
    expect("to");
    s.array = index_number();
    place();
  }

  StmtPtr stmt(size_t depth) {
    auto s = std::make_unique<Stmt>();
    labels_.clear();
    if (is("for") || is("rolled") || is("unroll") || is("lanes")) {
      s->kind = StmtKind::For;
      s->for_kind = is("unroll") ? ForKind::Unroll : is("lanes") ? ForKind::Lanes : ForKind::Serial;
      s->rolled = is("rolled");
      next();
      s->var = var(Type{DType::I64, 1});
      expect("=");
      s->begin = expr();
      expect("..");
      s->end = expr();
      expect("step");
      s->step = number();
      if (s->step <= 0) fail("step must be positive");
      block(s->body, depth + 1);
    } else if (accept("while")) {
      s->kind = StmtKind::While;
      s->cond = expr();
      expect("within");
      s->bound = expr();
      block(s->body, depth + 1);
    } else if (accept("if")) {
      s->kind = StmtKind::If;
      s->cond = expr();
      block(s->body, depth + 1);
      if (accept("else")) block(s->orelse, depth + 1);
    } else if (is("let") || is("local")) {
      s->kind = is("let") ? StmtKind::Let : StmtKind::Local;
      next();
      s->var = var(Type{DType::I64, 1});
      expect("=");
      s->value = expr();
    } else if (accept("fold")) {
      s->kind = StmtKind::FoldLanes;
      s->var = var(Type{DType::I64, 1});
      expect("=");
      const OpInfo* info = op_named(token_);
      if (info) s->combine = info->op;
      else fail("unknown operation '" + token_ + "'");
      next();
      expect("of");
      s->value = expr();
      if (accept("width")) s->step = index_number();
    } else if (accept("mma")) {
      s->kind = StmtKind::Mma;
      s->var = var(Type{DType::I64, 1});
      expect("=");
      s->factors = dtype(token_);
      next();
      if (s->factors == DType::I8 || s->factors == DType::U8) {
        s->b_factors = dtype(token_);
        next();
      }
      s->value = expr();
      s->index = {expr(), expr()};
    } else if (accept("group")) {
      expect("mma");
      group_mma(*s);
    } else if (accept("matrix")) {
      matrix(*s);
    } else if (accept("tiles")) {
      tiles(*s);
    } else if (accept("store")) {
      s->kind = StmtKind::Store;
      s->array = index_number();
      expect("[");
      while (!failed() && !accept("]")) s->index.push_back(expr());
      s->value = expr();
      if (s->index.empty()) fail("store without index");
      if (accept("where")) s->cond = expr();
    } else if (accept("barrier")) {
      s->kind = StmtKind::Barrier;
    } else if (accept("cluster")) {
      expect("barrier");
      s->kind = StmtKind::ClusterBarrier;
    } else if (accept("matrices")) {
      s->kind = StmtKind::LoadMatrices;
      s->transposed = accept("transposed");
      s->var = var(Type{DType::I64, 1});
      expect("=");
      s->value = expr();
    } else if (accept("peer")) {
      s->kind = StmtKind::Peer;
      s->var = var(Type{DType::I64, 1});
      expect("=");
      s->value = expr();
      expect("of");
      s->step = number();
    } else if (accept("copy")) {
      s->kind = StmtKind::Copy;
      s->step = number();
      expect("to");
      s->array = index_number();
      expect("[");
      s->index.push_back(expr());
      expect("]");
      s->value = expr();
      if (accept("where")) s->cond = expr();
    } else if (accept("close")) {
      expect("copies");
      s->kind = StmtKind::CloseCopies;
    } else if (accept("wait")) {
      expect("copies");
      s->kind = StmtKind::WaitCopies;
      s->step = number();
    } else if (accept("prefetch")) {
      s->kind = StmtKind::Prefetch;
      s->array = index_number();
      expect("[");
      s->index.push_back(expr());
      expect("]");
    } else if (accept("fault")) {
      s->kind = StmtKind::Fault;
      s->fault = static_cast<int32_t>(number());
      expect("if");
      s->cond = expr();
    } else {
      s->kind = StmtKind::Assign;
      s->var = var(std::nullopt);
      expect("=");
      s->value = expr();
    }
    return s;
  }

  Kernel kernel() {
    Kernel k;
    vars_.clear();
    labels_.clear();
    expect("kernel");
    k.name = string();
    expect("tiles");
    k.tiles = expr();
    if (accept("block")) k.lanes = static_cast<uint32_t>(number());
    if (accept("cluster")) k.cluster = static_cast<uint32_t>(number());
    if (accept("team")) {
      k.team.lanes = index_number();
      expect("side");
      k.team.side = index_number();
      expect("sums");
      k.team.rows = index_number();
      k.team.columns = index_number();
    }
    expect("range");
    k.tile_begin = var(Type{DType::I64, 1});
    k.tile_end = var(Type{DType::I64, 1});
    expect("{");
    while (accept("param")) {
      Param p;
      p.name = string();
      p.dtype = dtype(token_);
      next();
      p.written = accept("out");
      if (accept("workspace")) p.role = Role::Workspace;
      else expect("array");
      p.array = index_number();
      if (p.role != Role::Array) p.elements = expr();
      k.params.push_back(std::move(p));
    }
    while (accept("scalar")) k.scalars.push_back(ctx_.declare_sym(string()));
    for (bool in_turns = accept("turns"); in_turns || accept("cut"); in_turns = false) {
      Cut& cut = k.cuts.emplace_back();
      cut.in_turns = in_turns;
      cut.chunk = var(Type{DType::I64, 1});
      cut.units = expr();
    }
    while ((is("local") || is("shared") || is("private")) && pos_ < text_.size() && lookahead_is_string()) {
      LocalArray l;
      l.space = is("shared") ? Space::Shared : is("private") ? Space::Private : Space::Scratch;
      next();
      l.name = string();
      l.dtype = dtype(token_);
      next();
      l.count = expr();
      k.locals.push_back(std::move(l));
    }
    while (!failed() && !accept("}")) {
      if (at_end()) {
        fail("kernel without end");
        break;
      }
      k.body.push_back(stmt(0));
    }
    return k;
  }
  bool lookahead_is_string() const {
    size_t p = pos_;
    while (p < text_.size() && std::isspace(static_cast<unsigned char>(text_[p]))) ++p;
    return p < text_.size() && text_[p] == '"';
  }

  ir::Context& ctx_;
  std::string_view text_;
  size_t pos_ = 0;
  int line_ = 1, error_line_ = 0;
  std::string token_, error_;
  bool is_string_ = false;
  std::unordered_map<std::string, const Expr*> vars_, labels_;
};

}  // namespace

Result<std::vector<Kernel>> parse(ir::Context& ctx, std::string_view text) { return Parser(ctx, text).run(); }

}  // namespace mlc::loop
