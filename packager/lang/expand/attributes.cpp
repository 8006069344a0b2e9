// The attributes of a call against their declarations: unknown, missing and mistyped ones are named.
#include <algorithm>
#include <cmath>

#include "packager/lang/expand/expander.h"

namespace mlc::lang {

DType dtype_of_onnx(int64_t number) {
  switch (number) {
    case 1: return DType::F32; case 2: return DType::U8; case 3: return DType::I8; case 4: return DType::U16;
    case 5: return DType::I16; case 6: return DType::I32; case 7: return DType::I64; case 8: return DType::Str;
    case 9: return DType::Bool; case 10: return DType::F16; case 11: return DType::F64; case 12: return DType::U32;
    case 13: return DType::U64; case 16: return DType::BF16; case 17: return DType::F8E4M3; case 18: return DType::F8E4M3FNUZ;
    case 19: return DType::F8E5M2; case 20: return DType::F8E5M2FNUZ; case 21: return DType::U4; case 22: return DType::I4;
    case 23: return DType::F4E2M1; case 24: return DType::F8E8M0; case 25: return DType::U2; case 26: return DType::I2;
    case 27: return DType::F6E2M3; case 28: return DType::F6E3M2;
    default: return DType::None;
  }
}

namespace {

const char* kind_of(const Attribute& a) {
  static constexpr const char* kNames[] = {"an int", "a float", "a string", "a list of ints", "a list of floats",
                                           "a list of strings", "a tensor", "an element type", "a graph"};
  return kNames[a.index()];
}

// The list that an attribute is; an empty one does not say of what, and may be given as one of any numbers. Null: it is none.
template <class Item>
const std::vector<Item>* list_in(const Attribute& value) {
  static const std::vector<Item> none;
  if (const auto* list = std::get_if<std::vector<Item>>(&value)) return list;
  if (const auto* ints = std::get_if<std::vector<int64_t>>(&value); ints && ints->empty()) return &none;
  if (const auto* floats = std::get_if<std::vector<double>>(&value); floats && floats->empty()) return &none;
  return nullptr;
}

size_t length_of(const Attribute& value) {
  if (const auto* ints = std::get_if<std::vector<int64_t>>(&value)) return ints->size();
  if (const auto* floats = std::get_if<std::vector<double>>(&value)) return floats->size();
  if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) return texts->size();
  return 1;
}

}  // namespace

bool Expander::has_attribute(const AttrDecl& decl) const { return attributes_.count(decl.name) > 0; }

void Expander::bind_attributes() {
  for (const auto& [name, value] : call_.attributes) {
    const AttrDecl* decl = op_.attr(name);
    if (!decl) {
      std::string known;
      for (const auto& a : op_.attrs) known += (known.empty() ? "" : ", ") + a.name;
      fail(Status(Code::Malformed, where() + ": unknown attribute '" + name + "'").fact("known attributes: " + (known.empty() ? "none" : known)));
    }
    // An element type numbered 0, ONNX's "undefined", asks for the default.
    const int64_t* number = std::get_if<int64_t>(&value);
    if (decl->kind == AttrDecl::Kind::Type && number && *number == 0 && (decl->fallback || decl->optional)) continue;
    attributes_[name] = &value;
    if (decl->list) most_steps_ += kStepsPerNumber * length_of(value);
  }
  steps_left_ = most_steps_;
  for (const auto& a : op_.attrs) {
    const bool given = has_attribute(a);
    if (!given && !a.fallback && !a.optional) mismatch("attribute '" + a.name + "' is missing");
    if (a.kind == AttrDecl::Kind::Type) {
      ExprValue v = attribute(a);
      if (v.kind == ExprValue::Kind::Type) types_[a.type_variable] = v.dtype;
    }
    if (a.kind == AttrDecl::Kind::Tensor) {
      ExprValue v = attribute(a);
      if (v.dtype != DType::None) types_[a.type_variable] = v.dtype;
    }
    if (given && a.kind != AttrDecl::Kind::Tensor && a.kind != AttrDecl::Kind::Type) {
      (void)attribute_value(a, *attributes_[a.name]);  // its type, at once
      if (a.list && a.shape.size() == 1 && a.shape[0]->kind == NodeKind::Name) {
        // attr axes: int[e]: a dim that nothing else declares is as long as the list.
        const std::string& dim = a.shape[0]->text;
        bool declared = false;
        auto mentions = [&](const TypeSpec& t) {
          for (const auto& d : t.dims) {
            declared = declared || d.name == dim;
            for (const auto& f : d.factors) declared = declared || f == dim;
          }
        };
        for (const auto& p : op_.params) mentions(p.type);
        for (const auto& r : op_.results) mentions(r.type);
        if (!declared) {
          DimInfo& info = dim_info(dim);
          info.known = true;
          info.extents = {ctx_.integer(static_cast<int64_t>(attribute_value(a, *attributes_[a.name]).length()))};
          info.origins = {"length of attribute " + a.name};
        }
      }
    }
  }
}

