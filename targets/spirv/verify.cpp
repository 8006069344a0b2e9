#include "targets/spirv/verify.h"

#include <algorithm>
#include <array>

#include "targets/spirv/verifier.h"

namespace mlc::targets::spirv {

namespace {

constexpr size_t kMaxWords = size_t{1} << 24;
constexpr std::array kCapabilities = {Capability::Shader, Capability::Float64, Capability::Int64, Capability::StorageBuffer16BitAccess,
                                      Capability::StorageBuffer8BitAccess, Capability::SignedZeroInfNanPreserve};
constexpr std::array kOfSubgroups = {Capability::GroupNonUniform, Capability::GroupNonUniformArithmetic, Capability::GroupNonUniformShuffle,
                                     Capability::DotProductInput4x8BitPacked, Capability::DotProduct};
// All of them or none.
constexpr std::array kOfMatrices = {Capability::Float16, Capability::VulkanMemoryModel, Capability::CooperativeMatrix};

bool is_among(std::span<const Capability> list, uint32_t number) { return std::find(list.begin(), list.end(), static_cast<Capability>(number)) != list.end(); }

}  // namespace

Result<Findings> verify(Words words, const mlc::gpu::Entry& entry, bool subgroups, Matrices matrices) { return Verifier(words, entry, subgroups, matrices).run(); }

void Verifier::fail(const std::string& what) {
  if (status_.ok()) status_ = Status(Code::Malformed, "SPIR-V, word {}: {}", began_, what);
}

Result<Findings> Verifier::run() {
  header();
  if (status_.ok()) preamble();
  if (status_.ok()) entry_point();
  if (status_.ok()) decorations();
  if (status_.ok()) declarations();
  if (status_.ok()) function();
  if (status_.ok()) check_all_decorations();
  if (!status_.ok()) return std::move(status_);
  return std::move(findings_);
}

bool Verifier::next(Instruction& out) {
  if (!status_.ok()) return false;
  began_ = at_;
  if (at_ >= words_.size()) return fail("the words end too early"), false;
  const uint32_t length = words_[at_] >> 16;
  if (length == 0 || length > words_.size() - at_) return fail("an instruction of " + std::to_string(length) + " words"), false;
  out = {static_cast<Op>(words_[at_] & 0xffff), words_.subspan(at_ + 1, length - 1)};
  at_ += length;
  return true;
}

bool Verifier::peek(Op op) const { return status_.ok() && at_ < words_.size() && static_cast<Op>(words_[at_] & 0xffff) == op; }

bool Verifier::sized(const Instruction& i, size_t n) {
  if (i.args.size() != n) fail("instruction " + std::to_string(static_cast<int>(i.op)) + " of " + std::to_string(i.args.size() + 1) + " words");
  return i.args.size() == n;
}

// Up to the zero behind it, which must be there; the bytes after it are zero too.
std::string Verifier::text(Words words) {
  std::string out;
  for (size_t k = 0; k < words.size() * 4; ++k) {
    const char c = static_cast<char>(words[k / 4] >> (k % 4 * 8));
    if (c == 0) {
      if (k / 4 + 1 != words.size() || words[k / 4] >> (k % 4 * 8) != 0) fail("a text that does not end");
      return out;
    }
    out += c;
  }
  fail("a text without end");
  return out;
}

Verifier::Thing* Verifier::thing(Id id) {
  if (id == 0 || id >= things_.size()) return fail("id " + std::to_string(id) + " is beyond the bound"), nullptr;
  return &things_[id];
}

Verifier::Thing* Verifier::define(Id id, Kind kind, Op op, Id type) {
  Thing* t = thing(id);
  if (!t) return nullptr;
  if (t->kind != Kind::None) return fail("id " + std::to_string(id) + " is defined twice"), nullptr;
  t->kind = kind, t->visible = true, t->op = op, t->type = type;
  return t;
}

const Verifier::Thing* Verifier::used(Id id) {
  const Thing* t = thing(id);
  if (t && (!t->visible || t->kind == Kind::Type || t->kind == Kind::Label || t->kind == Kind::Other))
    return fail("id " + std::to_string(id) + " is no value here"), nullptr;
  return t;
}

void Verifier::header() {
  if (words_.size() < kHeaderWords || words_.size() > kMaxWords || words_[0] != kMagic || words_[1] != (subgroups_ ? kVersion16 : kVersion13) || words_[2] != 0 || words_[4] != 0)
    return fail(subgroups_ ? "no module of SPIR-V 1.6" : "no module of SPIR-V 1.3");
  if (words_[3] == 0 || words_[3] > words_.size()) return fail("a bound of " + std::to_string(words_[3]));
  things_.resize(words_[3]);
  at_ = kHeaderWords;
}

// Capabilities, extensions, the set of instructions, the memory model.
void Verifier::preamble() {
  Instruction i;
  while (peek(Op::Capability) && next(i) && sized(i, 1)) {
    if (!is_among(kCapabilities, i.args[0]) && !(subgroups_ && is_among(kOfSubgroups, i.args[0])) && !(matrices_.side && is_among(kOfMatrices, i.args[0]))) return fail("capability " + std::to_string(i.args[0]) + " is not allowed");
    if (!findings_.capabilities.empty() && findings_.capabilities.back() >= i.args[0]) return fail("capabilities in another order");
    findings_.capabilities.push_back(i.args[0]);
    capabilities_.insert(i.args[0]);
  }
  if (!has(Capability::Shader) || !has(Capability::SignedZeroInfNanPreserve)) fail("a capability is missing");
  const bool in_groups = has(Capability::GroupNonUniform);
  if (in_groups != entry_.wants_full_subgroups || (!in_groups && (has(Capability::GroupNonUniformArithmetic) || has(Capability::GroupNonUniformShuffle))))
    fail("subgroups that the entry does not state");
  if (in_groups && (entry_.lanes[0] % kMostSubgroup != 0 || entry_.lanes[1] != 1 || entry_.lanes[2] != 1)) fail("subgroups that are not full");
  const auto num_of_matrices = std::count_if(kOfMatrices.begin(), kOfMatrices.end(), [&](Capability c) { return has(c); });
  if (num_of_matrices != 0 && num_of_matrices != std::ssize(kOfMatrices)) fail("a part of what matrices need");
  if (entry_.subgroup_lanes != (has_matrices() ? matrices_.lanes : 0)) fail("subgroups of another size than the entry states");
  if (has_matrices() && (!in_groups || entry_.may_fault)) fail("matrices without subgroups, or where lanes may fault");
  std::vector<std::string> extensions, expected;
  while (peek(Op::Extension) && next(i)) extensions.push_back(text(i.args));
  if (has(Capability::StorageBuffer8BitAccess)) expected.emplace_back(k8BitStorage);
  if (has_matrices()) expected.emplace_back(kMatrixExtension);
  expected.emplace_back(kFloatControls);
  if (extensions != expected) fail("other extensions than its capabilities are of");
  if (peek(Op::ExtInstImport) && next(i)) {
    if (i.args.empty() || text(i.args.subspan(1)) != kGlslSet) return fail("an unknown set of instructions");
    glsl_ = i.args[0];
    define(glsl_, Kind::Other, i.op, 0);
  }
  if (!next(i)) return;
  if (i.op != Op::MemoryModel || !sized(i, 2) || i.args[0] != kLogicalAddressing || i.args[1] != (has_matrices() ? kVulkanMemory : kGlsl450Memory)) fail("another memory model");
}

void Verifier::entry_point() {
  Instruction i;
  if (!next(i)) return;
  if (i.op != Op::EntryPoint || i.args.size() < 3 || i.args[0] != kGlCompute) return fail("no entry point for computing");
  function_ = i.args[1];
  const size_t name_words = entry_.name.size() / 4 + 1;
  if (i.args.size() < 2 + name_words || text(i.args.subspan(2, name_words)) != entry_.name) return fail("an entry point of another name");
  interface_.assign(i.args.begin() + static_cast<ptrdiff_t>(2 + name_words), i.args.end());
  // One of each, in this order.
  if (!next(i)) return;
  const bool lanes = i.op == Op::ExecutionMode && i.args.size() == 5 && i.args[0] == function_ && i.args[1] == static_cast<uint32_t>(Mode::LocalSize) &&
                     std::count(entry_.lanes.begin(), entry_.lanes.end(), 0) == 0 && std::equal(entry_.lanes.begin(), entry_.lanes.end(), i.args.begin() + 2);
  if (!lanes) return fail("other lanes than the entry has");
  const auto keeps = [&](uint32_t width) {
    return next(i) && i.op == Op::ExecutionMode && i.args.size() == 3 && i.args[0] == function_ &&
           i.args[1] == static_cast<uint32_t>(Mode::SignedZeroInfNanPreserve) && i.args[2] == width;
  };
  if (!keeps(32) || (has(Capability::Float64) && !keeps(64))) fail("infinities are not kept");
}

void Verifier::decorations() {
  Instruction i;
  while ((peek(Op::Decorate) || peek(Op::MemberDecorate)) && next(i)) i.op == Op::Decorate ? decorate(i) : decorate_member(i);
}

void Verifier::decorate(const Instruction& i) {
  if (i.args.size() < 2 || !thing(i.args[0])) return fail("a decoration of nothing");
  Decorations& d = decorations_[i.args[0]];
  const auto which = static_cast<Decoration>(i.args[1]);
  if (!d.which.insert(which).second) return fail("a decoration twice");
  uint32_t* number = nullptr;
  switch (which) {
    case Decoration::Block: case Decoration::Coherent: case Decoration::NonWritable: case Decoration::NoContraction: break;
    case Decoration::ArrayStride: number = &d.stride; break;
    case Decoration::BuiltIn: number = &d.builtin; break;
    case Decoration::Binding: number = &d.binding; break;
    case Decoration::DescriptorSet: number = &d.set; break;
    default: return fail("decoration " + std::to_string(i.args[1]) + " is not allowed");
  }
  if (sized(i, number ? 3 : 2) && number) *number = i.args[2];
}

void Verifier::decorate_member(const Instruction& i) {
  if (!sized(i, 4) || !thing(i.args[0])) return;
  if (static_cast<Decoration>(i.args[2]) != Decoration::Offset) return fail("decoration " + std::to_string(i.args[2]) + " of a member is not allowed");
  if (!decorations_[i.args[0]].offsets.try_emplace(i.args[1], i.args[3]).second) fail("two offsets of a member");
}

bool Verifier::decorated(Id id, Decoration d) const {
  const auto at = decorations_.find(id);
  return at != decorations_.end() && at->second.which.contains(d);
}

// Each thing has the decorations that belong to it, and no others: those of variables and types were looked at where they are declared.
void Verifier::check_all_decorations() {
  for (const auto& [id, d] : decorations_) {
    const Thing& t = things_[id];
    std::set<Decoration> allowed;
    if (t.kind == Kind::Type && t.op == Op::TypeStruct) allowed = {Decoration::Block};
    else if (t.kind == Kind::Type && t.op == Op::TypeRuntimeArray) allowed = {Decoration::ArrayStride};
    else if (t.kind == Kind::Value) allowed = {Decoration::NoContraction};
    else if (t.kind == Kind::Variable) allowed = {Decoration::Binding, Decoration::DescriptorSet, Decoration::NonWritable, Decoration::Coherent, Decoration::BuiltIn};
    if (!std::includes(allowed.begin(), allowed.end(), d.which.begin(), d.which.end()) || (!d.offsets.empty() && t.op != Op::TypeStruct))
      return fail("id " + std::to_string(id) + " has a decoration that is not for it");
  }
}

}  // namespace mlc::targets::spirv
