#include "packager/loop/print.h"

#include <cinttypes>
#include <cstdio>
#include <unordered_map>
#include <unordered_set>

#include "packager/loop/ops.h"

namespace mlc::loop {

using ir::Expr;
using ir::Op;

namespace {

class Printer {
 public:
  std::string run(const Kernel& k) {
    out_ = "kernel " + quoted(k.name) + " tiles " + expr(k.tiles) + (k.lanes ? " block " + std::to_string(k.lanes) : "") + (k.cluster > 1 ? " cluster " + std::to_string(k.cluster) : "") + (k.resident ? " resident " + std::to_string(k.resident) : "") + team(k.team) + " range " + var(k.tile_begin) + " " +
           var(k.tile_end) + " {\n";
    for (const Param& p : k.params) {
      out_ += "  param " + quoted(p.name) + " " + std::string(name_of(p.dtype)) + (p.written ? " out" : "");
      out_ += p.role == Role::Array ? " array " : " workspace ";
      out_ += std::to_string(p.array);
      if (p.elements) out_ += " " + expr(p.elements);
      out_ += "\n";
    }
    for (const ir::Sym* s : k.scalars) out_ += "  scalar " + quoted(s->name) + "\n";
    for (const Cut& cut : k.cuts) out_ += (cut.in_turns ? "  turns " : "  cut ") + var(cut.chunk) + " " + expr(cut.units) + "\n";
    for (const LocalArray& l : k.locals)
      out_ += std::string("  ") + (l.space == Space::Shared ? "shared " : l.space == Space::Private ? "private " : "local ") + quoted(l.name) + " " + std::string(name_of(l.dtype)) + " " + expr(l.count) + "\n";
    block(k.body, 1);
    return out_ + "}\n";
  }

 private:
  static std::string quoted(std::string_view s) {
    std::string r = "\"";
    for (char c : s) {
      if (c == '"' || c == '\\') (r += '\\') += c;
      else if (static_cast<unsigned char>(c) < 32) {
        char hex[8];
        std::snprintf(hex, sizeof hex, "\\x%02x", static_cast<unsigned char>(c));
        r += hex;
      } else r += c;
    }
    return r + "\"";
  }
  std::string var(const Expr* v) {
    auto [it, fresh] = vars_.try_emplace(v, vars_.size());
    return "%" + std::to_string(it->second);
  }
  static std::string type_text(ir::Type t) {
    return std::string(name_of(t.dtype)) + (t.lanes > 1 ? "x" + std::to_string(t.lanes) : "");
  }
  static std::string suffix(ir::Type t) { return t == ir::Type{DType::I64, 1} ? "" : "." + type_text(t); }

  static std::string constant(const Expr* e) {
    char text[64];
    if (is_float(e->type.dtype)) std::snprintf(text, sizeof text, "%s:%a", name_of(e->type.dtype).data(), e->f);
    else if (e->type.dtype == DType::I64) std::snprintf(text, sizeof text, "%" PRId64, e->i);
    else std::snprintf(text, sizeof text, "%s:%" PRId64, name_of(e->type.dtype).data(), e->i);
    return text;
  }

  // Marks the nodes below `e` that have two parents.
  void count(const Expr* root) {
    std::vector<const Expr*> stack{root};
    while (!stack.empty()) {
      const Expr* e = stack.back();
      stack.pop_back();
      if (e->args.empty()) continue;
      if (!seen_.insert(e).second) {
        shared_.try_emplace(e, -1);
        continue;
      }
      for (const Expr* a : e->args) stack.push_back(a);
    }
  }

  // Expressions of one statement share numbering; `begin_statement` forgets them.
  void begin_statement(std::initializer_list<const Expr*> parts) {
    seen_.clear();
    shared_.clear();
    next_shared_ = 0;
    for (const Expr* e : parts)
      if (e) count(e);
  }

