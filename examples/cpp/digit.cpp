// Which digit is on a picture: a container opened, explained and run in C++20.
//
//   cmake -S . -B build && cmake --build build       (with -DCMAKE_PREFIX_PATH=... where libmlrt is in a prefix of its own)
//   build/digit digits.mlc seven.pgm [publisher.pub.pem]
//
// The picture is a PGM of 28 x 28 as text (P2). Without the key of who signed the container nothing in it is trusted: its
// portable form answers, slowly, and no machine code of the file is run.
#include "picture.hpp"

#include <mlrt/mlc.hpp>

#include <chrono>
#include <iostream>

namespace {

int failed(const mlrt::Error& error) {
  std::cerr << error.text() << '\n';
  return error.code();
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

  const auto out = session->run({image_of(*pixels)}, {.time_limit = std::chrono::seconds(10)});
  if (!out) return failed(out.error());
  const auto logits = out->values<float>("logits");
  if (!logits) return failed(logits.error());
  std::cout << label_of(*model, *logits) << '\n';
}
