// The C table of libmlio, over a model of which this file is the library: the program gives back what it is given.
#include "runtime/mlio/mlio.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <string>
#include <vector>

#include "runtime/api/sized.h"

namespace {

int64_t allocations_left = -1;  // below 0: all of them succeed
int64_t live = 0;

}  // namespace

// Those of the library end here too.
void* operator new(size_t size) {
  if (allocations_left == 0) throw std::bad_alloc();
  if (allocations_left > 0) --allocations_left;
  void* p = std::malloc(size ? size : 1);
  if (!p) throw std::bad_alloc();
  ++live;
  return p;
}
void operator delete(void* p) noexcept {
  live -= p != nullptr;
  std::free(p);
}
void operator delete(void* p, size_t) noexcept { operator delete(p); }

struct MlcModel {
  std::map<std::string, std::string> assets;
};
struct MlcSession {
  int code = MLC_OK;
  std::vector<float> values;
  std::vector<int64_t> shape;
};
struct MlcError {
  int code;
};

namespace {

using mlc::sized;

MlcError* the_error(int code) {
  static MlcError error;
  error.code = code;
  return &error;
}

int model_info(const MlcModel*, MlcModelInfo* out) {
  out->num_programs = 1;
  return MLC_OK;
}
int program(const MlcModel*, uint32_t index, MlcProgram* out) {
  if (index > 0) return MLC_USAGE;
  out->name = "default", out->is_default = 1, out->num_inputs = out->num_outputs = 1;
  return MLC_OK;
}
int port(const MlcModel*, uint32_t, int32_t is_output, uint32_t, MlcPort* out) {
  out->name = is_output ? "scores" : "numbers";
  out->dtype = MLC_F32;
  return MLC_OK;
}
int asset_data(const MlcModel* m, const char* name, MlcBytes* out, MlcError** error) {
  const auto found = m->assets.find(name);
  if (found == m->assets.end()) {
    *error = the_error(MLC_NOT_FOUND);
    return MLC_NOT_FOUND;
  }
  *out = {found->second.data(), found->second.size()};
  return MLC_OK;
}
int run(MlcSession* s, const MlcRunOptions* options, const MlcTensor* in, uint32_t num_in, MlcTensor* out, uint32_t num_out,
        MlcError** error) {
  REQUIRE((num_in == 1 && num_out == 1 && std::strcmp(options->program, "default") == 0));
  if (s->code != MLC_OK) {
    *error = the_error(s->code);
    return s->code;
  }
  const auto* values = static_cast<const float*>(in[0].data);
  s->values.assign(values, values + in[0].bytes / sizeof(float));
  s->shape.assign(in[0].shape, in[0].shape + in[0].rank);
  out[0] = mlc_tensor(s->values.data(), MLC_F32, in[0].rank, s->shape.data());
  return MLC_OK;
}

const MlcApi& fake() {
  static const MlcApi api = [] {
    MlcApi a{};
    a.model_info = model_info, a.program = program, a.port = port, a.asset_data = asset_data, a.run = run;
    a.error_code = [](const MlcError* e) { return e ? e->code : 0; };
    a.error_message = [](const MlcError*) { return "the model says no"; };
    a.error_number = [](const MlcError*) { return 1234; };
    a.error_fact = [](const MlcError*, uint32_t i) { return i == 0 ? "a fact" : static_cast<const char*>(nullptr); };
    a.error_help = [](const MlcError*) { return "a help"; };
    a.error_release = [](MlcError*) {};
    return a;
  }();
  return api;
}

const MlioApi& mlio() { return *mlio_get_api(MLIO_API_VERSION); }

MlcModel model() {
  return {{{"pipeline.json",
            R"({"mlc_pipeline": 1, "inputs": {"numbers": {"accept": ["application/x-npy"]}}, "steps": [
                {"op": "run", "program": "default", "in": {"numbers": "numbers"}, "out": {"scores": "scores"}},
                {"op": "top_k", "in": "scores", "k": 2, "labels": "labels.txt", "out": "best"}],
               "outputs": ["best", "scores"]})"},
           {"labels.txt", "zero\none\ntwo\n"}}};
}

struct Open {
  MlcModel m = model();
  MlioPipeline* pipeline = nullptr;
  Open() {
    MlioError* error = nullptr;
    REQUIRE_MESSAGE(mlio().open(&fake(), &m, nullptr, &pipeline, &error) == MLC_OK, mlio().error_text(error));
  }
  ~Open() { mlio().release(pipeline); }
};

