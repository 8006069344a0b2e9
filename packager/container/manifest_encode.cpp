#include "packager/container/manifest_encode.h"

#include <cstring>

#include "schema/generated/manifest_generated.h"

namespace mlc::container {
namespace {

namespace fb = mlc::fb::manifest;
using flatbuffers::Offset;
template <class T>
using VectorOf = Offset<flatbuffers::Vector<T>>;

// Fields that are absent when empty keep the default offset 0.
class Encoder {
 public:
  std::vector<std::byte> encode(const format::Manifest& m);

 private:
  Offset<flatbuffers::String> text(const std::string& s) { return fbb_.CreateString(s); }
  Offset<flatbuffers::String> optional_text(const std::string& s) {
    return s.empty() ? Offset<flatbuffers::String>() : fbb_.CreateString(s);
  }
  template <class T>
  VectorOf<T> scalars(const std::vector<T>& values) {
    return values.empty() ? VectorOf<T>() : fbb_.CreateVector(values);
  }
  // A vector of tables, always present; `one` encodes an element.
  template <class List, class One>
  auto list(const List& items, One one) {
    std::vector<decltype(one(items[0]))> offsets;
    offsets.reserve(items.size());
    for (const auto& item : items) offsets.push_back(one(item));
    return fbb_.CreateVector(offsets);
  }
  template <class List, class One>
  auto optional_list(const List& items, One one) {
    return items.empty() ? decltype(list(items, one))() : list(items, one);
  }
  static fb::Digest digest(const format::Digest& d) {
    return fb::Digest(flatbuffers::span<const uint8_t, 32>(reinterpret_cast<const uint8_t*>(d.data()), 32));
  }
  static fb::Ref ref(const format::Ref& r) { return fb::Ref(r.segment, r.offset, r.length); }
  static flatbuffers::Optional<uint32_t> index(const std::optional<uint32_t>& i) {
    return i ? flatbuffers::Optional<uint32_t>(*i) : flatbuffers::nullopt;
  }
  template <class E>
  static uint8_t number(E e) {
    return static_cast<uint8_t>(e);
  }

  Offset<fb::Model> model(const format::Model& x);
  Offset<fb::DimRef> dim_ref(const format::DimRef& x);
  Offset<fb::Port> port(const format::Port& x);
  Offset<fb::Method> method(const format::Method& x);
  Offset<fb::Segment> segment(const format::Segment& x);
  Offset<fb::Tensor> tensor(const format::Tensor& x);
  VectorOf<Offset<fb::Tolerance>> tolerances(const std::vector<format::Tolerance>& xs);
  Offset<fb::Variant> variant(const format::Variant& x);
  Offset<fb::Stage> stage(const format::Stage& x);
  Offset<fb::Array> array(const format::GoldenArray& x);
  Offset<fb::Golden> golden(const format::Golden& x);
  Offset<fb::Provenance> provenance(const format::Provenance& x);

