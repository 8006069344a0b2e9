// Steps on sounds: tables and presets against librosa, SciPy and NumPy (data/make_sound.py), and what the parser refuses.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "runtime/io/file.h"
#include "runtime/io/npz.h"
#include "runtime/pipeline/reference/array_steps.h"
#include "schema/pipeline/sound_tables.h"
#include "tests/support/source_path.h"

using namespace mlc;
using namespace mlc::pipeline;

namespace {

using Arrays = std::map<std::string, HostTensor>;

Arrays arrays_of(const std::string& name) {
  auto file = io::read_file(mlc::testing::source_path("tests/unit/pipeline/data/" + name));
  REQUIRE(file.ok());
  auto arrays = io::parse_npz(file->bytes());
  REQUIRE(arrays.ok());
  Arrays m;
  for (auto& a : *arrays) m.emplace(a.name, std::move(a.tensor));
  return m;
}

const Arrays& expected() {
  static const Arrays all = arrays_of("sound.npz");
  return all;
}

// The largest difference, as a part of the largest value.
template <class T>
double difference(std::span<const T> found, const HostTensor& want) {
  const auto w = want.as<float>();
  REQUIRE(found.size() == w.size());
  double largest = 1e-30, apart = 0;
  for (size_t i = 0; i < w.size(); ++i) {
    largest = std::max(largest, std::fabs(double{w[i]}));
    apart = std::max(apart, std::fabs(double{w[i]} - found[i]));
  }
  return apart / largest;
}

std::string file_of(const std::string& steps) {
  return R"({"mlc_pipeline":1,"inputs":{"speech":{"accept":["audio/wav"]}},"steps":[
    {"op":"decode_audio","in":"speech","channels":"first","rate":16000,"out":"sound"},)" + steps + R"(,"out":"y"}],"outputs":["y"]})";
}

Result<HostTensor> run(const std::string& steps, std::vector<float> samples) {
  auto file = parse(file_of(steps), "p.json");
  REQUIRE_MESSAGE(file.ok(), (file.ok() ? "" : file.status().text()));
  auto sound = HostTensor::zeros(DType::F32, {static_cast<int64_t>(samples.size())});
  REQUIRE(sound.ok());
  std::copy(samples.begin(), samples.end(), sound->as<float>().begin());
  std::vector<NamedTensor> values;
  values.push_back({"sound", std::move(sound).value()});
  MLC_RETURN_IF_ERROR(reference::run_array_steps(file->pipelines[0], values));
  REQUIRE(values.back().name == "y");
  return std::move(values.back().tensor);
}

void refuses(const std::string& steps, const std::string& sentence) {
  CAPTURE(steps);
  auto file = parse(file_of(steps), "p.json");
  REQUIRE(!file.ok());
  CHECK_MESSAGE(file.status().text().find(sentence) != std::string::npos, file.status().text());
}

}  // namespace

TEST_CASE("windows are SciPy's") {
  const std::map<std::string, Window::Shape> shapes = {{"hann", Window::Shape::Hann}, {"hamming", Window::Shape::Hamming}, {"povey", Window::Shape::Povey}};
  int cases = 0;
  for (const auto& [key, want] : expected()) {
    char shape[16], ends[16];
    int length = 0;
    if (std::sscanf(key.c_str(), "window/%15[a-z]/%15[a-z]/%d", shape, ends, &length) != 3) continue;
    CAPTURE(key);
    CHECK(difference<double>(window_table({shapes.at(shape), std::string(ends) == "periodic"}, length), want) < 1e-7);
    ++cases;
  }
  CHECK(cases == 24);
}

TEST_CASE("weights of mel bands are librosa's") {
  int cases = 0;
  for (const auto& [key, want] : expected()) {
    char scale[16], norm[16];
    Mel mel;
    long bands = 0, n_fft = 0;
    if (std::sscanf(key.c_str(), "mel/%15[a-z]/%15[a-z]/%ld/%ld/%lf/%lf/%lf", scale, norm, &bands, &n_fft, &mel.rate, &mel.low, &mel.high) != 7) continue;
    CAPTURE(key);
    mel.bands = bands, mel.n_fft = n_fft;
    mel.scale = std::string(scale) == "htk" ? Mel::Scale::Htk : Mel::Scale::Slaney;
    mel.has_slaney_norm = std::string(norm) == "slaney";
    CHECK(difference<double>(mel_weights(mel), want) < 1e-6);
    ++cases;
  }
  CHECK(cases == 12);
}

