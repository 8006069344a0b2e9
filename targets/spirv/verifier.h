// How the audit reads a module: sections in verify.cpp, types and variables in verify_types.cpp, the function in verify_code.cpp, where
// lanes part in uniform_flow.cpp.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "targets/spirv/uniform_flow.h"
#include "targets/spirv/verify.h"
#include "targets/spirv/words.h"

namespace mlc::targets::spirv {

using Words = std::span<const uint32_t>;

class Verifier {
 public:
  Verifier(Words words, const mlc::gpu::Entry& entry, bool subgroups, Matrices matrices) : words_(words), entry_(entry), subgroups_(subgroups), matrices_(matrices) {}
  Result<Findings> run();

 private:
  enum class Kind : uint8_t { None, Type, Constant, Variable, Value, Label, Other };
  // What an id stands for.
  struct Thing {
    Kind kind = Kind::None;
    bool visible = false;
    Op op{};              // that defined it
    Id type = 0;          // of constants, variables and values
    // Types.
    uint32_t width = 0;   // numbers: bits
    Id element = 0;       // of vectors, arrays, pointers
    uint32_t count = 0;   // vectors, arrays; structures: members; matrices: what they are for
    StorageClass where{};
    // Constants; for pointers that an access chain made, the variable.
    uint64_t value = 0;
    Id root = 0;
  };
  struct Decorations {
    std::set<Decoration> which;
    uint32_t stride = 0, builtin = 0, binding = 0, set = 0;
    std::map<uint32_t, uint32_t> offsets;  // of members
  };
  struct Construct {
    bool is_loop = false;
    enum class Phase : uint8_t { Then, Else, Head, Body, Continue, Done } phase = Phase::Then;
    Id head = 0, merge = 0, again = 0, other = 0;
    size_t mark = 0;      // ids of the function before it
    uint32_t flow = 0;    // its number there
  };
  struct Instruction {
    Op op{};
    Words args;  // behind the first word
  };

  // Reading. `fail` remembers the first reason and ends everything.
  void fail(const std::string& what);
  bool next(Instruction& out);
  bool peek(Op op) const;
  bool sized(const Instruction& i, size_t n);
  std::string text(Words words);
  Thing* thing(Id id);             // null, and a failure, beyond the bound
  Thing* define(Id id, Kind kind, Op op, Id type);
  const Thing* used(Id id);        // that is visible here

  // Sections.
  void header();
  void preamble();
  void entry_point();
  void decorations();
  void decorate(const Instruction& i);
  void decorate_member(const Instruction& i);
  bool decorated(Id id, Decoration d) const;
  bool has(Capability c) const { return capabilities_.contains(static_cast<uint32_t>(c)); }

  // Types, constants and variables of the module.
  void declarations();
  void declare_type(const Instruction& i);
  void describe_type(const Instruction& i, Thing& t);
  void declare_number(const Instruction& i, Thing& t);
  void declare_constant(const Instruction& i);
  void declare_variable(const Instruction& i);
  void check_storage(Id id, const Thing& held);
  void check_push(Id struct_id, const Thing& held);
  void check_input(Id id, const Thing& held);
  void check_all_decorations();
  const Thing* type(Id id);        // that is a type
  bool is_int(Id type, uint32_t width) const;
  bool is_word(Id type) const { return is_int(type, 32) || is_int(type, 64); }
  bool is_float(Id type) const;
  bool is_bool(Id type) const;

  // The function.
  void function();
  void local_variable(const Instruction& i);
  void instruction(const Instruction& i);
  void effect(const Instruction& i);
  bool has_type(Words values, Id type);
  bool arithmetic(const Instruction& i, Id result);
  bool conversion(const Instruction& i, Id result);
  bool comparison(const Instruction& i);
  bool extended_set(const Instruction& i, Id result);
  bool access_chain(const Instruction& i, Thing& made);
  bool load(const Instruction& i, Id result);
  bool exchange(const Instruction& i, Id result);
  bool between_lanes(const Instruction& i, Id result);
  void store(const Instruction& i);
  bool has_memory_words(Words words, Id variable);
  // Matrices of subgroups.
  void describe_matrix(const Instruction& i, Thing& t);
  bool is_matrix(Id type) const;
  bool is_matrix(Id type, MatrixUse use) const;
  bool in_cells(Id pointer);
  bool matrix_load(const Instruction& i, Id result);
  bool matrix_product(const Instruction& i, Id result);
  void matrix_store(const Instruction& i);
  void barrier(const Instruction& i);
  bool has_matrices() const { return has(Capability::CooperativeMatrix); }
  bool is_constant(Id id, uint64_t value);
  bool may_write(Id variable);
  void note(const Instruction& i, Id result, Id root);
  bool differs_by_lane(Id variable);

  // Control flow.
  void label(Id id);
  void loop_merge(const Instruction& i);
  void branch(Id to);
  void branch_conditional(const Instruction& i);
  void return_();
  void open(Construct c);
  void close();
  bool fresh_label(Id id);
  void forget_since(size_t mark);
  Construct* innermost_loop();

  Words words_;
  const mlc::gpu::Entry& entry_;
  const bool subgroups_;
  const Matrices matrices_;
  size_t at_ = 0, began_ = 0;
  uint64_t private_cells_ = 0;
  Status status_;
  Findings findings_;
  std::vector<Thing> things_;
  std::map<Id, Decorations> decorations_;
  std::set<std::vector<uint32_t>> simple_types_;
  std::set<uint32_t> bindings_, capabilities_;
  std::vector<Id> interface_, variables_;  // what the entry point names; what it must
  Id glsl_ = 0, function_ = 0, faults_ = 0, push_ = 0, shared_ = 0;

  std::vector<Construct> constructs_;
  std::vector<Id> defined_;        // of the function, in order
  std::set<Id> labels_;            // that a branch or a merge named already
  Id block_ = 0, expected_ = 0;    // the block that is open; the label that must come next
  bool must_loop_ = false;         // `expected_` is the head of a loop
  bool in_block_ = false;          // something stands in the block already
  Id selection_merge_ = 0;         // of the instruction before
  bool loop_merged_ = false;
  UniformFlow flow_;
};

}  // namespace mlc::targets::spirv