// The numbers as an input.
struct Numbers {
  std::vector<float> values;
  int64_t shape[1];
  MlcTensor tensor;
  MlioGiven given{};
  explicit Numbers(std::vector<float> v)
      : values(std::move(v)), shape{static_cast<int64_t>(values.size())},
        tensor(mlc_tensor(values.data(), MLC_F32, 1, shape)) {
    given.tensor = &tensor;
  }
};

}  // namespace

TEST_CASE("A table of an unknown version is not given") {
  CHECK(mlio_get_api(0) == nullptr);
  CHECK(mlio_get_api(MLIO_API_VERSION + 1) == nullptr);
  CHECK(mlio().version == MLIO_API_VERSION);
  CHECK(mlio().size == sizeof(MlioApi));
}

TEST_CASE("A pipeline says what it takes and gives") {
  Open o;
  auto info = sized<MlioPipelineInfo>();
  REQUIRE(mlio().info(o.pipeline, &info) == MLC_OK);
  CHECK(std::string(info.name) == "default");
  CHECK((info.num_inputs == 1 && info.num_outputs == 2 && info.program == 0));
  auto input = sized<MlioInput>();
  REQUIRE(mlio().input(o.pipeline, 0, &input) == MLC_OK);
  CHECK(std::string(input.name) == "numbers");
  CHECK((input.is_array && input.num_media_types == 1));
  CHECK(std::string(input.media_types[0]) == "application/x-npy");
  CHECK(mlio().input(o.pipeline, 1, &input) == MLC_USAGE);
  auto output = sized<MlioOutput>();
  REQUIRE(mlio().output(o.pipeline, 0, &output) == MLC_OK);
  CHECK((std::string(output.name) == "best" && output.kind == MLIO_CLASSES));
  REQUIRE(mlio().output(o.pipeline, 1, &output) == MLC_OK);
  CHECK((std::string(output.name) == "scores" && output.kind == MLIO_ARRAY));
  CHECK(mlio().output(o.pipeline, 2, &output) == MLC_USAGE);
}

TEST_CASE("Strings are texts, and refused where their sizes do not fit or a pipeline takes none") {
  Open o;
  MlcSession session;
  MlioAnswers* answers = nullptr;
  MlioError* error = nullptr;
  const auto why = [&](const MlcTensor& tensor) {
    MlioGiven given{};
    given.tensor = &tensor;
    CHECK(mlio().run(o.pipeline, &session, nullptr, &given, 1, &answers, &error) == MLC_INPUT_MISMATCH);
    const std::string text = mlio().error_text(error);
    mlio().error_release(error);
    return text;
  };
  MlcString strings[2] = {{"a", 1}, {"b", 1}};
  const int64_t two[2] = {2, 1}, huge[1] = {INT64_MAX}, negative[1] = {-1};
  MlcTensor tensor{nullptr, strings, sizeof strings, MLC_STR, 1, two};
  CHECK(why(tensor).find("found str[2], expected an array of numbers") != std::string::npos);
  for (const auto& [rank, shape] : {std::pair{2u, two}, {1u, huge}, {1u, negative}, {0u, two}}) {
    tensor.rank = rank, tensor.shape = shape;
    CHECK(why(tensor).find("no list of as many as the shape says") != std::string::npos);
  }
  strings[1] = {nullptr, 1};
  tensor.rank = 1, tensor.shape = two;
  CHECK(why(tensor).find("string 1 has no data") != std::string::npos);
}

