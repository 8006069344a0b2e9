#include "runtime/container/manifest_decode.h"

#include <cstring>

#include "base/compose.h"
#include "schema/generated/manifest_generated.h"
#include "schema/validate.h"

namespace mlc::container {
namespace {

namespace fb = mlc::fb::manifest;
template <class T>
using VectorOf = flatbuffers::Vector<T>;

// The verifier has checked that required fields are there and that everything lies inside the buffer; a field that is
// not required may be null, which reads as empty here.

// Copies everything out, into objects as they are after construction. FlatBuffers may share parts: a million tables can
// name one string of 60 MB, which would become a million copies. The writer shares nothing, so all copies together must
// not be longer than the manifest; what is beyond reads as empty and makes the manifest malformed.
class Decoder {
 public:
  explicit Decoder(uint64_t budget) : budget_(budget) {}
  void read(format::Manifest& out, const fb::Manifest& x);
  bool exhausted() const { return exhausted_; }

 private:
  bool afford(uint64_t bytes) {
    if (bytes > budget_) exhausted_ = true;
    if (exhausted_) return false;
    budget_ -= bytes;
    return true;
  }
  void read(std::string& out, const flatbuffers::String* x) {
    if (x != nullptr && afford(x->size())) out.assign(x->c_str(), x->size());
  }
  // FlatBuffers 2.0 verifies where the length of a vector lies, not that 8-byte elements behind it are aligned.
  template <class T>
  void read(std::vector<T>& out, const VectorOf<T>* values) {
    if (values == nullptr || !afford(uint64_t{values->size()} * sizeof(T))) return;
    std::vector<T>(values->size()).swap(out);
    if (!out.empty()) std::memcpy(out.data(), values->Data(), out.size() * sizeof(T));
    for (T& value : out) value = flatbuffers::EndianScalar(value);
  }
  // Each item costs its offset and the smallest table.
  template <class Item, class T>
  void read(std::vector<Item>& out, const VectorOf<flatbuffers::Offset<T>>* items) {
    if (items == nullptr || !afford(uint64_t{items->size()} * 8)) return;
    std::vector<Item>(items->size()).swap(out);  // an assignment is a function for each Item
    for (uint32_t i = 0; i < items->size(); ++i) read(out[i], *items->Get(i));
  }
  void read(std::vector<std::string>& out, const VectorOf<flatbuffers::Offset<flatbuffers::String>>* texts) {
    if (texts == nullptr) return;
    for (const flatbuffers::String* text : *texts) {
      if (!afford(4)) break;
      read(out.emplace_back(), text);
    }
  }
  void read(std::vector<format::Digest>& out, const VectorOf<const fb::Digest*>* digests) {
    if (digests == nullptr) return;
    for (const fb::Digest* digest : *digests) {
      if (!afford(sizeof(fb::Digest))) break;
      read(out.emplace_back(), *digest);
    }
  }
  template <class Item, class T>
  void read(std::optional<Item>& out, const T* x) {
    if (x != nullptr) read(out.emplace(), *x);
  }
  static void read(format::Digest& out, const fb::Digest& x) {
    static_assert(sizeof(fb::Digest) == sizeof(format::Digest));
    std::memcpy(out.data(), &x, out.size());
  }
  static void read(format::Ref& out, const fb::Ref& x) { out = {x.segment(), x.offset(), x.length()}; }
  template <class T>
  static void read(std::optional<T>& out, flatbuffers::Optional<T> x) {
    if (x.has_value()) out = *x;
  }

  void read(format::Model& out, const fb::Model& x);
  void read(format::Dim& out, const fb::Dim& x);
  void read(format::DimRef& out, const fb::DimRef& x);
  void read(format::Port& out, const fb::Port& x);
  void read(format::Method& out, const fb::Method& x);
  void read(format::Segment& out, const fb::Segment& x);
  void read(format::Layout& out, const fb::Layout& x);
  void read(format::Copy& out, const fb::Copy& x);
  void read(format::Quant& out, const fb::Quant& x);
  void read(format::Tensor& out, const fb::Tensor& x);
  void read(format::Clause& out, const fb::Clause& x);
  void read(format::Tolerance& out, const fb::Tolerance& x);
  void read(format::Cost& out, const fb::Cost& x);
  void read(format::Memory& out, const fb::Memory& x);
  void read(format::Audit& out, const fb::Audit& x);
  void read(format::Variant& out, const fb::Variant& x);
  void read(format::Attribute& out, const fb::Attr& x);
  void read(format::Stage& out, const fb::Stage& x);
  void read(format::Asset& out, const fb::Asset& x);
  void read(format::GoldenArray& out, const fb::Array& x);
  void read(format::Golden& out, const fb::Golden& x);
  void read(format::Operator& out, const fb::Operator& x);
  void read(format::Tuning& out, const fb::Tuning& x);
  void read(format::Parent& out, const fb::Parent& x);
  void read(format::Provenance& out, const fb::Provenance& x);
  void read(format::PortableIr& out, const fb::PortableIr& x);
  void read(format::Extension& out, const fb::Extension& x);

