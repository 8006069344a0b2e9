#include "runtime/container/manifest_decode.h"

#include <cstring>

#include "schema/generated/manifest_generated.h"
#include "schema/validate.h"

namespace mlc::container {
namespace {

namespace fb = mlc::fb::manifest;
template <class T>
using VectorOf = flatbuffers::Vector<T>;

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

// The verifier has checked that required fields are there and that everything lies inside the buffer; a field that is
// not required may be null, which reads as empty here.

// Copies everything out. FlatBuffers may share parts: a million tables can name one string of 60 MB, which would become
// a million copies. The writer shares nothing, so all copies together must not be longer than the manifest; what is
// beyond reads as empty and makes the manifest malformed.
class Decoder {
 public:
  explicit Decoder(uint64_t budget) : budget_(budget) {}
  format::Manifest manifest(const fb::Manifest& x);
  bool exhausted() const { return exhausted_; }

 private:
  bool afford(uint64_t bytes) {
    if (bytes > budget_) exhausted_ = true;
    if (exhausted_) return false;
    budget_ -= bytes;
    return true;
  }
  std::string text(const flatbuffers::String* s) {
    return s != nullptr && afford(s->size()) ? std::string(s->c_str(), s->size()) : std::string();
  }
  // FlatBuffers 2.0 verifies where the length of a vector lies, not that 8-byte elements behind it are aligned.
  template <class T>
  std::vector<T> scalars(const VectorOf<T>* values) {
    std::vector<T> out;
    if (values == nullptr || !afford(uint64_t{values->size()} * sizeof(T))) return out;
    out.resize(values->size());
    if (!out.empty()) std::memcpy(out.data(), values->Data(), out.size() * sizeof(T));
    for (T& value : out) value = flatbuffers::EndianScalar(value);
    return out;
  }
  // Each item costs its offset and the smallest table.
  template <class T, class One>
  auto list(const VectorOf<flatbuffers::Offset<T>>* items, One one) {
    std::vector<decltype(one(*static_cast<const T*>(nullptr)))> out;
    if (items == nullptr || !afford(uint64_t{items->size()} * 8)) return out;
    out.reserve(items->size());
    for (const T* item : *items) out.push_back(one(*item));
    return out;
  }

  format::Model model(const fb::Model& x);
  format::DimRef dim_ref(const fb::DimRef& x);
  std::vector<format::DimRef> dim_refs(const VectorOf<flatbuffers::Offset<fb::DimRef>>* xs) {
    return list(xs, [this](const fb::DimRef& x) { return dim_ref(x); });
  }
  format::Port port(const fb::Port& x);
  std::vector<format::Port> ports(const VectorOf<flatbuffers::Offset<fb::Port>>* xs) {
    return list(xs, [this](const fb::Port& x) { return port(x); });
  }
  format::Method method(const fb::Method& x);
  format::Segment segment(const fb::Segment& x);
  format::Tensor tensor(const fb::Tensor& x);
  std::vector<format::Tolerance> tolerances(const VectorOf<flatbuffers::Offset<fb::Tolerance>>* xs);
  format::Variant variant(const fb::Variant& x);
  format::Stage stage(const fb::Stage& x);
  format::GoldenArray array(const fb::Array& x);
  std::vector<format::GoldenArray> arrays(const VectorOf<flatbuffers::Offset<fb::Array>>* xs) {
    return list(xs, [this](const fb::Array& x) { return array(x); });
  }
  format::Golden golden(const fb::Golden& x);
  format::Provenance provenance(const fb::Provenance& x);