TEST_CASE("A run gives classes with labels, and arrays of the session") {
  Open o;
  MlcSession session;
  Numbers numbers({1, 5, 3});
  MlioAnswers* answers = nullptr;
  MlioError* error = nullptr;
  REQUIRE(mlio().run(o.pipeline, &session, nullptr, &numbers.given, 1, &answers, &error) == MLC_OK);
  auto info = sized<MlioAnswersInfo>();
  REQUIRE(mlio().answers_info(answers, &info) == MLC_OK);
  CHECK(info.num_answers == 2);
  auto answer = sized<MlioAnswer>();
  REQUIRE(mlio().answer(answers, 0, &answer) == MLC_OK);
  CHECK((std::string(answer.name) == "best" && answer.kind == MLIO_CLASSES && answer.num_rows == 1));
  CHECK(mlio().num_classes(answers, 0, 0) == 2);
  CHECK(mlio().num_classes(answers, 0, 1) == 0);
  auto best = sized<MlioClass>();
  REQUIRE(mlio().class_at(answers, 0, 0, 0, &best) == MLC_OK);
  CHECK((best.index == 1 && best.score == 5 && std::string(best.label.data, best.label.bytes) == "one"));
  REQUIRE(mlio().class_at(answers, 0, 0, 1, &best) == MLC_OK);
  CHECK(std::string(best.label.data, best.label.bytes) == "two");
  CHECK(mlio().class_at(answers, 0, 0, 2, &best) == MLC_USAGE);
  CHECK(mlio().class_at(answers, 1, 0, 0, &best) == MLC_USAGE);
  auto line = sized<MlioLine>();
  CHECK(mlio().line(answers, 0, 0, &line) == MLC_USAGE);
  REQUIRE(mlio().answer(answers, 1, &answer) == MLC_OK);
  CHECK(answer.kind == MLIO_ARRAY);
  CHECK((answer.array.rank == 1 && answer.array.shape[0] == 3));
  CHECK(answer.array.data == session.values.data());
  CHECK(mlio().answer(answers, 2, &answer) == MLC_USAGE);
  mlio().answers_release(answers);

  auto options = sized<MlioRunOptions>();
  options.top = 3;
  REQUIRE(mlio().run(o.pipeline, &session, &options, &numbers.given, 1, &answers, &error) == MLC_OK);
  CHECK(mlio().num_classes(answers, 0, 0) == 3);
  mlio().answers_release(answers);
}

TEST_CASE("A run gives a sound as the bytes of a file") {
  MlcModel m{{{"pipeline.json",
               R"({"mlc_pipeline": 1, "inputs": {"numbers": {"accept": ["application/x-npy"]}}, "steps": [
                   {"op": "run", "program": "default", "in": {"numbers": "numbers"}, "out": {"scores": "scores"}},
                   {"op": "wav_out", "in": "scores", "rate": 16000, "out": "file"}],
                  "outputs": ["file"]})"}}};
  MlioPipeline* pipeline = nullptr;
  MlioAnswers* answers = nullptr;
  MlioError* error = nullptr;
  REQUIRE_MESSAGE(mlio().open(&fake(), &m, nullptr, &pipeline, &error) == MLC_OK, mlio().error_text(error));
  auto output = sized<MlioOutput>();
  REQUIRE(mlio().output(pipeline, 0, &output) == MLC_OK);
  CHECK(output.kind == MLIO_SOUND);
  float samples[2][3] = {{0, 0.5F, 1}, {-1, 0, 0.25F}};
  const int64_t shape[2] = {2, 3};
  const MlcTensor numbers = mlc_tensor(samples, MLC_F32, 2, shape);
  MlioGiven given{};
  given.name = "numbers", given.tensor = &numbers;
  MlcSession session;
  REQUIRE_MESSAGE(mlio().run(pipeline, &session, nullptr, &given, 1, &answers, &error) == MLC_OK, mlio().error_text(error));
  auto answer = sized<MlioAnswer>();
  REQUIRE(mlio().answer(answers, 0, &answer) == MLC_OK);
  CHECK(answer.kind == MLIO_SOUND);
  auto sound = sized<MlioSound>();
  REQUIRE(mlio().sound(answers, 0, &sound) == MLC_OK);
  CHECK((sound.rate == 16000 && sound.channels == 2 && sound.samples == 3 && std::string(sound.media_type) == "audio/wav"));
  CHECK((sound.file.bytes == 44 + 12 && std::memcmp(sound.file.data, "RIFF", 4) == 0));
  CHECK(mlio().sound(answers, 1, &sound) == MLC_USAGE);
  CHECK(mlio().sound(nullptr, 0, &sound) == MLC_USAGE);
  auto image = sized<MlioImage>();
  CHECK(mlio().image(answers, 0, &image) == MLC_USAGE);
  mlio().answers_release(answers);
  mlio().release(pipeline);
}