  uint64_t budget_;
  bool exhausted_ = false;
};

void Decoder::read(format::Model& out, const fb::Model& x) {
  read(out.id, x.id());
  out.version = x.version();
  out.not_after = x.not_after();
  read(out.title, x.title());
  read(out.licence, x.licence());
  out.default_method = x.default_method();
}

void Decoder::read(format::Dim& out, const fb::Dim& x) {
  read(out.name, x.name());
  out.min = x.min();
  out.max = x.max();
  out.multiple = x.multiple();
}

void Decoder::read(format::DimRef& out, const fb::DimRef& x) {
  read(out.dim, x.dim());
  read(out.extent, x.extent());
  read(out.expr, x.expr());
}

void Decoder::read(format::Port& out, const fb::Port& x) {
  read(out.name, x.name());
  out.dtype = static_cast<DType>(x.dtype());
  read(out.dims, x.dims());
  out.media = static_cast<format::Media>(x.media());
  out.colour = static_cast<format::Colour>(x.colour());
  read(out.range, x.range());
  read(out.unit, x.unit());
  read(out.labels, x.labels());
  out.label_axis = x.label_axis();
  out.list_depth = x.list_depth();
  read(out.tokenizer, x.tokenizer());
  out.optional = x.optional();
  read(out.doc, x.doc());
}

void Decoder::read(format::Method& out, const fb::Method& x) {
  read(out.name, x.name());
  read(out.inputs, x.inputs());
  read(out.outputs, x.outputs());
  read(out.core_inputs, x.core_inputs());
  read(out.core_outputs, x.core_outputs());
  read(out.dims, x.dims());
  read(out.state, x.state());
}

void Decoder::read(format::Segment& out, const fb::Segment& x) {
  read(out.name, x.name());
  out.kind = static_cast<format::SegmentKind>(x.kind());
  out.codec = static_cast<format::Codec>(x.codec());
  out.droppable = x.droppable();
  out.critical = x.critical();
  out.stored_len = x.stored_len();
  out.decoded_len = x.decoded_len();
  read(out.digest, *x.digest());
}

void Decoder::read(format::Layout& out, const fb::Layout& x) {
  out.id = x.id();
  read(out.text, x.text());
  read(out.params, x.params());
}

void Decoder::read(format::Copy& out, const fb::Copy& x) {
  out.layout = x.layout();
  read(out.ref, *x.ref());
}

void Decoder::read(format::Quant& out, const fb::Quant& x) {
  out.scheme = static_cast<format::QuantScheme>(x.scheme());
  out.axis = x.axis();
  out.block = x.block();
  read(out.scale, x.scale());
  read(out.zero, x.zero());
}

void Decoder::read(format::Tensor& out, const fb::Tensor& x) {
  read(out.name, x.name());
  out.dtype = static_cast<DType>(x.dtype());
  read(out.shape, x.shape());
  read(out.content, *x.content());
  read(out.copies, x.copies());
  read(out.quant, x.quant());
}

void Decoder::read(format::Clause& out, const fb::Clause& x) {
  out.id = x.id();
  out.op = static_cast<format::ClauseOp>(x.op());
  read(out.values, x.values());
}

void Decoder::read(format::Tolerance& out, const fb::Tolerance& x) {
  out.output = x.output();
  out.metric = static_cast<format::Metric>(x.metric());
  out.value = x.value();
}

void Decoder::read(format::Cost& out, const fb::Cost& x) {
  read(out.bindings, x.bindings());
  out.flops = x.flops();
  out.bytes_read = x.bytes_read();
  out.bytes_written = x.bytes_written();
  out.launches = x.launches();
  out.ns = x.ns();
}

void Decoder::read(format::Memory& out, const fb::Memory& x) {
  out.workspace = x.workspace();
  out.peak = x.peak();
  out.code = x.code();
}

void Decoder::read(format::Audit& out, const fb::Audit& x) {
  read(out.tool, x.tool());
  read(out.tool_version, x.tool_version());
  read(out.digest, *x.digest());
}

void Decoder::read(format::Variant& out, const fb::Variant& x) {
  read(out.name, x.name());
  read(out.family, x.family());
  out.module_format = static_cast<format::ModuleFormat>(x.module_format());
  read(out.target, x.target());
  read(out.features, x.features());
  read(out.clauses, x.clauses());
  read(out.plan, x.plan());
  read(out.module, x.module_());
  read(out.layouts, x.layouts());
  read(out.methods, x.methods());
  read(out.tolerance, x.tolerance());
  read(out.cost, x.cost());
  read(out.memory, x.memory());
  read(out.audit, x.audit());
}

void Decoder::read(format::Attribute& out, const fb::Attr& x) {
  read(out.name, x.name());
  read(out.value, x.value());
}

void Decoder::read(format::Stage& out, const fb::Stage& x) {
  read(out.name, x.name());
  read(out.operator_name, x.operator_name());
  read(out.attributes, x.attributes());
  read(out.doc, x.doc());
}

void Decoder::read(format::Asset& out, const fb::Asset& x) {
  read(out.name, x.name());
  read(out.media, x.media());
  read(out.ref, *x.ref());
  read(out.digest, *x.digest());
}

void Decoder::read(format::GoldenArray& out, const fb::Array& x) {
  out.port = x.port();
  out.dtype = static_cast<DType>(x.dtype());
  read(out.shape, x.shape());
  read(out.ref, *x.ref());
}

void Decoder::read(format::Golden& out, const fb::Golden& x) {
  read(out.name, x.name());
  out.method = x.method();
  out.entry = static_cast<format::GoldenEntry>(x.entry());
  read(out.inputs, x.inputs());
  read(out.outputs, x.outputs());
  read(out.bindings, x.bindings());
  read(out.tolerance, x.tolerance());
}

void Decoder::read(format::Operator& out, const fb::Operator& x) {
  read(out.domain, x.domain());
  read(out.name, x.name());
  out.version = x.version();
  read(out.text, *x.text());
  read(out.digest, *x.digest());
}

void Decoder::read(format::Tuning& out, const fb::Tuning& x) {
  out.segment = x.segment();
  out.count = x.count();
  read(out.target, x.target());
  read(out.compiler, x.compiler());
}

void Decoder::read(format::Parent& out, const fb::Parent& x) {
  read(out.root, *x.root());
  read(out.segment, x.segment());
}

void Decoder::read(format::Provenance& out, const fb::Provenance& x) {
  read(out.tool, x.tool());
  read(out.tool_version, x.tool_version());
  read(out.build, x.build());
  read(out.source_name, x.source_name());
  read(out.source, *x.source());
  read(out.flags, x.flags());
  out.source_date_epoch = x.source_date_epoch();
  read(out.ops, x.ops());
  read(out.targets, x.targets());
  read(out.parents, x.parents());
}

void Decoder::read(format::PortableIr& out, const fb::PortableIr& x) {
  out.level = static_cast<format::PortableLevel>(x.level());
  out.text_version = x.text_version();
  out.segment = x.segment();
}

void Decoder::read(format::Extension& out, const fb::Extension& x) {
  read(out.id, x.id());
  out.critical = x.critical();
  read(out.data, x.data());
}

void Decoder::read(format::Manifest& out, const fb::Manifest& x) {
  read(out.required, x.required());
  read(out.model, *x.model());
  read(out.methods, x.methods());
  read(out.segments, x.segments());
  read(out.tensors, x.tensors());
  read(out.layouts, x.layouts());
  read(out.variants, x.variants());
  read(out.stages, x.stages());
  read(out.assets, x.assets());
  read(out.golden, x.golden());
  read(out.operators, x.operators());
  read(out.tuning, x.tuning());
  read(out.provenance, *x.provenance());
  read(out.portable, x.portable());
  read(out.extensions, x.extensions());
}

}  // namespace

Result<format::Manifest> decode_manifest(Bytes bytes) {
  // The verifier asserts a size below 2 GiB and reads the identifier before it checks the length.
  if (bytes.size() < 16 || bytes.size() >= format::kMaxManifestLen)
    return Status(Code::Malformed, "manifest of {} bytes", bytes.size());
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  flatbuffers::Verifier verifier(data, bytes.size(), format::kMaxTableDepth, format::kMaxTables);
  if (!fb::VerifyManifestBuffer(verifier))
    return Status(Code::Malformed, "manifest: not a well-formed FlatBuffer of kind MLCM");
  Decoder decoder(bytes.size());
  format::Manifest out;
  decoder.read(out, *fb::GetManifest(data));
  if (decoder.exhausted()) return Status(Code::Malformed, "manifest: parts of it are shared, so that it expands");
  if (Status status = format::validate(out); !status.ok()) return std::move(status).note("manifest");
  return out;
}

}  // namespace mlc::container
