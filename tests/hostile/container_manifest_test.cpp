// libs: mlc_container_reader mlc_container_writer
// Containers whose signature is good and whose content is not: each breaks one rule, is hashed and signed again, and
// must be refused with the item named. One line per rule.
#include <doctest/doctest.h>

#include <algorithm>
#include <limits>

#include "schema/audit.h"
#include "tests/support/containers/bad_container.h"

using namespace mlc;
using namespace mlc::container;
using namespace mlc::test;
using format::Manifest;

namespace {

const std::vector<std::byte>& good_file() {
  static const std::vector<std::byte> file = sample_bytes();
  return file;
}
const Parts& good_parts() {
  static const Parts parts = take_apart(good_file());
  return parts;
}
uint32_t segment_named(const Manifest& m, std::string_view name) {
  for (uint32_t i = 0; i < m.segments.size(); ++i)
    if (m.segments[i].name == name) return i;
  std::abort();
}
format::Segment& seg(Manifest& m, std::string_view name) { return m.segments[segment_named(m, name)]; }

Status open_and_use(Bytes bytes, OpenOptions options = trusting()) {
  auto opened = Container::open_memory(bytes, "bad.mlc", options);
  return opened.ok() ? use_everything(**opened) : opened.status();
}

struct Case {
  const char* what;
  std::function<void(Manifest&)> change;
  const char* expected;
};

constexpr uint64_t kMax = UINT64_MAX;

// Sample: assets [charset, labels], methods [classify, main], tensors [a.weight, b.bias, c.table, d.empty],
// variants [armv8-a, portable, x86-64-v3], layouts [0 dense, 1 panel].
const Case kCases[] = {
    // segments
    {"offset and length of a tensor wrap",
     [](Manifest& m) {
       m.tensors[1].copies[0].ref = {m.tensors[1].copies[0].ref.segment, kMax - 255, 512};
     },
     "lie outside"},
    {"tensor behind its segment", [](Manifest& m) { m.tensors[1].copies[0].ref.offset = 1 << 20; }, "lie outside"},
    {"tensor in no segment", [](Manifest& m) { m.tensors[1].copies[0].ref.segment = 999; }, "refers to segment 999"},
    {"tensor in code", [](Manifest& m) { m.tensors[1].copies[0].ref.segment = segment_named(m, "code/portable"); },
     "weights expected"},
    {"tensor not aligned", [](Manifest& m) { m.tensors[1].copies[0].ref.offset += 4; }, "not aligned"},
    {"two tensors on one range", [](Manifest& m) { m.tensors[2].copies[0].ref.offset = 0; }, "share the byte"},
    {"hole between tensors",
     [](Manifest& m) {
       m.tensors[1].shape = {0};
       m.tensors[1].copies.clear();
     },
     "belong to nothing"},
    {"slack at the end of the weights",
     [](Manifest& m) {
       m.tensors[2].shape = {1};
       m.tensors[2].copies[0].ref.length = 4;
     },
     "at its end belong to nothing"},
    {"first tensor not at 0",
     [](Manifest& m) {
       m.tensors[0].shape = {0};
       m.tensors[0].copies.clear();
     },
     "belong to nothing"},
    {"segment without owner", [](Manifest& m) { m.operators.clear(); }, "belongs to nothing"},
    {"segment without kind", [](Manifest& m) { seg(m, "weights").kind = format::SegmentKind::None; },
     "kind is missing"},
    {"unknown critical segment",
     [](Manifest& m) {
       seg(m, "weights").kind = static_cast<format::SegmentKind>(77);
       seg(m, "weights").critical = true;
     },
     "unknown and marked critical"},
    {"segment of length 0", [](Manifest& m) { seg(m, "assets").stored_len = seg(m, "assets").decoded_len = 0; },
     "is empty"},
    {"segment longer than allowed",
     [](Manifest& m) { seg(m, "weights").stored_len = seg(m, "weights").decoded_len = (uint64_t{16} << 30) + 1; },
     "at most"},
    {"segment of 2^64 - 1 bytes",
     [](Manifest& m) { seg(m, "weights").stored_len = seg(m, "weights").decoded_len = kMax; }, "at most"},
    {"raw with two lengths", [](Manifest& m) { seg(m, "weights").decoded_len += 1; }, "lengths differ|length differ"},
    {"unknown codec", [](Manifest& m) { seg(m, "weights").codec = static_cast<format::Codec>(16); }, "codec 16"},
    {"codec none", [](Manifest& m) { seg(m, "weights").codec = format::Codec::None; }, "codec 0"},
    {"expands a million times",
     [](Manifest& m) {
       seg(m, "assets").codec = format::Codec::Zstd;
       seg(m, "assets").decoded_len = uint64_t{1} << 33;
     },
     "expands more than"},
    {"droppable assets", [](Manifest& m) { seg(m, "assets").droppable = true; }, "must not be droppable"},
    {"droppable weights", [](Manifest& m) { seg(m, "weights").droppable = true; }, "primary but lies in a droppable"},
    {"droppable portable code", [](Manifest& m) { seg(m, "code/portable").droppable = true; },
     "lies in a droppable segment"},
    {"compressed weights", [](Manifest& m) { seg(m, "weights").codec = format::Codec::Zstd; }, "compressed segment"},
    {"segments not sorted", [](Manifest& m) { seg(m, "assets").name = "zzz"; }, "not in ascending order"},
    {"segment there twice", [](Manifest& m) { seg(m, "code/armv8-a").name = "assets"; }, "not in ascending order"},
    {"segment name with ..", [](Manifest& m) { seg(m, "assets").name = "../assets"; }, "joined by '/'"},
    {"segment name with NUL", [](Manifest& m) { seg(m, "assets").name = std::string("as\0ets", 6); }, "joined by '/'"},
    {"segment name empty", [](Manifest& m) { seg(m, "assets").name = ""; }, "joined by '/'"},
    {"segment name absolute", [](Manifest& m) { seg(m, "assets").name = "/etc/passwd"; }, "joined by '/'"},
    {"segment name of a device", [](Manifest& m) { seg(m, "assets").name = "CON"; }, "joined by '/'"},
    {"segment name of 64 KiB", [](Manifest& m) { seg(m, "assets").name = std::string(65536, 'a'); }, "joined by '/'"},
    {"plan of 17 MiB", [](Manifest& m) { seg(m, "plan/portable").decoded_len = 17u << 20; }, "at most 16777216"},
    {"one segment less than the header says",
     [](Manifest& m) {
       auto i = segment_named(m, "operators");
       m.operators.clear();
       m.segments.erase(m.segments.begin() + i);
       for (auto& t : m.tensors)
         for (auto& c : t.copies) c.ref.segment -= c.ref.segment > i;
       for (auto& v : m.variants) {
         *v.plan -= *v.plan > i;
         *v.module -= *v.module > i;
       }
     },
     "segment_count"},
    // tensors
    {"element type none", [](Manifest& m) { m.tensors[0].dtype = DType::None; }, "element type 0"},
    {"element type unknown", [](Manifest& m) { m.tensors[0].dtype = static_cast<DType>(99); }, "element type 99"},
    {"element type without size", [](Manifest& m) { m.tensors[0].dtype = DType::Str; }, "element type 18"},
    {"shape product wraps",
     [](Manifest& m) {
       m.tensors[1].shape = {uint64_t{1} << 32, uint64_t{1} << 32};
     },
     "exceeds 2^64"},
    {"bytes wrap", [](Manifest& m) { m.tensors[1].shape = {(uint64_t{1} << 62) + 5}; }, "exceeds 2^64"},
    {"padding of a panel wraps",
     [](Manifest& m) {
       m.tensors[0].shape = {uint64_t{1} << 60, kMax >> 56};
     },
     "exceeds 2^64|need"},
    {"rank 9", [](Manifest& m) { m.tensors[1].shape = std::vector<uint64_t>(9, 1); }, "rank 9"},
    {"rank without layout", [](Manifest& m) { m.tensors[0].shape = {60}; }, "for rank 2"},
    {"length does not fit the shape", [](Manifest& m) { m.tensors[1].shape = {6}; }, "need 24"},
    {"elements but no copy",
     [](Manifest& m) {
       m.tensors[3].shape = {1, 3};
     },
     "no copy"},
    {"five copies", [](Manifest& m) { m.tensors[1].copies.resize(5, m.tensors[1].copies[0]); }, "copies of a tensor: 5 found"},
    {"layout not listed", [](Manifest& m) { m.tensors[1].copies[0].layout = 7; }, "layout 7"},
    {"layouts twice", [](Manifest& m) { m.layouts[1].id = 0; }, "layouts[1]: not in ascending"},
    {"tensors not sorted", [](Manifest& m) { m.tensors[0].name = "zz"; }, "tensors[1]: not in ascending"},
    {"tensor name with newline", [](Manifest& m) { m.tensors[0].name = "a\nb"; }, "control characters"},
    {"tensor name in bad UTF-8", [](Manifest& m) { m.tensors[0].name = "a\xC0\x80"; }, "control characters"},
    {"tensor name with a hidden direction mark", [](Manifest& m) { m.tensors[0].name = "a\xE2\x80\xAE"; },
     "control characters"},
    {"quantised by itself",
     [](Manifest& m) {
       m.tensors[0].quant = format::Quant{format::QuantScheme::Affine, 0, 0, 0, {}};
     },
     "not another tensor"},
    {"quantised by nothing",
     [](Manifest& m) {
       m.tensors[0].quant = format::Quant{format::QuantScheme::Affine, 0, 0, 99, {}};
     },
     "not another tensor"},
    {"quantised on axis 5",
     [](Manifest& m) {
       m.tensors[0].quant = format::Quant{format::QuantScheme::Affine, 5, 0, 1, {}};
     },
     "quantisation axis"},
    {"unknown quantisation",
     [](Manifest& m) {
       m.tensors[0].quant = format::Quant{static_cast<format::QuantScheme>(9), 0, 0, 1, {}};
     },
     "scheme 9"},
    // interface
    {"model without id", [](Manifest& m) { m.model.id = ""; }, "model id"},
    {"model id with upper case", [](Manifest& m) { m.model.id = "Local/Sample"; }, "model id"},
    {"model version 0", [](Manifest& m) { m.model.version = 0; }, "model version is 0"},
    {"default method out of range", [](Manifest& m) { m.model.default_method = 2; }, "default method 2"},
    {"no method", [](Manifest& m) { m.methods.clear(); }, "methods: 0 found"},
    {"method without output",
     [](Manifest& m) {
       m.methods[0].outputs.clear();
       m.golden.clear();
     },
     "has no output"},
    {"batch that is no dim", [](Manifest& m) { m.methods[0].batch = static_cast<uint32_t>(m.methods[0].dims.size()); }, "its batch is none of its dims"},
    {"runs what is no method", [](Manifest& m) { m.methods[0].runs = {static_cast<uint32_t>(m.methods.size())}; }, "no ascending list of other methods"},
    {"runs itself", [](Manifest& m) { m.methods[0].runs = {0}; }, "no ascending list of other methods"},
    {"methods twice", [](Manifest& m) { m.methods[1].name = m.methods[0].name; }, "methods[1]: not in ascending"},
    {"port twice", [](Manifest& m) { m.methods[0].inputs.push_back(m.methods[0].inputs[0]); }, "is there twice"},
    {"port of type 99", [](Manifest& m) { m.methods[0].inputs[0].dtype = static_cast<DType>(99); }, "element type 99"},
    {"port of media none", [](Manifest& m) { m.methods[0].inputs[0].media = format::Media::None; }, "media 0"},
    {"port of media 200", [](Manifest& m) { m.methods[0].inputs[0].media = static_cast<format::Media>(200); },
     "media 200"},
    {"port of colour 200", [](Manifest& m) { m.methods[0].inputs[0].colour = static_cast<format::Colour>(200); },
     "colour 200"},
    {"port with dim out of range", [](Manifest& m) { m.methods[0].inputs[0].dims[0].dim = 1; }, "uses dimension 1"},
    {"port with negative extent", [](Manifest& m) { m.methods[0].inputs[0].dims[1].extent = -4; }, "negative extent"},
    {"port with two forms of a dim", [](Manifest& m) { m.methods[0].inputs[0].dims[0].extent = 4; },
     "exactly one of them"},
    {"port with no form of a dim", [](Manifest& m) { m.methods[0].inputs[0].dims[0] = {}; }, "exactly one of them"},
    {"port with a call as expression",
     [](Manifest& m) { m.methods[0].inputs[0].dims[0] = format::DimRef::expression("system(N)"); },
     "not an index expression"},
    {"port with open parentheses",
     [](Manifest& m) { m.methods[0].inputs[0].dims[0] = format::DimRef::expression(std::string(500, '(')); },
     "not an index expression"},
    {"port of rank 9", [](Manifest& m) { m.methods[0].inputs[0].dims.resize(9, format::DimRef::constant(1)); },
     "dims: 9 found, at most 8"},
    {"range that is not a number",
     [](Manifest& m) {
       m.methods[0].inputs[0].range = {0, std::numeric_limits<double>::quiet_NaN()};
     },
     "two finite numbers"},
    {"range of three",
     [](Manifest& m) {
       m.methods[0].inputs[0].range = {0, 1, 2};
     },
     "two finite numbers"},
    {"labels out of range", [](Manifest& m) { m.methods[0].inputs[0].labels = 5; }, "labels are asset 5"},
    {"label axis out of range", [](Manifest& m) { m.methods[1].outputs[0].label_axis = 2; }, "label axis"},
    {"tokenizer out of range", [](Manifest& m) { m.methods[0].inputs[0].tokenizer = kMax & 0xFFFFFFFF; },
     "tokenizer is asset"},
    {"dim with min above max", [](Manifest& m) { m.methods[0].dims[0].min = 9; }, "least and largest"},
    {"dim with negative min", [](Manifest& m) { m.methods[0].dims[0].min = -1; }, "least and largest"},
    {"dim with multiple 0", [](Manifest& m) { m.methods[0].dims[0].multiple = 0; }, "multiple must be"},
    {"dims twice", [](Manifest& m) { m.methods[0].dims.push_back(m.methods[0].dims[0]); }, "is there twice"},
    // variants
    {"no variant", [](Manifest& m) { m.variants.clear(); }, "variants: 0 found"},
    {"no portable variant", [](Manifest& m) { m.variants[1].family = "cpu"; }, "0 of family portable"},
    {"two portable variants",
     [](Manifest& m) {
       m.variants.push_back(m.variants[1]);
       m.variants.back().name = "z";
     },
     "2 of family portable"},
    {"portable variant with native code", [](Manifest& m) { m.variants[1].module_format = format::ModuleFormat::Elf; },
     "its module is not"},
    {"portable variant with features", [](Manifest& m) { m.variants[1].features = {1}; }, "requires features"},
    {"portable variant with a service and a feature", [](Manifest& m) { m.variants[1].features = {257, 1024}; }, "requires features"},
    {"native module listed as portable too", [](Manifest& m) { m.variants[1].module = m.variants[0].module; },
     "droppable|shares its module|belongs to nothing"},
    {"variant without module", [](Manifest& m) { m.variants[0].module.reset(); }, "has no module"},
    {"variant without plan", [](Manifest& m) { m.variants[0].plan.reset(); }, "has no plan"},
    {"plan out of range", [](Manifest& m) { m.variants[0].plan = 1000; }, "plan is segment 1000"},
    {"plan is code", [](Manifest& m) { m.variants[0].plan = m.variants[0].module; }, "of kind module"},
    {"features not sorted",
     [](Manifest& m) {
       m.variants[0].features = {7, 3};
     },
     "not in ascending order"},
    {"feature twice",
     [](Manifest& m) {
       m.variants[0].features = {3, 3};
     },
     "there twice"},
    {"feature 0",
     [](Manifest& m) {
       m.variants[0].features = {0, 3};
     },
     "feature 0"},
    {"clause without comparison", [](Manifest& m) { m.variants[0].clauses[0].op = format::ClauseOp::None; },
     "has no comparison"},
    {"clause without value", [](Manifest& m) { m.variants[0].clauses[0].values = {}; }, "must have one value"},
    {"clause divides zero",
     [](Manifest& m) {
       m.variants[0].clauses[0] = {5, format::ClauseOp::Divides, {0}};
     },
     "divides zero"},
    {"native variant without audit", [](Manifest& m) { m.variants[0].audit.reset(); }, "without an audit record"},
    {"native variant without clauses", [](Manifest& m) { m.variants[0].clauses.clear(); }, "requires no clauses"},
    {"native variant without features", [](Manifest& m) { m.variants[0].features.clear(); }, "requires no features"},
    {"native variant for another kind of device, without audit",
     [](Manifest& m) {
       m.variants[0].module_format = format::ModuleFormat::Ptx;
       m.variants[0].audit.reset();
     },
     "without an audit record"},
    {"audit about other features", [](Manifest& m) { m.variants[0].features = {3}; }, "audit is about"},
    {"audit about other code", [](Manifest& m) { std::swap(m.variants[0].module, m.variants[2].module); },
     "audit is about"},
    {"method out of range", [](Manifest& m) { m.variants[0].methods = {2}; }, "implements method 2"},
    {"layout out of range", [](Manifest& m) { m.variants[0].layouts = {9}; }, "reads layout 9"},
    {"tolerance of no output", [](Manifest& m) { m.variants[0].tolerance[0].output = 3; }, "output 3"},
    {"tolerance NaN", [](Manifest& m) { m.variants[0].tolerance[0].value = std::numeric_limits<double>::quiet_NaN(); },
     "not a finite"},
    {"tolerance infinite",
     [](Manifest& m) { m.variants[0].tolerance[0].value = std::numeric_limits<double>::infinity(); }, "not a finite"},
    {"tolerance negative", [](Manifest& m) { m.variants[0].tolerance[0].value = -1; }, "not a finite"},
    {"variants not sorted", [](Manifest& m) { std::swap(m.variants[0], m.variants[2]); }, "not in ascending order"},
    {"variant name with a path", [](Manifest& m) { m.variants[0].name = "../../x"; }, "name must be"},
    {"module format none", [](Manifest& m) { m.variants[0].module_format = format::ModuleFormat::None; },
     "module format is missing"},
    // the rest
    {"asset named as a path", [](Manifest& m) { m.assets[0].name = "a/b"; }, "plain file name"},
    {"asset named as a device", [](Manifest& m) { m.assets[0].name = "aux.txt"; }, "plain file name"},
    {"asset hidden", [](Manifest& m) { m.assets[0].name = ".bashrc"; }, "plain file name"},
    {"asset out of range", [](Manifest& m) { m.assets[0].ref.length = 1 << 20; }, "lie outside"},
    {"assets overlap", [](Manifest& m) { m.assets[0].ref.offset -= 1; }, "share the byte"},
    {"asset with another digest", [](Manifest& m) { m.assets[0].digest[0] ^= std::byte{1}; },
     "asset \"charset.txt\" does not match"},
    {"golden of no method", [](Manifest& m) { m.golden[0].method = 2; }, "method 2"},
    {"golden of no port", [](Manifest& m) { m.golden[0].inputs[0].port = 1; }, "port 1"},
    {"golden of another type", [](Manifest& m) { m.golden[0].inputs[0].dtype = DType::I32; }, "not the port's"},
    {"golden of another shape",
     [](Manifest& m) {
       m.golden[0].inputs[0].shape = {4, 1};
     },
     "extent"},
    {"golden of another rank", [](Manifest& m) { m.golden[0].inputs[0].shape = {4}; }, "rank 1"},
    {"golden with too many bindings",
     [](Manifest& m) {
       m.golden[0].bindings = {1, 2};
     },
     "bindings"},
    {"golden of entry 9", [](Manifest& m) { m.golden[0].entry = static_cast<format::GoldenEntry>(9); }, "entry 9"},
    {"golden longer than its shape", [](Manifest& m) { m.golden[0].inputs[0].ref.length = 12; }, "bytes, 16 expected"},
    {"golden without output", [](Manifest& m) { m.golden[0].outputs.clear(); }, "expects no output"},
    {"operator in weights", [](Manifest& m) { m.operators[0].text.segment = segment_named(m, "weights"); },
     "operator text expected"},
    {"needs a future feature", [](Manifest& m) { m.required = {17}; }, "format feature 17"},
    {"critical extension",
     [](Manifest& m) {
       m.extensions = {{"org.example.x", true, {}}};
     },
     "marked critical"},
    {"tuning in weights",
     [](Manifest& m) {
       m.tuning = {{segment_named(m, "weights"), 1, "x", {}}};
     },
     "of another kind"},
    {"portable IR nowhere",
     [](Manifest& m) {
       m.portable = format::PortableIr{format::PortableLevel::Nest, 1, 400};
     },
     "segment 400"},
    {"parent nowhere",
     [](Manifest& m) {
       m.provenance.parents = {{{}, 400}};
     },
     "segment 400"},
    {"stage with control characters", [](Manifest& m) { m.stages[0].attributes[0].value = "\x1b[2J"; },
     "not clean text"},
    {"source with a path", [](Manifest& m) { m.provenance.source_name = "/home/x/y.onnx"; }, "plain file name"},
    {"statement about another model", [](Manifest& m) { m.model.id = "local/other"; }, "model id"},
    {"statement about another version", [](Manifest& m) { m.model.version = 4; }, "model version"},
};

bool matches(const std::string& text, std::string_view expected) {
  while (!expected.empty()) {
    size_t bar = expected.find('|');
    if (text.find(expected.substr(0, bar)) != std::string::npos) return true;
    if (bar == std::string_view::npos) break;
    expected.remove_prefix(bar + 1);
  }
  return false;
}

}  // namespace