TEST_CASE("A run gives boxes with labels, and a picture that shows them as the bytes of a file") {
  MlcModel m{{{"pipeline.json",
               R"({"mlc_pipeline": 1, "inputs": {"numbers": {"accept": ["application/x-npy"]}, "photo": {"accept": ["image/png"]}}, "steps": [
                   {"op": "decode_image", "in": "photo", "color": "rgb", "orient": "exif", "alpha": "drop", "out": "picture"},
                   {"op": "run", "program": "default", "in": {"numbers": "numbers"}, "out": {"scores": "scores"}},
                   {"op": "detections", "in": "scores", "labels": "labels.txt", "out": "found"},
                   {"op": "draw", "in": "picture", "boxes": "found"},
                   {"op": "image_out", "type": "image/png", "out": "drawn"}],
                  "outputs": ["found", "drawn"]})"},
              {"labels.txt", "cat\ndog\n"}}};
  MlioPipeline* pipeline = nullptr;
  MlioAnswers* answers = nullptr;
  MlioError* error = nullptr;
  REQUIRE_MESSAGE(mlio().open(&fake(), &m, nullptr, &pipeline, &error) == MLC_OK, mlio().error_text(error));
  auto output = sized<MlioOutput>();
  REQUIRE(mlio().output(pipeline, 0, &output) == MLC_OK);
  CHECK(output.kind == MLIO_BOXES);
  REQUIRE(mlio().output(pipeline, 1, &output) == MLC_OK);
  CHECK(output.kind == MLIO_IMAGE);

  float rows[2][6] = {{1, 2, 9.5F, 12, 0.75F, 1}, {-3, 0, 4, 5, 0.5F, 0}};
  const int64_t shape[2] = {2, 6}, size[3] = {20, 30, 3};
  std::vector<uint8_t> pixels(20 * 30 * 3, 7);
  const MlcTensor numbers = mlc_tensor(rows, MLC_F32, 2, shape), photo = mlc_tensor(pixels.data(), MLC_U8, 3, size);
  MlioGiven given[2] = {};
  given[0].name = "numbers", given[0].tensor = &numbers;
  given[1].name = "photo", given[1].tensor = &photo;
  MlcSession session;
  REQUIRE_MESSAGE(mlio().run(pipeline, &session, nullptr, given, 2, &answers, &error) == MLC_OK, mlio().error_text(error));
  auto answer = sized<MlioAnswer>();
  REQUIRE(mlio().answer(answers, 0, &answer) == MLC_OK);
  CHECK((answer.kind == MLIO_BOXES && answer.num_rows == 2));
  auto box = sized<MlioBox>();
  REQUIRE(mlio().box(answers, 0, 0, &box) == MLC_OK);
  CHECK((box.x1 == 1 && box.y1 == 2 && box.x2 == 9.5F && box.y2 == 12 && box.score == 0.75 && box.index == 1));
  CHECK(std::string(box.label.data, box.label.bytes) == "dog");
  CHECK(mlio().box(answers, 0, 2, &box) == MLC_USAGE);
  CHECK(mlio().box(answers, 1, 0, &box) == MLC_USAGE);
  CHECK(mlio().box(nullptr, 0, 0, &box) == MLC_USAGE);
  REQUIRE(mlio().answer(answers, 1, &answer) == MLC_OK);
  CHECK((answer.kind == MLIO_IMAGE && answer.num_rows == 0));
  auto image = sized<MlioImage>();
  REQUIRE(mlio().image(answers, 1, &image) == MLC_OK);
  CHECK((image.height == 20 && image.width == 30 && std::string(image.media_type) == "image/png"));
  CHECK((image.file.bytes > 8 && std::memcmp(image.file.data, "\x89PNG\r\n\x1a\n", 8) == 0));
  CHECK(mlio().image(answers, 0, &image) == MLC_USAGE);
  CHECK(mlio().image(nullptr, 0, &image) == MLC_USAGE);
  mlio().answers_release(answers);

  rows[0][5] = 2;
  CHECK(mlio().run(pipeline, &session, nullptr, given, 2, &answers, &error) == MLC_USAGE);
  CHECK(std::string(mlio().error_message(error)) == "step 'detections': labels.txt has 2 lines, and class 2 wants line 3");
  mlio().error_release(error);
  mlio().release(pipeline);
}

