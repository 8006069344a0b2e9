// libs: mlc_container_reader mlc_container_writer
// Limits of the header page and of the manifest.
#include <doctest/doctest.h>

#include <algorithm>

#include "base/byte_cursor.h"
#include "runtime/container/header.h"
#include "runtime/container/manifest_decode.h"
#include "schema/layout_text.h"
#include "schema/validate/validate.h"
#include "tests/support/containers/bad_container.h"
#include "tests/support/limits.h"

using namespace mlc;
using namespace mlc::test;
using format::Manifest;

namespace {

using Reader = std::function<Status()>;

// The manifest of the sample, changed; read from its bytes as a container's is.
Reader manifest(const std::function<void(Manifest&)>& change) {
  static const Manifest good = take_apart(sample_bytes()).manifest;
  Manifest m = good;
  change(m);
  const std::vector<std::byte> bytes = container::encode_manifest(m);
  // At a multiple of 16, as decode_manifest wants it.
  return [bytes] {
    const auto decoded = container::decode_manifest(bytes);
    return decoded.ok() ? ok() : decoded.status();
  };
}
std::string numbered(uint64_t i) {
  std::string digits = std::to_string(i);
  return "n" + std::string(6 - digits.size(), '0') + digits;  // sorted
}
template <class T>
void fill(std::vector<T>& list, uint64_t size, T item) {  // a copy: it may be one of the list
  while (list.size() < size) {
    list.push_back(item);
    list.back().name = "z" + numbered(list.size());
  }
}
format::Segment& segment_of(Manifest& m, format::SegmentKind kind) {
  return *std::find_if(m.segments.begin(), m.segments.end(), [&](const auto& s) { return s.kind == kind; });
}
Reader segment_len(format::SegmentKind kind, uint64_t n) {
  return manifest([&](Manifest& m) {
    auto& segment = segment_of(m, kind);
    segment.codec = format::Codec::Raw;
    segment.stored_len = segment.decoded_len = n;
  });
}
format::Variant& native(Manifest& m) {
  return *std::find_if(m.variants.begin(), m.variants.end(), [](const auto& v) { return v.family != "portable"; });
}

Reader header(uint32_t segments, uint64_t manifest_len) {
  ByteBuilder out;
  out.put(std::as_bytes(std::span(format::kMagic))).put_uint(format::kVersionMajor, 2).put_uint(0, 2);
  out.put_uint(format::kHeaderLen, 4).put_uint(0, 8).put_uint(format::kAlignLog2, 1).put_uint(format::kLeafLog2, 1);
  out.put_uint(format::kHashSha256, 1).put_uint(0, 1).put_uint(segments, 4).put_uint(manifest_len, 8).pad(64);
  const uint64_t manifest_off = format::manifest_offset(segments);
  out.put_uint(manifest_off + manifest_len, 8).put_uint(format::kHeaderLen, 8).put_uint(manifest_off, 8).pad(4096);
  return [bytes = out.take()] {
    const auto parsed = container::parse_header(std::span(bytes).first<format::kHeaderLen>());
    return parsed.ok() ? ok() : parsed.status();
  };
}

}  // namespace

