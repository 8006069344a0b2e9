// Reads the words of a SPIR-V image for the executor: ids, types, constants, variables, and the instructions of its one function. What
// is not written by our emitter is an error, with its word.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "targets/spirv/words.h"

namespace mlc::testing::spirv {

using targets::spirv::Id;
using targets::spirv::Op;
using targets::spirv::StorageClass;

struct Type {
  Op op = Op::TypeVoid;
  uint32_t width = 0;             // bits of a number
  Id element = 0;                 // of vectors, arrays, pointers and matrices
  uint32_t count = 0;             // of vectors and arrays; side of matrices
  uint32_t stride = 0;            // bytes
  std::vector<Id> members;
  std::vector<uint32_t> offsets;  // bytes
  StorageClass where{};
};

struct Variable {
  Id type = 0;  // a pointer
  StorageClass where{};
  uint32_t binding = UINT32_MAX, builtin = UINT32_MAX;
  bool read_only = false;
  uint32_t slot = 0, slots = 0;  // Function
};

struct Instruction {
  Op op{};
  Id type = 0, result = 0;
  std::vector<uint32_t> args;  // behind these
};

struct Image {
  Id bound = 0;
  std::map<Id, Type> types;
  std::map<Id, uint64_t> constants;
  std::map<Id, Id> type_of;  // of constants and results
  std::map<Id, Variable> variables;
  std::vector<Instruction> code;
  std::vector<uint32_t> labels;  // place of a label's id
  std::vector<bool> precise;     // ids marked NoContraction
  std::array<uint32_t, 3> lanes{};
  Id glsl = 0;
  uint32_t num_slots = 0;
  std::vector<uint32_t> capabilities;
  std::string error;
};

class Reader {
 public:
  static Image read(std::span<const uint32_t> words) {
    Reader r;
    r.all(words);
    return std::move(r.image_);
  }

 private:
  void fail(const std::string& what) {
    if (image_.error.empty()) image_.error = "word " + std::to_string(at_) + ": " + what;
  }

  void all(std::span<const uint32_t> words) {
    if (words.size() < targets::spirv::kHeaderWords || words[0] != targets::spirv::kMagic || (words[1] != targets::spirv::kVersion13 && words[1] != targets::spirv::kVersion16))
      return fail("no module of SPIR-V 1.3 or 1.6");
    image_.bound = words[3];
    if (image_.bound > 1u << 22) return fail("too many ids");
    image_.labels.assign(image_.bound, UINT32_MAX);
    image_.precise.assign(image_.bound, false);
    at_ = targets::spirv::kHeaderWords;
    while (at_ < words.size() && image_.error.empty()) {
      const uint32_t length = words[at_] >> 16;
      if (length == 0 || length > words.size() - at_) return fail("an instruction of " + std::to_string(length) + " words");
      one(static_cast<Op>(words[at_] & 0xffff), words.subspan(at_ + 1, length - 1));
      at_ += length;
    }
    finish();
  }

  Type& type(Id id, Op op) {
    Type& t = image_.types[id];
    t.op = op;
    return t;
  }

  void one(Op op, std::span<const uint32_t> w) {
    const auto needs = [&](size_t n) {
      if (w.size() < n) fail("too short");
      return w.size() >= n;
    };
    switch (op) {
      case Op::Capability: if (needs(1)) image_.capabilities.push_back(w[0]); return;
      case Op::Extension: case Op::MemoryModel: case Op::EntryPoint: return;
      case Op::ExtInstImport: if (needs(1)) image_.glsl = w[0]; return;
      case Op::ExecutionMode:
        if (needs(2) && w[1] == 17 && needs(5)) image_.lanes = {w[2], w[3], w[4]};
        return;
      case Op::Decorate: if (needs(2)) decorate(w); return;
      case Op::MemberDecorate:
        if (needs(3) && w[2] == 35 && needs(4)) offsets_[{w[0], w[1]}] = w[3];
        return;
      case Op::TypeVoid: case Op::TypeBool: case Op::TypeFunction: if (needs(1)) type(w[0], op); return;
      case Op::TypeInt: case Op::TypeFloat: if (needs(2)) type(w[0], op).width = w[1]; return;
      case Op::TypeVector: if (needs(3)) { Type& t = type(w[0], op); t.element = w[1], t.count = w[2]; } return;
      case Op::TypeArray: if (needs(3)) { Type& t = type(w[0], op); t.element = w[1], t.count = static_cast<uint32_t>(image_.constants[w[2]]); } return;
      case Op::TypeRuntimeArray: if (needs(2)) type(w[0], op).element = w[1]; return;
      case Op::TypeStruct: if (needs(1)) type(w[0], op).members.assign(w.begin() + 1, w.end()); return;
      case Op::TypePointer: if (needs(3)) { Type& t = type(w[0], op); t.where = static_cast<StorageClass>(w[1]), t.element = w[2]; } return;
      case Op::TypeCooperativeMatrix:
        if (needs(6)) {
          Type& t = type(w[0], op);
          t.element = w[1], t.count = static_cast<uint32_t>(image_.constants[w[3]]);
          if (image_.constants[w[2]] != 3 || image_.constants[w[4]] != t.count || t.count == 0 || t.count > 64) fail("a matrix of no subgroup, or with different sides");
        }
        return;
      case Op::ConstantComposite: if (needs(3)) constant(w[0], w[1], image_.constants[w[2]]); return;
      case Op::ConstantTrue: case Op::ConstantFalse: if (needs(2)) constant(w[0], w[1], op == Op::ConstantTrue); return;
      case Op::Constant: if (needs(3)) constant(w[0], w[1], w[2] | (w.size() > 3 ? uint64_t{w[3]} << 32 : 0)); return;
      case Op::Variable: if (needs(3)) variable(w); return;
      case Op::Function: case Op::FunctionEnd: in_function_ = op == Op::Function; return;
      default: return in_function_ ? instruction(op, w) : fail("instruction " + std::to_string(int(op)) + " outside of the function");
    }
  }

