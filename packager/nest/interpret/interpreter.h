// One function while it is interpreted: its arrays, the values of its symbols. The bodies of controls are interpreters of
// their own, which see the symbols of the function around them.
//
//   interpret.cpp             statements in order, checks
//   interpret_arrays.cpp      inputs, symbols, shapes, memory
//   interpret_statements.cpp  nests and procs
//   interpret_controls.cpp    controls
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "packager/nest/evaluate/evaluate.h"
#include "packager/nest/interpret/interpret.h"

namespace mlc::nest {

class Interpreter {
 public:
  using Symbols = std::unordered_map<const ir::Sym*, int64_t>;

  // `body_depth`: controls around this function. Function and options must outlive the interpreter.
  Interpreter(const Function& function, const InterpretOptions& options, int body_depth = 0);
  Interpreter(const Interpreter&) = delete;  // the evaluator points into it
  Interpreter& operator=(const Interpreter&) = delete;

  // May be called again: a body runs many times. `around`: values of the symbols of the function around this one.
  Result<std::vector<Tensor>> run(std::vector<Tensor> inputs, const Symbols& around);
  // After a run: from statement `first` on once more, what `changed` writes being changed (interpret_changed).
  Result<std::vector<Tensor>> run_again(size_t first, size_t changed);
  bool has_changed() const { return has_changed_; }  // whether that made anything another

 private:
  Status start();
  Status checks();
  Status failed(const std::string& where);
  Status too_late(const std::string& where) const;
  bool spend(double work);  // false: nothing is left
  Status statements(size_t first, size_t changed);
  Result<std::vector<Tensor>> outputs() const;

  // --- arrays ---
  Status bind(std::vector<Tensor> inputs);
  Status bind_shape(const Array& a, const Tensor& input);
  Status read_symbol(const ir::Sym* sym, const Tensor& t, uint64_t element);
  Status set_symbol(const ir::Sym* sym, int64_t value);
  std::optional<int64_t> extent_of(const ir::Expr* extent) const;  // as far as its symbols have values
  Result<std::vector<int64_t>> shape_of(const Array& a) const;
  Status account(uint64_t bytes);
  Status allocate(uint32_t number);
  Status constant(size_t number);

  // --- nests and procs ---
  Status nest(const Statement& s);
  void points(const Nest& nest);
  void put(const Write& w, ir::Scalar v);
  Status scan(const Statement& s);
  Status proc(const Statement& s);
  void shake(Tensor& t, double jitter) const;
  static bool change(Tensor& t);  // whether anything is another

  // --- controls ---
  Status control(const Statement& s);
  Status read(const Control& c);
  Status branch(const Control& c);
  Status loop(const Control& c);
  Status iterate(const Control& c, const Function& body, std::vector<Tensor>& carried, std::vector<std::vector<Tensor>>& scanned);
  Status list(const Control& c);
  Status strings(const Control& c);
  Status host(const Control& c);
  Result<const Tensor*> operand(uint32_t number);
  Result<std::vector<const Tensor*>> operands(const Control& c);
  Result<int64_t> single(uint32_t number, int64_t absent);
  Status append(std::vector<Tensor>& values, const std::vector<uint32_t>& numbers, size_t from, size_t to);
  Status receive(uint32_t number, Tensor value);
  Status receive_all(const Control& c, std::vector<Tensor> results);
  Result<const Function*> body(const Control& c, size_t k, size_t inputs, size_t outputs) const;
  InterpretOptions inner_options() const;
  Tensor none_of(const Array& a) const;

  static constexpr int kMaxDepth = 64;  // of bodies, of lists

  const Function& function_;
  const InterpretOptions& options_;
  const int body_depth_;
  Symbols symbols_;
  std::vector<Tensor> arrays_;
  std::vector<bool> checked_;  // checks that were found to hold
  Evaluator evaluator_;
  bool has_changed_ = false;
  uint64_t used_bytes_ = 0, constant_bytes_ = 0;
};

// Bytes of an array, or any other size per element; nothing if an extent is negative or the size does not fit.
std::optional<uint64_t> size_of(const std::vector<int64_t>& shape, uint64_t element);
std::string shape_text(const std::vector<int64_t>& shape);

}  // namespace mlc::nest