  uint64_t budget_;
  bool exhausted_ = false;
};

format::Model Decoder::model(const fb::Model& x) {
  return {text(x.id()), x.version(), x.not_after(), text(x.title()), text(x.licence()), x.default_method()};
}

format::DimRef Decoder::dim_ref(const fb::DimRef& x) {
  format::DimRef out;
  out.dim = index(x.dim());
  if (auto extent = x.extent(); extent.has_value()) out.extent = *extent;
  out.expr = text(x.expr());
  return out;
}

format::Port Decoder::port(const fb::Port& x) {
  format::Port out;
  out.name = text(x.name());
  out.dtype = static_cast<DType>(x.dtype());
  out.dims = dim_refs(x.dims());
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

format::Method Decoder::method(const fb::Method& x) {
  format::Method out;
  out.name = text(x.name());
  out.inputs = ports(x.inputs());
  out.outputs = ports(x.outputs());
  out.core_inputs = ports(x.core_inputs());
  out.core_outputs = ports(x.core_outputs());
  out.dims = list(x.dims(), [this](const fb::Dim& d) {
    return format::Dim{text(d.name()), d.min(), d.max(), d.multiple()};
  });
  out.state = ports(x.state());
  return out;
}

format::Segment Decoder::segment(const fb::Segment& x) {
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

format::Tensor Decoder::tensor(const fb::Tensor& x) {
  format::Tensor out;
  out.name = text(x.name());
  out.dtype = static_cast<DType>(x.dtype());
  out.shape = scalars(x.shape());
  out.content = digest(*x.content());
  out.copies = list(x.copies(), [this](const fb::Copy& c) { return format::Copy{c.layout(), ref(*c.ref())}; });
  if (const fb::Quant* q = x.quant())
    out.quant = format::Quant{static_cast<format::QuantScheme>(q->scheme()), q->axis(), q->block(), index(q->scale()),
                              index(q->zero())};
  return out;
}

std::vector<format::Tolerance> Decoder::tolerances(const VectorOf<flatbuffers::Offset<fb::Tolerance>>* xs) {
  return list(xs, [this](const fb::Tolerance& t) {
    return format::Tolerance{t.output(), static_cast<format::Metric>(t.metric()), t.value()};
  });
}

format::Variant Decoder::variant(const fb::Variant& x) {
  format::Variant out;
  out.name = text(x.name());
  out.family = text(x.family());
  out.module_format = static_cast<format::ModuleFormat>(x.module_format());
  out.target = text(x.target());
  out.features = scalars(x.features());
  out.clauses = list(x.clauses(), [this](const fb::Clause& c) {
    return format::Clause{c.id(), static_cast<format::ClauseOp>(c.op()), scalars(c.values())};
  });
  out.plan = index(x.plan());
  out.module = index(x.module_());
  out.layouts = scalars(x.layouts());
  out.methods = scalars(x.methods());
  out.tolerance = tolerances(x.tolerance());
  out.cost = list(x.cost(), [this](const fb::Cost& c) {
    return format::Cost{scalars(c.bindings()), c.flops(), c.bytes_read(), c.bytes_written(), c.launches(), c.ns()};
  });
  if (const fb::Memory* m = x.memory()) out.memory = format::Memory{m->workspace(), m->peak(), m->code()};
  if (const fb::Audit* a = x.audit())
    out.audit = format::Audit{text(a->tool()), text(a->tool_version()), digest(*a->digest())};
  return out;
}

format::Stage Decoder::stage(const fb::Stage& x) {
  return {text(x.name()), text(x.operator_name()),
          list(x.attributes(),
               [this](const fb::Attr& a) {
                 return format::Attribute{text(a.name()), text(a.value())};
               }),
          text(x.doc())};
}

format::GoldenArray Decoder::array(const fb::Array& x) {
  return {x.port(), static_cast<DType>(x.dtype()), scalars(x.shape()), ref(*x.ref())};
}

format::Golden Decoder::golden(const fb::Golden& x) {
  format::Golden out;
  out.name = text(x.name());
  out.method = x.method();
  out.entry = static_cast<format::GoldenEntry>(x.entry());
  out.inputs = arrays(x.inputs());
  out.outputs = arrays(x.outputs());
  out.bindings = scalars(x.bindings());
  out.tolerance = tolerances(x.tolerance());
  return out;
}

format::Provenance Decoder::provenance(const fb::Provenance& x) {
  format::Provenance out;
  out.tool = text(x.tool());
  out.tool_version = text(x.tool_version());
  out.build = optional_digest(x.build());
  out.source_name = text(x.source_name());
  out.source = digest(*x.source());
  if (const auto* flags = x.flags())
    for (const flatbuffers::String* flag : *flags) {
      if (!afford(4)) break;
      out.flags.push_back(text(flag));
    }
  out.source_date_epoch = x.source_date_epoch();
  out.ops = optional_digest(x.ops());
  if (const auto* targets = x.targets())
    for (const fb::Digest* target : *targets) {
      if (!afford(sizeof(fb::Digest))) break;
      out.targets.push_back(digest(*target));
    }
  out.parents = list(x.parents(), [this](const fb::Parent& p) {
    return format::Parent{digest(*p.root()), index(p.segment())};
  });
  return out;
}

format::Manifest Decoder::manifest(const fb::Manifest& x) {
  format::Manifest out;
  out.required = scalars(x.required());
  out.model = model(*x.model());
  out.methods = list(x.methods(), [this](const fb::Method& i) { return method(i); });
  out.segments = list(x.segments(), [this](const fb::Segment& i) { return segment(i); });
  out.tensors = list(x.tensors(), [this](const fb::Tensor& i) { return tensor(i); });
  out.layouts = list(x.layouts(), [this](const fb::Layout& l) {
    return format::Layout{l.id(), text(l.text()), text(l.params())};
  });
  out.variants = list(x.variants(), [this](const fb::Variant& i) { return variant(i); });
  out.stages = list(x.stages(), [this](const fb::Stage& i) { return stage(i); });
  out.assets = list(x.assets(), [this](const fb::Asset& a) {
    return format::Asset{text(a.name()), text(a.media()), ref(*a.ref()), digest(*a.digest())};
  });
  out.golden = list(x.golden(), [this](const fb::Golden& i) { return golden(i); });
  out.operators = list(x.operators(), [this](const fb::Operator& o) {
    return format::Operator{text(o.domain()), text(o.name()), o.version(), ref(*o.text()), digest(*o.digest())};
  });
  out.tuning = list(x.tuning(), [this](const fb::Tuning& t) {
    return format::Tuning{t.segment(), t.count(), text(t.target()), optional_digest(t.compiler())};
  });
  out.provenance = provenance(*x.provenance());
  if (const fb::PortableIr* p = x.portable())
    out.portable = format::PortableIr{static_cast<format::PortableLevel>(p->level()), p->text_version(), p->segment()};
  out.extensions = list(x.extensions(), [this](const fb::Extension& e) {
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
  Decoder decoder(bytes.size());
  format::Manifest out = decoder.manifest(*fb::GetManifest(data));
  if (decoder.exhausted()) return Status(Code::Malformed, "manifest: parts of it are shared, so that it expands");
  if (Status status = format::validate(out); !status.ok()) return std::move(status).note("manifest");
  return out;
}

}  // namespace mlc::container
