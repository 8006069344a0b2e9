// mlc.hpp, the library for C++: owners, spans, results, stop tokens.
#include "runtime/api/mlc.hpp"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "tests/support/api_sample.h"
#include "tests/support/decoder_sample.h"

using mlc::test::api_sample;
using mlc::test::expected_answer;
using mlrt::Input;
using mlrt::Output;

namespace {

// Borrowing from a temporary does not compile, and owners are not copied.
static_assert(std::is_constructible_v<Input, std::string, std::vector<float>&, mlrt::Shape>);
static_assert(std::is_constructible_v<Input, std::string, std::span<const float>, mlrt::Shape>);
static_assert(!std::is_constructible_v<Input, std::string, std::vector<float>, mlrt::Shape>);
static_assert(!std::is_constructible_v<Output, std::string, const std::vector<float>&>);
static_assert(!std::is_constructible_v<Output, std::string, std::vector<float>>);
template <class T>
concept Owner = std::is_nothrow_move_constructible_v<T> && !std::is_copy_constructible_v<T> && !std::is_copy_assignable_v<T>;
static_assert(Owner<mlrt::Model> && Owner<mlrt::Session> && Owner<mlrt::File> && Owner<mlrt::Pool> && Owner<mlrt::CancelSource> && Owner<mlrt::Ticket>);
static_assert(mlrt::dtype_of<long long> == MLC_I64 && mlrt::dtype_of<unsigned char> == MLC_U8 && !mlrt::Element<char>);

template <class T>
std::string why(const mlrt::Result<T>& result) {
  return result ? "" : std::string(result.error().text());
}

mlrt::OpenOptions trusting() { return {.trust_keys = {api_sample().public_key_file}}; }

mlrt::Model open_sample() {
  auto model = mlrt::Model::open(api_sample().signed_file, trusting());
  REQUIRE_MESSAGE(model, why(model));
  return std::move(*model);
}
mlrt::Session session_of(const mlrt::Model& model, const mlrt::SessionOptions& options = {}) {
  auto session = model.session(options);
  REQUIRE_MESSAGE(session, why(session));
  return std::move(*session);
}

const std::vector<float> kX = {1, 2, 3, 4, 5};
Input x_of(const std::vector<float>& x) { return Input("x", x, {static_cast<int64_t>(x.size())}); }

std::vector<float> answer_in(const mlrt::Result<mlrt::Outputs>& out) {
  REQUIRE_MESSAGE(out, why(out));
  const auto y = out->values<float>("y");
  REQUIRE_MESSAGE(y, why(y));
  return {y->begin(), y->end()};
}

std::vector<std::byte> file_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

class MemoryReader final : public mlrt::Reader {
 public:
  explicit MemoryReader(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}
  uint64_t size() const override { return bytes_.size(); }
  bool read(uint64_t offset, std::span<std::byte> out) override {
    ++reads;
    if (fails || offset > bytes_.size() || out.size() > bytes_.size() - offset) return false;
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
    return true;
  }
  bool fails = false;
  std::atomic<int> reads = 0;

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace

TEST_CASE("a model is opened, a session runs it and outputs are spans of their type") {
  auto session = session_of(open_sample());  // the model goes first; the session keeps what it needs
  CHECK(session.info().variant == "native-test");
  auto out = session.run({x_of(kX)});
  CHECK(answer_in(out) == expected_answer(kX));
  CHECK(out->size() == 1);
  CHECK((*out)[0].name() == "y");
  CHECK((*out)[0].dtype() == MLC_F32);
  CHECK((*out)[0].shape().size() == 1);
  CHECK((*out)[0].shape()[0] == 5);
  CHECK((*out)[0].bytes().size() == 20);
  CHECK(out->values<int32_t>("y").error().code() == MLC_INPUT_MISMATCH);
  CHECK(out->values<float>("z").error().code() == MLC_NOT_FOUND);
  CHECK(!(*out)[0].strings());
  // By position, and through an array that is aligned.
  mlrt::Vector<float> aligned(kX.begin(), kX.end());
  CHECK(reinterpret_cast<uintptr_t>(aligned.data()) % 64 == 0);
  CHECK(answer_in(session.run({Input("", aligned, {5})})) == expected_answer(kX));
}

TEST_CASE("an error has the code, the number, the sentence, the facts and the help") {
  const auto absent = mlrt::Model::open("no/such/file.mlc");
  REQUIRE(!absent);
  CHECK(absent.error().code() == MLC_NOT_FOUND);
  CHECK(absent.error().text().find("no/such/file.mlc") != std::string_view::npos);
  auto session = session_of(open_sample());
  const auto unknown = session.run({Input("nobody", kX, {5})});
  REQUIRE(!unknown);
  CHECK(unknown.error().code() == MLC_INPUT_MISMATCH);
  CHECK(unknown.error().number() == 4001);
  CHECK(unknown.error().message().find("'nobody'") != std::string_view::npos);
  REQUIRE(!unknown.error().facts().empty());
  CHECK(unknown.error().facts()[0] == "known: x");
  CHECK(unknown.error().text().substr(0, 13) == "error[E4001]:");
  const auto moved = mlrt::Result<mlrt::Outputs>(session.run({Input("nobody", kX, {5})})).error().code();
  CHECK(moved == MLC_INPUT_MISMATCH);
  CHECK(session.run({x_of(kX)}, {.program = "nothing"}).error().code() != MLC_OK);
  CHECK(session.run({Input("x", kX, {1, 1, 1, 1, 1, 1, 1, 1, 1, 5})}).error().code() == MLC_INPUT_MISMATCH);
  CHECK(answer_in(session.run({x_of(kX)})) == expected_answer(kX));
}

TEST_CASE("containers come from memory, from a descriptor and from a reader") {
  const mlc::test::InMemory memory(file_bytes(api_sample().signed_file));
  const auto from_memory = mlrt::Model::open(mlrt::Source::memory(memory.bytes()), trusting());
  REQUIRE_MESSAGE(from_memory, why(from_memory));
  CHECK(answer_in(session_of(*from_memory).run({x_of(kX)})) == expected_answer(kX));

  const int fd = ::open(api_sample().signed_file.c_str(), O_RDONLY | O_CLOEXEC);
  const auto from_descriptor = mlrt::Model::open(mlrt::Source::descriptor(fd), trusting());
  ::close(fd);
  REQUIRE_MESSAGE(from_descriptor, why(from_descriptor));
  CHECK(answer_in(session_of(*from_descriptor).run({x_of(kX)})) == expected_answer(kX));

  auto reader = std::make_shared<MemoryReader>(file_bytes(api_sample().signed_file));
  auto options = trusting();
  options.name = "from the shelf";
  const auto from_reader = mlrt::Model::open(mlrt::Source::reader(reader), options);
  REQUIRE_MESSAGE(from_reader, why(from_reader));
  CHECK(from_reader->info().file == "from the shelf");
  CHECK(reader->reads > 0);
  CHECK(answer_in(session_of(*from_reader).run({x_of(kX)})) == expected_answer(kX));
  auto broken = std::make_shared<MemoryReader>(file_bytes(api_sample().signed_file));
  broken->fails = true;
  CHECK(mlrt::Model::open(mlrt::Source::reader(broken), options).error().code() == MLC_NOT_FOUND);
}

TEST_CASE("a key as text is trusted, and opening may be done in two steps") {
  std::ifstream in(api_sample().public_key_file);
  const mlrt::OpenOptions options = {.trust_key_data = {std::string(std::istreambuf_iterator<char>(in), {})}};
  auto file = mlrt::File::authenticate(api_sample().signed_file, options);
  REQUIRE_MESSAGE(file, why(file));
  CHECK(file->info().is_signed);
  CHECK(file->info().native_code != MLC_NATIVE_NEVER);
  const auto model = std::move(*file).open();
  REQUIRE_MESSAGE(model, why(model));
  CHECK(model->info().native_allowed);
  const auto stranger = mlrt::Model::open(api_sample().signed_file);
  REQUIRE(stranger);
  CHECK(!stranger->info().native_allowed);
  CHECK(session_of(*stranger).info().is_portable);
}

TEST_CASE("what is in a container, as values") {
  const mlrt::Model model = open_sample();
  const mlrt::ModelInfo info = model.info();
  CHECK(info.id == "test/sample");
  CHECK(info.version == 7);
  CHECK(info.root.size() == 64);
  CHECK(info.num_golden == 2);
  const auto programs = model.programs();
  REQUIRE(programs.size() == 3);
  CHECK(programs[0].name == "main");
  CHECK(programs[0].is_default);
  REQUIRE(programs[0].inputs.size() == 1);
  const mlrt::Port& x = programs[0].inputs[0];
  CHECK(x.name == "x");
  CHECK(x.dtype == MLC_F32);
  REQUIRE(x.extents.size() == 1);
  CHECK(x.extents[0].value == -1);
  CHECK(x.extents[0].name == "N");
  CHECK(x.extents[0].min == 1);
  CHECK(x.extents[0].max == 1024);
  CHECK(programs[1].outputs[1].list_depth == 2);
  const auto variants = model.explain();
  REQUIRE(variants.size() == 3);
  CHECK(variants[0].name == "alien");
  CHECK(variants[0].fits == MLC_FITS_NOT);
  CHECK(variants[0].failing.size() == 1);
  CHECK(variants[0].failing[0].answer == "no");
  const auto chosen = model.choose();
  REQUIRE(chosen);
  CHECK(variants[*chosen].name == "native-test");
  CHECK(model.choose({.variant = "alien"}).error().code() == MLC_NO_VARIANT);
  const auto assets = model.assets();
  REQUIRE(assets.size() == 1);
  CHECK(assets[0].name == "labels.txt");
  CHECK(assets[0].media_type == "text/plain");
  CHECK(assets[0].bytes == 4);
  CHECK(model.asset_text("labels.txt").value() == "a\nb\n");
  CHECK(model.asset("nothing.txt").error().code() == MLC_NOT_FOUND);
}

TEST_CASE("each program says what runs it, and what would be chosen for it") {
  const mlrt::Model model = open_sample();
  const auto session = session_of(model);
  const auto programs = model.programs();
  for (uint32_t p = 0; p < programs.size(); ++p) {
    const auto info = session.program_info(p);
    REQUIRE_MESSAGE(info, why(info));
    CHECK(info->variant == session.info().variant);
    CHECK(info->threads == session.info().threads);
    CHECK(info->device.empty());
    const auto choice = model.choose_for(p);
    REQUIRE_MESSAGE(choice, why(choice));
    CHECK(choice->variant == model.choose().value());
    CHECK(choice->name == "native-test");
    CHECK(choice->device.empty());
  }
  for (const uint32_t absent : {static_cast<uint32_t>(programs.size()), UINT32_MAX}) {
    CHECK(session.program_info(absent).error().code() == MLC_USAGE);
    CHECK(session.program_info(absent).error().message() == "the container has no such program");
    CHECK(model.choose_for(absent).error().code() == MLC_USAGE);
  }
  CHECK(model.choose_for(0, {.variant = "alien"}).error().code() == MLC_NO_VARIANT);
  CHECK(session_of(model, {.variant = "portable"}).program_info(1)->is_portable);
}

TEST_CASE("a container of one program says what runs it") {
  const auto& container = mlc::test::decoder_container(true);
  if (container.empty()) {
    MESSAGE("skipped: no clang-19 for this processor");
    return;
  }
  const mlc::test::InMemory memory(container);
  mlrt::OpenOptions options;
  options.allow_unsigned = true;
  options.services = {{"image.decode", [](mlrt::ServiceCall&) -> int { return MLC_OK; }}};
  const auto model = mlrt::Model::open(mlrt::Source::memory(memory.bytes()), options);
  REQUIRE_MESSAGE(model, why(model));
  REQUIRE(model->programs().size() == 1);
  const auto session = session_of(*model);
  CHECK(session.program_info(0)->variant == session.info().variant);
  CHECK(session.program_info(1).error().code() == MLC_USAGE);
}

TEST_CASE("golden inputs are views that a run takes, and differences of a self test are a value") {
  const mlrt::Model model = open_sample();
  const auto golden = model.golden_inputs();
  REQUIRE(golden);
  auto session = session_of(model);
  CHECK(answer_in(session.run({Input(golden->at(0))})) == std::vector<float>{3, 7, 11, 15});
  CHECK(model.golden_inputs(1).error().code() == MLC_NOT_FOUND);
  CHECK(model.golden_inputs(9).error().code() == MLC_NOT_FOUND);
  CHECK(session.selftest()->failures == 0);
  CHECK(session.selftest("first")->vectors == 1);
  CHECK(session.selftest("other").error().code() == MLC_NOT_FOUND);
  const auto wrong = mlrt::Model::open(api_sample(4).signed_file, {.trust_keys = {api_sample(4).public_key_file}});
  REQUIRE(wrong);
  const auto tested = session_of(*wrong).selftest();
  REQUIRE_MESSAGE(tested, why(tested));
  CHECK(tested->failures == 1);
  CHECK(!tested->text.empty());
}

TEST_CASE("outputs go into memory of the caller, and lists go in and out") {
  auto session = session_of(open_sample());
  std::vector<float> y(8);
  const auto out = session.run({x_of(kX)}, {Output("y", y)});
  CHECK(answer_in(out) == expected_answer(kX));
  CHECK((*out)[0].bytes().data() == reinterpret_cast<const std::byte*>(y.data()));
  std::array<float, 2> small;
  CHECK(!session.run({x_of(kX)}, {Output("y", small)}));
  CHECK(session.run({x_of(kX)}, {Output("w")}).error().code() == MLC_INPUT_MISMATCH);

  const std::vector<float> a = {1, 2}, b = {3};
  const int64_t at = 1;
  const auto rows = session.run({Input::list("l", {Input("", a, {2}), Input("", b, {1})}), Input("p", std::span(&at, 1), {})},
                                {.program = "rows"});
  REQUIRE_MESSAGE(rows, why(rows));
  CHECK(rows->values<float>("item")->front() == 3);
  const auto both = rows->find("both");
  REQUIRE(both);
  CHECK(both->list_depth() == 2);
  REQUIRE(both->num_items() == 2);
  CHECK(both->item(0).num_items() == 1);
  CHECK(both->item(1).num_items() == 2);
  CHECK(both->item(1).item(0).values<float>()->back() == 2);
}

TEST_CASE("shapes are known before a run") {
  auto session = session_of(open_sample());
  const std::array inputs = {x_of(kX)};
  const auto shapes = session.infer_shapes(inputs);
  REQUIRE_MESSAGE(shapes, why(shapes));
  CHECK((*shapes)[0].shape()[0] == 5);
  CHECK((*shapes)[0].dtype() == MLC_F32);
}

TEST_CASE("a stop token or a source that was cancelled ends the run, and the session goes on") {
  auto session = session_of(open_sample());
  std::stop_source stop;
  CHECK(answer_in(session.run({x_of(kX)}, {.stop = stop.get_token()})) == expected_answer(kX));
  stop.request_stop();
  CHECK(session.run({x_of(kX)}, {.stop = stop.get_token()}).error().code() == MLC_CANCELLED);
  auto cancel = mlrt::CancelSource::create();
  REQUIRE(cancel);
  CHECK(answer_in(session.run({x_of(kX)}, {.cancel = &*cancel})) == expected_answer(kX));
  cancel->cancel();
  CHECK(session.run({x_of(kX)}, {.cancel = &*cancel}).error().code() == MLC_CANCELLED);
  CHECK(session.run({x_of(kX)}, {.cancel = &*cancel}).error().code() == MLC_CANCELLED);
  // Both: the stop cancels the source.
  auto both = mlrt::CancelSource::create();
  REQUIRE(both);
  CHECK(session.run({x_of(kX)}, {.stop = stop.get_token(), .cancel = &*both}).error().code() == MLC_CANCELLED);
  CHECK(session.run({x_of(kX)}, {.cancel = &*both}).error().code() == MLC_CANCELLED);
  CHECK(answer_in(session.run({x_of(kX)})) == expected_answer(kX));
}

TEST_CASE("state is saved, restored and reset") {
  auto session = session_of(open_sample());
  const auto saved = session.state_save();
  REQUIRE_MESSAGE(saved, why(saved));
  const std::vector<std::byte> bytes(saved->begin(), saved->end());
  CHECK(session.state_reset());
  CHECK(session.state_restore(bytes));
  const std::vector<std::byte> damaged(3);
  CHECK(session.state_restore(damaged).error().code() == MLC_MALFORMED);
}

TEST_CASE("the value of an error ends the program with its text") {
  int pipe_ends[2];
  REQUIRE(::pipe(pipe_ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);
    ::dup2(pipe_ends[1], 2);
    mlrt::Result<int> none = mlrt::Error(MLC_NO, "there is no number");
    ::_exit(none.value());
  }
  ::close(pipe_ends[1]);
  char said[200] = {};
  CHECK(::read(pipe_ends[0], said, sizeof said - 1) > 0);
  ::close(pipe_ends[0]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGABRT);
  CHECK(std::string(said) == "mlrt: the value of a result was asked for that holds: there is no number\n");
}

TEST_CASE("a profile names the instructions") {
  auto session = session_of(open_sample(), {.profile = true});
  CHECK(session.run({x_of(kX)}));
  const auto entries = session.profile();
  REQUIRE(!entries.empty());
  CHECK(entries[0].name == "scale");
  CHECK(entries[0].runs == 1);
}

TEST_CASE("a service is a function of the application") {
  const auto& container = mlc::test::decoder_container(true);
  if (container.empty()) {
    MESSAGE("skipped: no clang-19 for this processor");
    return;
  }
  const mlc::test::InMemory memory(container);
  int calls = 0;
  mlrt::OpenOptions options;
  options.allow_unsigned = true;
  options.services = {{"image.decode", [&](mlrt::ServiceCall& call) -> int {
                         ++calls;
                         const auto file = call.input(0).values<uint8_t>();
                         if (!file || file->size() != 2) return call.fail(MLC_MALFORMED, "no picture of mine");
                         auto* pixels = call.result<uint8_t>(0, {(*file)[0], (*file)[1], 3});
                         if (!pixels) return MLC_RESOURCE;
                         std::fill_n(pixels, (*file)[0] * (*file)[1] * 3, uint8_t{9});
                         return MLC_OK;
                       }}};
  auto model = mlrt::Model::open(mlrt::Source::memory(memory.bytes()), options);
  options.services.clear();  // the model has its own
  REQUIRE_MESSAGE(model, why(model));
  auto session = session_of(*model);
  std::vector<uint8_t> file = {2, 1};
  const auto out = session.run({Input("file", file, {2})});
  REQUIRE_MESSAGE(out, why(out));
  CHECK(out->find("pixels")->bytes().size() == 6);
  CHECK(out->values<uint8_t>("pixels")->front() == 9);
  file = {1, 2, 3};
  const auto refused = session.run({Input("file", file, {3})});
  REQUIRE(!refused);
  CHECK(refused.error().code() == MLC_MALFORMED);
  CHECK(refused.error().message().find("no picture of mine") != std::string_view::npos);
  CHECK(calls == 2);
}
