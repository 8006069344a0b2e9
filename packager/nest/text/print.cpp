#include "packager/nest/text/print.h"

#include <cstring>
#include <set>
#include <unordered_map>

#include "packager/ir/text/text.h"
#include "packager/nest/facts/uses.h"
#include "packager/nest/proc.h"

namespace mlc::nest {

using ir::Expr;
using ir::Op;

std::string hash_text(Bytes bytes) {
  uint64_t h = 0xcbf29ce484222325u;
  size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + i, 8);
    h = (h ^ word) * 0x100000001b3u;
    h ^= h >> 29;
  }
  for (; i < bytes.size(); ++i) h = (h ^ static_cast<uint64_t>(bytes[i])) * 0x100000001b3u;
  static constexpr char kHex[] = "0123456789abcdef";
  std::string s;
  for (int shift = 60; shift >= 0; shift -= 4) s += kHex[h >> shift & 15];
  return s;
}

namespace {

std::string quoted(const std::string& text) {
  std::string s = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') s += '\\';
    s += c;
  }
  return s + "\"";
}

constexpr std::string_view kJoins[] = {"sum", "prod", "min", "max", "any", "all", "last", "custom"};

class Printer {
 public:
  explicit Printer(const Function& f, int depth = 0) : f_(f), depth_(depth) {
    names_.dim = [this](const ir::Dim* d) { return dim_names_.at(d); };
    names_.var = [this](int64_t v) { return "#" + std::to_string(vars_.at(v)); };
  }

  // Statements alone, and what stands in them.
  std::string part(size_t first, size_t count) {
    std::set<uint32_t> used;
    for (size_t k = first; k < first + count; ++k)
      for (const auto& list : {read(f_.body[k]), written(f_.body[k])}) used.insert(list.begin(), list.end());
    for (uint32_t a : used) for (const Expr* e : f_.arrays[a].shape) scan(e);
    for (size_t k = first; k < first + count; ++k) scan_statement(f_.body[k]);
    std::string body;
    for (size_t k = first; k < first + count; ++k) body += statement(f_.body[k]);
    std::string out = declarations();
    for (uint32_t a : used) out += array(a);
    return out + body;
  }

  std::string run() {
    // What must be declared: found in order of appearance.
    for (const Array& a : f_.arrays) for (const Expr* e : a.shape) scan(e);
    for (const Function::Check& c : f_.checks) scan(c.condition);
    for (const Function::Definition& d : f_.definitions) scan(d.value);
    for (const Function::Element& e : f_.elements) symbol(e.sym);
    for (const Statement& s : f_.body) scan_statement(s);
    std::string body;
    for (const Statement& s : f_.body) body += statement(s);
    std::string out = "function " + quoted(f_.name) + "\n" + declarations();
    for (size_t i = 0; i < f_.arrays.size(); ++i) out += array(i);
    out += "inputs" + numbers(f_.inputs) + "\noutputs" + numbers(f_.outputs) + "\n";
    for (const Function::Check& c : f_.checks) out += "check " + ir::print(c.condition, names_) + " " + quoted(c.message) + "\n";
    for (const Function::Definition& d : f_.definitions)
      out += "define " + ir::print_sym(d.sym) + " = " + ir::print(d.value, names_) + "\n";
    for (const Function::Element& e : f_.elements)
      out += "element " + ir::print_sym(e.sym) + " = %" + std::to_string(e.input) + " " + std::to_string(e.element) + "\n";
    return out + body;
  }

 private:
  std::string statement(const Statement& s) { return s.nest ? nest(s) : s.proc ? proc(s) : control(s); }
  void scan_statement(const Statement& s) {
    if (s.nest) scan_nest(*s.nest);
    else if (s.proc) scan_proc(*s.proc);
    else for (const ir::Sym* sym : s.control->symbols) symbol(sym);
  }
  std::string declarations() {
    std::string out;
    for (const ir::Sym* s : syms_)
      out += "sym " + ir::print_sym(s) + " " + std::to_string(s->lo) + " " + std::to_string(s->hi) + " multiple " +
             std::to_string(s->multiple) + "\n";
    for (const ir::Dim* d : dims_) out += "dim " + dim_names_.at(d) + " = " + ir::print(d->extent, names_) + "\n";
    for (const ir::Combiner* c : combiners_) out += combiner(c);
    return out;
  }