  std::string expr(const Expr* root) {
    // Iterative: expressions of fused chains may be deep. A stack of pieces still to be written, in reverse.
    struct Item { const Expr* e; const char* text; };
    std::string r;
    std::vector<Item> stack{{root, nullptr}};
    while (!stack.empty()) {
      Item item = stack.back();
      stack.pop_back();
      if (!item.e) {
        r += item.text;
        continue;
      }
      const Expr* e = item.e;
      if (e->op == Op::Const) r += constant(e);
      else if (e->op == Op::Var) r += var(e);
      else if (e->op == Op::Sym) r += "$" + quoted(e->sym->name);
      else {
        if (auto it = shared_.find(e); it != shared_.end()) {
          if (it->second >= 0) {
            r += "#" + std::to_string(it->second);
            continue;
          }
          it->second = next_shared_++;
          r += "#" + std::to_string(it->second) + "=";
        }
        const OpInfo* info = op_info(e->op);
        r += "(" + (info ? std::string(info->name) : "op" + std::to_string(int(e->op))) + suffix(e->type);
        if (e->op == Op::Load) r += " " + std::to_string(e->array);
        if (e->op == Op::Ramp || e->op == Op::Extract) r += " " + std::to_string(e->i);
        stack.push_back({nullptr, ")"});
        for (size_t k = e->args.size(); k-- > 0;) {
          stack.push_back({e->args[k], nullptr});
          stack.push_back({nullptr, " "});
        }
      }
    }
    return r;
  }

  static std::string team(const Team& t) {
    if (t.lanes == 0) return "";
    return " team " + std::to_string(t.lanes) + " side " + std::to_string(t.side) + " sums " + std::to_string(t.rows) + " " + std::to_string(t.columns);
  }

  void matrix(const Stmt& s) {
    out_ += "matrix ";
    const auto index = [&](size_t first) {
      for (size_t k = first; k < first + 2; ++k) out_ += (k == first ? " [" : " ") + expr(s.index[k]);
      out_ += "]";
    };
    switch (s.matrix_op) {
      case MatrixOp::Begin: out_ += "begin"; break;
      case MatrixOp::Add:
        begin_statement({s.index[0], s.index[1], s.index[2], s.index[3]});
        out_ += "add " + std::string(name_of(s.factors)) + " " + std::to_string(s.array);
        index(0), index(2);
        break;
      case MatrixOp::Store:
        begin_statement({s.index[0], s.index[1]});
        out_ += "store " + std::to_string(s.step) + " to " + std::to_string(s.array);
        index(0);
        break;
    }
  }

  void tiles(const Stmt& s) {
    out_ += "tiles ";
    switch (s.tile_op) {
      case TileOp::Begin: out_ += "begin " + std::to_string(s.step); break;
      case TileOp::Dot:
        begin_statement({s.index[0], s.index[1], s.index[2]});
        out_ += "dot " + std::to_string(s.tile) + " bytes " + std::to_string(s.step);
        for (const Expr* e : s.index) out_ += " " + expr(e);
        break;
      case TileOp::Store:
        begin_statement({s.index[0]});
        out_ += "store " + std::to_string(s.tile) + " to " + std::to_string(s.array) + " [" + expr(s.index[0]) + "]";
        break;
    }
  }

  void block(const std::vector<StmtPtr>& stmts, int depth) {
    for (const StmtPtr& s : stmts) stmt(*s, depth);
  }
  void nested(const std::vector<StmtPtr>& stmts, int depth) {
    out_ += " {\n";
    block(stmts, depth + 1);
    out_.append(size_t(depth) * 2, ' ');
    out_ += "}";
  }

