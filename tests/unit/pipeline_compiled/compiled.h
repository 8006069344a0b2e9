// Pipelines compiled into one container, and what their programs give beside what the reference gives.
#pragma once

#include <doctest/doctest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "packager/compile/build.h"
#include "runtime/api/mlc.h"
#include "runtime/api/sized.h"
#include "schema/pipeline/pipeline.h"

namespace mlc::test {

inline void write(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary);
  out << bytes;
  REQUIRE(out.good());
}

// All pipelines in one container, compiled once.
struct Compiled {
  std::filesystem::path folder;
  pipeline::PipelineFile file;
  const MlcApi* api = mlc_get_api(MLC_API_VERSION);
  MlcModel* model = nullptr;
  std::vector<std::string> variants;  // that fit here

  Compiled(const std::string& onnx, const std::string& pipelines) {
    static int made = 0;
    folder = std::filesystem::temp_directory_path() / ("mlc-pipelines-" + std::to_string(getpid()) + "-" + std::to_string(made++));
    std::filesystem::create_directories(folder);
    write(folder / "model.onnx", onnx);
    write(folder / "pipeline.json", pipelines);
    auto parsed = pipeline::parse(pipelines, "pipeline.json");
    REQUIRE_MESSAGE(parsed.ok(), (parsed.ok() ? "" : parsed.status().text()));
    file = std::move(parsed).value();
    compile::BuildOptions options;
    options.model_path = folder / "model.onnx";
    options.pipeline_path = folder / "pipeline.json";
    options.output_path = folder / "pipelines.mlc";
    options.sign = false;
    for (const char* name : {"x86-64-v2", "x86-64-v3", "x86-64-v4", "portable"}) options.targets.push_back(targets::find_target(name));
    if (!native_is_x86()) options.targets = {targets::native_target(), targets::find_target("portable")};
    auto built = compile::build(options);
    REQUIRE_MESSAGE(built.ok(), (built.ok() ? "" : built.status().text()));
    open(options.output_path);
  }
  ~Compiled() {
    api->model_release(model);
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }

  static bool native_is_x86() { return targets::native_target()->name.starts_with("x86"); }

  void open(const std::string& path) {
    auto options = sized<MlcOpenOptions>();
    options.path = path.c_str();
    options.allow_unsigned = 1;
    MlcError* error = nullptr;
    const int code = api->open(&options, &model, &error);
    REQUIRE_MESSAGE(code == MLC_OK, (error ? api->error_text(error) : ""));
    auto info = sized<MlcModelInfo>();
    api->model_info(model, &info);
    for (uint32_t v = 0; v < info.num_variants; ++v) {
      auto variant = sized<MlcVariant>();
      api->explain(model, v, &variant);
      if (variant.fits == MLC_FITS) variants.emplace_back(variant.name);
    }
  }
};

// Elements that differ by more than `tolerance`, and the first of them.
struct Differences {
  size_t count = 0, first = 0;
  double largest = 0;
};
template <class T>
Differences compare(const void* found, const HostTensor& want, double tolerance) {
  Differences d;
  const auto w = want.as<T>();
  for (size_t i = 0; i < w.size(); ++i) {
    T have;
    std::memcpy(&have, static_cast<const char*>(found) + i * sizeof(T), sizeof(T));
    if (std::memcmp(&have, &w[i], sizeof(T)) == 0) continue;
    const double difference = std::abs(static_cast<double>(have) - static_cast<double>(w[i]));
    if (difference <= tolerance && tolerance > 0) continue;
    if (d.count++ == 0) d.first = i;
    d.largest = std::max(d.largest, difference);
  }
  return d;
}
inline Differences compare(const MlcTensor& found, const HostTensor& want, double tolerance) {
  switch (want.dtype) {
    case DType::F32: return compare<float>(found.data, want, tolerance);
    case DType::F64: return compare<double>(found.data, want, tolerance);
    case DType::I32: return compare<int32_t>(found.data, want, 0);
    case DType::I64: return compare<int64_t>(found.data, want, 0);
    case DType::F16:
    case DType::BF16: return compare<uint16_t>(found.data, want, 0);
    default: return compare<uint8_t>(found.data, want, 0);
  }
}

}  // namespace mlc::test
