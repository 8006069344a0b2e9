// One function of a plan, from its FlatBuffers form to checked values. FlatBuffers' verifier makes reading safe; what is read
// is then checked item by item and copied. Only the files of the decoder include this.
//
//   decode_function.cpp  the list of steps, limits, what copies cost, ports
//   decode_symbols.cpp   shape programs and checks
//   decode_body.cpp      buffers and instructions
//   decode_steps.cpp     steps of programs
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/compose.h"
#include "schema/format.h"
#include "schema/generated/plan_generated.h"
#include "schema/plan/plan.h"
#include "schema/plan/plan_budget.h"
#include "schema/validate/validate.h"

namespace mlc::exec {

namespace fbp = mlc::fb::plan;

constexpr uint32_t kMaxOperands = 4096;
constexpr uint32_t kMaxTextLen = 4096;

template <class... Args>
Status bad(const char* pattern, const Args&... args) {
  return Status(Code::Malformed, pattern, args...);
}

// What is only shown, never compared, may be any text in the file but not on a terminal.
inline std::string shown(const flatbuffers::String& s) {
  const std::string_view text(s.c_str(), s.size());
  return format::is_clean_text(text, kMaxTextLen) ? std::string(text) : format::quoted(text);
}
inline bool is_name(const flatbuffers::String& s) {
  return s.size() > 0 && format::is_clean_text({s.c_str(), s.size()}, format::kMaxNameLen);
}

template <class V>
uint32_t length_of(const V* vector) {
  return vector ? vector->size() : 0;
}

inline std::optional<DType> dtype_of(uint8_t number) {
  if (number == 0 || number > static_cast<uint8_t>(kLastDType)) return std::nullopt;
  return static_cast<DType>(number);
}

// The type of a symbol, known once it is written.
enum class SymbolType : uint8_t { Unwritten, Integer, Double };

class FunctionDecoder {
 public:
  // `plan`: what its functions share, which has been read; `derives`: whether this one computes the derived constants. All
  // must outlive the decoder.
  FunctionDecoder(const fbp::Function& in, const Plan& plan, bool derives, const PlanContext& context, Budget& budget)
      : in_(in), plan_(plan), derives_(derives), context_(context), budget_(budget) {}

  // Called once.
  Result<Function> decode();

 private:
  using Ports = flatbuffers::Vector<flatbuffers::Offset<fbp::Port>>;

  Status check_limits() const;
  Status pay() const;
  Status read_ports(const Ports* in, BufferKind kind, std::vector<Port>& out);

  Status check_symbols();
  Status symbol(uint32_t index, const SymbolInstr& instr);
  Status symbol_of_input(const SymbolInstr& instr);
  Status read_checks();

  Status read_buffers();
  Status read_body();
  Status read_launch(const fbp::Instr& in, Instr& instr);
  Status read_cuts(const fbp::Instr& in, Instr& instr) const;
  Status read_turns(const fbp::Turns& in, Instr& instr) const;

  Status read_steps();

  bool is_program() const { return in_.num_values() > 0; }
  bool is_integer(uint32_t symbol) const { return symbol < types_.size() && types_[symbol] == SymbolType::Integer; }
  // An error about the item that is being read.
  Status wrong(const char* what) const;

  struct Place {
    const char* list;
    uint32_t index;
    std::string_view name = {};
  };

  const fbp::Function& in_;
  const Plan& plan_;
  const bool derives_;
  const PlanContext& context_;
  Budget& budget_;
  Function out_;
  Place place_{};
  std::vector<SymbolType> types_;     // by symbol
  std::vector<uint32_t> written_at_;  // the instruction, by symbol
};

}  // namespace mlc::exec