  void stmt(const Stmt& s, int depth) {
    out_.append(size_t(depth) * 2, ' ');
    switch (s.kind) {
      case StmtKind::For:
        begin_statement({s.begin, s.end});
        out_ += std::string(s.for_kind == ForKind::Unroll ? "unroll " : s.for_kind == ForKind::Lanes ? "lanes " : s.rolled ? "rolled " : "for ") + var(s.var) + " = " + expr(s.begin);
        out_ += " .. " + expr(s.end) + " step " + std::to_string(s.step);
        nested(s.body, depth);
        break;
      case StmtKind::While:
        begin_statement({s.cond, s.bound});
        out_ += "while " + expr(s.cond) + " within " + expr(s.bound);
        nested(s.body, depth);
        break;
      case StmtKind::If:
        begin_statement({s.cond});
        out_ += "if " + expr(s.cond);
        nested(s.body, depth);
        if (!s.orelse.empty()) {
          out_ += " else";
          nested(s.orelse, depth);
        }
        break;
      case StmtKind::Let:
      case StmtKind::Local:
        begin_statement({s.value});
        out_ += std::string(s.kind == StmtKind::Let ? "let " : "local ") + var(s.var) + suffix(s.var->type) + " = " +
                expr(s.value);
        break;
      case StmtKind::FoldLanes:
        begin_statement({s.value});
        out_ += "fold " + var(s.var) + suffix(s.var->type) + " = " + std::string(op_info(s.combine)->name) + " of " + expr(s.value) + (s.step != 1 ? " width " + std::to_string(s.step) : "");
        break;
      case StmtKind::Mma:
        begin_statement({s.value, s.index[0], s.index[1]});
        out_ += "mma " + var(s.var) + suffix(s.var->type) + " = " + std::string(name_of(s.factors));
        if (s.b_factors != DType::None) out_ += " " + std::string(name_of(s.b_factors));
        for (const Expr* e : {s.value, s.index[0], s.index[1]}) out_ += " " + expr(e);  // one after the other: what they share is named by the first
        break;
      case StmtKind::GroupMma:
        begin_statement({s.index[0], s.index[1]});
        out_ += "group mma " + std::to_string(s.array) + " " + std::string(name_of(s.factors));
        if (s.b_factors != DType::None) out_ += " " + std::string(name_of(s.b_factors));
        out_ += (s.transposed ? " transposed " : " ") + expr(s.index[0]) + (s.b_transposed ? " transposed " : " ") + expr(s.index[1]) + " to [";
        for (size_t k = 0; k < s.sums.size(); ++k) out_ += (k ? " " : "") + var(s.sums[k]);
        out_ += "]";
        break;
      case StmtKind::Matrix: matrix(s); break;
      case StmtKind::Tiles: tiles(s); break;
      case StmtKind::Assign:
        begin_statement({s.value});
        out_ += var(s.var) + " = " + expr(s.value);
        break;
      case StmtKind::Store: {
        begin_statement({s.index[0], s.value, s.cond});
        out_ += "store " + std::to_string(s.array) + " [" + expr(s.index[0]);
        for (size_t k = 1; k < s.index.size(); ++k) out_ += " " + expr(s.index[k]);
        out_ += "] " + expr(s.value);
        if (s.cond) out_ += " where " + expr(s.cond);
        break;
      }
      case StmtKind::Barrier: out_ += "barrier"; break;
      case StmtKind::ClusterBarrier: out_ += "cluster barrier"; break;
      case StmtKind::LoadMatrices:
        begin_statement({s.value});
        out_ += std::string("matrices ") + (s.transposed ? "transposed " : "") + var(s.var) + suffix(s.var->type) + " = " + expr(s.value);
        break;
      case StmtKind::Peer:
        begin_statement({s.value});
        out_ += "peer " + var(s.var) + suffix(s.var->type) + " = " + expr(s.value) + " of " + std::to_string(s.step);
        break;
      case StmtKind::Copy:
        begin_statement({s.index[0], s.value, s.cond});
        out_ += "copy " + std::to_string(s.step) + " to " + std::to_string(s.array) + " [" + expr(s.index[0]);
        out_ += "] " + expr(s.value);
        if (s.cond) out_ += " where " + expr(s.cond);
        break;
      case StmtKind::CloseCopies: out_ += "close copies"; break;
      case StmtKind::WaitCopies: out_ += "wait copies " + std::to_string(s.step); break;
      case StmtKind::Prefetch:
        begin_statement({s.index[0]});
        out_ += "prefetch " + std::to_string(s.array) + " [" + expr(s.index[0]) + "]";
        break;
      case StmtKind::Fault:
        begin_statement({s.cond});
        out_ += "fault " + std::to_string(s.fault) + " if " + expr(s.cond);
        break;
    }
    out_ += "\n";
  }

  std::string out_;
  std::unordered_map<const Expr*, size_t> vars_;
  std::unordered_set<const Expr*> seen_;
  std::unordered_map<const Expr*, int> shared_;
  int next_shared_ = 0;
};

}  // namespace

std::string to_string(const Kernel& kernel) { return Printer().run(kernel); }

}  // namespace mlc::loop
