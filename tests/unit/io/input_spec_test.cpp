#include "runtime/io/input_spec.h"

#include <unistd.h>

#include <cmath>
#include <set>

#include "runtime/io/npy.h"
#include "tests/support/source_path.h"
#include "tests/unit/io/fixtures.h"

using namespace mlc;
using namespace mlc::io;
using namespace mlc::test;

namespace {

// A file that is gone when the test ends.
struct Scratch {
  std::string path = "/tmp/mlc_io_test_" + std::to_string(::getpid());
  ~Scratch() { ::unlink(path.c_str()); }
};

Status write(const std::string& path, std::string_view text) {
  MLC_ASSIGN(auto writer, FileWriter::create(path));
  MLC_RETURN_IF_ERROR(writer.write({reinterpret_cast<const std::byte*>(text.data()), text.size()}));
  return writer.commit();
}

}  // namespace

TEST_CASE("the forms of -i") {
  auto spec = [](std::string_view text, std::vector<std::string> names = {}) { return parse_input_spec(text, names); };
  CHECK(spec("cat.jpg")->path == "cat.jpg");
  CHECK(spec("cat.jpg")->name.empty());
  CHECK(spec("image=cat.jpg")->name == "image");
  CHECK(spec("-")->path == "-");
  CHECK(spec("random")->kind == InputSpec::Kind::Random);
  CHECK(spec("x=zeros")->kind == InputSpec::Kind::Zeros);
  CHECK(spec("x=./random")->kind == InputSpec::Kind::File);
  CHECK(spec("=a=b.png")->path == "a=b.png");
  CHECK(spec("a=b=c.png", {"a", "a=b"})->name == "a=b");
  CHECK(spec("a=b=c.png", {"a", "a=b"})->path == "c.png");
  auto raw = spec("x=@dir:1/t.bin:f32[1,3,224,224]");
  REQUIRE(raw.ok());
  CHECK(raw->path == "dir:1/t.bin");
  CHECK(raw->type.dtype == DType::F32);
  CHECK(raw->type.shape == std::vector<int64_t>{1, 3, 224, 224});
  CHECK(parse_tensor_type("i64[]")->shape.empty());
  for (const char* wrong :
       {"x=", "@t.bin", "@t.bin:f32", "@t.bin:f33[1]", "@t.bin:f32[1,]", "@t.bin:f32[,1]", "@t.bin:f32[-1]",
        "@t.bin:f32[1 2]", "@t.bin:str[1]", "@t.bin:f32[4294967296,4294967296]", "@:f32[1]", ""}) {
    CAPTURE(wrong);
    auto s = spec(wrong);
    REQUIRE(!s.ok());
    CHECK(s.status().code == Code::Usage);
  }
}

TEST_CASE("raw files must have exactly the size of their type") {
  Scratch file;
  REQUIRE(write(file.path, "12345678").ok());
  InputFiles files;
  auto load = [&](std::string type) {
    auto spec = parse_input_spec("x=@" + file.path + ":" + type);
    REQUIRE(spec.ok());
    return load_input(*spec, files);
  };
  auto good = load("u8[2,4]");
  REQUIRE(good.ok());
  REQUIRE(good->tensors.size() == 1);
  CHECK(good->tensors[0].name == "x");
  CHECK(good->tensors[0].tensor.as<uint8_t>()[7] == '8');
  auto wrong = load("f32[3]");
  REQUIRE(!wrong.ok());
  CHECK(wrong.status().code == Code::InputMismatch);
  CHECK(load("bool[8]")->tensors[0].tensor.as<uint8_t>()[0] == 1);
}

TEST_CASE("where all memory counts, a file and what is made of it stay below the limit together") {
  Scratch file;
  REQUIRE(write(file.path, std::string(1000, 'x')).ok());
  InputFiles files;
  const auto load = [&](uint64_t memory) {
    auto loaded = load_input(*parse_input_spec("x=@" + file.path + ":u8[1000]"), files, {.memory = memory, .all = true});
    return loaded.ok() ? ok() : std::move(loaded).status();
  };
  CHECK(load(2000).ok());
  CHECK(load(1999).code == Code::Resource);
  CHECK(load(1000).code == Code::Resource);
  const Status large = load(999);
  CHECK(large.code == Code::Resource);
  CHECK(large.message == "'" + file.path + "' has 1000 bytes, at most 999 are allowed for inputs");
}

