#include "targets/spirv/writer.h"

namespace mlc::targets::spirv {

namespace {

// Little-endian, with a zero behind it.
std::vector<uint32_t> text_words(std::string_view text) {
  std::vector<uint32_t> words(text.size() / 4 + 1);
  for (size_t k = 0; k < text.size(); ++k) words[k / 4] |= static_cast<uint32_t>(static_cast<unsigned char>(text[k])) << (k % 4 * 8);
  return words;
}

void append(std::vector<uint32_t>& to, const std::vector<uint32_t>& words) { to.insert(to.end(), words.begin(), words.end()); }

}  // namespace

void Writer::put(Words& to, Op op, std::span<const uint32_t> words) {
  to.push_back(static_cast<uint32_t>(words.size() + 1) << 16 | static_cast<uint32_t>(op));
  to.insert(to.end(), words.begin(), words.end());
}

Id Writer::unique(Op op, std::initializer_list<uint32_t> words) {
  Words key{static_cast<uint32_t>(op)};
  key.insert(key.end(), words.begin(), words.end());
  Id& id = unique_[key];
  if (id == 0) id = global(op, words, op == Op::Constant || op == Op::ConstantTrue || op == Op::ConstantFalse || op == Op::ConstantComposite);
  return id;
}

Id Writer::global(Op op, std::initializer_list<uint32_t> words, bool typed) {
  const Id id = fresh();
  Words all(words);
  all.insert(all.begin() + typed, id);
  put(globals_, op, all);
  if (op == Op::Variable) {
    variables_.push_back(id);
    if (all.back() == static_cast<uint32_t>(StorageClass::Input)) inputs_.push_back(id);
  }
  return id;
}

Id Writer::structure(std::span<const Id> members) {
  const Id id = fresh();
  Words all{id};
  all.insert(all.end(), members.begin(), members.end());
  put(globals_, Op::TypeStruct, all);
  return id;
}

void Writer::decorate(Id id, Decoration what, std::initializer_list<uint32_t> words) {
  Words all{id, static_cast<uint32_t>(what)};
  all.insert(all.end(), words.begin(), words.end());
  put(decorations_, Op::Decorate, all);
}

void Writer::decorate_member(Id type, uint32_t member, Decoration what, std::initializer_list<uint32_t> words) {
  Words all{type, member, static_cast<uint32_t>(what)};
  all.insert(all.end(), words.begin(), words.end());
  put(decorations_, Op::MemberDecorate, all);
}

void Writer::mode(Mode mode, std::initializer_list<uint32_t> words) {
  modes_.push_back(static_cast<uint32_t>(words.size()) + 1);
  modes_.push_back(static_cast<uint32_t>(mode));
  modes_.insert(modes_.end(), words.begin(), words.end());
}

Id Writer::glsl() {
  if (glsl_ == 0) glsl_ = fresh();
  return glsl_;
}

Id Writer::result(Op op, Id type, std::span<const uint32_t> words) {
  const Id id = fresh();
  Words all{type, id};
  all.insert(all.end(), words.begin(), words.end());
  put(code_, op, all);
  return id;
}

void Writer::effect(Op op, std::initializer_list<uint32_t> words) { put(code_, op, words); }
void Writer::label(Id id) { put(code_, Op::Label, {id}); }

Id Writer::local(Id pointer_type) {
  const Id id = fresh();
  put(locals_, Op::Variable, {pointer_type, id, static_cast<uint32_t>(StorageClass::Function)});
  return id;
}

std::vector<uint32_t> Writer::finish(std::string_view name, uint32_t version) {
  const Id nothing = unique(Op::TypeVoid, {}), type = unique(Op::TypeFunction, {nothing}), function = fresh(), entry = fresh();
  Words out{kMagic, version, 0, 0, 0};
  for (const uint32_t c : capabilities_) put(out, Op::Capability, {c});
  for (const std::string_view e : extensions_) put(out, Op::Extension, text_words(e));
  if (glsl_) {
    Words import{glsl_};
    append(import, text_words(kGlslSet));
    put(out, Op::ExtInstImport, import);
  }
  put(out, Op::MemoryModel, {kLogicalAddressing, has(Capability::VulkanMemoryModel) ? kVulkanMemory : kGlsl450Memory});
  Words point{kGlCompute, function};
  append(point, text_words(name));
  append(point, version == kVersion13 ? inputs_ : variables_);
  put(out, Op::EntryPoint, point);
  for (size_t k = 0; k < modes_.size(); k += modes_[k] + 1) {
    Words mode{function};
    mode.insert(mode.end(), modes_.begin() + static_cast<ptrdiff_t>(k) + 1, modes_.begin() + static_cast<ptrdiff_t>(k + modes_[k]) + 1);
    put(out, Op::ExecutionMode, mode);
  }
  append(out, decorations_);
  append(out, globals_);
  put(out, Op::Function, {nothing, function, 0, type});
  put(out, Op::Label, {entry});
  append(out, locals_);
  append(out, code_);
  put(out, Op::FunctionEnd, {});
  out[3] = next_;
  return out;
}

}  // namespace mlc::targets::spirv