  void decorate(std::span<const uint32_t> w) {
    using targets::spirv::Decoration;
    switch (static_cast<Decoration>(w[1])) {
      case Decoration::ArrayStride: strides_[w[0]] = w.size() > 2 ? w[2] : 0; return;
      case Decoration::Binding: bindings_[w[0]] = w.size() > 2 ? w[2] : 0; return;
      case Decoration::BuiltIn: builtins_[w[0]] = w.size() > 2 ? w[2] : 0; return;
      case Decoration::NonWritable: read_only_[w[0]] = true; return;
      case Decoration::NoContraction: if (w[0] < image_.bound) image_.precise[w[0]] = true; return;
      case Decoration::Block: case Decoration::Coherent: case Decoration::DescriptorSet: return;
      default: return fail("decoration " + std::to_string(w[1]));
    }
  }

  void constant(Id t, Id id, uint64_t value) { image_.constants[id] = value, image_.type_of[id] = t; }

  void variable(std::span<const uint32_t> w) {
    Variable& v = image_.variables[w[1]];
    v.type = w[0], v.where = static_cast<StorageClass>(w[2]);
    image_.type_of[w[1]] = w[0];
    if (bindings_.contains(w[1])) v.binding = bindings_[w[1]];
    if (builtins_.contains(w[1])) v.builtin = builtins_[w[1]];
    v.read_only = read_only_.contains(w[1]);
    if (v.where != StorageClass::Function) return;
    const Type& held = image_.types[image_.types[w[0]].element];
    v.slot = image_.num_slots, v.slots = held.op == Op::TypeArray ? held.count : 1;
    image_.num_slots += v.slots;
  }

  void instruction(Op op, std::span<const uint32_t> w) {
    Instruction i;
    i.op = op;
    switch (op) {
      case Op::Label:
        if (w.size() != 1 || w[0] >= image_.bound) return fail("a label");
        image_.labels[w[0]] = static_cast<uint32_t>(image_.code.size());
        return;
      case Op::Store: case Op::CooperativeMatrixStore: case Op::ControlBarrier: case Op::LoopMerge: case Op::SelectionMerge: case Op::Branch: case Op::BranchConditional: case Op::Return:
        i.args.assign(w.begin(), w.end());
        break;
      default:
        if (w.size() < 2 || w[1] >= image_.bound) return fail("instruction " + std::to_string(int(op)));
        i.type = w[0], i.result = w[1], i.args.assign(w.begin() + 2, w.end());
        image_.type_of[i.result] = i.type;
    }
    image_.code.push_back(std::move(i));
  }

  void finish() {
    for (const auto& [id, stride] : strides_) image_.types[id].stride = stride;
    for (auto& [id, t] : image_.types) {
      if (t.op == Op::TypeArray) t.stride = 4;
      for (uint32_t m = 0; m < t.members.size(); ++m) t.offsets.push_back(offsets_[{id, m}]);
    }
  }

  Image image_;
  size_t at_ = 0;
  bool in_function_ = false;
  std::map<std::pair<Id, uint32_t>, uint32_t> offsets_;
  std::map<Id, uint32_t> strides_, bindings_, builtins_;
  std::map<Id, bool> read_only_;
};

}  // namespace mlc::testing::spirv
