// .npy and .npz, read and written.
#include "runtime/io/npy.h"
#include "tests/unit/io/fixtures.h"

using namespace mlc;
using namespace mlc::io;
using namespace mlc::test;

namespace {

std::vector<std::byte> npy(std::string dict, std::string_view data = {}, char version = 1) {
  std::string file = "\x93NUMPY";
  file += {version, '\0', static_cast<char>(dict.size() & 0xFF), static_cast<char>(dict.size() >> 8)};
  if (version > 1) file += {'\0', '\0'};
  file += dict;
  file += data;
  auto* p = reinterpret_cast<const std::byte*>(file.data());
  return {p, p + file.size()};
}

std::vector<std::byte> npz(std::span<const NpzItem> items) {
  std::vector<std::byte> out;
  auto status = write_npz(items, [&](Bytes b) {
    out.insert(out.end(), b.begin(), b.end());
    return ok();
  });
  REQUIRE(status.ok());
  return out;
}

std::vector<std::byte> copy_of(const HostBuffer& b) { return {b.data(), b.data() + b.size()}; }

void patch(std::vector<std::byte>& bytes, size_t at, uint64_t value, unsigned n) {
  for (unsigned i = 0; i < n; ++i) bytes[at + i] = static_cast<std::byte>(value >> 8 * i & 0xFF);
}

size_t find_last(const std::vector<std::byte>& bytes, std::string_view text) {
  std::string_view all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  size_t at = all.rfind(text);
  REQUIRE(at != std::string_view::npos);
  return at;
}

}  // namespace

TEST_CASE("arrays of every version, byte order and index order have NumPy's values") {
  int cases = 0;
  for (const NamedTensor& e : expectations()) {
    if (!e.name.starts_with("npy_")) continue;
    CAPTURE(e.name);
    auto t = parse_npy(fixture(e.name).bytes());
    REQUIRE_MESSAGE(t.ok(), t.status().text());
    CHECK(same(*t, e.tensor));
    ++cases;
  }
  CHECK(cases == 8);
  auto scalar = parse_npy(fixture("npy_scalar.npy").bytes());
  REQUIRE(scalar.ok());
  CHECK(scalar->shape.empty());
  CHECK(scalar->as<float>()[0] == 2.5f);
  auto empty = parse_npy(fixture("npy_empty.npy").bytes());
  REQUIRE(empty.ok());
  CHECK(empty->shape == std::vector<int64_t>{0, 5});
}

TEST_CASE("what NumPy wrote is written again byte by byte") {
  for (const char* name : {"npy_bool.npy", "npy_scalar.npy", "npy_empty.npy", "npy_unicode.npy"}) {
    CAPTURE(name);
    HostBuffer file = fixture(name);
    auto t = parse_npy(file.bytes());
    REQUIRE(t.ok());
    auto header = npy_header(*t);
    REQUIRE(header.ok());
    header->insert(header->end(), t->data.data(), t->data.data() + t->data.size());
    CHECK(*header == copy_of(file));
  }
  for (const NamedTensor& e : expectations()) {
    if (!e.name.starts_with("plain_")) continue;
    auto header = npy_header(e.tensor);
    REQUIRE(header.ok());
    header->insert(header->end(), e.tensor.data.data(), e.tensor.data.data() + e.tensor.data.size());
    auto again = parse_npy(*header);
    REQUIRE(again.ok());
    CHECK(same(*again, e.tensor));
  }
}