TEST_CASE("A container taken apart and assembled again is the same") {
  auto again = assemble(good_parts(), nullptr);
  REQUIRE(again.size() < good_file().size());
  CHECK(std::equal(again.begin(), again.end(), good_file().begin()));
}

TEST_CASE("Each broken rule of the manifest is refused with the item named, signature or not") {
  for (const Case& c : kCases) {
    Parts parts = good_parts();
    c.change(parts.manifest);
    for (const auto* key : {&test_key(), static_cast<const signing::PrivateKey*>(nullptr)}) {
      OpenOptions options = trusting();
      options.allow_unsigned = key == nullptr;
      Status status = open_and_use(assemble(parts, key), options);
      if (key == nullptr && std::string_view(c.what).starts_with("statement about")) continue;
      CHECK_FALSE_MESSAGE(status.ok(), c.what);
      CHECK_MESSAGE(matches(status.text(), c.expected), c.what << ": " << status.text());
      bool code = status.code == Code::Malformed || status.code == Code::BadSignature;
      CHECK_MESSAGE(code, c.what << ": " << status.text());
    }
  }
}

TEST_CASE("What is only newer than this version is ignored, said, or costs one variant") {
  auto open_changed = [](std::function<void(Parts&)> change) {
    Parts parts = good_parts();
    change(parts);
    static std::vector<std::vector<std::byte>> kept;
    kept.push_back(assemble(parts));
    return Container::open_memory(kept.back(), "newer.mlc", trusting());
  };
  auto minor = open_changed([](Parts& p) { p.change_core = [](Core& core) { core[10] = std::byte{9}; }; });
  REQUIRE(minor.ok());
  CHECK(!(*minor)->notes().empty());
  auto flags = open_changed([](Parts& p) { p.change_core = [](Core& core) { core[20] = std::byte{4}; }; });
  REQUIRE(flags.ok());
  CHECK((*flags)->notes()[0].find("optional flags 4") != std::string::npos);
  auto extension = open_changed([](Parts& p) { p.manifest.extensions = {{"org.example.x", false, {}}}; });
  REQUIRE(extension.ok());
  CHECK((*extension)->notes()[0].find("org.example.x") != std::string::npos);
  auto kind = open_changed([](Parts& p) {
    p.manifest.operators.clear();
    seg(p.manifest, "operators").kind = static_cast<format::SegmentKind>(99);
  });
  REQUIRE(kind.ok());
  CHECK((*kind)->notes()[0].find("unknown kind 99") != std::string::npos);

  auto unusable = [&](std::function<void(Manifest&)> change) {
    auto opened = open_changed([&](Parts& p) {
      change(p.manifest);
      format::Variant& v = p.manifest.variants[0];
      v.audit->digest = sha256(format::audit_preimage(v, p.manifest.segments[*v.module].digest));
    });
    REQUIRE_MESSAGE(opened.ok(), (opened.ok() ? "" : opened.status().text()));
    const auto& variants = (*opened)->manifest().variants;
    CHECK_FALSE(variants[0].unusable.empty());
    CHECK(variants[1].unusable.empty());
    CHECK(variants[2].unusable.empty());
  };
  unusable([](Manifest& m) { m.variants[0].module_format = static_cast<format::ModuleFormat>(50); });
  unusable([](Manifest& m) { m.variants[0].clauses[0].op = static_cast<format::ClauseOp>(50); });
  unusable([](Manifest& m) { m.variants[0].tolerance[0].metric = static_cast<format::Metric>(50); });
  unusable([](Manifest& m) {
    m.layouts.push_back({2, "swizzle<3,4,3>", ""});
    m.variants[0].layouts.push_back(2);
  });
}

