// Steps on sounds as the packager compiles them, in every variant that this host runs, against the slow reference (which
// tests/unit/pipeline holds against librosa and NumPy). One container holds all pipelines; the number of samples is the run's.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "packager/compile/build.h"
#include "runtime/api/mlc.h"
#include "runtime/api/sized.h"
#include "runtime/pipeline/reference/array_steps.h"
#include "schema/pipeline/pipeline.h"
#include "tests/support/tiny_onnx.h"

using namespace mlc;

namespace {

// Answers agree within a part of the largest value; 0: exactly. Logarithms magnify what is small beside the rest of its frame.
struct Case {
  const char* name;
  const char* steps;
  double tolerance = 0;
  int64_t least = 1;  // samples
};

#define FRAMES R"({"op":"frame","length":60,"hop":25,"center":"reflect","last":"drop"})"
#define SPECTRA FRAMES R"(,{"op":"stft","n_fft":60,"power":2})"
const Case kCases[] = {
    {"fitted", R"({"op":"fit","samples":100)", 0, 0},
    {"fitted_whisper", R"({"op":"fit","samples":1600},{"op":"log_mel","preset":"whisper")", 1e-4, 0},
    {"fitted_rows", FRAMES R"(,{"op":"fit","samples":70)"},
    {"rate_down", R"({"op":"resample","from":44100,"to":16000,"like":"torchaudio")", 1e-6, 0},
    {"rate_up", R"({"op":"resample","from":16000,"to":44100,"like":"torchaudio")", 1e-6, 0},
    {"rate_whole", R"({"op":"resample","from":48000,"to":16000,"like":"torchaudio")", 1e-6, 0},
    {"rate_same", R"({"op":"resample","from":16000,"to":16000,"like":"torchaudio")", 0, 0},
    {"rate_scipy_down", R"({"op":"resample","from":22050,"to":16000,"like":"scipy")", 1e-6, 0},
    {"rate_scipy_up", R"({"op":"resample","from":8000,"to":24000,"like":"scipy")", 1e-6, 0},
    {"rate_of_frames", FRAMES R"(,{"op":"resample","from":3,"to":2,"like":"scipy")", 1e-6},
    {"none_drop", R"({"op":"frame","length":40,"hop":16,"center":"none","last":"drop")", 0, 40},
    {"none_pad", R"({"op":"frame","length":40,"hop":16,"center":"none","last":"pad")"},
    {"none_whole", R"({"op":"frame","length":40,"hop":16,"center":"none","last":"drop_whole")", 0, 56},
    {"gaps", R"({"op":"frame","length":25,"hop":40,"center":"none","last":"pad")"},
    {"zeros_drop", R"({"op":"frame","length":25,"hop":40,"center":"zeros","last":"drop")"},
    {"zeros_pad", R"({"op":"frame","length":25,"hop":7,"center":"zeros","last":"pad")"},
    {"reflect_drop", R"({"op":"frame","length":50,"hop":7,"center":"reflect","last":"drop")"},
    {"reflect_odd", R"({"op":"frame","length":51,"hop":8,"center":"reflect","last":"pad")"},
    {"reflect_whole", R"({"op":"frame","length":50,"hop":16,"center":"reflect","last":"drop_whole")", 0, 16},
    {"hann_periodic", FRAMES R"(,{"op":"window","shape":"hann","ends":"periodic")"},
    {"hann_symmetric", FRAMES R"(,{"op":"window","shape":"hann","ends":"symmetric")"},
    {"hamming", FRAMES R"(,{"op":"window","shape":"hamming","ends":"periodic")"},
    {"povey", FRAMES R"(,{"op":"window","shape":"povey","ends":"symmetric")"},
    {"emphasis", R"({"op":"pre_emphasis","factor":0.97)", 1e-6, 0},
    {"emphasis_of_frames", FRAMES R"(,{"op":"pre_emphasis","factor":0.5)", 1e-6},
    {"stft_stages", FRAMES R"(,{"op":"stft","n_fft":400,"power":2)", 1e-5},
    {"stft_magnitude", FRAMES R"(,{"op":"stft","n_fft":60,"power":1)", 1e-5},
    {"stft_odd", FRAMES R"(,{"op":"stft","n_fft":75,"power":2)", 1e-5},
    {"stft_prime", FRAMES R"(,{"op":"stft","n_fft":61,"power":2)", 1e-5},
    {"stft_chirp", FRAMES R"(,{"op":"stft","n_fft":521,"power":2)", 1e-5},
    {"stft_one", R"({"op":"frame","length":1,"hop":3,"center":"none","last":"drop"},{"op":"stft","n_fft":1,"power":1)", 1e-5},
    {"stft_complex", FRAMES R"(,{"op":"stft","n_fft":80,"power":"complex")", 1e-5},
    {"istft", FRAMES R"(,{"op":"stft","n_fft":60,"power":"complex"},{"op":"istft","n_fft":60)", 1e-5},
    {"istft_stages", FRAMES R"(,{"op":"stft","n_fft":400,"power":"complex"},{"op":"istft","n_fft":400)", 1e-5},
    {"istft_odd", FRAMES R"(,{"op":"stft","n_fft":75,"power":"complex"},{"op":"istft","n_fft":75)", 1e-5},
    {"istft_chirp", FRAMES R"(,{"op":"stft","n_fft":521,"power":"complex"},{"op":"istft","n_fft":521)", 1e-5},
    {"istft_one", R"({"op":"frame","length":1,"hop":3,"center":"none","last":"drop"},{"op":"stft","n_fft":1,"power":"complex"},{"op":"istft","n_fft":1)", 1e-5},
    {"istft_masked", FRAMES R"(,{"op":"stft","n_fft":60,"power":"complex","out":"spectra"},{"op":"column","in":"spectra","index":1,"out":"odd"},
        {"op":"sigmoid","in":"odd","out":"mask"},{"op":"istft","in":"spectra","mask":"mask","n_fft":60)", 1e-5},
    {"added", FRAMES R"(,{"op":"overlap_add","hop":25,"center":"none","window":"none")", 1e-6},
    {"added_windows", FRAMES R"(,{"op":"overlap_add","hop":25,"center":"cut","window":{"shape":"hann","ends":"periodic"})", 1e-5},
    {"added_gaps", FRAMES R"(,{"op":"overlap_add","hop":70,"center":"cut","window":{"shape":"hann","ends":"symmetric"})", 1e-5},
    {"added_rows", FRAMES R"(,{"op":"frame","length":21,"hop":9,"center":"zeros","last":"pad"},
        {"op":"overlap_add","hop":9,"center":"cut","window":{"shape":"hamming","ends":"symmetric"})", 1e-5},
    {"added_as_long", FRAMES R"(,{"op":"overlap_add","hop":25,"center":"cut","window":{"shape":"hamming","ends":"periodic"},"length_of":"sound")", 1e-5},
    {"mel_htk", SPECTRA R"(,{"op":"mel","bands":7,"n_fft":60,"rate":16000,"low":100,"high":7000,"scale":"htk","norm":"none")", 1e-5},
    {"mel_slaney", SPECTRA R"(,{"op":"mel","bands":9,"n_fft":60,"rate":8000,"low":0,"high":4000,"scale":"slaney","norm":"slaney")", 1e-5},
    {"mel_kaldi", SPECTRA R"(,{"op":"mel","bands":8,"n_fft":60,"rate":16000,"low":20,"high":8000,"scale":"kaldi","norm":"none")", 1e-5},
    {"ln", SPECTRA R"(,{"op":"log","how":"ln","floor":0.5)", 1e-5},
    {"log10", SPECTRA R"(,{"op":"log","how":"log10","floor":0.5)", 1e-5},
    {"db", SPECTRA R"(,{"op":"log","how":"db","floor":0.01,"below_peak":30)", 1e-4},
    {"row_mean", FRAMES R"(,{"op":"mean_var","over":"row","deviation":"none")", 1e-6},
    {"sound_deviation", R"({"op":"mean_var","over":"row","deviation":"population","epsilon":1e-7,"epsilon_to":"variance")", 1e-6, 0},
    {"column_sample", FRAMES R"(,{"op":"mean_var","over":"column","deviation":"sample","epsilon":1e-5,"epsilon_to":"deviation")", 1e-6},
    {"all_population", FRAMES R"(,{"op":"mean_var","over":"all","deviation":"population","epsilon":0.5,"epsilon_to":"deviation")", 1e-6},
    // Several sounds: the frames of a sound are sounds.
    {"sounds", FRAMES R"(,{"op":"frame","length":20,"hop":9,"center":"reflect","last":"pad"},{"op":"pre_emphasis","factor":0.9},
        {"op":"window","shape":"hann","ends":"periodic"},{"op":"stft","n_fft":32,"power":2},
        {"op":"mel","bands":5,"n_fft":32,"rate":16000,"low":0,"high":8000,"scale":"htk","norm":"slaney"},
        {"op":"log","how":"db","floor":1e-6,"below_peak":20},
        {"op":"mean_var","over":"all","deviation":"population","epsilon":0.1,"epsilon_to":"variance")", 1e-4},
    {"sounds_by_column", FRAMES R"(,{"op":"frame","length":20,"hop":9,"center":"zeros","last":"drop"},
        {"op":"mean_var","over":"column","deviation":"sample","epsilon":0.1,"epsilon_to":"variance")", 1e-5},
    {"turned", FRAMES R"(,{"op":"transpose","order":[1,0])"},
    {"turned_batch", FRAMES R"(,{"op":"new_axis","at":0},{"op":"transpose","order":[0,2,1])"},
    {"scaled_first", R"({"op":"normalize","div":0.000030517578125},{"op":"frame","length":40,"hop":16,"center":"none","last":"drop")", 0, 40},
    {"whisper", R"({"op":"log_mel","preset":"whisper")", 1e-4, 160},
    {"kaldi", R"({"op":"log_mel","preset":"kaldi","bands":23)", 1e-4, 400},
    {"librosa", R"({"op":"log_mel","preset":"librosa","bands":40)", 1e-4},
    // Golden vectors find a sound that is long enough.
    {"long_frames", R"({"op":"frame","length":1103,"hop":441,"center":"none","last":"drop","out":"x"},
        {"op":"run","program":"main","in":{"x":"x"},"out":{"y":"same"}},{"op":"transpose","in":"same","order":[1,0])", 0, 1103},
    {"through_the_model", R"({"op":"log_mel","preset":"whisper","out":"x"},{"op":"run","program":"main","in":{"x":"x"},"out":{"y":"same"}},
        {"op":"transpose","in":"same","order":[1,0])", 1e-4, 160},
};

std::string pipeline_text() {
  std::string text = R"({"mlc_pipeline":1,"pipelines":{)";
  for (const Case& c : kCases)
    text += std::string(&c == kCases ? "" : ",") + "\"" + c.name + R"(":{"inputs":{"speech":{"accept":["audio/wav"]}},"steps":[
      {"op":"decode_audio","in":"speech","channels":"first","rate":16000,"out":"sound"},)" + c.steps + R"(,"out":"y"}],"outputs":["y"]})";
  return text + "}}";
}

void write(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary);
  out << bytes;
  REQUIRE(out.good());
}

struct Compiled {
  std::filesystem::path folder;
  pipeline::PipelineFile file;
  const MlcApi* api = mlc_get_api(MLC_API_VERSION);
  MlcModel* model = nullptr;

  Compiled() {
    folder = std::filesystem::temp_directory_path() / ("mlc-sounds-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder);
    write(folder / "identity.onnx", test::one_node_onnx("Identity", {"frames", "bands"}));
    write(folder / "pipeline.json", pipeline_text());
    auto parsed = pipeline::parse(pipeline_text(), "pipeline.json");
    REQUIRE_MESSAGE(parsed.ok(), (parsed.ok() ? "" : parsed.status().text()));
    file = std::move(parsed).value();
    compile::BuildOptions options;
    options.model_path = folder / "identity.onnx";
    options.pipeline_path = folder / "pipeline.json";
    options.output_path = folder / "sounds.mlc";
    options.sign = false;
    options.targets = {targets::native_target(), targets::find_target("portable")};
    auto built = compile::build(options);
    REQUIRE_MESSAGE(built.ok(), (built.ok() ? "" : built.status().text()));
    auto open = sized<MlcOpenOptions>();
    open.path = options.output_path.c_str();
    open.allow_unsigned = 1;
    MlcError* error = nullptr;
    const int code = api->open(&open, &model, &error);
    REQUIRE_MESSAGE(code == MLC_OK, (error ? api->error_text(error) : ""));
  }
  ~Compiled() {
    api->model_release(model);
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
};

HostTensor noise(int64_t samples) {
  auto t = HostTensor::zeros(DType::F32, {samples});
  REQUIRE(t.ok());
  auto state = static_cast<uint32_t>(samples);
  for (float& v : t->as<float>()) {
    state = state * 1664525 + 1013904223;
    v = static_cast<float>(state >> 8) / static_cast<float>(1 << 23) - 1;
  }
  return std::move(t).value();
}

HostTensor expected(const pipeline::Pipeline& p, const HostTensor& sound) {
  std::vector<NamedTensor> values;
  values.push_back({"sound", sound.clone().value()});
  for (int round = 0; round < 2; ++round) {
    const Status status = pipeline::reference::run_array_steps(p, values);
    REQUIRE_MESSAGE(status.ok(), status.text());
    for (const NamedTensor& v : values)
      if (v.name == "x" && round == 0) {
        values.push_back({"same", v.tensor.clone().value()});
        break;
      }
  }
  REQUIRE(values.back().name == "y");
  return std::move(values.back().tensor);
}

void check(const Compiled& all, const Case& c, MlcSession* session, int64_t samples) {
  const auto p = std::find_if(all.file.pipelines.begin(), all.file.pipelines.end(), [&](const auto& q) { return q.name == c.name; });
  REQUIRE(p != all.file.pipelines.end());
  const HostTensor sound = noise(samples);
  MlcTensor in = mlc_tensor(const_cast<std::byte*>(sound.data.data()), MLC_F32, 1, sound.shape.data());
  in.name = "sound";
  MlcTensor out{};
  MlcError* error = nullptr;
  auto how = sized<MlcRunOptions>();
  how.program = c.name;
  const int code = all.api->run(session, &how, &in, 1, &out, 1, &error);
  const std::string message = error ? all.api->error_text(error) : "";
  all.api->error_release(error);
  if (samples < c.least) {
    CHECK(code != MLC_OK);
    CHECK_MESSAGE(message.find("sound") != std::string::npos, message);
    return;
  }
  REQUIRE_MESSAGE(code == MLC_OK, message);
  const HostTensor want = expected(*p, sound);
  REQUIRE(std::vector<int64_t>(out.shape, out.shape + out.rank) == want.shape);
  double largest = 0, apart = 0;
  for (size_t i = 0; i < want.as<float>().size(); ++i) {
    const double w = want.as<float>()[i], found = static_cast<const float*>(out.data)[i];
    largest = std::max(largest, std::fabs(w));
    apart = std::max(apart, std::isfinite(found) ? std::fabs(w - found) : INFINITY);
  }
  INFO("largest ", largest, ", apart by ", apart);
  CHECK(apart <= c.tolerance * std::max(largest, 0.1));  // bands without energy are the differences of what rounding left
}

}  // namespace

TEST_CASE("compiled steps on sounds give what the reference gives, for any number of samples") {
  const Compiled all;
  for (const std::string& variant : {targets::native_target()->name, std::string("portable")}) {
    CAPTURE(variant);
    auto options = sized<MlcSessionOptions>();
    options.variant = variant.c_str();
    MlcSession* session = nullptr;
    REQUIRE(all.api->session_create(all.model, &options, &session, nullptr) == MLC_OK);
    for (const Case& c : kCases) {
      const std::string pipeline = c.name;
      CAPTURE(pipeline);
      for (const int64_t samples : {0, 1, 2, 15, 24, 40, 61, 160, 400, 999, 2345}) {
        CAPTURE(samples);
        check(all, c, session, samples);
      }
    }
    all.api->session_release(session);
  }
}
