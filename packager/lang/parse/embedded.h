// The texts of ops/ that travel inside this library. Most of what they define is never asked for by one model: at start each
// definition is only found, which takes its first line, and what stands there is parsed when it is asked for first.
//
// That takes two things of these texts that others need not have (tests/unit/lang/parser_test.cpp compares all definitions with those of
// the whole texts): definitions begin at the left edge, nothing else does; and they are right, so that their names are checked
// by that test, not here.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "packager/lang/lang.h"
#include "packager/lang/parse/ast.h"

namespace mlc::lang {

// May be shared between threads: where two parse one definition at once, both get that of the one that ends first.
class Embedded {
 public:
  struct Definition {
    std::string domain, name;
    int64_t since = 1;  // of an operator
    const std::string* file = nullptr;
    int line = 0;
    std::string_view text;
    mutable std::atomic<const Module*> parsed{nullptr};

    Definition() = default;
    Definition(const Definition&) = delete;
    ~Definition();
  };

  // `texts` and `module`, whose clauses these definitions may use as well, must outlive it.
  Embedded(const std::vector<SourceFile>& texts, const Module& module);

  // "domain:name" of a function or combiner; null if there is none.
  const FnDef* fn(const std::string& key) const;
  const CombinerDef* combiner(const std::string& key) const;
  // In the order of the files.
  const std::deque<Definition>& operators() const { return operators_; }
  const std::vector<const Definition*>& clauses(const std::string& name) const;
  // The definition alone, the clauses that an operator uses in their places. Throws Failure.
  const Module& parsed(const Definition& definition) const;
  // Is this somewhere in the texts?
  bool has_word(const std::string& word) const;

 private:
  using Table = std::unordered_map<std::string, const Definition*>;
  void find(const SourceFile& text);
  void add(Definition& definition, std::string_view kind);

  const std::vector<SourceFile>& texts_;
  const Module& module_;
  std::deque<std::string> files_;
  std::deque<Definition> operators_, others_;
  Table fns_, combiners_;
  std::unordered_map<std::string, std::vector<const Definition*>> clauses_;
};

}  // namespace mlc::lang