TEST_CASE("strings are read from U and S elements and written as U") {
  auto wide = parse_npy(fixture("npy_unicode.npy").bytes());
  REQUIRE(wide.ok());
  CHECK(wide->dtype == DType::Str);
  CHECK(wide->shape == std::vector<int64_t>{1});
  CHECK(wide->strings == std::vector<std::string>{"text"});
  auto narrow = parse_npy(npy("{'descr': '|S3', 'fortran_order': False, 'shape': (3,), }", {"ab\0\0\0\0\xC3\xA9x", 9}, 1));
  REQUIRE(narrow.ok());
  CHECK(narrow->strings == std::vector<std::string>{"ab", "", "\xC3\xA9x"});
  const std::vector<std::string> texts{"", "\xC3\xA9", "\xE6\x97\xA5\xF0\x9F\x98\x80", "abc"};
  auto file = npy_header(HostTensor::of_strings({2, 2}, texts));
  REQUIRE(file.ok());
  auto again = parse_npy(*file);
  REQUIRE(again.ok());
  CHECK(again->strings == texts);
  CHECK(again->shape == std::vector<int64_t>{2, 2});
  const auto refused = [](const char* descr, std::string_view data) {
    return !parse_npy(npy(std::string("{'descr': '") + descr + "', 'fortran_order': False, 'shape': (1,), }", data, 1)).ok();
  };
  CHECK(refused("<U1", "abc"));
  CHECK(refused("<U1", {"\0\0\x11\0", 4}));
  CHECK(refused("<U18446744073709551615", "abcd"));
  CHECK(refused("|S99999999999", "abcd"));
  CHECK(refused("|Sx", "abcd"));
  CHECK(!parse_npy(npy("{'descr': '|S0', 'fortran_order': False, 'shape': (9223372036854775807,), }", "", 1)).ok());
}

TEST_CASE("objects and structures are refused by name") {
  auto message = [](const char* name) { return parse_npy(fixture(name).bytes()).status().message; };
  CHECK(message("npy_object.npy").find("Python objects") != std::string::npos);
  CHECK(message("npy_structured.npy").find("structured") != std::string::npos);
}

