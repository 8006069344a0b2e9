// spec/container.md against the code: the example file of section 8 is what the writer writes and the reader reads, its
// header is what the byte table of section 1.1 says. Run with MLC_PRINT_SPEC=1 to print section 8 anew after a change of
// the format.
#include <doctest/doctest.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "schema/placement.h"
#include "tests/support/containers/bad_container.h"
#include "tests/support/source_path.h"

using namespace mlc;
using namespace mlc::container;
using namespace mlc::test;

namespace {

ContainerBuilder example() {
  ContainerBuilder b;
  b.manifest.model = {.id = "org/example", .version = 1};
  b.manifest.provenance.tool = "spec";
  b.manifest.provenance.tool_version = "1";
  b.manifest.provenance.source = sha256("example");
  uint32_t weights = b.add_segment("weights", format::SegmentKind::Weights);
  auto content = floats({1.0f, -2.0f});
  const std::vector<uint64_t> shape = {1, 2};
  auto tensor = b.add_tensor("w", DType::F32, shape, tensor_digest(DType::F32, shape, content));
  REQUIRE(tensor.ok());
  REQUIRE(b.add_copy(*tensor, b.layout("dense"), weights, content).ok());
  format::Port port;
  port.name = "x";
  port.dtype = DType::F32;
  port.dims = {format::DimRef::constant(16)};
  format::Method method;
  method.name = "main";
  method.inputs = {port};
  port.name = "y";
  method.outputs = {port};
  b.add_method(method);
  format::Variant v;
  v.name = v.family = v.target = "portable";
  v.module_format = format::ModuleFormat::Portable;
  v.plan = b.add_segment("plan", format::SegmentKind::Plan, false, bytes_of("plan"));
  v.module = b.add_segment("code", format::SegmentKind::Module, false, bytes_of("code"));
  b.add_variant(v);
  format::Golden golden;
  golden.name = "g";
  // Does not compress, so that the example does not depend on the version of zstd.
  golden.inputs = {b.golden_array(0, DType::F32, {16}, noise(64, 3))};
  golden.outputs = {b.golden_array(0, DType::F32, {16}, noise(64, 4))};
  b.add_golden(golden);
  return b;
}

std::string page() {
  std::ifstream in(mlc::testing::source_path("spec/container.md"));
  return {std::istreambuf_iterator<char>(in), {}};
}

// The cells of the table rows between two headings.
std::vector<std::vector<std::string>> rows_between(const std::string& text, const std::string& from,
                                                   const std::string& to) {
  std::istringstream lines(text.substr(text.find(from), text.find(to) - text.find(from)));
  std::vector<std::vector<std::string>> rows;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("| ")) continue;
    std::vector<std::string> cells;
    std::istringstream cell_stream(line.substr(1));
    for (std::string cell; std::getline(cell_stream, cell, '|');) {
      size_t first = cell.find_first_not_of(' '), last = cell.find_last_not_of(' ');
      cells.push_back(first == std::string::npos ? "" : cell.substr(first, last - first + 1));
    }
    rows.push_back(cells);
  }
  return rows;
}

// The example as the page lists it: lines of offset, up to 16 bytes, annotation; everything else is zero.
std::vector<std::byte> undump(const std::string& text) {
  size_t begin = text.find("```hexdump\n");
  REQUIRE(begin != std::string::npos);
  std::istringstream lines(text.substr(begin + 11, text.find("\n```", begin) - begin - 11));
  std::vector<std::byte> bytes;
  for (std::string line; std::getline(lines, line);) {
    size_t offset = std::stoul(line.substr(0, 5), nullptr, 16);
    REQUIRE(offset >= bytes.size());
    bytes.resize(offset);
    std::istringstream words(line.substr(7, 47));
    for (std::string word; words >> word;) bytes.push_back(static_cast<std::byte>(std::stoi(word, nullptr, 16)));
  }
  return bytes;
}

