// Clauses that definitions share: each `use` becomes the attributes and statements of its block.
#include <algorithm>

#include "packager/lang/parse/embedded.h"
#include "packager/lang/parse/parser.h"

namespace mlc::lang {
namespace {

constexpr size_t kMaxStatements = 10000;  // of one definition, those of its clauses included
constexpr size_t kMaxNested = 100;        // blocks that use blocks

// The block of the user's own file, else the first of the domain, else the first of ai.onnx; null if there is none.
const Clauses* find_block(const Module& module, const Stmt& use, const std::string& domain) {
  static const std::vector<const Embedded::Definition*> none;
  const auto& embedded = module.embedded ? module.embedded->clauses(use.text) : none;
  const auto blocks = module.clauses.find(use.text);
  const auto first = [&](auto fits) -> const Clauses* {
    for (const Embedded::Definition* d : embedded)
      if (fits(d->file, d->domain)) return &module.embedded->parsed(*d).clauses.begin()->second.front();
    if (blocks == module.clauses.end()) return nullptr;
    const auto it = std::find_if(blocks->second.begin(), blocks->second.end(), [&](const Clauses& c) { return fits(c.pos.file, c.domain); });
    return it == blocks->second.end() ? nullptr : &*it;
  };
  using File = const std::string*;
  if (const Clauses* own = first([&](File file, const std::string&) { return file == use.pos.file; })) return own;
  if (const Clauses* near = first([&](File, const std::string& of) { return of == domain; })) return near;
  return first([](File, const std::string& of) { return of == "ai.onnx"; });
}

const Clauses& block_of(const Module& module, const Stmt& use, const std::string& domain) {
  const Clauses* block = find_block(module, use, domain);
  if (!block) fail_at(use.pos, "there are no clauses '" + use.text + "'");
  return *block;
}

// Writes out the body of one definition.
class Writer {
 public:
  Writer(const Module& module, OpDef& op) : module_(module), op_(op) {}

  void run() {
    Clauses written;
    written.domain = op_.domain;
    written.attrs.swap(op_.attrs);
    written.body.swap(op_.body);
    put(written);
    for (const Clauses* block : used_) op_.text += "\n" + block->text;
  }

 private:
  // Attributes and statements in the order of the text, where a `use` stands for what it names.
  void put(const Clauses& from) {
    size_t attrs = 0;
    const auto put_attrs = [&](size_t end) {
      for (; attrs < end; ++attrs) {
        const AttrDecl& a = from.attrs[attrs];
        if (op_.attr(a.name)) fail_at(a.pos, "a second attribute '" + a.name + "'");
        op_.attrs.push_back(a);
      }
    };
    for (const Stmt& s : from.body) {
      if (++steps_ > kMaxStatements)
        fail_at(s.pos, "a definition of more than " + std::to_string(kMaxStatements) + " statements");
      put_attrs(s.attrs_above);
      if (s.kind == StmtKind::Use) put_block(s, from.domain);
      else op_.body.push_back(s);
    }
    put_attrs(from.attrs.size());
  }

  void put_block(const Stmt& use, const std::string& domain) {
    const Clauses& block = block_of(module_, use, domain);
    if (open_ == kMaxNested) fail_at(use.pos, "clauses '" + use.text + "' use each other without end");
    if (std::find(used_.begin(), used_.end(), &block) == used_.end()) used_.push_back(&block);
    ++open_;
    put(block);
    --open_;
  }

  const Module& module_;
  OpDef& op_;
  std::vector<const Clauses*> used_;
  size_t steps_ = 0, open_ = 0;
};

}  // namespace

void put_clauses(Module& module) {
  for (const auto& [name, blocks] : module.clauses)
    for (const Clauses& block : blocks)
      for (const Stmt& s : block.body)
        if (s.kind == StmtKind::Use) (void)block_of(module, s, block.domain);
  for (OpDef& op : module.ops) put_clauses(module, op);
}

void put_clauses(const Module& module, OpDef& op) { Writer(module, op).run(); }

}  // namespace mlc::lang