TEST_CASE("sizes in an array header are checked before they are used") {
  auto refused = [](std::string dict, std::string_view data = "1234", char version = 1) {
    CAPTURE(dict);
    auto t = parse_npy(npy(dict, data, version));
    CHECK(!t.ok());
  };
  refused("{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807,), }");
  refused("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }");
  refused("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4294967296, 4294967296), }", "");
  refused("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }");
  refused("{'descr': '<f4', 'fortran_order': False, 'shape': (1), }");
  refused("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }");
  refused("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", "12345");
  refused("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'x': 1}");
  refused("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}");
  refused("{'descr': '<f4', 'shape': (1,)}");
  refused("{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}");
  refused("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), } x");
  refused("{'descr': '<f4, 'fortran_order': False, 'shape': (1,), }");
  refused("{'descr': '<f16', 'fortran_order': False, 'shape': (1,), }");
  refused("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", "1234", 4);
  std::string deep = "{'descr': '<f4', 'fortran_order': False, 'shape': (";
  for (int i = 0; i < 65; ++i) deep += "1,";
  refused(deep + ")}");
  CHECK(parse_npy(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", "1234", 3)).ok());
}

TEST_CASE("archives by NumPy, stored and deflated, give their arrays by name") {
  auto stored = parse_npz(fixture("stored.npz").bytes());
  REQUIRE_MESSAGE(stored.ok(), stored.status().text());
  REQUIRE(stored->size() == 2);
  CHECK((*stored)[0].name == "x");
  CHECK((*stored)[0].tensor.shape == std::vector<int64_t>{2, 3, 4});
  CHECK((*stored)[1].name == "input:0");
  CHECK((*stored)[1].tensor.as<int64_t>()[4] == 4);
  auto deflated = parse_npz(fixture("deflated.npz").bytes());
  REQUIRE_MESSAGE(deflated.ok(), deflated.status().text());
  CHECK(same((*deflated)[0].tensor, (*stored)[0].tensor));
  for (float v : (*deflated)[1].tensor.as<float>()) CHECK(v == 0.0f);
}

TEST_CASE("written archives are deterministic and read back") {
  auto a = HostTensor::zeros(DType::F32, {3, 2});
  auto b = HostTensor::zeros(DType::I64, {});
  REQUIRE((a.ok() && b.ok()));
  a->as<float>()[5] = 1.5f;
  b->as<int64_t>()[0] = -7;
  NpzItem items[] = {{"logits", &*a}, {"a/b:0", &*b}};
  auto bytes = npz(items);
  CHECK(bytes == npz(items));
  auto back = parse_npz(bytes);
  REQUIRE_MESSAGE(back.ok(), back.status().text());
  REQUIRE(back->size() == 2);
  CHECK(same((*back)[0].tensor, *a));
  CHECK((*back)[1].name == "a/b:0");
  CHECK(same((*back)[1].tensor, *b));
  auto none = parse_npz(npz({}));
  REQUIRE(none.ok());
  CHECK(none->empty());
  NpzItem twice[] = {{"x", &*a}, {"x", &*b}};
  CHECK(!write_npz(twice, [](Bytes) { return ok(); }).ok());
}

TEST_CASE("archives that lie about places and sizes are errors") {
  auto a = HostTensor::zeros(DType::F32, {100});
  REQUIRE(a.ok());
  NpzItem items[] = {{"a", &*a}, {"b", &*a}};
  const auto good = npz(items);
  size_t end = find_last(good, "PK\5\6"), second = find_last(good, "PK\1\2");
  auto refused = [&](const char* why, size_t at, uint64_t value, unsigned n) {
    CAPTURE(why);
    auto bytes = good;
    patch(bytes, at, value, n);
    CHECK(!parse_npz(bytes).ok());
  };
  refused("directory outside the file", end + 16, 0xFFFFFFF0, 4);
  refused("directory too long", end + 12, 0xFFFF, 4);
  refused("more entries than there are", end + 10, 3, 2);
  refused("fewer entries than there are", end + 10, 1, 2);
  refused("two entries share a place", second + 42, 0, 4);
  refused("local header outside", second + 42, 0x7FFFFFFF, 4);
  refused("an entry longer than the file", second + 20, 0x7FFFFFFF, 4);
  refused("unpacked size of a stored entry", second + 24, 12, 4);
  refused("encrypted", second + 8, 1, 2);
  refused("unknown method", second + 10, 12, 2);
  refused("deflated here, stored there", second + 10, 8, 2);
  refused("checksum", second + 16, 0x12345678, 4);
  refused("name differs from the local one", second + 46, 'z', 1);
  for (size_t n = 0; n < good.size(); ++n) CHECK(!parse_npz(Bytes(good).first(n)).ok());
}

TEST_CASE("sizes and places in ZIP64 fields are read, and checked like the short ones") {
  auto a = HostTensor::zeros(DType::F32, {7});
  REQUIRE(a.ok());
  a->as<float>()[6] = 2;
  NpzItem items[] = {{"a", &*a}};
  auto small = npz(items);
  size_t central = find_last(small, "PK\1\2"), end = find_last(small, "PK\5\6");
  uint32_t size = 0;
  for (int i = 3; i >= 0; --i) size = size << 8 | std::to_integer<uint32_t>(small[central + 24 + i]);
  // The same archive as a writer of files above 4 GB would end it: full 32-bit fields, the numbers in extra fields.
  auto large = [&](uint64_t unpacked, uint64_t packed, uint64_t local, uint64_t directory, uint64_t locator) {
    std::vector<std::byte> z(small.begin(), small.begin() + static_cast<std::ptrdiff_t>(end));
    auto put = [&](uint64_t value, unsigned n) {
      for (unsigned i = 0; i < n; ++i) z.push_back(static_cast<std::byte>(value >> 8 * i & 0xFF));
    };
    for (size_t field : {20, 24, 42}) patch(z, central + field, 0xFFFFFFFF, 4);
    patch(z, central + 30, 28, 2);
    put(1, 2), put(24, 2), put(unpacked, 8), put(packed, 8), put(local, 8);
    uint64_t end64 = z.size();
    put(0x06064b50, 4), put(44, 8), put(45, 2), put(45, 2), put(0, 8), put(1, 8), put(1, 8), put(end64 - central, 8),
        put(directory, 8);
    put(0x07064b50, 4), put(0, 4), put(locator ? locator : end64, 8), put(1, 4);
    put(0x06054b50, 4), put(0, 4), put(0xFFFF, 2), put(0xFFFF, 2), put(0xFFFFFFFF, 4), put(0xFFFFFFFF, 4), put(0, 2);
    return z;
  };
  auto good = parse_npz(large(size, size, 0, central, 0));
  REQUIRE_MESSAGE(good.ok(), good.status().text());
  CHECK(same((*good)[0].tensor, *a));
  for (uint64_t huge : {uint64_t{1} << 33, uint64_t{1} << 63, ~uint64_t{0}, ~uint64_t{0} - 30}) {
    CAPTURE(huge);
    CHECK(!parse_npz(large(huge, size, 0, central, 0)).ok());
    CHECK(!parse_npz(large(huge, huge, 0, central, 0)).ok());
    CHECK(!parse_npz(large(size, size, huge, central, 0)).ok());
    CHECK(!parse_npz(large(size, size, 0, huge, 0)).ok());
    CHECK(!parse_npz(large(size, size, 0, central, huge)).ok());
  }
}

TEST_CASE("a bomb is refused by the ratio that it claims") {
  HostBuffer file = fixture("deflated.npz");
  auto bytes = copy_of(file);
  size_t last = find_last(bytes, "PK\1\2");
  patch(bytes, last + 24, 0xFFFFFFF0, 4);
  auto t = parse_npz(bytes);
  REQUIRE(!t.ok());
  CHECK(t.status().message.find("cannot hold 4294967280") != std::string::npos);
  // A smaller lie passes the ratio and is caught while unpacking, with no more than the claimed memory.
  bytes = copy_of(file);
  patch(bytes, last + 24, 16511, 4);
  CHECK(!parse_npz(bytes).ok());
  patch(bytes, last + 24, 16513, 4);
  CHECK(!parse_npz(bytes).ok());
}

TEST_CASE("damaged arrays and archives never crash") {
  for (const char* name : {"npy_version2.npy", "npy_f4_big_fortran.npy"})
    walk_damage(fixture(name), 2000, [](Bytes b) { (void)parse_npy(b).ok(); });
  for (const char* name : {"stored.npz", "deflated.npz"})
    walk_damage(fixture(name), 2000, [](Bytes b) { (void)parse_npz(b).ok(); });
}

TEST_CASE("strings keep zeros in their midst, and those behind them are no part of them") {
  std::string data("a\0\0\0\0\0\0\0b\0\0\0\0\0\0\0", 16);
  auto t = parse_npy(npy("{'descr': '<U4', 'fortran_order': False, 'shape': (1,), }\n", data));
  REQUIRE_MESSAGE(t.ok(), (t.ok() ? "" : t.status().message));
  CHECK(t->strings == std::vector<std::string>{std::string("a\0b", 3)});
  data[15] = 1;  // the last of four bytes is part of a number
  CHECK_FALSE(parse_npy(npy("{'descr': '<U4', 'fortran_order': False, 'shape': (1,), }\n", data)).ok());
}

TEST_CASE("what is no code point is written as U+FFFD, so that it can be read again") {
  const HostTensor t = HostTensor::of_strings({3}, {"\xf4\x90\x80\x80", "\xed\xa0\x80", "\xc3\xbc"});
  const auto file = npy_header(t);
  REQUIRE(file.ok());
  const auto again = parse_npy(*file);
  REQUIRE(again.ok());
  CHECK(again->strings[2] == "\xc3\xbc");
  CHECK(again->strings[1] == "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
}

TEST_CASE("strings are not padded to many times what they are") {
  std::vector<std::string> strings(100, "x");
  strings[7].assign(1 << 20, 'y');  // 400 MiB
  const auto refused = npy_header(HostTensor::of_strings({100}, strings));
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.status().code == Code::Resource);
  strings[7].assign(1 << 10, 'y');  // little, however much of it is padding
  CHECK(npy_header(HostTensor::of_strings({100}, strings)).ok());
}