ExprValue Expander::attribute_value(const AttrDecl& decl, const Attribute& value) {
  auto wrong = [&](const char* wanted) { mismatch("attribute '" + decl.name + "' is " + kind_of(value) + ", expected " + wanted); };
  auto text = [](std::string s, ExprValue::Kind kind) {
    ExprValue v;
    v.kind = kind;
    v.text = std::move(s);
    return v;
  };
  switch (decl.kind) {
    case AttrDecl::Kind::Int:
      if (decl.list) {
        const auto* given = list_in<int64_t>(value);
        if (!given) wrong("a list of ints");
        return list(Numbers{DType::I64, *given});
      }
      if (auto* v = std::get_if<int64_t>(&value)) return soft_int(*v);
      wrong("an int");
      break;
    case AttrDecl::Kind::Float:
      if (decl.list) {
        const auto* given = list_in<double>(value);
        if (!given) wrong("a list of floats");
        Numbers items{DType::F64, {}};
        items.values.reserve(given->size());
        for (double f : *given) items.values.push_back(std::bit_cast<int64_t>(f));
        return list(std::move(items));
      }
      if (auto* v = std::get_if<double>(&value)) return scalar(ctx_.number(*v, DType::F64), true);
      wrong("a float");
      break;
    case AttrDecl::Kind::String:
      if (decl.list) {
        const auto* given = list_in<std::string>(value);
        if (!given) wrong("a list of strings");
        std::vector<ExprValue> items;
        for (const auto& s : *given) items.push_back(text(s, ExprValue::Kind::String));
        return list(std::move(items));
      }
      if (auto* v = std::get_if<std::string>(&value)) return text(*v, ExprValue::Kind::String);
      wrong("a string");
      break;
    case AttrDecl::Kind::Enum: {
      auto* v = std::get_if<std::string>(&value);
      if (!v) wrong("a string");
      std::string cases;
      for (const auto& e : decl.enumerators) {
        if (e == *v) {
          ExprValue r = text(e, ExprValue::Kind::Enum);
          r.attr = &decl;
          return r;
        }
        cases += (cases.empty() ? "" : ", ") + e;
      }
      mismatch("attribute '" + decl.name + "' is '" + *v + "', expected one of " + cases);
    }
    case AttrDecl::Kind::Type: {
      ExprValue r;
      r.kind = ExprValue::Kind::Type;
      if (auto* t = std::get_if<DType>(&value)) r.dtype = *t;
      else if (auto* n = std::get_if<int64_t>(&value)) r.dtype = dtype_of_onnx(*n);
      else wrong("an element type");
      if (r.dtype == DType::None) mismatch("attribute '" + decl.name + "' names no element type that is known here");
      return r;
    }
    case AttrDecl::Kind::Graph:
      if (!std::holds_alternative<GraphAttr>(value)) wrong("a graph");
      return {};  // only a statement calls it
    case AttrDecl::Kind::Tensor: {
      auto* t = std::get_if<TensorAttr>(&value);
      if (!t) wrong("a tensor");
      if (auto it = tensor_attributes_.find(decl.name); it != tensor_attributes_.end()) return it->second;
      std::vector<Ex> shape;
      size_t count = 1;
      for (int64_t n : t->shape) {
        if (n < 0) mismatch("attribute '" + decl.name + "' has a negative extent");
        if (__builtin_mul_overflow(count, static_cast<size_t>(n), &count)) mismatch("attribute '" + decl.name + "' is too large");
        shape.push_back(ctx_.integer(n));
      }
      size_t bytes;
      if (!t->data || __builtin_mul_overflow(count, static_cast<size_t>(bytes_of(t->dtype)), &bytes) || t->data->bytes.size() < bytes ||
          bytes_of(t->dtype) == 0)
        mismatch("attribute '" + decl.name + "' has not as many elements as its shape says");
      const uint32_t id = new_array(decl.name, t->dtype, shape);
      function_.arrays[id].kind = nest::Array::Kind::Const;
      function_.arrays[id].data = t->data;
      ExprValue r = list({soft_int(id), soft_list(shape)});
      r.dtype = t->dtype;
      return tensor_attributes_[decl.name] = r;
    }
  }
  mismatch("attribute '" + decl.name + "' has a type that is not possible here");
}