TEST_CASE("A file of any kind may be given without the bytes between its ends") {
  MlcModel m{{{"pipeline.json",
               R"({"mlc_pipeline": 1, "inputs": {"file": {"accept": ["application/octet-stream"]}}, "steps": [
                   {"op": "file_bytes", "in": "file", "fill": 0, "parts": [{"of": "start", "within": 3, "strip": "none", "length": 2}, {"of": "end", "within": 2, "strip": "none", "length": 2}], "out": "numbers"},
                   {"op": "run", "program": "default", "in": {"numbers": "numbers"}, "out": {"scores": "scores"}}],
                  "outputs": ["scores"]})"}}};
  MlioPipeline* pipeline = nullptr;
  MlioAnswers* answers = nullptr;
  MlioError* error = nullptr;
  REQUIRE_MESSAGE(mlio().open(&fake(), &m, nullptr, &pipeline, &error) == MLC_OK, mlio().error_text(error));
  auto input = sized<MlioInput>();
  REQUIRE(mlio().input(pipeline, 0, &input) == MLC_OK);
  CHECK((!input.is_array && input.first_bytes == 3 && input.last_bytes == 2));
  MlcSession session;
  MlioGiven whole{}, ends{};
  whole.file = {"\x93NUMPY, a file of any kind", 26};
  ends.file = {"\x93NUnd", 5}, ends.gap_at = 3, ends.gap = 21;
  for (const MlioGiven& given : {whole, ends}) {
    REQUIRE_MESSAGE(mlio().run(pipeline, &session, nullptr, &given, 1, &answers, &error) == MLC_OK, mlio().error_text(error));
    auto answer = sized<MlioAnswer>();
    REQUIRE(mlio().answer(answers, 0, &answer) == MLC_OK);
    const int32_t expected[] = {0x93, 'N', 'n', 'd'};
    REQUIRE(answer.array.bytes == sizeof expected);
    CHECK(std::memcmp(answer.array.data, expected, sizeof expected) == 0);
    mlio().answers_release(answers);
  }
  ends.gap_at = 2;
  CHECK(mlio().run(pipeline, &session, nullptr, &ends, 1, &answers, &error) == MLC_USAGE);
  mlio().error_release(error);
  ends.gap_at = 6;
  CHECK(mlio().run(pipeline, &session, nullptr, &ends, 1, &answers, &error) == MLC_USAGE);
  mlio().error_release(error);
  mlio().release(pipeline);

  Open o;
  REQUIRE(mlio().input(o.pipeline, 0, &input) == MLC_OK);
  CHECK((input.first_bytes == 0 && input.last_bytes == 0));
  CHECK(mlio().run(o.pipeline, &session, nullptr, &ends, 1, &answers, &error) == MLC_INPUT_MISMATCH);
  CHECK(std::string(mlio().error_message(error)).find("bytes are left out, and all of them are needed") != std::string::npos);
  mlio().error_release(error);
}

TEST_CASE("What does not fit is an error with number, facts and help") {
  Open o;
  MlcSession session;
  MlioAnswers* answers = nullptr;
  MlioError* error = nullptr;
  MlioGiven text{};
  text.name = "numbers", text.file = {"hello", 5};
  CHECK(mlio().run(o.pipeline, &session, nullptr, &text, 1, &answers, &error) == MLC_INPUT_MISMATCH);
  CHECK(answers == nullptr);
  CHECK(mlio().error_code(error) == MLC_INPUT_MISMATCH);
  CHECK(mlio().error_number(error) == 4001);
  CHECK(std::string(mlio().error_fact(error, 0)).find("numbers") == 0);
  CHECK(mlio().error_fact(error, 1) == nullptr);
  mlio().error_release(error);

  session.code = MLC_CANCELLED;  // an error of the model goes through as it is
  Numbers numbers({1, 5, 3});
  CHECK(mlio().run(o.pipeline, &session, nullptr, &numbers.given, 1, &answers, &error) == MLC_CANCELLED);
  CHECK(mlio().error_number(error) == 1234);
  CHECK(std::string(mlio().error_message(error)) == "the model says no");
  CHECK(std::string(mlio().error_fact(error, 0)) == "a fact");
  CHECK(std::string(mlio().error_help(error)) == "a help");
  mlio().error_release(error);

  MlcModel bare;
  MlioPipeline* none = nullptr;
  CHECK(mlio().open(&fake(), &bare, nullptr, &none, &error) == MLC_NOT_FOUND);
  mlio().error_release(error);
  CHECK(mlio().open(&fake(), &o.m, "other", &none, &error) == MLC_USAGE);
  CHECK(std::string(mlio().error_fact(error, 0)) == "it has default");
  mlio().error_release(error);
  MlcModel broken = model();
  broken.assets.erase("labels.txt");
  CHECK(mlio().open(&fake(), &broken, nullptr, &none, nullptr) == MLC_NOT_FOUND);
  broken.assets["pipeline.json"] = "{";
  CHECK(mlio().open(&fake(), &broken, nullptr, &none, nullptr) != MLC_OK);
}