  flatbuffers::FlatBufferBuilder fbb_{64 * 1024};
};

Offset<fb::Model> Encoder::model(const format::Model& x) {
  auto id = text(x.id);
  auto title = optional_text(x.title);
  auto licence = optional_text(x.licence);
  return fb::CreateModel(fbb_, id, x.version, x.not_after, title, licence, x.default_method);
}

Offset<fb::DimRef> Encoder::dim_ref(const format::DimRef& x) {
  auto expr = optional_text(x.expr);
  auto extent = x.extent ? flatbuffers::Optional<int64_t>(*x.extent) : flatbuffers::nullopt;
  return fb::CreateDimRef(fbb_, index(x.dim), extent, expr);
}

Offset<fb::Port> Encoder::port(const format::Port& x) {
  auto name = text(x.name);
  auto dims = optional_list(x.dims, [&](const format::DimRef& d) { return dim_ref(d); });
  auto range = scalars(x.range);
  auto unit = optional_text(x.unit);
  auto doc = optional_text(x.doc);
  return fb::CreatePort(fbb_, name, number(x.dtype), dims, number(x.media), number(x.colour), range, unit,
                        index(x.labels), x.label_axis, index(x.tokenizer), x.optional, doc, x.list_depth);
}

Offset<fb::Method> Encoder::method(const format::Method& x) {
  auto one = [&](const format::Port& p) { return port(p); };
  auto name = text(x.name);
  auto inputs = list(x.inputs, one);
  auto outputs = list(x.outputs, one);
  auto core_inputs = optional_list(x.core_inputs, one);
  auto core_outputs = optional_list(x.core_outputs, one);
  auto dims = optional_list(x.dims, [&](const format::Dim& d) {
    auto dim_name = text(d.name);
    return fb::CreateDim(fbb_, dim_name, d.min, d.max, d.multiple);
  });
  auto state = optional_list(x.state, one);
  auto runs = scalars(x.runs);
  return fb::CreateMethod(fbb_, name, inputs, outputs, core_inputs, core_outputs, dims, state, index(x.batch), runs);
}

Offset<fb::Segment> Encoder::segment(const format::Segment& x) {
  auto name = text(x.name);
  auto d = digest(x.digest);
  return fb::CreateSegment(fbb_, name, number(x.kind), number(x.codec), x.droppable, x.critical, x.stored_len,
                           x.decoded_len, &d);
}

Offset<fb::Tensor> Encoder::tensor(const format::Tensor& x) {
  auto name = text(x.name);
  auto shape = scalars(x.shape);
  auto content = digest(x.content);
  auto copies = optional_list(x.copies, [&](const format::Copy& c) {
    auto r = ref(c.ref);
    return fb::CreateCopy(fbb_, c.layout, &r);
  });
  Offset<fb::Quant> quant;
  if (x.quant)
    quant = fb::CreateQuant(fbb_, number(x.quant->scheme), x.quant->axis, x.quant->block, index(x.quant->scale),
                            index(x.quant->zero));
  return fb::CreateTensor(fbb_, name, number(x.dtype), shape, &content, copies, quant);
}

VectorOf<Offset<fb::Tolerance>> Encoder::tolerances(const std::vector<format::Tolerance>& xs) {
  return optional_list(xs, [&](const format::Tolerance& t) {
    return fb::CreateTolerance(fbb_, t.output, number(t.metric), t.value);
  });
}

Offset<fb::Variant> Encoder::variant(const format::Variant& x) {
  auto name = text(x.name);
  auto family = text(x.family);
  auto target = text(x.target);
  auto features = scalars(x.features);
  auto clauses = optional_list(x.clauses, [&](const format::Clause& c) {
    auto values = fbb_.CreateVector(c.values);
    return fb::CreateClause(fbb_, c.id, number(c.op), values);
  });
  auto layouts = scalars(x.layouts);
  auto methods = scalars(x.methods);
  auto tolerance = tolerances(x.tolerance);
  auto cost = optional_list(x.cost, [&](const format::Cost& c) {
    auto bindings = scalars(c.bindings);
    return fb::CreateCost(fbb_, bindings, c.flops, c.bytes_read, c.bytes_written, c.launches, c.ns);
  });
  Offset<fb::Memory> memory;
  if (x.memory) memory = fb::CreateMemory(fbb_, x.memory->workspace, x.memory->peak, x.memory->code);
  Offset<fb::Audit> audit;
  if (x.audit) {
    auto tool = text(x.audit->tool);
    auto version = text(x.audit->tool_version);
    auto d = digest(x.audit->digest);
    audit = fb::CreateAudit(fbb_, tool, version, &d);
  }
  return fb::CreateVariant(fbb_, name, family, number(x.module_format), target, features, clauses, index(x.plan),
                           index(x.module), layouts, methods, tolerance, cost, memory, audit);
}

Offset<fb::Stage> Encoder::stage(const format::Stage& x) {
  auto name = text(x.name);
  auto operator_name = text(x.operator_name);
  auto attributes = optional_list(x.attributes, [&](const format::Attribute& a) {
    auto key = text(a.name);
    auto value = text(a.value);
    return fb::CreateAttr(fbb_, key, value);
  });
  auto doc = optional_text(x.doc);
  return fb::CreateStage(fbb_, name, operator_name, attributes, doc);
}

Offset<fb::Array> Encoder::array(const format::GoldenArray& x) {
  auto shape = scalars(x.shape);
  auto r = ref(x.ref);
  return fb::CreateArray(fbb_, x.port, number(x.dtype), shape, &r);
}

Offset<fb::Golden> Encoder::golden(const format::Golden& x) {
  auto one = [&](const format::GoldenArray& a) { return array(a); };
  auto name = text(x.name);
  auto inputs = list(x.inputs, one);
  auto outputs = list(x.outputs, one);
  auto bindings = scalars(x.bindings);
  auto tolerance = tolerances(x.tolerance);
  return fb::CreateGolden(fbb_, name, x.method, inputs, outputs, bindings, tolerance, number(x.entry));
}

Offset<fb::Provenance> Encoder::provenance(const format::Provenance& x) {
  auto tool = text(x.tool);
  auto version = text(x.tool_version);
  auto build = x.build ? digest(*x.build) : fb::Digest();
  auto source_name = optional_text(x.source_name);
  auto source = digest(x.source);
  auto flags = optional_list(x.flags, [&](const std::string& s) { return text(s); });
  auto ops = x.ops ? digest(*x.ops) : fb::Digest();
  VectorOf<const fb::Digest*> targets;
  if (!x.targets.empty()) {
    std::vector<fb::Digest> digests;
    for (const format::Digest& d : x.targets) digests.push_back(digest(d));
    targets = fbb_.CreateVectorOfStructs(digests);
  }
  auto parents = optional_list(x.parents, [&](const format::Parent& p) {
    auto root = digest(p.root);
    return fb::CreateParent(fbb_, &root, index(p.segment));
  });
  return fb::CreateProvenance(fbb_, tool, version, x.build ? &build : nullptr, source_name, &source, flags,
                              x.source_date_epoch, x.ops ? &ops : nullptr, targets, parents);
}

std::vector<std::byte> Encoder::encode(const format::Manifest& m) {
  auto required = scalars(m.required);
  auto the_model = model(m.model);
  auto methods = list(m.methods, [&](const format::Method& x) { return method(x); });
  auto segments = list(m.segments, [&](const format::Segment& x) { return segment(x); });
  auto tensors = list(m.tensors, [&](const format::Tensor& x) { return tensor(x); });
  auto layouts = list(m.layouts, [&](const format::Layout& x) {
    auto layout_text = text(x.text);
    auto params = optional_text(x.params);
    return fb::CreateLayout(fbb_, x.id, layout_text, params);
  });
  auto variants = list(m.variants, [&](const format::Variant& x) { return variant(x); });
  auto stages = optional_list(m.stages, [&](const format::Stage& x) { return stage(x); });
  auto assets = optional_list(m.assets, [&](const format::Asset& x) {
    auto name = text(x.name);
    auto media = text(x.media);
    auto r = ref(x.ref);
    auto d = digest(x.digest);
    return fb::CreateAsset(fbb_, name, media, &r, &d);
  });
  auto goldens = optional_list(m.golden, [&](const format::Golden& x) { return golden(x); });
  auto operators = optional_list(m.operators, [&](const format::Operator& x) {
    auto domain = text(x.domain);
    auto name = text(x.name);
    auto r = ref(x.text);
    auto d = digest(x.digest);
    return fb::CreateOperator(fbb_, domain, name, x.version, &r, &d);
  });
  auto tuning = optional_list(m.tuning, [&](const format::Tuning& x) {
    auto target = text(x.target);
    auto compiler = x.compiler ? digest(*x.compiler) : fb::Digest();
    return fb::CreateTuning(fbb_, x.segment, x.count, target, x.compiler ? &compiler : nullptr);
  });
  auto the_provenance = provenance(m.provenance);
  Offset<fb::PortableIr> portable;
  if (m.portable)
    portable = fb::CreatePortableIr(fbb_, number(m.portable->level), m.portable->text_version, m.portable->segment);
  auto extensions = optional_list(m.extensions, [&](const format::Extension& x) {
    auto id = text(x.id);
    auto data = x.data ? ref(*x.data) : fb::Ref();
    return fb::CreateExtension(fbb_, id, x.critical, x.data ? &data : nullptr);
  });
  fb::FinishManifestBuffer(fbb_, fb::CreateManifest(fbb_, required, the_model, methods, segments, tensors, layouts,
                                                    variants, stages, assets, goldens, operators, tuning,
                                                    the_provenance, portable, extensions));
  std::vector<std::byte> out(fbb_.GetSize());
  std::memcpy(out.data(), fbb_.GetBufferPointer(), out.size());
  return out;
}

}  // namespace

std::vector<std::byte> encode_manifest(const format::Manifest& manifest) { return Encoder().encode(manifest); }

}  // namespace mlc::container