TEST_CASE("numbers are the elements of an input, of the type that the input has") {
  const auto number = [](const char* text, DType type, std::vector<int64_t> shape = {}) {
    const auto parsed = parse_input_spec(text);
    REQUIRE((parsed.ok() && parsed->kind == InputSpec::Kind::Numbers && parsed->name == "x"));
    return tensor_of_numbers(*parsed, type, shape);
  };
  CHECK(number("x=-1.5", DType::F32, {1, 1})->as<float>()[0] == -1.5f);
  CHECK(number("x=1e-3", DType::F64)->as<double>()[0] == 1e-3);
  CHECK(number("x=0.5", DType::F16)->as<uint16_t>()[0] == 0x3800);
  CHECK(number("x=9223372036854775807", DType::I64)->as<int64_t>()[0] == INT64_MAX);
  CHECK(number("x=true", DType::Bool)->as<uint8_t>()[0] == 1);
  CHECK(number("x=255", DType::U8)->as<uint8_t>()[0] == 255);
  for (const auto& [text, type] : {std::pair{"x=256", DType::U8}, {"x=-1", DType::U64}, {"x=1.5", DType::I32}, {"x=1e39", DType::F32},
                                   {"x=70000", DType::F16}, {"x=2", DType::Bool}, {"x=true", DType::F32}, {"x=1", DType::Str}})
    CHECK_MESSAGE(!number(text, type).ok(), text);
  CHECK(number("x=1", DType::F32, {2}).status().code == Code::InputMismatch);
  CHECK(number("x=1", DType::F32, {int64_t{1} << 40}).status().code == Code::InputMismatch);
  const auto ids = number("x=101,7592,102", DType::I64, {-1, -1});
  REQUIRE(ids.ok());
  CHECK(ids->shape == std::vector<int64_t>{1, 3});
  CHECK(ids->as<int64_t>()[1] == 7592);
  CHECK(number("x=1,2,3,4,5,6", DType::F32, {2, -1})->shape == std::vector<int64_t>{2, 3});
  CHECK(number("x=1,2,3,4", DType::F32, {-1, 2})->shape == std::vector<int64_t>{2, 2});
  CHECK(number("x=true,0", DType::Bool, {2})->as<uint8_t>()[1] == 0);
  const Status wrong = number("x=1,2,3", DType::F32, {2, -1}).status();
  CHECK(wrong.message == "'x' is f32[2,?], and 3 numbers are given");
  CHECK(number("x=1,2", DType::F32).status().code == Code::InputMismatch);
  CHECK(number("x=1,2", DType::F32, {0, -1}).status().code == Code::InputMismatch);
  CHECK(number("x=1,256", DType::U8, {-1}).status().message == "'x' is u8, which does not hold 256");
  CHECK(parse_input_spec("x=1,,2")->kind == InputSpec::Kind::File);
  CHECK(parse_input_spec("x=1,2,")->kind == InputSpec::Kind::File);
  for (const char* file : {"x=./12", "x=12a", "12", "x=1e999", "x=nan", "x=.npz:"}) CHECK(parse_input_spec(file)->kind == InputSpec::Kind::File);
}

TEST_CASE("one array of an archive is named behind its file") {
  const std::string path = mlc::testing::source_path("tests/unit/io/data/stored.npz");
  InputFiles files;
  const auto one = load_input(*parse_input_spec("y=" + path + ":input:0"), files);
  REQUIRE(one.ok());
  REQUIRE(one->tensors.size() == 1);
  CHECK(one->tensors[0].name == "y");
  const auto none = load_input(*parse_input_spec("y=" + path + ":nobody"), files);
  CHECK(none.status().code == Code::InputMismatch);
  CHECK(none.status().facts[0].find("input:0") != std::string::npos);
  CHECK(paths_possible("y=a.npz:b") == std::vector<std::string>{"a.npz"});
}

TEST_CASE("the first bytes decide what a file is, not its name") {
  Scratch file;
  HostBuffer png = fixture("grey.png");
  REQUIRE(write(file.path, {reinterpret_cast<const char*>(png.data()), png.size()}).ok());
  InputFiles files;
  auto image = load_input({"", InputSpec::Kind::File, file.path, {}}, files);
  REQUIRE(image.ok());
  CHECK(image->media == Media::Png);
  CHECK(image->bytes.size() == png.size());
  auto archive = load_input(*parse_input_spec("y=" + mlc::testing::source_path("tests/unit/io/data/stored.npz")), files);
  REQUIRE(archive.ok());
  CHECK(archive->tensors.size() == 2);
  CHECK(archive->tensors[1].name == "input:0");
}

TEST_CASE("what is opened ahead is read although its name is gone, once for each time") {
  Scratch file;
  REQUIRE(write(file.path, "12345678").ok());
  InputFiles files;
  files.open_ahead(file.path);
  files.open_ahead(file.path);
  files.open_ahead("/nonexistent/x");
  REQUIRE(::unlink(file.path.c_str()) == 0);
  for (int i = 0; i < 2; ++i) {
    auto content = files.read(file.path);
    REQUIRE(content.ok());
    CHECK(content->size() == 8);
  }
  CHECK(!files.read(file.path).ok());
  CHECK(files.read("/nonexistent/x").status().message == "cannot open '/nonexistent/x': No such file or directory");
}

