// Writes one SPIR-V module with one function: sections are kept apart and joined at the end, types and constants are made once, ids
// are given in order of use, so equal calls give equal words.
#pragma once

#include <initializer_list>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "targets/spirv/words.h"

namespace mlc::targets::spirv {

class Writer {
 public:
  Id fresh() { return next_++; }

  // A type without decorations of its own, or a constant: equal ones are one id. For constants the first word is the type.
  Id unique(Op op, std::initializer_list<uint32_t> words);
  // Types that carry decorations, and variables of the module: always a new id. `typed`: the first word is the type of the result.
  Id global(Op op, std::initializer_list<uint32_t> words, bool typed = false);
  Id structure(std::span<const Id> members);  // a type of its own
  void capability(Capability c) { capabilities_.insert(static_cast<uint32_t>(c)); }
  bool has(Capability c) const { return capabilities_.contains(static_cast<uint32_t>(c)); }
  std::vector<uint32_t> capabilities() const { return {capabilities_.begin(), capabilities_.end()}; }
  void extension(std::string_view name) { extensions_.insert(name); }  // of a constant
  void decorate(Id id, Decoration what, std::initializer_list<uint32_t> words = {});
  void decorate_member(Id type, uint32_t member, Decoration what, std::initializer_list<uint32_t> words = {});
  void mode(Mode mode, std::initializer_list<uint32_t> words);
  Id glsl();  // the extended instruction set

  // The function.
  Id result(Op op, Id type, std::span<const uint32_t> words);
  Id result(Op op, Id type, std::initializer_list<uint32_t> words) { return result(op, type, std::span(words.begin(), words.size())); }
  void effect(Op op, std::initializer_list<uint32_t> words);
  void label(Id id);
  Id local(Id pointer_type);  // a variable of the function

  // The words. `name` is that of the entry point, whose interface is all variables of the module from SPIR-V 1.4 on, before its inputs.
  std::vector<uint32_t> finish(std::string_view name, uint32_t version);

 private:
  using Words = std::vector<uint32_t>;
  static void put(Words& to, Op op, std::span<const uint32_t> words);
  static void put(Words& to, Op op, std::initializer_list<uint32_t> words) { put(to, op, std::span(words.begin(), words.size())); }

  Id next_ = 1;
  Id glsl_ = 0;
  std::map<Words, Id> unique_;
  std::set<uint32_t> capabilities_;
  std::set<std::string_view> extensions_;
  Words inputs_, variables_, modes_, decorations_, globals_, locals_, code_;
};

}  // namespace mlc::targets::spirv