ExprValue Expander::attribute(const AttrDecl& decl) {
  auto given = attributes_.find(decl.name);
  ExprValue v;
  if (given != attributes_.end()) {
    // An item of a list is asked for by the name of the list: without this each would copy all of them.
    auto [known, is_new] = attribute_lists_.try_emplace(decl.name);
    if (is_new || !known->second.is_list()) known->second = attribute_value(decl, *given->second);
    v = known->second;
  } else if (!decl.fallback) {
    if (!decl.optional) mismatch("attribute '" + decl.name + "' is missing");
    return v;  // Absent
  } else if (decl.kind == AttrDecl::Kind::Enum) {
    v.kind = ExprValue::Kind::Enum;
    v.text = decl.fallback->text;
    v.attr = &decl;
    return v;
  } else if (decl.kind == AttrDecl::Kind::Tensor) {
    // Default: a tensor of one element, given as a typed number: f32(0).
    if (auto it = tensor_attributes_.find(decl.name); it != tensor_attributes_.end()) return it->second;
    ExprValue number = eval(decl.fallback);
    if (!number.is_const() || number.soft) fail_here(decl.pos, "the default of a tensor is a typed constant: f32(0)");
    const DType type = number.e->type.dtype;
    const uint32_t id = new_table(type, {is_float(type) ? DType::F64 : DType::I64, {is_float(type) ? std::bit_cast<int64_t>(number.e->f) : number.e->i}});
    ExprValue r = list({soft_int(id), soft_list({ctx_.integer(1)})});
    r.dtype = number.e->type.dtype;
    return tensor_attributes_[decl.name] = r;
  } else {
    v = eval(decl.fallback);
  }
  if (!decl.list) return v;
  return shape_list(decl, v);
}

// Lists take the shape that is declared: as long as a dim is, or a pack has dims; int[2, i] is two lists. One number
// spreads.
ExprValue Expander::shape_list(const AttrDecl& decl, ExprValue flat) {
  std::vector<size_t> lengths;
  for (const Node* n : decl.shape) {
    if (n->kind == NodeKind::Number) {
      lengths.push_back(static_cast<size_t>(std::clamp<int64_t>(n->integer, 0, 64)));
      continue;
    }
    auto it = dims_.find(n->text);
    if (it == dims_.end()) {
      if (!flat.is_list()) return flat;
      lengths.push_back(flat.length());  // int[e] with e declared nowhere: any length
      continue;
    }
    if (it->second.pack) {
      auto r = rank_of_pack(n->text);
      lengths.push_back(r ? *r : extents_of(n->text, n->pos).size());
    } else {
      auto e = extents_of(n->text, n->pos);
      if (e.size() != 1 || !e[0]->is_const()) fail_call(decl.pos, "the length of attribute " + decl.name + " is not known while building");
      lengths.push_back(static_cast<size_t>(e[0]->i));
    }
  }
  if (lengths.empty()) return flat;
  const size_t inner = lengths.back(), outer = lengths.size() == 2 ? lengths[0] : 1;
  if (!flat.is_list()) {
    std::vector<ExprValue> items(inner * outer, flat);
    flat = list(std::move(items));
  }
  if (flat.length() != inner * outer) {
    std::string hint;
    for (const Node* n : decl.shape) hint += (hint.empty() ? "" : ", ") + n->text;
    mismatch("attribute '" + decl.name + "' has " + std::to_string(flat.length()) + " values, expected " +
             std::to_string(inner * outer) + " ([" + hint + "])");
  }
  if (lengths.size() == 1) return flat;
  std::vector<ExprValue> rows;
  for (size_t k = 0; k < outer; ++k) {
    std::vector<ExprValue> row;
    for (size_t j = 0; j < inner; ++j) row.push_back(item(flat, k * inner + j));
    rows.push_back(list(std::move(row)));
  }
  return list(std::move(rows));
}

}  // namespace mlc::lang