TEST_CASE("A thinned copy keeps its signature, and only droppable segments may be missing") {
  Parts parts = good_parts();
  auto drop = [&](const char* name) { parts.present[segment_named(parts.manifest, name)] = false; };
  drop("plan/armv8-a");
  drop("code/armv8-a");
  auto thin = assemble(parts);
  CHECK(thin.size() < good_file().size());
  auto opened = Container::open_memory(thin, "thin.mlc", trusting(Verify::Full));
  REQUIRE_MESSAGE(opened.ok(), (opened.ok() ? "" : opened.status().text()));
  const Container& c = **opened;
  auto full = Container::open_memory(good_file(), "full.mlc", trusting());
  CHECK(c.root() == (*full)->root());
  CHECK(c.manifest().variants[0].unusable.find("absent (thinned)") == 0);
  CHECK(c.manifest().variants[2].unusable.empty());
  auto missing = c.segment(*c.manifest().variants[0].plan);
  REQUIRE_FALSE(missing.ok());
  CHECK(missing.status().message.find("absent") != std::string::npos);
  CHECK(c.segment(*c.manifest().variants[2].module).ok());

  for (const char* needed : {"weights", "assets", "golden", "operators", "plan/portable", "code/portable"}) {
    Parts broken = good_parts();
    broken.present[segment_named(broken.manifest, needed)] = false;
    Status status = open_and_use(assemble(broken));
    CHECK(status.code == Code::Malformed);
    CHECK_MESSAGE(status.message.find("is absent and not droppable") != std::string::npos, status.message);
  }
}

