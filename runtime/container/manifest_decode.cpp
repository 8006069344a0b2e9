#include "runtime/container/manifest_decode.h"

#include <cstring>

#include "schema/generated/manifest_generated.h"
#include "schema/validate.h"

namespace mlc::container {
namespace {

namespace fb = mlc::fb::manifest;
template <class T>
using VectorOf = flatbuffers::Vector<T>;

// The verifier has checked that required fields are there and that everything lies inside the buffer; a field that is
// not required may be null, which reads as empty here.

std::string text(const flatbuffers::String* s) {
  return s == nullptr ? std::string() : std::string(s->c_str(), s->size());
}

format::Digest digest(const fb::Digest& d) {
  static_assert(sizeof(fb::Digest) == sizeof(format::Digest));
  format::Digest out;
  std::memcpy(out.data(), &d, out.size());
  return out;
}
std::optional<format::Digest> optional_digest(const fb::Digest* d) {
  return d == nullptr ? std::nullopt : std::optional(digest(*d));
}
format::Ref ref(const fb::Ref& r) { return {r.segment(), r.offset(), r.length()}; }
std::optional<uint32_t> index(flatbuffers::Optional<uint32_t> i) {
  return i.has_value() ? std::optional<uint32_t>(*i) : std::nullopt;
}

template <class T>
std::vector<T> scalars(const VectorOf<T>* values) {
  std::vector<T> out;
  if (values == nullptr) return out;
  out.reserve(values->size());
  for (T value : *values) out.push_back(value);
  return out;
}
template <class T, class One>
auto list(const VectorOf<flatbuffers::Offset<T>>* items, One one) {
  std::vector<decltype(one(*static_cast<const T*>(nullptr)))> out;
  if (items == nullptr) return out;
  out.reserve(items->size());
  for (const T* item : *items) out.push_back(one(*item));
  return out;
}

format::Model model(const fb::Model& x) {
  return {text(x.id()), x.version(), x.not_after(), text(x.title()), text(x.licence()), x.default_method()};
}

format::DimRef dim_ref(const fb::DimRef& x) {
  format::DimRef out;
  out.dim = index(x.dim());
  if (auto extent = x.extent(); extent.has_value()) out.extent = *extent;
  out.expr = text(x.expr());
  return out;
}

format::Port port(const fb::Port& x) {
  format::Port out;
  out.name = text(x.name());
  out.dtype = static_cast<DType>(x.dtype());
  out.dims = list(x.dims(), dim_ref);
  out.media = static_cast<format::Media>(x.media());
  out.colour = static_cast<format::Colour>(x.colour());
  out.range = scalars(x.range());
  out.unit = text(x.unit());
  out.labels = index(x.labels());
  out.label_axis = x.label_axis();
  out.tokenizer = index(x.tokenizer());
  out.optional = x.optional();
  out.doc = text(x.doc());
  return out;
}

format::Method method(const fb::Method& x) {
  format::Method out;
  out.name = text(x.name());
  out.inputs = list(x.inputs(), port);
  out.outputs = list(x.outputs(), port);
  out.core_inputs = list(x.core_inputs(), port);
  out.core_outputs = list(x.core_outputs(), port);
  out.dims = list(x.dims(), [](const fb::Dim& d) {
    return format::Dim{text(d.name()), d.min(), d.max(), d.multiple()};
  });
  out.state = list(x.state(), port);
  return out;
}

format::Segment segment(const fb::Segment& x) {
  format::Segment out;
  out.name = text(x.name());
  out.kind = static_cast<format::SegmentKind>(x.kind());
  out.codec = static_cast<format::Codec>(x.codec());
  out.droppable = x.droppable();
  out.critical = x.critical();
  out.stored_len = x.stored_len();
  out.decoded_len = x.decoded_len();
  out.digest = digest(*x.digest());
  return out;
}

format::Tensor tensor(const fb::Tensor& x) {
  format::Tensor out;
  out.name = text(x.name());
  out.dtype = static_cast<DType>(x.dtype());
  out.shape = scalars(x.shape());
  out.content = digest(*x.content());
  out.copies = list(x.copies(), [](const fb::Copy& c) { return format::Copy{c.layout(), ref(*c.ref())}; });
  if (const fb::Quant* q = x.quant())
    out.quant = format::Quant{static_cast<format::QuantScheme>(q->scheme()), q->axis(), q->block(), index(q->scale()),
                              index(q->zero())};
  return out;
}

std::vector<format::Tolerance> tolerances(const VectorOf<flatbuffers::Offset<fb::Tolerance>>* xs) {
  return list(xs, [](const fb::Tolerance& t) {
    return format::Tolerance{t.output(), static_cast<format::Metric>(t.metric()), t.value()};
  });
}

format::Variant variant(const fb::Variant& x) {
  format::Variant out;
  out.name = text(x.name());
  out.family = text(x.family());
  out.module_format = static_cast<format::ModuleFormat>(x.module_format());
  out.target = text(x.target());
  out.features = scalars(x.features());
  out.clauses = list(x.clauses(), [](const fb::Clause& c) {
    return format::Clause{c.id(), static_cast<format::ClauseOp>(c.op()), scalars(c.values())};
  });
  out.plan = index(x.plan());
  out.module = index(x.module_());
  out.layouts = scalars(x.layouts());
  out.methods = scalars(x.methods());
  out.tolerance = tolerances(x.tolerance());
  out.cost = list(x.cost(), [](const fb::Cost& c) {
    return format::Cost{scalars(c.bindings()), c.flops(), c.bytes_read(), c.bytes_written(), c.launches(), c.ns()};
  });
  if (const fb::Memory* m = x.memory()) out.memory = format::Memory{m->workspace(), m->peak(), m->code()};
  if (const fb::Audit* a = x.audit())
    out.audit = format::Audit{text(a->tool()), text(a->tool_version()), digest(*a->digest())};
  return out;
}

format::Stage stage(const fb::Stage& x) {
  return {text(x.name()), text(x.operator_name()),
          list(x.attributes(), [](const fb::Attr& a) { return format::Attribute{text(a.name()), text(a.value())}; }),
          text(x.doc())};
}

format::GoldenArray array(const fb::Array& x) {
  return {x.port(), static_cast<DType>(x.dtype()), scalars(x.shape()), ref(*x.ref())};
}

format::Golden golden(const fb::Golden& x) {
  format::Golden out;
  out.name = text(x.name());
  out.method = x.method();
  out.entry = static_cast<format::GoldenEntry>(x.entry());
  out.inputs = list(x.inputs(), array);
  out.outputs = list(x.outputs(), array);
  out.bindings = scalars(x.bindings());
  out.tolerance = tolerances(x.tolerance());
  return out;
}

format::Provenance provenance(const fb::Provenance& x) {
  format::Provenance out;
  out.tool = text(x.tool());
  out.tool_version = text(x.tool_version());
  out.build = optional_digest(x.build());
  out.source_name = text(x.source_name());
  out.source = digest(*x.source());
  if (const auto* flags = x.flags())
    for (const flatbuffers::String* flag : *flags) out.flags.push_back(text(flag));
  out.source_date_epoch = x.source_date_epoch();
  out.ops = optional_digest(x.ops());
  if (const auto* targets = x.targets())
    for (const fb::Digest* target : *targets) out.targets.push_back(digest(*target));
  out.parents = list(x.parents(), [](const fb::Parent& p) {
    return format::Parent{digest(*p.root()), index(p.segment())};
  });
  return out;
}

format::Manifest manifest(const fb::Manifest& x) {
  format::Manifest out;
  out.required = scalars(x.required());
  out.model = model(*x.model());
  out.methods = list(x.methods(), method);
  out.segments = list(x.segments(), segment);
  out.tensors = list(x.tensors(), tensor);
  out.layouts = list(x.layouts(), [](const fb::Layout& l) {
    return format::Layout{l.id(), text(l.text()), text(l.params())};
  });
  out.variants = list(x.variants(), variant);
  out.stages = list(x.stages(), stage);
  out.assets = list(x.assets(), [](const fb::Asset& a) {
    return format::Asset{text(a.name()), text(a.media()), ref(*a.ref()), digest(*a.digest())};
  });
  out.golden = list(x.golden(), golden);
  out.operators = list(x.operators(), [](const fb::Operator& o) {
    return format::Operator{text(o.domain()), text(o.name()), o.version(), ref(*o.text()), digest(*o.digest())};
  });
  out.tuning = list(x.tuning(), [](const fb::Tuning& t) {
    return format::Tuning{t.segment(), t.count(), text(t.target()), optional_digest(t.compiler())};
  });
  out.provenance = provenance(*x.provenance());
  if (const fb::PortableIr* p = x.portable())
    out.portable = format::PortableIr{static_cast<format::PortableLevel>(p->level()), p->text_version(), p->segment()};
  out.extensions = list(x.extensions(), [](const fb::Extension& e) {
    return format::Extension{text(e.id()), e.critical(),
                             e.data() == nullptr ? std::nullopt : std::optional(ref(*e.data()))};
  });
  return out;
}

}  // namespace

Result<format::Manifest> decode_manifest(Bytes bytes) {
  // The verifier asserts a size below 2 GiB and reads the identifier before it checks the length.
  if (bytes.size() < 16 || bytes.size() >= format::kMaxManifestLen)
    return Status(Code::Malformed, "manifest of " + std::to_string(bytes.size()) + " bytes");
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  flatbuffers::Verifier verifier(data, bytes.size(), format::kMaxTableDepth, format::kMaxTables);
  if (!fb::VerifyManifestBuffer(verifier))
    return Status(Code::Malformed, "manifest: not a well-formed FlatBuffer of kind MLCM");
  format::Manifest out = manifest(*fb::GetManifest(data));
  if (Status status = format::validate(out); !status.ok()) return std::move(status).note("manifest");
  return out;
}

}  // namespace mlc::container
