// How a kernel becomes SPIR-V: its frame in kernel_emitter.cpp, statements and memory in statements.cpp and fold_lanes.cpp, what they compute in
// expressions.cpp.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "targets/gpu/ranges.h"
#include "targets/spirv/kernel_emitter.h"
#include "targets/spirv/numbers.h"

namespace mlc::targets::spirv {

using ir::Expr;

// An expression's value, one scalar per lane of its vector.
using Value = std::vector<Id>;

class KernelBuilder {
 public:
  KernelBuilder(const loop::Kernel& kernel, const Limits& limits) : kernel_(kernel), limits_(limits) {}
  Result<EmittedKernel> build();

 private:
  // What is wanted of an expression: its value, or the low half of 64-bit integers. Sums and products of indices are computed modulo
  // 2^32, since no buffer of a device has more elements, and so is what fits in 32 bits: 64-bit arithmetic is emulated there.
  struct Wanted {
    const Expr* e;
    bool low;
    bool operator==(const Wanted&) const = default;
  };
  struct WantedHash {
    size_t operator()(const Wanted& w) const { return std::hash<const Expr*>()(w.e) * 2 + w.low; }
  };
  struct Buffer {
    enum class Kind : uint8_t { Storage, Shared, Private } kind = Kind::Storage;
    DType dtype = DType::None;
    Id variable = 0, element_pointer = 0, element_type = 0;
    uint32_t first_cell = 0;  // Shared
    bool told = false;        // Storage: lanes read what others wrote there
  };
  struct Binding {
    Value full, low;                      // one may be empty; `full` if the value is the low half, extended
    bool has_sign = false;                // so it is extended
    std::vector<Body::Variable> places;   // of a local
  };

  // Frame.
  Status check();
  void find_loads(const std::vector<loop::StmtPtr>& body);
  void declare_arguments();
  Id declare_storage(uint32_t binding, unsigned bits, bool written, bool coherent);
  void declare_buffers();
  Id input(BuiltIn what, Id type);
  Id push_constant(uint32_t member, Reg reg);
  Id scalar(size_t k);

  // Statements.
  void block(const std::vector<loop::StmtPtr>& body);
  void statement(const loop::Stmt& s);
  void for_loop(const loop::Stmt& s);
  void unroll(const loop::Stmt& s);
  void while_loop(const loop::Stmt& s);
  void bind_local(const loop::Stmt& s);
  void store(const loop::Stmt& s);
  void fault(Id condition, int32_t code);
  void record_fault(int32_t code);
  void barrier();

  // Folds over lanes.
  void declare_subgroups();
  void fold_lanes(const loop::Stmt& s);
  Id fold_subgroup(ir::Op combine, DType t, Id value, uint32_t width);
  Id fold_between(ir::Op combine, DType t, Id value, uint32_t width);
  Id from_partner(DType t, Id value, uint32_t distance);

  // Matrices of teams.
  void declare_matrices();
  void matrix(const loop::Stmt& s);

  // Memory.
  bool has_matrices() const { return kernel_.team.lanes != 0; }
  bool is_marked(const Buffer& b) const { return has_matrices() && (b.kind == Buffer::Kind::Shared || b.told); }
  Buffer* buffer(uint32_t array);
  Id element(const Buffer& b, Id index);
  Id load_element(const Buffer& b, Id index);
  void store_element(const Buffer& b, Id index, Id value);
  Value load(const Expr& e);
  Id lane_index(const Value& index, unsigned lane);

  // Expressions.
  const Value* eval(const Expr* root, bool low = false);
  Id scalar_of(const Expr* e);
  void operands(const Wanted& w, std::vector<Wanted>& out);
  bool is_modular(const Expr& e) const;
  bool is_narrow(const Expr& e);
  Value node(const Expr& e);
  Value low_node(const Expr& e);
  Value narrow_node(const Expr& e);
  Value vector_node(const Expr& e);
  Value variable_value(const Expr& e, bool low);
  Value reduce(const Expr& e);
  Value cells(const Expr& e);
  Value dot(const Expr& e);
  Value dot_words(const Expr& e, Value sum);
  const Value& arg(const Expr& e, size_t k, bool low = false) const { return cache_.at({e.args[k], low}); }
  uint8_t flags_of(const Expr* e);
  void remember(const Wanted& w, Value v);
  size_t open_scope() const { return log_.size(); }
  void close_scope(size_t mark);
  void end_statement();

  void fail(std::string message);

  const loop::Kernel& kernel_;
  const Limits& limits_;
  Writer writer_;
  Body c_{writer_};
  Numbers n_{c_};
  Status status_;
  mlc::gpu::Entry entry_;

  std::vector<bool> loaded_;
  std::vector<Buffer> buffers_;
  bool scalars_in_buffer_ = false, folds_lanes_ = false;
  Buffer partials_;                                         // of folds over lanes, one for each subgroup
  Id subgroup_size_ = 0, subgroup_ = 0, place_ = 0;         // and a lane's subgroup and place there
  Id matrix_a_ = 0, matrix_b_ = 0, matrix_sum_ = 0;         // types
  std::vector<Id> sums_;                                    // of matrices, row by row
  Id push_ = 0, scalars_ = 0, faults_ = 0, lane_ = 0, tile_ = 0;
  gpu::Ranges ranges_;
  std::unordered_map<int64_t, Binding> vars_;
  std::unordered_map<const ir::Sym*, size_t> syms_;
  std::unordered_map<Wanted, Value, WantedHash> cache_;
  std::vector<Wanted> log_;        // kept entries of cache_, in order
  std::vector<Wanted> statement_;  // those that end with the statement
  std::unordered_map<const Expr*, uint8_t> flags_;
  uint64_t statements_left_ = 1'000'000;
};

}  // namespace mlc::targets::spirv