TEST_CASE("where texts are taken what is written is the text, and a file behind @") {
  const std::vector<std::string> names = {"words", "x"}, texts = {"words"};
  for (const char* text : {"Hello world", "", "12", "random", "a=b", "@"}) {
    const auto spec = parse_input_spec("words=" + std::string(text), names, texts);
    REQUIRE(spec.ok());
    CHECK((spec->kind == InputSpec::Kind::Text && spec->path == text));
  }
  const auto file = parse_input_spec("words=@c:a.txt", names, texts);
  REQUIRE(file.ok());
  CHECK((file->kind == InputSpec::Kind::File && file->path == "c:a.txt"));
  CHECK(parse_input_spec("x=12", names, texts)->kind == InputSpec::Kind::Numbers);
  CHECK(parse_input_spec("a.txt", names, texts)->kind == InputSpec::Kind::File);
}

TEST_CASE("the file that a text means is among those it may mean, whatever the names are") {
  using Paths = std::vector<std::string>;
  CHECK(paths_possible("cat.jpg") == Paths{"cat.jpg"});
  CHECK(paths_possible("-") == Paths{"-"});
  CHECK(paths_possible("random").empty());
  CHECK(paths_possible("x=zeros").empty());
  CHECK(paths_possible("x=-") == Paths{"-"});
  CHECK(paths_possible("=a=b.png") == Paths{"a=b.png", "b.png"});
  CHECK(paths_possible("@t:u.bin:f32[1,3]") == Paths{"t:u.bin"});
  CHECK(paths_possible("x=@-:u8[4]") == Paths{"-"});
  CHECK(paths_possible("x=@a.txt") == Paths{"a.txt"});
  CHECK(paths_possible("x=@c:a.txt") == Paths{"c:a.txt", "c"});
  const std::vector<std::string> names = {"a=b", "a", "c:d"};
  for (const char* text : {"a=b=c.png", "a=b", "a=@b=c:u8[1]", "c:d=e.npz", "=a=b.png", "cat.jpg", "other=f.npy", "@x.bin:u8[3]"}) {
    const auto meant = parse_input_spec(text, names);
    REQUIRE(meant.ok());
    const Paths paths = paths_possible(text);
    CAPTURE(text);
    CHECK(std::find(paths.begin(), paths.end(), meant->path) != paths.end());
  }
}

TEST_CASE("missing files and directories are reported, and a failed write leaves nothing") {
  auto missing = read_file("/nonexistent/x");
  REQUIRE(!missing.ok());
  CHECK(missing.status().code == Code::NotFound);
  CHECK(read_file("/tmp").status().message == "cannot read '/tmp': it is a directory");
  CHECK(!FileWriter::create("/nonexistent/x").ok());
  Scratch file;
  {
    auto writer = FileWriter::create(file.path);
    REQUIRE(writer.ok());
    CHECK(writer->write(Bytes()).ok());
  }
  CHECK(::access(file.path.c_str(), F_OK) != 0);
}

TEST_CASE("random contents repeat, differ by seed, and are finite in every type") {
  for (unsigned i = 1; i <= static_cast<unsigned>(kLastDType); ++i) {
    auto dtype = static_cast<DType>(i);
    if (dtype == DType::Str) continue;
    CAPTURE(name_of(dtype));
    auto make = [&](uint64_t seed) {
      auto t = HostTensor::zeros(dtype, {500});
      fill_random(*t, seed);
      return std::move(t).value();
    };
    CHECK(same(make(1), make(1)));
    CHECK(!same(make(1), make(2)));
  }
  auto f32 = HostTensor::zeros(DType::F32, {2000}), f16 = HostTensor::zeros(DType::F16, {2000});
  fill_random(*f32, 3);
  fill_random(*f16, 3);
  double sum = 0;
  for (int i = 0; i < 2000; ++i) {
    float v = f32->as<float>()[i];
    CHECK((v >= -1 && v < 1));
    sum += v;
    uint16_t h = f16->as<uint16_t>()[i];
    float magnitude = (h & 0x7FFF) == 0 ? 0.0f : std::ldexp(1.0f + (h & 0x3FF) / 1024.0f, (h >> 10 & 31) - 15);
    CHECK((h & 0x8000 ? -magnitude : magnitude) == v);
  }
  CHECK(std::abs(sum / 2000) < 0.05);
  auto ids = HostTensor::zeros(DType::I64, {500});
  fill_random(*ids, 4);
  for (int64_t v : ids->as<int64_t>()) CHECK((v >= 0 && v < 10));
}

TEST_CASE("elements are drawn from those that are known to be legal, all of them in time") {
  const int16_t legal[] = {-3, 800, 1600};
  auto t = HostTensor::zeros(DType::I16, {500});
  draw_from(std::as_bytes(std::span(legal)), 1, *t);
  std::set<int16_t> drawn(t->as<int16_t>().begin(), t->as<int16_t>().end());
  CHECK(drawn == std::set<int16_t>(std::begin(legal), std::end(legal)));
}