struct Region {
  uint64_t offset, length;
  std::string name;
};
std::vector<Region> regions(const Container& c, uint64_t manifest_len) {
  const format::Manifest& m = c.manifest();
  std::vector<format::SegmentShape> shapes;
  for (const auto& s : m.segments) shapes.push_back({s.codec, s.stored_len, s.decoded_len, true});
  auto p = *format::place(manifest_len, shapes);
  std::vector<Region> out = {{0, 8, "magic"},          {8, 8, "version 1.0, header_len"},
                             {16, 8, "flags"},         {24, 8, "logs, hash_id, segment_count"},
                             {32, 8, "manifest_len"},  {64, 8, "body_size"},
                             {72, 8, "placement_off"}, {80, 8, "manifest_off"},
                             {88, 8, "leaves_off"},    {96, 8, "leaves_len"}};
  for (size_t i = 0; i < m.segments.size(); ++i)
    out.push_back({p.placement_off + 8 * i, 8, "offset of " + m.segments[i].name});
  out.push_back({p.manifest_off, manifest_len, "manifest"});
  for (size_t i = 0; i < m.segments.size(); ++i)
    out.push_back({p.segments[i].offset, m.segments[i].stored_len, "segment " + m.segments[i].name});
  for (size_t i = 0; i < m.segments.size(); ++i)
    out.push_back({p.segments[i].table_off, p.segments[i].table_len, "leaf table of " + m.segments[i].name});
  return out;
}

std::string dump(Bytes bytes, const std::vector<Region>& regions) {
  std::string out = "```hexdump\n";
  for (const Region& region : regions) {
    for (uint64_t at = region.offset; at < region.offset + region.length; at += 16) {
      uint64_t n = std::min<uint64_t>(16, region.offset + region.length - at);
      char text[80];
      std::snprintf(text, sizeof text, "%05x  ", static_cast<unsigned>(at));
      std::string line = text, printable;
      for (uint64_t i = 0; i < 16; ++i) {
        unsigned b = i < n ? static_cast<unsigned>(bytes[at + i]) : 0;
        std::snprintf(text, sizeof text, "%02x ", b);
        line += i < n ? text : "   ";
        if (i < n) printable += b >= 0x20 && b < 0x7F && b != '`' ? static_cast<char>(b) : '.';
      }
      out += line + " " + (at == region.offset ? region.name : printable) + "\n";
    }
  }
  return out + "```\n";
}

uint64_t read_le(Bytes bytes, size_t offset, size_t width) {
  uint64_t value = 0;
  for (size_t i = 0; i < width; ++i) value |= static_cast<uint64_t>(bytes[offset + i]) << (8 * i);
  return value;
}

}  // namespace

TEST_CASE("The example of the specification is what the writer writes and the reader reads") {
  auto builder = example();
  auto written = builder.to_bytes(nullptr);
  REQUIRE_MESSAGE(written.ok(), (written.ok() ? "" : written.status().text()));
  auto opened = Container::open_memory(*written, "example", trusting(Verify::Full));
  REQUIRE_MESSAGE(opened.ok(), (opened.ok() ? "" : opened.status().text()));
  uint64_t manifest_len = read_le(*written, 32, 8);
  if (std::getenv("MLC_PRINT_SPEC") != nullptr) {
    std::printf("Root: `%s`.\n\n%s", to_hex((*opened)->root()).c_str(),
                dump(*written, regions(**opened, manifest_len)).c_str());
    return;
  }
  const std::string spec = page();
  auto listed = undump(spec);
  CHECK(listed == *written);
  CHECK(spec.find("Root: `" + to_hex((*opened)->root()) + "`") != std::string::npos);
}

TEST_CASE("The header of the example is what the byte table says") {
  auto bytes = undump(page());
  auto rows = rows_between(page(), "### 1.1 Header page", "### 1.2 Placement");
  REQUIRE(rows.size() == 20);  // the heading and 19 fields
  uint64_t expected_offset = 0;
  for (size_t i = 1; i < rows.size(); ++i) {
    const auto& row = rows[i];
    uint64_t offset = std::stoul(row[0]);
    CHECK(offset == expected_offset);
    size_t bracket = row[1].find('[');
    uint64_t width = std::stoul(row[1].substr(1)) / 8;
    uint64_t count = bracket == std::string::npos ? 1 : std::stoul(row[1].substr(bracket + 1));
    expected_offset = offset + width * count;
    const std::string& field = row[2];
    CAPTURE(field);
    if (field == "magic") {
      std::istringstream words(row[3]);
      size_t at = 0;
      for (std::string word; words >> word; ++at)
        CHECK(bytes[at] == static_cast<std::byte>(std::stoi(word, nullptr, 16)));
      CHECK(at == 8);
    } else if (field == "reserved" || field == "zeros") {
      for (uint64_t at = offset; at < expected_offset; ++at) CHECK(bytes[at] == std::byte{0});
    } else if (field == "segment_count") {
      CHECK(read_le(bytes, offset, width) == 4);
    } else if (row[3][0] >= '0' && row[3][0] <= '9' && field != "manifest_len") {
      CHECK(read_le(bytes, offset, width) == std::stoul(row[3]));
    }
  }
  CHECK(expected_offset == format::kHeaderLen);
}
