#include "tests/conformance/mutate.h"

#include <cmath>
#include <limits>

namespace mlc::conformance {

int64_t Mutator::number(int64_t old) {
  const int64_t values[] = {0, -1, 1, 2, -2, 3, 7, 100, 65536, 100000, INT32_MAX, int64_t{1} << 31, int64_t{1} << 32, int64_t{1} << 40,
                            INT64_MAX, INT64_MIN, INT64_MIN + 1, int64_t{INT32_MIN}, -100, old / 2,
                            static_cast<int64_t>(static_cast<uint64_t>(old) + 1), static_cast<int64_t>(static_cast<uint64_t>(old) - 1),
                            static_cast<int64_t>(uint64_t{0} - static_cast<uint64_t>(old)), static_cast<int64_t>(static_cast<uint64_t>(old) * 1000)};
  return values[pick(std::size(values))];
}

float Mutator::real() {
  const float values[] = {0.f, -0.f, 1.f, -1.f, std::nanf(""), HUGE_VALF, -HUGE_VALF, 3e38f, -3e38f, 1e-45f, 0.5f, 1e10f, 2147483648.f};
  return values[pick(std::size(values))];
}

std::string Mutator::word() {
  const char* values[] = {"", "nonsense", "SAME_UPPER", "linear", "Relu", "LEAF", "BRANCH_EQ", "\xff\xfe", "%s%n", "a\0b"};
  const size_t k = pick(std::size(values) + 1);
  return k == std::size(values) ? std::string(100000, 'x') : values[k];
}

std::string Mutator::tensor(onnx::TensorProto& t) {
  switch (pick(6)) {
    case 0:
      if (t.dims_size()) {
        const int axis = static_cast<int>(pick(static_cast<size_t>(t.dims_size())));
        t.set_dims(axis, number(t.dims(axis)));
      } else {
        t.add_dims(number(1));
      }
      return "a dim";
    case 1: t.add_dims(number(1)); return "a dim more";
    case 2:
      if (t.dims_size()) t.mutable_dims()->RemoveLast();
      return "a dim less";
    case 3: t.set_data_type(static_cast<int>(pick(28))); return "its element type";
    case 4:
      if (t.has_raw_data() && !t.raw_data().empty()) t.mutable_raw_data()->pop_back();
      else if (t.int64_data_size()) t.mutable_int64_data()->RemoveLast();
      else if (t.float_data_size()) t.mutable_float_data()->RemoveLast();
      else if (t.int32_data_size()) t.mutable_int32_data()->RemoveLast();
      return "less data";
    default: break;
  }
  if (t.data_type() == onnx::TensorProto::INT64 && t.has_raw_data() && t.raw_data().size() >= 8) {
    const size_t at = 8 * pick(t.raw_data().size() / 8);
    const int64_t value = number(1);
    t.mutable_raw_data()->replace(at, 8, reinterpret_cast<const char*>(&value), 8);
  } else if (t.has_raw_data() && !t.raw_data().empty()) {
    for (size_t k = 0; k < 4; ++k) (*t.mutable_raw_data())[pick(t.raw_data().size())] = static_cast<char>(random_());
  } else if (t.int64_data_size()) {
    t.set_int64_data(static_cast<int>(pick(static_cast<size_t>(t.int64_data_size()))), number(1));
  } else if (t.float_data_size()) {
    t.set_float_data(static_cast<int>(pick(static_cast<size_t>(t.float_data_size()))), real());
  } else if (t.int32_data_size()) {
    t.set_int32_data(static_cast<int>(pick(static_cast<size_t>(t.int32_data_size()))), static_cast<int32_t>(number(1)));
  }
  return "a value";
}

std::string Mutator::attribute(onnx::AttributeProto& a) {
  const std::string name = a.name();
  const auto list = [&](auto* items, auto fresh) {
    const size_t count = static_cast<size_t>(items->size());
    switch (pick(6)) {
      case 0:
        if (count) items->RemoveLast();
        return " shorter";
      case 1: *items->Add() = fresh(); return " longer";
      case 2: items->Clear(); return " empty";
      case 3:
        for (int k = 0; k < 1000; ++k) *items->Add() = fresh();
        return " much longer";
      default:
        if (count) *items->Mutable(static_cast<int>(pick(count))) = fresh();
        return ", an item";
    }
  };
  if (pick(12) == 0) {  // another type than the operator wants
    a.clear_i(), a.clear_f(), a.clear_s(), a.clear_ints(), a.clear_floats(), a.clear_strings();
    switch (pick(4)) {
      case 0: a.set_type(onnx::AttributeProto::INT), a.set_i(number(1)); break;
      case 1: a.set_type(onnx::AttributeProto::FLOAT), a.set_f(real()); break;
      case 2: a.set_type(onnx::AttributeProto::STRING), a.set_s(word()); break;
      default: a.set_type(onnx::AttributeProto::INTS), a.add_ints(number(1)); break;
    }
    return name + ": its type";
  }
  switch (a.type()) {
    case onnx::AttributeProto::INT: a.set_i(number(a.i())); return name + " = " + std::to_string(a.i());
    case onnx::AttributeProto::FLOAT: a.set_f(real()); return name + " = " + std::to_string(a.f());
    case onnx::AttributeProto::STRING: a.set_s(word()); return name + ": a word";
    case onnx::AttributeProto::INTS: {
      const int64_t old = a.ints_size() ? a.ints(0) : 1;
      return name + list(a.mutable_ints(), [&] { return number(old); });
    }
    case onnx::AttributeProto::FLOATS: return name + list(a.mutable_floats(), [&] { return real(); });
    case onnx::AttributeProto::STRINGS: return name + list(a.mutable_strings(), [&] { return word(); });
    case onnx::AttributeProto::TENSOR: return name + ": " + tensor(*a.mutable_t());
    default: return name + ": nothing";
  }
}

std::string Mutator::node(onnx::NodeProto& n) {
  const size_t kind = pick(n.attribute_size() ? 16 : 8);
  if (kind >= 6 && n.attribute_size()) return attribute(*n.mutable_attribute(static_cast<int>(pick(static_cast<size_t>(n.attribute_size())))));
  const int input = static_cast<int>(pick(static_cast<size_t>(n.input_size())));
  switch (kind) {
    case 0:
      if (n.input_size()) n.set_input(input, "");
      return "input " + std::to_string(input) + " absent";
    case 1:
      if (n.input_size()) n.mutable_input()->RemoveLast();
      return "an input less";
    case 2:
      if (n.input_size()) n.add_input(n.input(input));
      return "an input more";
    case 3:
      if (n.input_size()) n.set_input(input, n.input(static_cast<int>(pick(static_cast<size_t>(n.input_size())))));
      return "input " + std::to_string(input) + " is another";
    case 4:
      if (n.attribute_size()) {
        const int at = static_cast<int>(pick(static_cast<size_t>(n.attribute_size())));
        const std::string name = n.attribute(at).name();
        n.mutable_attribute()->DeleteSubrange(at, 1);
        return name + " left out";
      }
      [[fallthrough]];
    default: {
      onnx::AttributeProto* more = n.add_attribute();
      more->set_name(n.attribute_size() > 1 && pick(2) ? n.attribute(0).name() : "unheard_of");
      more->set_type(onnx::AttributeProto::INT);
      more->set_i(number(1));
      return "an attribute more";
    }
  }
}

std::string Mutator::port(onnx::ValueInfoProto& p) {
  if (!p.type().has_tensor_type()) return "nothing";
  onnx::TypeProto::Tensor* t = p.mutable_type()->mutable_tensor_type();
  if (pick(6) == 0) {
    t->set_elem_type(static_cast<int>(pick(25)));
    return p.name() + ": its element type";
  }
  onnx::TensorShapeProto* shape = t->mutable_shape();
  const size_t rank = static_cast<size_t>(shape->dim_size());
  switch (pick(6)) {
    case 0: shape->add_dim()->set_dim_value(number(1)); return p.name() + ": a dim more";
    case 1:
      if (rank) shape->mutable_dim()->RemoveLast();
      return p.name() + ": a dim less";
    case 2:
      if (rank) shape->mutable_dim(static_cast<int>(pick(rank)))->set_dim_param("free");
      return p.name() + ": a free dim";
    default: {
      if (!rank) return p.name() + ": nothing";
      onnx::TensorShapeProto::Dimension* dim = shape->mutable_dim(static_cast<int>(pick(rank)));
      dim->set_dim_value(number(dim->dim_value()));
      return p.name() + ": a dim of " + std::to_string(dim->dim_value());
    }
  }
}

onnx::GraphProto& Mutator::some_graph(onnx::GraphProto& outer) {
  onnx::GraphProto* graph = &outer;
  for (size_t depth = 0; depth < 8 && pick(2); ++depth) {
    std::vector<onnx::GraphProto*> bodies;
    for (onnx::NodeProto& node : *graph->mutable_node())
      for (onnx::AttributeProto& attribute : *node.mutable_attribute())
        if (attribute.has_g()) bodies.push_back(attribute.mutable_g());
    if (bodies.empty()) break;
    graph = bodies[pick(bodies.size())];
  }
  return *graph;
}

std::string Mutator::damage(onnx::ModelProto& model) {
  std::string said;
  for (size_t left = 1 + pick(3); left-- > 0;) {
    onnx::GraphProto& graph = some_graph(*model.mutable_graph());
    const size_t kind = pick(10);
    if (!said.empty()) said += "; ";
    if (kind == 0 && graph.input_size()) said += port(*graph.mutable_input(static_cast<int>(pick(static_cast<size_t>(graph.input_size())))));
    else if (kind == 1 && graph.initializer_size())
      said += tensor(*graph.mutable_initializer(static_cast<int>(pick(static_cast<size_t>(graph.initializer_size())))));
    else if (graph.node_size()) said += node(*graph.mutable_node(static_cast<int>(pick(static_cast<size_t>(graph.node_size())))));
  }
  return said;
}

}  // namespace mlc::conformance