TEST_CASE("Null where it is not allowed, sizes that are too small and tensors that lie are answered") {
  Open o;
  MlcSession session;
  MlioAnswers* answers = nullptr;
  MlioPipeline* pipeline = nullptr;
  CHECK(mlio().open(nullptr, &o.m, nullptr, &pipeline, nullptr) == MLC_USAGE);
  CHECK(mlio().open(&fake(), nullptr, nullptr, &pipeline, nullptr) == MLC_USAGE);
  CHECK(mlio().open(&fake(), &o.m, nullptr, nullptr, nullptr) == MLC_USAGE);
  CHECK(mlio().info(o.pipeline, nullptr) == MLC_USAGE);
  MlioPipelineInfo info{};
  CHECK(mlio().info(o.pipeline, &info) == MLC_USAGE);  // no size
  CHECK(mlio().info(nullptr, &info) == MLC_USAGE);
  CHECK(mlio().input(nullptr, 0, nullptr) == MLC_USAGE);
  CHECK(mlio().output(nullptr, 0, nullptr) == MLC_USAGE);
  CHECK(mlio().answers_info(nullptr, nullptr) == MLC_USAGE);
  CHECK(mlio().answer(nullptr, 0, nullptr) == MLC_USAGE);
  CHECK(mlio().num_classes(nullptr, 0, 0) == 0);
  CHECK(mlio().class_at(nullptr, 0, 0, 0, nullptr) == MLC_USAGE);
  CHECK(mlio().line(nullptr, 0, 0, nullptr) == MLC_USAGE);
  CHECK(mlio().error_code(nullptr) == MLC_OK);
  CHECK(std::string(mlio().error_text(nullptr)).empty());
  mlio().release(nullptr);
  mlio().answers_release(nullptr);
  mlio().error_release(nullptr);
  Numbers numbers({1, 5, 3});
  CHECK(mlio().run(nullptr, &session, nullptr, &numbers.given, 1, &answers, nullptr) == MLC_USAGE);
  CHECK(mlio().run(o.pipeline, nullptr, nullptr, &numbers.given, 1, &answers, nullptr) == MLC_USAGE);
  CHECK(mlio().run(o.pipeline, &session, nullptr, nullptr, 1, &answers, nullptr) == MLC_USAGE);
  CHECK(mlio().run(o.pipeline, &session, nullptr, &numbers.given, 1, nullptr, nullptr) == MLC_USAGE);
  MlioRunOptions options{};
  CHECK(mlio().run(o.pipeline, &session, &options, &numbers.given, 1, &answers, nullptr) == MLC_USAGE);
  MlioGiven nothing{};
  nothing.file.bytes = 1;
  CHECK(mlio().run(o.pipeline, &session, nullptr, &nothing, 1, &answers, nullptr) == MLC_USAGE);
  const auto refused = [&](auto change) {
    Numbers lie({1, 5, 3});
    change(lie.tensor);
    return mlio().run(o.pipeline, &session, nullptr, &lie.given, 1, &answers, nullptr) == MLC_INPUT_MISMATCH;
  };
  CHECK(refused([](MlcTensor& t) { t.dtype = 99; }));
  CHECK(refused([](MlcTensor& t) { t.dtype = MLC_STR; }));
  CHECK(refused([](MlcTensor& t) { t.rank = 9; }));
  CHECK(refused([](MlcTensor& t) { t.shape = nullptr; }));
  CHECK(refused([](MlcTensor& t) { t.data = nullptr; }));
  CHECK(refused([](MlcTensor& t) { t.bytes = 4; }));
  CHECK(refused([](MlcTensor& t) { t.list_depth = 1; }));
}

TEST_CASE("Each allocation fails once: an error, nothing lost, and the next call is right") {
  MlcModel m = model();
  MlcSession session;
  session.values.reserve(8), session.shape.reserve(8);
  Numbers numbers({1, 5, 3});
  bool done = false;
  for (int64_t nth = 0; !done; ++nth) {
    REQUIRE(nth < 100000);
    const int64_t before = live;
    MlioPipeline* pipeline = nullptr;
    MlioAnswers* answers = nullptr;
    MlioError* error = nullptr;
    allocations_left = nth;
    int code = mlio().open(&fake(), &m, nullptr, &pipeline, &error);
    if (code == MLC_OK) code = mlio().run(pipeline, &session, nullptr, &numbers.given, 1, &answers, &error);
    done = allocations_left != 0 || code == MLC_OK;
    allocations_left = -1;
    if (code == MLC_OK) {
      CHECK(mlio().num_classes(answers, 0, 0) == 2);
    } else {
      CHECK_MESSAGE(code == MLC_RESOURCE, nth, ": ", mlio().error_text(error));
      CHECK(mlio().error_code(error) == MLC_RESOURCE);
      CHECK((pipeline == nullptr || answers == nullptr));
    }
    mlio().error_release(error);
    mlio().answers_release(answers);
    mlio().release(pipeline);
    CHECK_MESSAGE(live == before, "allocation ", nth);
  }
}

