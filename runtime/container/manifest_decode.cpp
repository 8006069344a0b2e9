#include "runtime/container/manifest_decode.h"

#include <algorithm>
#include <cstring>

#include "base/compose.h"
#include "schema/generated/manifest_fields_generated.h"
#include "schema/generated/manifest_generated.h"
#include "schema/validate/validate.h"

namespace mlc::container {
namespace {

namespace fb = mlc::fb::manifest;
template <class T>
using VectorOf = flatbuffers::Vector<T>;

// The verifier has checked that required fields are there and that everything lies inside the buffer; a field that is
// not required may be null, which reads as empty here.

// Copies everything out, into objects as they are after construction. The writer shares no part of a manifest, FlatBuffers
// may: a million tables can name one string of 60 MB, which would become a million copies, and a table of 8 bytes becomes
// an object of 400. So, before anything is copied:
//
//   counts   a vector of tables is not longer than its limit (the limits that validate() knows)
//   content  all copies together are not longer than the manifest
//   memory   the objects of all vectors together are not larger than kMaxExpansion times the manifest, nor than kMaxObjects
//
// What is beyond reads as empty and makes the manifest malformed.
constexpr uint64_t kMaxExpansion = 16;                 // of a table that is not shared: less than 14
constexpr uint64_t kMaxObjects = uint64_t{192} << 20;  // a manifest with as many tensors as may be: 45 MB

class Decoder {
 public:
  explicit Decoder(uint64_t manifest_len)
      : content_(manifest_len), memory_(std::min(kMaxExpansion * manifest_len, kMaxObjects)) {}
  void read(format::Manifest& out, const fb::Manifest& x);
  Status status() && { return std::move(status_); }

 private:
  void refuse(Status status) {
    if (status_.ok()) status_ = std::move(status);
  }
  bool afford(uint64_t content, uint64_t memory = 0) {
    if (!status_.ok()) return false;
    if (content > content_ || memory > memory_) {
      refuse(Status(Code::Malformed, "manifest: parts of it are shared, so that it expands"));
      return false;
    }
    content_ -= content;
    memory_ -= memory;
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
  void read(std::vector<Item>& out, const VectorOf<flatbuffers::Offset<T>>* items, const char* what, uint64_t most) {
    if (items == nullptr || !within(what, items->size(), most)) return;
    if (!afford(uint64_t{items->size()} * 8, uint64_t{items->size()} * sizeof(Item))) return;
    std::vector<Item>(items->size()).swap(out);  // an assignment is a function for each Item
    for (uint32_t i = 0; i < items->size(); ++i) read(out[i], *items->Get(i));
  }
  bool within(const char* what, uint64_t count, uint64_t most) {
    if (count > most) refuse(Status(Code::Malformed, "manifest: {}: {} found, at most {} expected", what, count, most));
    return count <= most;
  }
  void read(std::vector<std::string>& out, const VectorOf<flatbuffers::Offset<flatbuffers::String>>* texts,
            const char* what, uint64_t most) {
    if (texts == nullptr || !within(what, texts->size(), most)) return;
    for (const flatbuffers::String* text : *texts) {
      if (!afford(4, sizeof(std::string))) break;
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

  uint64_t content_, memory_;  // that may still be copied
  Status status_;
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
  read(out.dims, x.dims(), "dims", format::kMaxRank);
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
  read(out.inputs, x.inputs(), "inputs", format::kMaxPorts);
  read(out.outputs, x.outputs(), "outputs", format::kMaxPorts);
  read(out.core_inputs, x.core_inputs(), "core inputs", format::kMaxPorts);
  read(out.core_outputs, x.core_outputs(), "core outputs", format::kMaxPorts);
  read(out.dims, x.dims(), "dims of a method", format::kMaxDims);
  read(out.state, x.state(), "state", format::kMaxPorts);
  read(out.batch, x.batch());
  read(out.runs, x.runs());
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
  read(out.copies, x.copies(), "copies of a tensor", format::kMaxCopies);
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
  read(out.clauses, x.clauses(), "clauses", format::kMaxClauses);
  read(out.plan, x.plan());
  read(out.module, x.module_());
  read(out.layouts, x.layouts());
  read(out.methods, x.methods());
  read(out.tolerance, x.tolerance(), "tolerances", format::kMaxPorts);
  read(out.cost, x.cost(), "costs", format::kMaxPorts);
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
  read(out.attributes, x.attributes(), "attributes", format::kMaxAttributes);
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
  read(out.inputs, x.inputs(), "golden inputs", format::kMaxPorts);
  read(out.outputs, x.outputs(), "golden outputs", format::kMaxPorts);
  read(out.bindings, x.bindings());
  read(out.tolerance, x.tolerance(), "tolerances", format::kMaxPorts);
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
  read(out.flags, x.flags(), "flags", format::kMaxFlags);
  out.source_date_epoch = x.source_date_epoch();
  read(out.ops, x.ops());
  read(out.targets, x.targets());
  read(out.parents, x.parents(), "parents", format::kMaxVariants);
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
  read(out.methods, x.methods(), "methods", format::kMaxMethods);
  read(out.segments, x.segments(), "segments", format::kMaxSegments);
  read(out.tensors, x.tensors(), "tensors", format::kMaxTensors);
  read(out.layouts, x.layouts(), "layouts", format::kMaxLayouts);
  read(out.variants, x.variants(), "variants", format::kMaxVariants);
  read(out.stages, x.stages(), "stages", format::kMaxStages);
  read(out.assets, x.assets(), "assets", format::kMaxAssets);
  read(out.golden, x.golden(), "golden", format::kMaxGolden);
  read(out.operators, x.operators(), "operators", format::kMaxOperators);
  read(out.tuning, x.tuning(), "tuning", format::kMaxTuning);
  read(out.provenance, *x.provenance());
  read(out.portable, x.portable());
  read(out.extensions, x.extensions(), "extensions", format::kMaxExtensions);
}

}  // namespace

Result<format::Manifest> decode_manifest(Bytes bytes) {
  // The verifier asserts a size below 2 GiB and reads the identifier before it checks the length.
  if (bytes.size() < 16 || bytes.size() >= format::kMaxManifestLen)
    return Status(Code::Malformed, "manifest of {} bytes", bytes.size());
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  if (!format::verify_tables(bytes, fb::kTables, {format::kMaxTableDepth, format::kMaxTables}))
    return Status(Code::Malformed, "manifest: not a well-formed FlatBuffer of kind MLCM");
  Decoder decoder(bytes.size());
  format::Manifest out;
  decoder.read(out, *fb::GetManifest(data));
  MLC_RETURN_IF_ERROR(std::move(decoder).status());
  if (Status status = format::validate(out); !status.ok()) return std::move(status).note("manifest");
  return out;
}

}  // namespace mlc::container