TEST_CASE("Header fields outside their one legal value are refused even when signed") {
  struct HeaderCase {
    size_t offset;
    unsigned value;
    const char* expected;
  };
  for (const HeaderCase& h : {HeaderCase{8, 2, "container format 2.0"},
                              {8, 0, "container format 0.0"},
                              {13, 0x20, "header_len"},
                              {16, 1, "critical flags 1"},
                              {24, 12, "align_log2"},
                              {25, 0, "leaf_log2"},
                              {25, 64, "leaf_log2"},
                              {26, 2, "hash_id"},
                              {27, 1, "byte 27"},
                              {29, 0xFF, "truncated|segment_count|manifest_off"},
                              {31, 1, "segment_count"},
                              {35, 4, "manifest_len"},
                              {39, 0x80, "manifest_len"},
                              {40, 1, "byte 40"},
                              {63, 1, "byte 63"}}) {
    Parts parts = good_parts();
    parts.change_core = [&](Core& core) { core[h.offset] = static_cast<std::byte>(h.value); };
    Status status = open_and_use(assemble(parts));
    CHECK(status.code == Code::Malformed);
    CHECK_MESSAGE(matches(status.text(), h.expected), h.offset << ": " << status.text());
  }
  Parts none = good_parts();
  none.change_core = [](Core& core) { core[28] = std::byte{0}; };
  CHECK(matches(open_and_use(assemble(none)).text(), "segment_count is 0"));
}