  void scan_dim(const ir::Dim* d) {
    if (dim_names_.contains(d)) return;
    scan(d->extent);
    std::string base;
    for (char c : d->name) base += (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ? c : '_';
    static const std::set<std::string> kWords = {"for", "where", "and", "or", "true", "false", "inf", "nan", "by", "scan",
                                                 "exclusive", "reverse", "reads", "writes", "let"};
    if (base.empty() || (base[0] >= '0' && base[0] <= '9') || kWords.contains(base)) base = "d" + base;
    std::string name = base;
    for (int n = 2; !taken_.insert(name).second; ++n) name = base + "_" + std::to_string(n);
    dim_names_[d] = name;
    dims_.push_back(d);
  }
  void symbol(const ir::Sym* s) {
    if (known_syms_.insert(s).second) syms_.push_back(s);
  }
  void scan(const Expr* root) {
    if (!root) return;
    ir::walk(root, [&](const Expr* e) {
      if (!seen_.insert(e).second) return;
      if (e->op == Op::Sym) symbol(e->sym);
      if (e->op == Op::Dim) scan_dim(e->dim);
      if (e->op == Op::Var) var(e);
      if (e->op != Op::Fold) return;
      for (const ir::Dim* d : e->fold->dims) scan_dim(d);
      scan_combiner(e->fold->combiner);
    });
  }
  void scan_combiner(const ir::Combiner* c) {
    if (!c || c->join != ir::Join::Custom || !known_combiners_.insert(c).second) return;
    for (const auto* list : {&c->left, &c->right, &c->units, &c->joins})
      for (const Expr* e : *list) scan(e);
    combiners_.push_back(c);
  }
  void var(const Expr* e) {
    if (vars_.emplace(e->i, static_cast<int64_t>(vars_.size())).second) return;
  }
  void scan_nest(const Nest& n) {
    for (const ir::Dim* d : n.dims) scan_dim(d);
    scan(n.where);
    scan_combiner(n.scan_combiner);
    for (const Write& w : n.writes) {
      for (const Expr* e : w.index) scan(e);
      scan(w.value);
    }
  }
  void scan_proc(const Proc& p) {
    for (const ir::Dim* d : p.dims) scan_dim(d);
    for (const loop::LocalArray& l : p.locals) for (const Expr* e : l.shape) scan(e);
    scan_block(p.body);
  }
  void scan_block(const std::vector<loop::StmtPtr>& body) {
    for (const loop::StmtPtr& s : body) {
      for (const Expr* e : {s->var, s->begin, s->end, s->cond, s->bound, s->value}) scan(e);
      for (const Expr* e : s->index) scan(e);
      scan_block(s->body);
      scan_block(s->orelse);
    }
  }

  std::string numbers(const std::vector<uint32_t>& list) {
    std::string s;
    for (uint32_t n : list) s += " %" + std::to_string(n);
    return s;
  }
  template <class List>
  std::string list(const List& exprs) {
    std::string s;
    for (const Expr* e : exprs) s += (s.empty() ? "" : ", ") + ir::print(e, names_);
    return s;
  }
  std::string declared(const Expr* v) { return ir::print(v, names_) + ": " + ir::print_type(v->type); }

  std::string combiner(const ir::Combiner* c) {
    std::string s = "combiner " + c->name;
    for (const auto* side : {&c->left, &c->right}) {
      s += " (";
      for (const Expr* v : *side) s += (s.back() == '(' ? "" : ", ") + declared(v);
      s += ")";
    }
    return s + " unit (" + list(c->units) + ") join (" + list(c->joins) + ")" + (c->commutative ? " commutative" : "") + "\n";
  }

  std::string array(size_t i) {
    const Array& a = f_.arrays[i];
    std::string s = "array %" + std::to_string(i) + " " + quoted(a.name) + " " +
                    std::string(kArrayKinds[static_cast<size_t>(a.kind)]) + " " + std::string(name_of(a.dtype)) + " [" +
                    list(a.shape) + "]";
    if (a.list_depth) s += " list " + std::to_string(a.list_depth);
    if (!a.layout.pieces.empty()) s += " layout " + to_string(a.layout, static_cast<unsigned>(a.shape.size()));
    if (a.layout.is_part()) s += " part of %" + std::to_string(a.whole) + " [" + list(a.layout.within) + "] at [" + list(a.layout.at) + "]";
    if (a.data && a.data->bytes.size() <= 256) {
      static constexpr char kHex[] = "0123456789abcdef";
      s += " hex \"";
      for (std::byte b : a.data->bytes) {
        s += kHex[static_cast<unsigned>(b) >> 4];
        s += kHex[static_cast<unsigned>(b) & 15];
      }
      s += "\"";
    } else if (a.data) {
      s += " data " + std::to_string(a.data->bytes.size()) + " \"" + hash_text(a.data->bytes) + "\"";
    }
    return s + "\n";
  }

  std::string dims(const std::vector<const ir::Dim*>& list) {
    std::string s = "(";
    for (const ir::Dim* d : list) s += (s.size() == 1 ? "" : ", ") + dim_names_.at(d);
    return s + ")";
  }

  // Names what occurs more than once and is not small, so that text does not grow with the number of paths.
  std::string lets(const Nest& n) {
    std::unordered_map<const Expr*, int> uses, size;
    std::vector<const Expr*> order, roots{n.where};
    for (const Write& w : n.writes) {
      roots.insert(roots.end(), w.index.begin(), w.index.end());
      roots.push_back(w.value);
    }
    for (const Expr* r : roots) {
      if (!r) continue;
      ++uses[r];
      ir::walk(r, [&](const Expr* e) {
        if (size.contains(e)) return;
        int total = 1;
        auto use = [&](const Expr* a) {
          ++uses[a];
          total += size.at(a);
        };
        for (const Expr* a : e->args) use(a);
        if (e->op == Op::Fold && e->fold->where) use(e->fold->where);
        size[e] = std::min(total, 1000);
        order.push_back(e);
      });
    }
    std::string s;
    int next = 0;
    for (const Expr* e : order) {
      if (uses[e] < 2 || size[e] < 8 || e == n.where) continue;
      std::string name = "@" + std::to_string(next++);
      s += "  let " + name + " = " + ir::print(e, names_) + "\n";
      names_.defined[e] = name;
    }
    return s;
  }

  std::string nest(const Statement& st) {
    const Nest& n = *st.nest;
    names_.defined.clear();
    std::string definitions = lets(n);
    std::string s = "nest " + quoted(st.source) + " " + dims(n.dims);
    if (n.where) {
      auto kept = std::move(names_.defined);
      names_.defined.clear();
      s += " where " + ir::print(n.where, names_);
      names_.defined = std::move(kept);
    }
    if (n.scan_dim)
      s += " scan " + dim_names_.at(n.scan_dim) + " by " + n.scan_combiner->name + (n.scan_exclusive ? " exclusive" : "") +
           (n.scan_reverse ? " reverse" : "");
    if (st.joins) s += " joins";
    s += " {\n" + definitions;
    for (const Write& w : n.writes) {
      s += (w.push ? "  push %" : "  write %") + std::to_string(w.array) + "[" + use(w.index) + "] = " + use({w.value});
      if (w.push) s += " by " + std::string(kJoins[static_cast<size_t>(w.join)]);
      s += "\n";
    }
    names_.defined.clear();
    return s + "}\n";
  }
  // Like list, but a root that has a name is printed as that.
  std::string use(const std::vector<const Expr*>& exprs) {
    std::string s;
    for (const Expr* e : exprs) {
      auto it = names_.defined.find(e);
      s += (s.empty() ? "" : ", ") + (it != names_.defined.end() ? it->second : ir::print(e, names_));
    }
    return s;
  }

  std::string proc(const Statement& st) {
    const Proc& p = *st.proc;
    std::string s = "proc " + quoted(st.source) + " " + dims(p.dims) + " reads" + numbers(p.reads) + " writes" +
                    numbers(p.writes) + " {\n";
    for (size_t i = 0; i < p.locals.size(); ++i)
      s += "  alloc %" + std::to_string(kFirstLocal + i) + " " + quoted(p.locals[i].name) + " " +
           std::string(name_of(p.locals[i].dtype)) + " [" + list(p.locals[i].shape) + "]\n";
    s += block(p.body, "  ");
    return s + "}\n";
  }
  std::string block(const std::vector<loop::StmtPtr>& body, const std::string& indent) {
    std::string s;
    auto text = [&](const Expr* e) { return ir::print(e, names_); };
    for (const loop::StmtPtr& p : body) {
      const loop::Stmt& t = *p;
      auto inner = [&](const std::vector<loop::StmtPtr>& b) { return " {\n" + block(b, indent + "  ") + indent + "}"; };
      s += indent;
      switch (t.kind) {
        case loop::StmtKind::For:
          s += "for " + text(t.var) + " in " + text(t.begin) + " to " + text(t.end) + " step " + std::to_string(t.step) +
               (t.for_kind == loop::ForKind::Unroll ? " unroll" : "") + inner(t.body);
          break;
        case loop::StmtKind::While: s += "while " + text(t.cond) + " within " + text(t.bound) + inner(t.body); break;
        case loop::StmtKind::If:
          s += "if " + text(t.cond) + inner(t.body);
          if (!t.orelse.empty()) s += " else" + inner(t.orelse);
          break;
        case loop::StmtKind::Let: s += "let " + declared(t.var) + " = " + text(t.value); break;
        case loop::StmtKind::Local:
          s += "local " + declared(t.var);
          if (t.value) s += " = " + text(t.value);
          break;
        case loop::StmtKind::Assign: s += text(t.var) + " = " + text(t.value); break;
        case loop::StmtKind::Store:
          s += "store %" + std::to_string(t.array) + "[" + list(t.index) + "] = " + text(t.value);
          if (t.cond) s += " where " + text(t.cond);
          break;
        case loop::StmtKind::Barrier:
        case loop::StmtKind::ClusterBarrier:
        case loop::StmtKind::Peer:
        case loop::StmtKind::LoadMatrices:
        case loop::StmtKind::GroupMma:
        case loop::StmtKind::Matrix:
        case loop::StmtKind::FoldLanes:
        case loop::StmtKind::Mma:
        case loop::StmtKind::Tiles:
        case loop::StmtKind::Copy:
        case loop::StmtKind::CloseCopies:
        case loop::StmtKind::WaitCopies:
        case loop::StmtKind::Prefetch: break;  // kernels only
        case loop::StmtKind::Fault: s += "fault " + std::to_string(t.fault) + " if " + text(t.cond); break;
      }
      s += "\n";
    }
    return s;
  }

  // Bodies are nested as deeply as they are; what is deeper than a function may be is not shown.
  std::string control(const Statement& st) {
    const Control& c = *st.control;
    auto operands = [](const std::vector<uint32_t>& list) {
      std::string s;
      for (uint32_t n : list) s += n == kNoArray ? " none" : " %" + std::to_string(n);
      return s;
    };
    std::string s = "control " + std::string(kStepWords[static_cast<size_t>(c.kind)]) + " " + quoted(st.source) + " reads" +
                    operands(c.inputs) + " writes" + operands(c.outputs);
    if (c.carried) s += " carried " + std::to_string(c.carried);
    s += text_of(c.set);
    if (c.kind == StepOp::Host) s += " service " + quoted(c.service) + " " + quoted(c.options);
    for (const ir::Sym* sym : c.symbols) s += " " + ir::print_sym(sym);
    for (const auto& body : c.bodies)
      if (body && depth_ < 64) s += " {\n" + indented(Printer(*body, depth_ + 1).run()) + "}";
    return s + "\n";
  }
  // Two more spaces at the start of each line, but not inside of quotes.
  static std::string indented(const std::string& text) {
    std::string s;
    bool quote = false, line_start = true;
    for (size_t i = 0; i < text.size(); ++i) {
      if (line_start && !quote) s += "  ";
      line_start = false;
      s += text[i];
      if (quote && text[i] == '\\' && i + 1 < text.size()) s += text[++i];
      else if (text[i] == '"') quote = !quote;
      else if (text[i] == '\n') line_start = true;
    }
    return s;
  }

  const Function& f_;
  int depth_;
  ir::Names names_;
  std::unordered_map<const ir::Dim*, std::string> dim_names_;
  std::unordered_map<int64_t, int64_t> vars_;
  std::set<std::string> taken_;
  std::vector<const ir::Dim*> dims_;
  std::vector<const ir::Sym*> syms_;
  std::vector<const ir::Combiner*> combiners_;
  std::set<const ir::Sym*> known_syms_;
  std::set<const ir::Combiner*> known_combiners_;
  std::set<const Expr*> seen_;
};

}  // namespace

std::string print(const Function& f) { return Printer(f).run(); }
std::string print_statements(const Function& f, size_t first, size_t count) { return Printer(f).part(first, count); }

}  // namespace mlc::nest