namespace {

// The program gives back the samples that it sees.
MlcModel windows() {
  return {{{"pipeline.json",
            R"({"mlc_pipeline": 1, "inputs": {"speech": {"accept": ["audio/wav"]}},
                "stream": {"input": "speech", "hop": 2, "context": 1, "last": "pad"}, "steps": [
                {"op": "decode_audio", "in": "speech", "channels": "first", "rate": 100, "out": "numbers"},
                {"op": "run", "program": "default", "in": {"numbers": "numbers"}, "out": {"scores": "scores"}}],
               "outputs": ["scores"]})"}}};
}

struct Seen {
  uint64_t first_sample = 0;
  std::vector<float> samples;
  bool operator==(const Seen&) const = default;
};
// Whatever is complete; stops at a failure.
int take_all(MlioStream* stream, std::vector<Seen>& seen, MlioError** error) {
  for (;;) {
    MlioAnswers* answers = nullptr;
    if (const int code = mlio().stream_next(stream, nullptr, &answers, error); code != MLC_OK || !answers) return code;
    auto info = sized<MlioAnswersInfo>();
    auto answer = sized<MlioAnswer>();
    REQUIRE(mlio().answers_info(answers, &info) == MLC_OK);
    REQUIRE(mlio().answer(answers, 0, &answer) == MLC_OK);
    const auto* values = static_cast<const float*>(answer.array.data);
    const int64_t left = allocations_left;
    allocations_left = -1;
    seen.push_back({info.first_sample, {values, values + answer.array.bytes / sizeof(float)}});
    allocations_left = left;
    mlio().answers_release(answers);
  }
}

const std::vector<Seen> kSeen = {{0, {0, 1, 2}}, {2, {2, 3, 4}}, {4, {4, 5, 0}}};
const float kSound[] = {1, 2, 3, 4, 5};

}  // namespace

TEST_CASE("A sound that is decoded already is given as samples at the rate that the input says") {
  MlcModel m = windows();
  MlioPipeline* pipeline = nullptr;
  MlioError* error = nullptr;
  REQUIRE_MESSAGE(mlio().open(&fake(), &m, nullptr, &pipeline, &error) == MLC_OK, mlio().error_text(error));
  auto input = sized<MlioInput>();
  REQUIRE(mlio().input(pipeline, 0, &input) == MLC_OK);
  CHECK((input.rate == 100 && input.is_array == 0));
  int16_t pcm[] = {16384, 9, -32768, 9};
  const int64_t shape[2] = {2, 2};
  MlcTensor samples = mlc_tensor(pcm, MLC_I16, 2, shape);
  MlioGiven given{};
  given.tensor = &samples;
  MlcSession session;
  MlioAnswers* answers = nullptr;
  REQUIRE_MESSAGE(mlio().run(pipeline, &session, nullptr, &given, 1, &answers, &error) == MLC_OK, mlio().error_text(error));
  CHECK(session.values == std::vector<float>{0, 0.5F, -1});  // with the sample in front of the chunk
  mlio().answers_release(answers);
  int32_t wide[] = {1, 2};
  samples = mlc_tensor(wide, MLC_I32, 1, shape);
  CHECK(mlio().run(pipeline, &session, nullptr, &given, 1, &answers, &error) == MLC_INPUT_MISMATCH);
  CHECK(mlio().error_number(error) == 4001);
  mlio().error_release(error);
  mlio().release(pipeline);
}

TEST_CASE("A sound in pieces of any size gives the same chunks, behind a failure too, and again after a reset") {
  MlcModel m = windows();
  MlioPipeline* pipeline = nullptr;
  MlioStream* stream = nullptr;
  MlioError* error = nullptr;
  MlcSession session;
  REQUIRE_MESSAGE(mlio().open(&fake(), &m, nullptr, &pipeline, &error) == MLC_OK, mlio().error_text(error));
  auto info = sized<MlioStreamInfo>();
  REQUIRE(mlio().stream_info(pipeline, &info) == MLC_OK);
  CHECK((std::string(info.input) == "speech" && info.rate == 100 && info.hop == 2 && info.context == 1 && info.pads));
  REQUIRE(mlio().stream_open(pipeline, &session, &stream, &error) == MLC_OK);
  for (size_t size : {1, 2, 3, 5}) {
    std::vector<Seen> seen;
    for (size_t at = 0; at < 5; at += size) {
      REQUIRE(mlio().stream_push(stream, kSound + at, std::min<size_t>(size, 5 - at), &error) == MLC_OK);
      session.code = MLC_CANCELLED;  // the chunk is the next one again
      const int code = take_all(stream, seen, &error);
      CHECK((code == MLC_OK || code == MLC_CANCELLED));
      mlio().error_release(error), error = nullptr;
      session.code = MLC_OK;
      CHECK(take_all(stream, seen, &error) == MLC_OK);
    }
    REQUIRE(mlio().stream_finish(stream) == MLC_OK);
    CHECK(take_all(stream, seen, &error) == MLC_OK);
    CHECK(seen == kSeen);
    CHECK(mlio().stream_push(stream, kSound, 1, &error) == MLC_USAGE);
    CHECK(std::string(mlio().error_message(error)) == "the stream is finished, and takes no more samples");
    mlio().error_release(error), error = nullptr;
    REQUIRE(mlio().stream_reset(stream) == MLC_OK);
  }
  // The pipeline takes nothing beside the sound.
  MlioGiven given{};
  given.name = "language", given.file = {"x", 1};
  CHECK(mlio().stream_give(stream, nullptr, 0, &error) == MLC_OK);
  CHECK(mlio().stream_give(stream, &given, 1, &error) == MLC_INPUT_MISMATCH);
  CHECK(std::string(mlio().error_fact(error, 0)) == "'language' is no input of the pipeline");
  mlio().error_release(error), error = nullptr;
  given.name = "speech";
  CHECK(mlio().stream_give(stream, &given, 1, &error) == MLC_INPUT_MISMATCH);
  CHECK(std::string(mlio().error_fact(error, 0)) == "'speech' is the sound of the stream, which comes in pieces");
  mlio().error_release(error), error = nullptr;
  CHECK(mlio().stream_give(stream, nullptr, 1, &error) == MLC_USAGE);
  mlio().error_release(error), error = nullptr;
  mlio().stream_release(stream);
  mlio().release(pipeline);

  Open none;
  CHECK(mlio().stream_info(none.pipeline, &info) == MLC_NOT_FOUND);
  CHECK(mlio().stream_open(none.pipeline, &session, &stream, &error) == MLC_NOT_FOUND);
  CHECK((stream == nullptr && std::string(mlio().error_message(error)).find("has no 'stream'") != std::string::npos));
  mlio().error_release(error);
  CHECK(mlio().stream_info(nullptr, &info) == MLC_USAGE);
  CHECK(mlio().stream_open(nullptr, &session, &stream, nullptr) == MLC_USAGE);
  CHECK(mlio().stream_push(nullptr, kSound, 1, nullptr) == MLC_USAGE);
  CHECK(mlio().stream_next(nullptr, nullptr, nullptr, nullptr) == MLC_USAGE);
  CHECK((mlio().stream_finish(nullptr) == MLC_USAGE && mlio().stream_reset(nullptr) == MLC_USAGE));
  mlio().stream_release(nullptr);
}

TEST_CASE("Each allocation of a stream fails once: an error, nothing lost, and the chunks are the same") {
  MlcModel m = windows();
  MlcSession session;
  session.values.reserve(8), session.shape.reserve(8);
  MlioPipeline* pipeline = nullptr;
  REQUIRE(mlio().open(&fake(), &m, nullptr, &pipeline, nullptr) == MLC_OK);
  bool done = false;
  for (int64_t nth = 0; !done; ++nth) {
    REQUIRE(nth < 100000);
    const int64_t before = live;
    {
      MlioStream* stream = nullptr;
      MlioError* error = nullptr;
      std::vector<Seen> seen;
      bool failed = false;
      const auto again = [&](auto call) {  // with memory, where there was none
        int code = call();
        if (code == MLC_RESOURCE) {
          allocations_left = -1, failed = true;
          mlio().error_release(error), error = nullptr;
          code = call();
        }
        return code;
      };
      allocations_left = nth;
      int code = again([&] { return mlio().stream_open(pipeline, &session, &stream, &error); });
      if (code == MLC_OK) code = again([&] { return mlio().stream_push(stream, kSound, 3, &error); });
      if (code == MLC_OK) code = again([&] { return take_all(stream, seen, &error); });
      if (code == MLC_OK) code = again([&] { return mlio().stream_push(stream, kSound + 3, 2, &error); });
      if (code == MLC_OK) code = mlio().stream_finish(stream);
      if (code == MLC_OK) code = again([&] { return take_all(stream, seen, &error); });
      allocations_left = -1;
      done = !failed;
      CHECK_MESSAGE(code == MLC_OK, nth, ": ", mlio().error_text(error));
      CHECK_MESSAGE(seen == kSeen, "allocation ", nth);
      mlio().error_release(error);
      mlio().stream_release(stream);
    }
    CHECK_MESSAGE(live == before, "allocation ", nth);
  }
  mlio().release(pipeline);
}
