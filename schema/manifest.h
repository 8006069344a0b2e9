// The manifest as plain values: what the packager fills and what a reader hands out after every check of
// spec/container.md, "Manifest" has passed. No FlatBuffers type appears here or behind any header outside the two files
// that encode and decode it.
//
// A Manifest from `runtime/container` is validated: every index is in range, every Ref lies inside its segment, names
// are unique, sorted and printable, every number obeys its limit. A Manifest inside a builder is not.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "schema/format.h"

namespace mlc::format {

// A byte range of a segment's decoded bytes.
struct Ref {
  uint32_t segment = 0;
  uint64_t offset = 0;
  uint64_t length = 0;
  bool operator==(const Ref&) const = default;
};

struct Model {
  std::string id;            // org/name
  uint64_t version = 1;      // >= 1; what a high-water mark compares
  uint64_t not_after = 0;    // seconds since 1970, 0: none
  std::string title;
  std::string licence;       // SPDX expression
  uint32_t default_method = 0;
};

// A symbolic dimension of a method: min <= value <= max and value % multiple == 0.
struct Dim {
  std::string name;
  int64_t min = 1;
  int64_t max = 1;
  int64_t multiple = 1;
};

// One dimension of a port: exactly one of the three is set.
struct DimRef {
  std::optional<uint32_t> dim;    // index into Method::dims
  std::optional<int64_t> extent;  // a constant >= 0
  std::string expr;               // index expression over the names of Method::dims, such as "(W+3)/4"