TEST_CASE("presets are the log mel spectra of their programs") {
  const auto sound = expected().at("sound").as<float>();
  int cases = 0;
  for (const auto& [key, want] : expected()) {
    char preset[16];
    int bands = 0;
    if (std::sscanf(key.c_str(), "preset/%15[a-z]/%d", preset, &bands) != 2) continue;
    CAPTURE(key);
    auto found = run(R"({"op":"log_mel","preset":")" + std::string(preset) + R"(","bands":)" + std::to_string(bands), {sound.begin(), sound.end()});
    REQUIRE(found.ok());
    REQUIRE(found->shape == want.shape);
    CHECK(difference<float>(found->as<float>(), want) < 2e-5);
    ++cases;
  }
  CHECK(cases == 5);
}

TEST_CASE("a preset is its steps") {
  auto file = parse(file_of(R"({"op":"log_mel","preset":"kaldi")"), "p.json");
  REQUIRE(file.ok());
  std::string steps;
  for (const Step& step : file->pipelines[0].steps) steps += step.op + " ";
  CHECK(steps == "decode_audio frame mean_var pre_emphasis window stft mel log ");
  CHECK(file->pipelines[0].value(file->pipelines[0].steps[1].out[0]).name == "steps[1].frame");
  const auto sound = expected().at("sound").as<float>();
  const auto found = run(R"({"op":"log_mel","preset":"whisper")", {sound.begin(), sound.end()});
  const auto same = run(R"({"op":"frame","length":400,"hop":160,"center":"reflect","last":"drop_whole"},
    {"op":"window","shape":"hann","ends":"periodic"},{"op":"stft","n_fft":400,"power":2},
    {"op":"mel","bands":80,"n_fft":400,"rate":16000,"low":0,"high":8000,"scale":"slaney","norm":"slaney"},
    {"op":"log","how":"log10","floor":1e-10,"below_peak":8},{"op":"normalize","mean":-4,"std":4)", {sound.begin(), sound.end()});
  REQUIRE((found.ok() && same.ok()));
  CHECK(std::equal(found->as<float>().begin(), found->as<float>().end(), same->as<float>().begin(), same->as<float>().end()));
}

TEST_CASE("a sound at another rate is torchaudio's and SciPy's") {
  const Arrays all = arrays_of("rates.npz");
  const auto sound = all.at("sound").as<float>();
  int cases = 0;
  for (const auto& [key, want] : all) {
    char like[16];
    int from = 0, to = 0;
    if (std::sscanf(key.c_str(), "%15[a-z]/%d/%d", like, &from, &to) != 3 || std::string(like) == "length") continue;
    CAPTURE(key);
    auto found = run(R"({"op":"resample","from":)" + std::to_string(from) + R"(,"to":)" + std::to_string(to) + R"(,"like":")" + like + "\"",
                     {sound.begin(), sound.end()});
    REQUIRE(found.ok());
    REQUIRE(found->shape == want.shape);
    CHECK(difference<float>(found->as<float>(), want) < 1e-6);
    ++cases;
  }
  CHECK(cases == 18);
}

TEST_CASE("a sound at another rate is as long as torchaudio's, whose quotient is an f32") {
  int cases = 0;
  for (const auto& [key, pairs] : arrays_of("rates.npz")) {
    Resample step;
    long from = 0, to = 0;
    if (std::sscanf(key.c_str(), "length/%ld/%ld", &from, &to) != 2) continue;
    step.from = from, step.to = to;
    CAPTURE(key);
    const auto numbers = pairs.as<int64_t>();
    for (size_t i = 0; i < numbers.size(); i += 2) {
      CAPTURE(numbers[i]);
      CHECK(resampled_length(step, numbers[i]) == numbers[i + 1]);
    }
    ++cases;
  }
  CHECK(cases == 6);
  CHECK(resampled_length({147, 320, Resample::Like::Scipy}, 1000) == 2177);
}

