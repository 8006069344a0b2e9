#include "schema/plan/decode_function.h"

#include <unordered_set>
#include <utility>

namespace mlc::exec {

namespace {
constexpr uint32_t kMaxSymbols = 1u << 20, kMaxItems = 1u << 20;
}  // namespace

Result<Function> FunctionDecoder::decode() {
  if (!is_name(*in_.name())) return bad("name of a function");
  MLC_RETURN_IF_ERROR(check_limits());
  MLC_RETURN_IF_ERROR(pay());
  out_.name = in_.name()->str();
  MLC_RETURN_IF_ERROR(check_symbols());
  MLC_RETURN_IF_ERROR(read_checks());
  MLC_RETURN_IF_ERROR(read_buffers());
  MLC_RETURN_IF_ERROR(read_ports(in_.inputs(), BufferKind::Input, out_.inputs));
  MLC_RETURN_IF_ERROR(read_ports(in_.outputs(), BufferKind::Output, out_.outputs));
  MLC_RETURN_IF_ERROR(read_body());
  MLC_RETURN_IF_ERROR(read_steps());
  return std::move(out_);
}

Status FunctionDecoder::check_limits() const {
  if (in_.num_symbols() > kMaxSymbols || length_of(in_.shape()) > kMaxSymbols) return bad("too many symbols, at most {} are read", kMaxSymbols);
  if (length_of(in_.checks()) > kMaxItems || length_of(in_.buffers()) > kMaxItems ||
      length_of(in_.body()) > kMaxItems || length_of(in_.steps()) > kMaxItems || in_.num_values() > kMaxItems)
    return bad("too many items in a list, at most {} are read", kMaxItems);
  if (is_program() ? length_of(in_.buffers()) + length_of(in_.body()) > 0 : length_of(in_.steps()) > 0)
    return bad("is half a program");
  if (derives_ && (is_program() || length_of(in_.inputs()) + length_of(in_.outputs()) > 0))
    return bad("derives constants, but is no segment without inputs and outputs");
  if (length_of(in_.inputs()) > format::kMaxPorts || length_of(in_.outputs()) > format::kMaxPorts)
    return bad("too many ports, at most {} are read", format::kMaxPorts);
  // Room for every symbol has to come with an instruction that writes it, so that the file's size bounds it.
  if (in_.num_symbols() != length_of(in_.shape())) return bad("symbols that nothing writes");
  return ok();
}

// Charges all that will be copied, before any of it is.
Status FunctionDecoder::pay() const {
  bool good = budget_.afford(in_.name()->size(), 1) && budget_.afford(length_of(in_.shape()), sizeof(SymbolInstr)) &&
              budget_.afford(length_of(in_.checks()), kTable) && budget_.afford(length_of(in_.buffers()), kTable) &&
              budget_.afford(length_of(in_.inputs()), kTable) && budget_.afford(length_of(in_.outputs()), kTable) &&
              budget_.afford(length_of(in_.body()), kTable);
  for (uint32_t i = 0; good && i < length_of(in_.checks()); ++i)
    good = budget_.afford(in_.checks()->Get(i)->message()->size(), 1);
  for (const auto* ports : {in_.inputs(), in_.outputs()})
    for (uint32_t i = 0; good && i < length_of(ports); ++i)
      good = budget_.afford(ports->Get(i)->name()->size(), 1) && budget_.afford(length_of(ports->Get(i)->shape()), 4);
  for (uint32_t i = 0; good && i < length_of(in_.body()); ++i) {
    const fbp::Instr& instr = *in_.body()->Get(i);
    good = budget_.afford(length_of(instr.buffers()), 4) && budget_.afford(length_of(instr.scalars()), 4) &&
           budget_.afford(length_of(instr.cut()), kTable) && budget_.afford(instr.name() ? instr.name()->size() : 0, 1);
  }
  good = good && budget_.afford(length_of(in_.steps()), kStep);
  uint64_t written = length_of(in_.inputs());
  for (uint32_t i = 0; good && i < length_of(in_.steps()); ++i) {
    const fbp::Step& step = *in_.steps()->Get(i);
    good = budget_.afford(uint64_t{length_of(step.functions())} + length_of(step.inputs()) + length_of(step.outputs()), 4) &&
           budget_.afford(step.name() ? step.name()->size() : 0, 1) &&
           budget_.afford(step.service() ? step.service()->size() : 0, 1) &&
           budget_.afford(step.options() ? step.options()->size() : 0, 1) &&
           budget_.afford(length_of(step.results()), 8);
    written += length_of(step.outputs());
  }
  if (in_.num_values() > written) return bad("values that nothing writes");
  return good ? ok() : bad("its parts share bytes");
}

Status FunctionDecoder::read_ports(const Ports* in, BufferKind kind, std::vector<Port>& out) {
  std::unordered_set<std::string_view> names;
  for (uint32_t i = 0; i < length_of(in); ++i) {
    const fbp::Port& p = *in->Get(i);
    place_ = {kind == BufferKind::Input ? "input" : "output", i};
    const auto dtype = dtype_of(p.dtype());
    if (!is_name(*p.name())) return wrong("its name is none, or too long");
    const bool is_string = dtype == DType::Str && is_program();
    if (!dtype || (bytes_of(*dtype) == 0 && !is_string)) return wrong("element type");
    if (length_of(p.shape()) > format::kMaxRank || p.rank() > format::kMaxRank) return wrong("too many axes, at most 8 are read");
    Port port{p.name()->str(), *dtype, p.buffer(), {}};
    if (!names.insert({p.name()->c_str(), p.name()->size()}).second) return wrong("its name is there twice");
    const bool is_input = kind == BufferKind::Input, is_list = p.list_depth() > 0;
    if (is_program()) {
      port.list_depth = p.list_depth();
      port.value = is_input ? i : p.value();
      port.rank = p.rank();
      port.buffer = 0;
      if (port.list_depth > kMaxListDepth || (is_list || is_input ? p.rank() > 0 : false) ||
          (is_list || !is_input ? length_of(p.shape()) > 0 : false))
        return wrong("neither an array nor a list");
    } else {
      if (is_list || p.rank() > 0) return wrong("only programs have such");
      if (port.buffer >= out_.buffers.size()) return wrong("no such buffer");
      const Buffer& b = out_.buffers[port.buffer];
      if (b.kind != kind || b.index != i || b.dtype != *dtype) return wrong("its buffer is another one");
    }
    for (uint32_t k = 0; k < length_of(p.shape()); ++k) {
      if (!is_integer(p.shape()->Get(k))) return wrong("extent is not an integer symbol");
      port.shape.push_back(p.shape()->Get(k));
    }
    out.push_back(std::move(port));
  }
  return ok();
}

Status FunctionDecoder::wrong(const char* what) const {
  const bool named = !place_.name.empty();
  return bad("{} {}{}{}{}: {}", place_.list, place_.index, named ? " (" : "", place_.name, named ? ")" : "", what);
}

}  // namespace mlc::exec