  static DimRef symbol(uint32_t index) { return {index, std::nullopt, {}}; }
  static DimRef constant(int64_t extent) { return {std::nullopt, extent, {}}; }
  static DimRef expression(std::string text) { return {std::nullopt, std::nullopt, std::move(text)}; }
};

struct Port {
  std::string name;
  DType dtype = DType::None;
  std::vector<DimRef> dims;
  Media media = Media::Tensor;
  Colour colour = Colour::None;
  std::vector<double> range;           // empty, or {lowest, highest} value
  std::string unit;
  std::optional<uint32_t> labels;      // index into Manifest::assets: one label per index of label_axis
  uint8_t label_axis = 0;
  std::optional<uint32_t> tokenizer;   // index into Manifest::assets
  bool optional = false;
  std::string doc;
  uint8_t list_depth = 0;              // not 0: a list of arrays (1), of lists of arrays (2), ...; it has no dims then
};

// A program: one entry point with its interface.
struct Method {
  std::string name;
  std::vector<Port> inputs, outputs;            // with pre- and post-processing
  std::vector<Port> core_inputs, core_outputs;  // the bare arrays; empty: the same as above
  std::vector<Dim> dims;
  std::vector<Port> state;
  std::optional<uint32_t> batch;  // index into `dims`: rows that are computed each by itself
  std::vector<uint32_t> runs;     // of a section of a pipeline: the methods, programs of models, that it is made of; ascending
};

struct Segment {
  std::string name;
  SegmentKind kind = SegmentKind::None;
  Codec codec = Codec::Raw;
  bool droppable = false;
  bool critical = false;
  uint64_t stored_len = 0;
  uint64_t decoded_len = 0;
  Digest digest{};
};

// How the elements of a tensor are stored in memory; the text is the grammar of schema/layout_text.h.
struct Layout {
  uint32_t id = 0;
  std::string text;
  std::string params;
};

struct Copy {
  uint32_t layout = 0;  // a Layout::id
  Ref ref;
};

struct Quant {
  QuantScheme scheme = QuantScheme::None;
  uint8_t axis = 0;
  uint64_t block = 0;             // elements that share a scale along the axis; 0: the whole axis
  std::optional<uint32_t> scale;  // tensors
  std::optional<uint32_t> zero;
};

// A constant of the model. `content` identifies its values whatever their layout.
struct Tensor {
  std::string name;
  DType dtype = DType::None;
  std::vector<uint64_t> shape;
  Digest content{};
  std::vector<Copy> copies;  // the first one is primary; none only if the tensor has no elements
  std::optional<Quant> quant;
};

// The bytes of the copy `copy` of the tensor `tensor`: 0 for the only copy that a tensor without elements has, which lies
// nowhere; none if there is no such tensor or copy.
[[nodiscard]] std::optional<uint64_t> copy_bytes(std::span<const Tensor> tensors, uint32_t tensor, uint32_t copy);

struct Clause {
  uint32_t id = 0;  // a host feature of schema/features.tbl that is a number
  ClauseOp op = ClauseOp::None;
  std::vector<int64_t> values;
};

struct Tolerance {
  uint32_t output = 0;
  Metric metric = Metric::None;
  double value = 0;
};

struct Cost {
  std::vector<int64_t> bindings;  // values of the method's dims
  uint64_t flops = 0, bytes_read = 0, bytes_written = 0, launches = 0, ns = 0;
};

struct Memory {
  uint64_t workspace = 0, peak = 0, code = 0;
};

// The tool that proved that the module uses only the listed features. `digest` is the SHA-256 of audit_preimage()
// (schema/audit.h).
struct Audit {
  std::string tool, tool_version;
  Digest digest{};
};

// The methods of the container compiled for one target.
struct Variant {
  std::string name;
  std::string family;  // "cpu", "portable", ...
  ModuleFormat module_format = ModuleFormat::None;
  std::string target;
  std::vector<uint32_t> features;  // ids of schema/features.tbl, ascending
  std::vector<Clause> clauses;
  std::optional<uint32_t> plan, module;  // segments
  std::vector<uint32_t> layouts;         // Layout::id of every layout that the plan reads
  std::vector<uint32_t> methods;         // indices; empty: all
  std::vector<Tolerance> tolerance;
  std::vector<Cost> cost;
  std::optional<Memory> memory;
  std::optional<Audit> audit;
  // Set by the reader: why this variant is no candidate ("absent (thinned)", a newer module format, ...); empty: it is.
  std::string unusable;
};

struct Attribute {
  std::string name, value;
};

// A step of pre- or post-processing, for people and `diff`; what runs is the plan.
struct Stage {
  std::string name, operator_name;
  std::vector<Attribute> attributes;
  std::string doc;
};

struct Asset {
  std::string name;   // a label, never a path
  std::string media;  // "labels", "charset", "pipeline", "text/plain", ...
  Ref ref;
  Digest digest{};    // SHA-256 of the bytes
};

struct GoldenArray {
  uint32_t port = 0;  // index into the inputs or outputs of the entry
  DType dtype = DType::None;
  std::vector<uint64_t> shape;
  Ref ref;            // row-major, little-endian
};

struct Golden {
  std::string name;
  uint32_t method = 0;
  GoldenEntry entry = GoldenEntry::Run;
  std::vector<GoldenArray> inputs, outputs;
  std::vector<int64_t> bindings;  // values of Method::dims, in order
  std::vector<Tolerance> tolerance;
};

struct Operator {
  std::string domain, name;
  uint32_t version = 0;
  Ref text;
  Digest digest{};  // SHA-256 of the text
};

struct Tuning {
  uint32_t segment = 0;
  uint64_t count = 0;
  std::string target;
  std::optional<Digest> compiler;
};

struct Parent {
  Digest root{};
  std::optional<uint32_t> segment;
};

struct Provenance {
  std::string tool, tool_version;
  std::optional<Digest> build;
  std::string source_name;  // a base name
  Digest source{};
  std::vector<std::string> flags;  // normalised: no paths, host names or clock
  uint64_t source_date_epoch = 0;
  std::optional<Digest> ops;
  std::vector<Digest> targets;
  std::vector<Parent> parents;
};

struct PortableIr {
  PortableLevel level = PortableLevel::None;
  uint32_t text_version = 0;
  uint32_t segment = 0;
};

struct Extension {
  std::string id;
  bool critical = false;
  std::optional<Ref> data;
};

struct Manifest {
  std::vector<uint32_t> required;  // ids of schema/required.tbl
  Model model;
  std::vector<Method> methods;
  std::vector<Segment> segments;
  std::vector<Tensor> tensors;
  std::vector<Layout> layouts;
  std::vector<Variant> variants;
  std::vector<Stage> stages;
  std::vector<Asset> assets;
  std::vector<Golden> golden;
  std::vector<Operator> operators;
  std::vector<Tuning> tuning;
  Provenance provenance;
  std::optional<PortableIr> portable;
  std::vector<Extension> extensions;
};

}  // namespace mlc::format