TEST_CASE("spectra with their phases and sounds made of spectra are librosa's") {
  const Arrays all = arrays_of("inverse.npz");
  const auto sound = all.at("sound").as<float>();
  int cases = 0;
  for (const auto& [key, want] : all) {
    int n_fft = 0, hop = 0, center = 0, length = 0;
    CAPTURE(key);
    const std::string name = key.substr(key.find('/') + 1);
    if (std::sscanf(key.c_str(), "spectra/%d/%d", &n_fft, &hop) == 2) {
      auto found = run(R"({"op":"frame","center":"reflect","last":"drop","length":)" + std::to_string(n_fft) + R"(,"hop":)" + std::to_string(hop) +
                           R"(},{"op":"window","shape":"hann","ends":"periodic"},{"op":"stft","power":"complex","n_fft":)" + std::to_string(n_fft),
                       {sound.begin(), sound.end()});
      REQUIRE(found.ok());
      REQUIRE(found->shape == want.shape);
      CHECK(difference<float>(found->as<float>(), want) < 1e-6);
      ++cases;
    }
    if (std::sscanf(key.c_str(), "changed/%d/%d/%d/%d", &n_fft, &hop, &center, &length) != 4) continue;
    const std::string of = std::to_string(n_fft) + "/" + std::to_string(hop);
    const auto rows = reference::istft({n_fft}, all.at("spectra/" + of), &all.at("mask/" + of));
    REQUIRE(rows.ok());
    const auto as_long = HostTensor::zeros(DType::F32, {length});
    OverlapAdd step{hop, false, center == 1, true, {Window::Shape::Hann, true}};
    const auto found = reference::overlap_add(step, *rows, length > 0 ? &*as_long : nullptr);
    REQUIRE(found.ok());
    REQUIRE(found->shape == want.shape);
    CHECK(difference<float>(found->as<float>(), want) < 1e-5);
    ++cases;
  }
  CHECK(cases == 25);
}