TEST_CASE("Placement has one legal value: every other offset, length and padding is refused") {
  auto changed = [](size_t offset, std::byte value) {
    Parts parts = good_parts();
    parts.change_body = [=](std::vector<std::byte>& body) { body[offset] ^= value; };
    return open_and_use(assemble(parts));
  };
  for (size_t field = 64; field < 104; field += 8)
    for (size_t byte : {0u, 1u, 3u, 7u}) {
      Status status = changed(field + byte, std::byte{0x10});
      CHECK(status.code == Code::Malformed);
      CHECK_MESSAGE(matches(status.text(), "header page|truncated|signature block"), status.text());
    }
  for (size_t i = 0; i < 8 * good_parts().stored.size(); ++i) {
    Status status = changed(4096 + i, std::byte{0x40});
    CHECK(status.code == Code::Malformed);
    CHECK_MESSAGE(matches(status.text(), "placement table: offset of segment"), status.text());
  }
}

TEST_CASE("A manifest whose parts are shared does not expand") {
  // One doc string of 60 KB, named by every port: 500 tables point at it, far less than the verifier's limit.
  Parts parts = good_parts();
  const std::string doc(60'000, 'd');
  format::Method& method = parts.manifest.methods[0];
  for (int i = 0; i < 500; ++i) {
    format::Port port = method.inputs[0];
    port.name = "p" + std::to_string(i);
    port.doc = i == 0 ? doc : "#";
    method.inputs.push_back(port);
  }
  // Every "#" string (length 1) is found by its bytes, and the offsets that lead to it are bent to the long one.
  parts.change_manifest_bytes = [&](std::vector<std::byte>& bytes) {
    auto word = [&](size_t at) {
      uint32_t value;
      std::memcpy(&value, bytes.data() + at, 4);
      return value;
    };
    std::vector<size_t> short_ones;
    size_t long_one = 0;
    for (size_t at = 0; at + 8 <= bytes.size(); at += 4) {
      if (word(at) == 1 && word(at + 4) == '#') short_ones.push_back(at);
      if (word(at) == doc.size() && word(at + 4) == 0x64646464) long_one = at;
    }
    REQUIRE(short_ones.size() == 499);
    REQUIRE(long_one != 0);
    size_t bent = 0;
    for (size_t at = 0; at + 4 <= bytes.size(); at += 4) {
      size_t target = at + word(at);
      if (!std::binary_search(short_ones.begin(), short_ones.end(), target) || long_one <= at) continue;
      uint32_t offset = static_cast<uint32_t>(long_one - at);
      std::memcpy(bytes.data() + at, &offset, 4);
      ++bent;
    }
    CHECK(bent > 400);
  };
  Status status = open_and_use(assemble(parts));
  CHECK(status.code == Code::Malformed);
  CHECK_MESSAGE(status.message.find("parts of it are shared") != std::string::npos, status.text());
}
