// Which digit is on a picture: a container opened, explained and run in C++20.
//
//   cmake -S . -B build && cmake --build build       (with -DCMAKE_PREFIX_PATH=... where libmlrt is in a prefix of its own)
//   build/digit digits.mlc seven.pgm [publisher.pub.pem]
//
// The picture is a PGM of 28 x 28 as text (P2). Without the key of who signed the container nothing in it is trusted: its
// portable form answers, slowly, and no machine code of the file is run.
#include <mlrt/mlc.hpp>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iostream>
#include <optional>
#include <string>

namespace {

constexpr int64_t kSide = 28;

int failed(const mlrt::Error& error) {
  std::cerr << error.text() << '\n';
  return error.code();
}

// Aligned, so that runs use it without a copy.
std::optional<mlrt::Vector<float>> read_picture(const char* path) {
  std::ifstream file(path);
  std::string kind;
  int64_t width = 0, height = 0;
  float largest = 0;
  if (!(file >> kind >> width >> height >> largest) || kind != "P2" || width != kSide || height != kSide) return std::nullopt;
  mlrt::Vector<float> pixels(kSide * kSide);
  for (float& p : pixels) {
    if (!(file >> p)) return std::nullopt;
    p /= largest;
  }
  return pixels;
}

// The names of the classes travel in the container.
std::string label(const mlrt::Model& model, size_t index) {
  const auto text = model.asset_text("labels.txt");
  if (!text) return std::to_string(index);
  std::string_view rest = *text;
  for (; index > 0; --index) rest.remove_prefix(std::min(rest.size(), rest.find('\n') + 1));
  return std::string(rest.substr(0, rest.find('\n')));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return std::cerr << "usage: digit MODEL.mlc PICTURE.pgm [KEY.pem]\n", MLC_USAGE;
  const auto pixels = read_picture(argv[2]);
  if (!pixels) return std::cerr << argv[2] << ": expected a PGM (P2) of 28 x 28\n", MLC_INPUT_MISMATCH;

  mlrt::OpenOptions trust;
  if (argc > 3) trust.trust_keys.push_back(argv[3]);
  const auto model = mlrt::Model::open(argv[1], trust);
  if (!model) return failed(model.error());
  auto session = model->session();
  if (!session) return failed(session.error());
  std::cerr << "runs: " << session->info().variant << "; " << model->info().trust << '\n';
  for (const mlrt::Variant& variant : model->explain())
    if (variant.fits != MLC_FITS) std::cerr << "does not run here: " << variant.name << ", " << variant.reason << '\n';

  const auto out = session->run({mlrt::Input("image", *pixels, {1, 1, kSide, kSide})}, {.time_limit = std::chrono::seconds(10)});
  if (!out) return failed(out.error());
  const auto logits = out->values<float>("logits");
  if (!logits) return failed(logits.error());
  const auto best = std::max_element(logits->begin(), logits->end());
  std::cout << label(*model, static_cast<size_t>(best - logits->begin())) << '\n';
}