TEST_CASE("limits of the header page") {
  const Limit limits[] = {
      {"container.segments", 65'535, [](uint64_t n) { return header(static_cast<uint32_t>(n), 1); }, "1 to 65535"},
      {"container.manifest", 67'108'863, [](uint64_t n) { return header(1, n); }, "1 to 67108863"},
  };
  check_limits(limits);
}

TEST_CASE("limits of a manifest: counts") {
  const auto methods = [](uint64_t n) {
    return manifest([n](Manifest& m) {
      format::Method texts = m.methods.back();  // of strings, which need no golden vector
      texts.outputs[0] = {.name = "text", .dtype = DType::Str};
      fill(m.methods, n, texts);
    });
  };
  const auto tensors = [](uint64_t n) {
    return manifest([n](Manifest& m) { fill(m.tensors, n, m.tensors.back()); });  // of no elements
  };
  const auto copies = [](uint64_t n) {
    return manifest([n](Manifest& m) { m.tensors[0].copies.resize(n, m.tensors[0].copies[0]); });
  };
  const auto rank = [](uint64_t n) {
    return manifest([n](Manifest& m) { m.tensors.back().shape.resize(n, 0); });
  };
  const auto variants = [](uint64_t n) {
    return manifest([n](Manifest& m) { fill(m.variants, n, m.variants.back()); });
  };
  const auto features = [](uint64_t n) {
    return manifest([n](Manifest& m) {
      native(m).features.clear();
      for (uint32_t i = 1; i <= n; ++i) native(m).features.push_back(i);
    });
  };
  const auto clauses = [](uint64_t n) {
    return manifest([n](Manifest& m) { native(m).clauses.resize(n, native(m).clauses[0]); });
  };
  const auto one_of = [](uint64_t n) {
    return manifest([n](Manifest& m) {
      native(m).clauses[0].op = format::ClauseOp::OneOf;
      native(m).clauses[0].values.assign(n, 1);
    });
  };
  const auto assets = [](uint64_t n) {
    return manifest([n](Manifest& m) { fill(m.assets, n, {.name = "", .media = "labels"}); });  // of no bytes
  };
  const auto dims = [](uint64_t n) {
    return manifest([n](Manifest& m) {
      auto& method = m.methods[0];
      while (method.dims.size() < n) {
        method.dims.push_back(method.dims[0]);
        method.dims.back().name = "z" + numbered(method.dims.size());
      }
      for (auto& golden : m.golden)
        if (golden.method == 0) golden.bindings.resize(n, 1);
    });
  };
  const auto ports = [](uint64_t n) {
    return manifest([n](Manifest& m) { fill(m.methods[0].inputs, n, m.methods[0].inputs[0]); });
  };
  const auto lists = [](uint64_t n) {
    return manifest([n](Manifest& m) {
      m.methods[0].state.push_back(m.methods[0].inputs[0]);
      m.methods[0].state[0].dims.clear();
      m.methods[0].state[0].list_depth = static_cast<uint8_t>(n);
    });
  };
  const auto stages = [](uint64_t n) {
    return manifest([n](Manifest& m) { fill(m.stages, n, format::Stage{"s", "op", {}, ""}); });
  };
  const auto attributes = [](uint64_t n) {
    return manifest([n](Manifest& m) {
      m.stages = {{"s", "op", std::vector<format::Attribute>(n, {"a", "b"}), ""}};
    });
  };
  const auto golden = [](uint64_t n) {
    return manifest([n](Manifest& m) { fill(m.golden, n, m.golden.back()); });
  };
  const auto operators = [](uint64_t n) {
    return manifest([n](Manifest& m) { fill(m.operators, n, format::Operator{"zz", "op", 1, {}, {}}); });
  };
  const auto flags = [](uint64_t n) {
    return manifest([n](Manifest& m) { m.provenance.flags.assign(n, "-f"); });
  };
  const auto layouts = [](uint64_t n) {
    return manifest([n](Manifest& m) {
      for (uint32_t id = m.layouts.back().id + 1; m.layouts.size() < n; ++id) m.layouts.push_back({id, "dense", ""});
    });
  };
  const auto tuning = [](uint64_t n) {
    return manifest([n](Manifest& m) { m.tuning.assign(n, {.segment = 0, .count = 1, .target = "t"}); });
  };
  const auto extensions = [](uint64_t n) {
    return manifest([n](Manifest& m) {
      while (m.extensions.size() < n) m.extensions.push_back({.id = "org.z" + numbered(m.extensions.size())});
    });
  };
  const auto parents = [](uint64_t n) {
    return manifest([n](Manifest& m) { m.provenance.parents.resize(n); });
  };
  const Limit limits[] = {
      {"manifest.tuning", 1024, tuning, "1025 found", true},
      {"manifest.extensions", 1024, extensions, "1025 found"},
      {"manifest.parents", 256, parents, "257 found, at most 256"},
      {"manifest.methods", 256, methods, "257 found"},
      {"manifest.ports", 1024, ports, "1025 found"},
      {"manifest.dims", 4096, dims, "4097 found"},
      {"manifest.list-depth", 8, lists, "a list of depth 9, at most 8"},
      {"manifest.tensors", 131'072, tensors, "131073 found", false, 192},
      {"manifest.copies", 4, copies, "5 found, at most 4", true},
      {"manifest.rank", 8, rank, "rank 9, at most 8"},
      {"manifest.layouts", 65'535, layouts, "65536 found", true},
      {"manifest.variants", 256, variants, "257 found"},
      {"manifest.features", 1024, features, "more than 1024 features"},
      {"manifest.clauses", 256, clauses, "257 found, at most 256"},
      {"manifest.one-of", 64, one_of, "1 to 64 values"},
      {"manifest.assets", 4096, assets, "4097 found"},
      {"manifest.stages", 1024, stages, "1025 found"},
      {"manifest.attributes", 1024, attributes, "1025 found, at most 1024"},
      {"manifest.golden", 1024, golden, "1025 found", true},
      {"manifest.operators", 4096, operators, "4097 found", true},
      {"manifest.flags", 1024, flags, "1025 found, at most 1024"},
  };
  check_limits(limits);
}

TEST_CASE("limits of a manifest: lengths") {
  using Kind = format::SegmentKind;
  const auto name = [](uint64_t n) {
    return manifest([n](Manifest& m) { m.tensors.back().name = std::string(n, 'z'); });
  };
  const auto text = [](uint64_t n) {
    return manifest([n](Manifest& m) { m.model.title = std::string(n, 't'); });
  };
  const auto layout = [](uint64_t n) {
    return [n]() -> Status {
      const auto parsed = format::parse_layout(std::string(n, 'N'));
      return parsed.ok() ? ok() : parsed.status();
    };
  };
  const auto expression = [](uint64_t n) {
    return manifest([n](Manifest& m) {
      m.methods[0].inputs[0].dims[1] = format::DimRef::expression(std::string(n, '4'));
    });
  };
  const auto expression_depth = [](uint64_t n) {
    return manifest([n](Manifest& m) {
      m.methods[0].inputs[0].dims[1] = format::DimRef::expression(std::string(n, '(') + "4" + std::string(n, ')'));
    });
  };
  const auto ratio = [](uint64_t n) {
    return manifest([n](Manifest& m) {
      auto& segment = segment_of(m, Kind::Golden);
      segment.codec = format::Codec::Zstd;
      segment.stored_len = 1024;
      segment.decoded_len = n * 1024;
    });
  };
  const auto asset = [](uint64_t n) {
    return manifest([n](Manifest& m) {
      auto& segment = segment_of(m, Kind::Asset);
      segment.codec = format::Codec::Raw;
      segment.stored_len = segment.decoded_len = 2ull << 30;
      m.assets[0].ref.length = n;
    });
  };
  // Operators of 1 MiB and one with the rest, all in one place.
  const auto operators = [](uint64_t n) {
    return manifest([n](Manifest& m) {
      auto& segment = segment_of(m, Kind::Operator);
      segment.codec = format::Codec::Raw;
      segment.stored_len = segment.decoded_len = 16 << 20;
      format::Operator op = m.operators[0];
      for (uint64_t left = n; left > 0; left -= op.text.length) {
        op.text.length = std::min<uint64_t>(left, 1 << 20);
        op.name = "z" + numbered(m.operators.size());
        m.operators.push_back(op);
      }
      m.operators.erase(m.operators.begin());
    });
  };
  const auto one_operator = [](uint64_t n) {
    return manifest([n](Manifest& m) {
      auto& segment = segment_of(m, Kind::Operator);
      segment.codec = format::Codec::Raw;
      segment.stored_len = segment.decoded_len = 16 << 20;
      m.operators[0].text.length = n;
    });
  };
  const auto of_kind = [](Kind kind) { return [kind](uint64_t n) { return segment_len(kind, n); }; };
  const Limit limits[] = {
      {"segment.bytes", 16ull << 30, of_kind(Kind::Weights), "at most 17179869184 allowed", true},
      {"segment.module", 1 << 30, of_kind(Kind::Module), "at most 1073741824 allowed", true},
      {"segment.plan", 16 << 20, of_kind(Kind::Plan), "at most 16777216 allowed", true},
      {"segment.golden", 256 << 20, of_kind(Kind::Golden), "at most 268435456 allowed", true},
      {"segment.asset", 1 << 30, asset, "longer than 1 GiB", true},
      {"segment.operator", 1 << 20, one_operator, "longer than 1 MiB", true},
      {"segment.operators", 16 << 20, operators, "longer than 16 MiB", true},
      {"segment.ratio", 1024, ratio, "more than 1024 times", true},
      {"manifest.name", 1023, name, "1 to 1023 bytes"},
      {"manifest.text", 65'536, text, "too long"},
      {"manifest.layout", 1024, layout, "more than 1024 bytes", true},
      {"manifest.expression", 1024, expression, "not an index expression"},
      {"manifest.expression-depth", 32, expression_depth, "not an index expression"},
  };
  check_limits(limits);
}

TEST_CASE("a manifest of a million tables is refused before it is copied") {
  const Limit limits[] = {
      {"manifest.tables", 1'000'000,
       [](uint64_t n) {
         return manifest([n](Manifest& m) {
           // The sample has fewer than 1000 other tables.
           m.stages = {{"s", "op", std::vector<format::Attribute>(n > 1'000'000 ? n : n - 1000, {"a", "b"}), ""}};
         });
       },
       "not a well-formed FlatBuffer", true},
  };
  check_limits(limits);
}
