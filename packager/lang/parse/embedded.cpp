#include "packager/lang/parse/embedded.h"

#include <charconv>

#include "packager/lang/parse/parser.h"

namespace mlc::lang {
namespace {

bool in_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

// Takes the word (and those behind points, where `points` says so) that `line` begins with, and blanks before it.
std::string_view take_word(std::string_view& line, bool points = false) {
  while (line.starts_with(' ')) line.remove_prefix(1);
  size_t end = 0;
  while (end < line.size() && (in_word(line[end]) || (points && line[end] == '.'))) ++end;
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(end);
  return word;
}

template <class T>
const T* find_in(const std::map<std::string, T>& own, const T* (Embedded::*embedded)(const std::string&) const, const Embedded* texts,
                 const std::string& domain, const std::string& name) {
  const auto of = [&](const std::string& key) -> const T* {
    const auto it = own.find(key);
    if (it != own.end()) return &it->second;
    return texts ? (texts->*embedded)(key) : nullptr;
  };
  const T* found = of(domain + ":" + name);
  return found ? found : of("ai.onnx:" + name);
}

}  // namespace

Module::Module() = default;
Module::~Module() = default;

const FnDef* Module::fn(const std::string& domain, const std::string& name) const {
  return find_in(fns, &Embedded::fn, embedded.get(), domain, name);
}

const CombinerDef* Module::combiner(const std::string& domain, const std::string& name) const {
  return find_in(combiners, &Embedded::combiner, embedded.get(), domain, name);
}

Embedded::Definition::~Definition() { delete parsed.load(); }

Embedded::Embedded(const std::vector<SourceFile>& texts, const Module& module) : texts_(texts), module_(module) {
  for (const SourceFile& text : texts) find(text);
}

void Embedded::find(const SourceFile& source) {
  const std::string* file = &files_.emplace_back(source.name);
  const std::string_view text = source.text;
  std::string domain = "ai.onnx";
  Definition* open = nullptr;  // ends where the next begins
  size_t begin = 0;
  int number = 0;
  for (size_t at = 0; at < text.size();) {
    ++number;
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    if (const std::string_view kind = in_word(text[at]) ? take_word(line) : ""; !kind.empty()) {
      if (open) open->text = text.substr(begin, at - begin);
      open = nullptr;
      if (kind == "domain") {
        domain = take_word(line, /*points=*/true);
      } else {
        open = &(kind == "op" ? operators_ : others_).emplace_back();
        open->domain = domain;
        open->name = take_word(line);
        open->file = file;
        open->line = number;
        if (line.starts_with('@')) std::from_chars(line.data() + 1, line.data() + line.size(), open->since);
        add(*open, kind);
        begin = at;
      }
    }
    at = end + 1;
  }
  if (open) open->text = text.substr(begin);
}

void Embedded::add(Definition& definition, std::string_view kind) {
  if (kind == "fn") fns_.emplace(definition.domain + ":" + definition.name, &definition);
  if (kind == "combiner") combiners_.emplace(definition.domain + ":" + definition.name, &definition);
  if (kind == "clauses") clauses_[definition.name].push_back(&definition);
}

const FnDef* Embedded::fn(const std::string& key) const {
  const auto it = fns_.find(key);
  return it == fns_.end() ? nullptr : &parsed(*it->second).fns.begin()->second;
}

const CombinerDef* Embedded::combiner(const std::string& key) const {
  const auto it = combiners_.find(key);
  return it == combiners_.end() ? nullptr : &parsed(*it->second).combiners.begin()->second;
}

const std::vector<const Embedded::Definition*>& Embedded::clauses(const std::string& name) const {
  static const std::vector<const Definition*> none;
  const auto it = clauses_.find(name);
  return it == clauses_.end() ? none : it->second;
}

const Module& Embedded::parsed(const Definition& definition) const {
  if (const Module* already = definition.parsed.load(std::memory_order_acquire)) return *already;
  auto made = std::make_unique<Module>();
  parse_part(*made, {definition.file, definition.line, definition.domain, definition.text});
  for (OpDef& op : made->ops) put_clauses(module_, op);
  const Module* other = nullptr;
  if (!definition.parsed.compare_exchange_strong(other, made.get(), std::memory_order_acq_rel)) return *other;
  return *made.release();
}

bool Embedded::has_word(const std::string& word) const {
  for (const SourceFile& source : texts_)
    for (size_t at = source.text.find(word); at != std::string::npos; at = source.text.find(word, at + 1)) {
      const size_t end = at + word.size();
      if ((at == 0 || !in_word(source.text[at - 1])) && (end == source.text.size() || !in_word(source.text[end]))) return true;
    }
  return false;
}

}  // namespace mlc::lang