TEST_CASE("a sound that was cut into frames comes back") {
  std::vector<float> sound;
  for (int i = 0; i < 333; ++i) sound.push_back(static_cast<float>((i * 37 + 11) % 101) / 50 - 1);
  const auto found = run(R"({"op":"frame","length":48,"hop":12,"center":"reflect","last":"pad"},{"op":"window","shape":"hann","ends":"periodic"},
    {"op":"stft","n_fft":48,"power":"complex"},{"op":"istft","n_fft":48},
    {"op":"overlap_add","hop":12,"center":"cut","window":{"shape":"hann","ends":"periodic"},"length_of":"sound")", sound);
  REQUIRE(found.ok());
  REQUIRE(found->shape == std::vector<int64_t>{333});
  for (size_t i = 0; i < sound.size(); ++i) CHECK(std::fabs(found->as<float>()[i] - sound[i]) < 1e-6);
}

TEST_CASE("rows of a sound that goes on give what all rows together give") {
  constexpr int64_t kLength = 12, kFrames = 10;
  for (const int64_t hop : {1, 5, 6, 11}) {
    CAPTURE(hop);
    auto rows = HostTensor::zeros(DType::F32, {kFrames, kLength});
    REQUIRE(rows.ok());
    for (int i = 0; i < kFrames * kLength; ++i) rows->as<float>()[static_cast<size_t>(i)] = static_cast<float>((i * 37 + 11) % 101) / 50 - 1;
    OverlapAdd step{hop, false, false, false, {}};
    const auto whole = reference::overlap_add(step, *rows, nullptr);
    REQUIRE(whole.ok());
    step.goes_on = true;
    auto before = HostTensor::zeros(DType::F32, {kLength - hop});
    std::vector<float> found;
    for (int64_t at = 0; at < kFrames; at += 2) {
      const auto some = HostTensor::view(DType::F32, {2, kLength}, rows->data.data() + at * kLength * 4, 2 * kLength * 4);
      REQUIRE(some.ok());
      auto both = reference::overlap_add_on(step, *some, *before);
      REQUIRE(both.ok());
      REQUIRE(both->first.shape == std::vector<int64_t>{2 * hop});
      found.insert(found.end(), both->first.as<float>().begin(), both->first.as<float>().end());
      *before = std::move(both->second);
    }
    found.insert(found.end(), before->as<float>().begin(), before->as<float>().end());
    REQUIRE(found.size() == whole->as<float>().size());
    for (size_t i = 0; i < found.size(); ++i) CHECK(std::fabs(found[i] - whole->as<float>()[i]) < 1e-5);
  }
}

TEST_CASE("frames begin and end as asked") {
  const std::vector<float> five = {1, 2, 3, 4, 5};
  const auto frames = [&](const std::string& how) {
    auto made = run(R"({"op":"frame",)" + how, five);
    return made.ok() ? std::vector<float>(made->as<float>().begin(), made->as<float>().end()) : std::vector<float>{};
  };
  CHECK(frames(R"("length":2,"hop":2,"center":"none","last":"drop")") == std::vector<float>{1, 2, 3, 4});
  CHECK(frames(R"("length":2,"hop":2,"center":"none","last":"pad")") == std::vector<float>{1, 2, 3, 4, 5, 0});
  CHECK(frames(R"("length":2,"hop":2,"center":"none","last":"drop_whole")") == std::vector<float>{1, 2});
  CHECK(frames(R"("length":3,"hop":2,"center":"zeros","last":"drop")") == std::vector<float>{0, 1, 2, 2, 3, 4, 4, 5, 0});
  CHECK(frames(R"("length":4,"hop":3,"center":"reflect","last":"drop")") == std::vector<float>{3, 2, 1, 2, 2, 3, 4, 5});
  CHECK(frames(R"("length":8,"hop":9,"center":"none","last":"pad")") == std::vector<float>{1, 2, 3, 4, 5, 0, 0, 0});
  CHECK(frames(R"("length":8,"hop":9,"center":"none","last":"drop")").empty());
}

TEST_CASE("attributes of steps on sounds are refused where they have no meaning") {
  refuses(R"({"op":"frame","length":4,"hop":0,"center":"none","last":"drop")", "'hop'");
  refuses(R"({"op":"frame","length":4,"hop":2,"last":"drop")", "center");
  refuses(R"({"op":"resample","from":16000,"to":0,"like":"scipy")", "'to'");
  refuses(R"({"op":"resample","from":16000,"to":8000)", "like");
  refuses(R"({"op":"resample","from":1000003,"to":1000033,"like":"torchaudio")", "small a common divisor that the filter has");
  refuses(R"({"op":"resample","from":16777216,"to":1,"like":"scipy")", "small a common divisor that the filter has");
  refuses(R"({"op":"window","shape":"hann")", "ends");
  refuses(R"({"op":"stft","n_fft":8,"power":"polar")", "power");
  refuses(R"({"op":"istft")", "n_fft");
  refuses(R"({"op":"overlap_add","hop":2,"center":"reflect","window":"none")", "center");
  refuses(R"({"op":"overlap_add","hop":2,"center":"cut","window":"hann")", "'window'");
  refuses(R"({"op":"overlap_add","hop":2,"center":"cut","window":{"shape":"hann"})", "ends");
  refuses(R"({"op":"overlap_add","hop":2,"center":"cut","window":"none","length_of":"none")", "no value 'none'");
  refuses(R"({"op":"overlap_add","hop":2,"center":"none","window":"none","before":"sound","length_of":"sound")", "stands beside 'before'");
  refuses(R"({"op":"overlap_add","hop":2,"center":"none","window":"none","before":"sound")", "names no 'rest'");
  refuses(R"({"op":"mel","bands":8,"n_fft":64,"rate":16000,"low":0,"high":8001,"scale":"htk","norm":"none")", "above half of 'rate'");
  refuses(R"({"op":"mel","bands":8,"n_fft":64,"rate":16000,"low":90,"high":90,"scale":"htk","norm":"none")", "is not above 'low'");
  refuses(R"({"op":"log","how":"ln","floor":0)", "is not above 0");
  refuses(R"({"op":"mean_var","over":"row","deviation":"none","epsilon":1)", "has no meaning where nothing is divided");
  refuses(R"({"op":"mean_var","over":"row","deviation":"sample")", "lacks 'epsilon'");
  refuses(R"({"op":"log_mel","preset":"wisper")", "did you mean 'whisper'");
  refuses(R"({"op":"log_mel","preset":"whisper","hop":160)", "unknown key 'hop'");
  refuses(R"({"op":"transpose","order":[0,2])", "does not name each axis from 0 to 1 once");
}
