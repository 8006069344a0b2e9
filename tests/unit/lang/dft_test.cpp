// Fourier transforms, however a length is split, against the definition in double precision.
#include <cmath>
#include <complex>
#include <random>

#include "tests/unit/lang/support.h"

using namespace mlc;
using namespace mlc::lang_test;

namespace {

using Complex = std::complex<double>;

struct Transform {
  int64_t length = 8;              // along the axis
  bool complex = false, inverse = false, onesided = false;
  int64_t dft_length = 0;          // 0: not given
  bool symbolic = false;
};

std::vector<Complex> defined(std::vector<Complex> x, const Transform& t) {
  const bool mirrored = t.inverse && t.onesided;
  const int64_t n = t.dft_length ? t.dft_length : mirrored ? 2 * (t.length - 1) : t.length;
  x.resize(static_cast<size_t>(mirrored ? std::max(n, t.length) : n));
  if (mirrored)
    for (int64_t k = n / 2 + 1; k < n; ++k) x[static_cast<size_t>(k)] = std::conj(x[static_cast<size_t>(n - k)]);
  std::vector<Complex> y(static_cast<size_t>(t.onesided && !mirrored ? n / 2 + 1 : n));
  for (size_t k = 0; k < y.size(); ++k) {
    for (int64_t j = 0; j < n; ++j) {
      const int64_t turn = static_cast<int64_t>(k) * j % n;
      y[k] += x[static_cast<size_t>(j)] * std::polar(1.0, (t.inverse ? 2 : -2) * M_PI * static_cast<double>(turn) / static_cast<double>(n));
    }
    if (t.inverse) y[k] /= static_cast<double>(n);
  }
  return y;
}

void check(const Transform& t) {
  static const lang::Library library = lang::Library::parse(lang::Library::builtin_files()).value();
  std::mt19937 rng(static_cast<uint32_t>(t.length));
  const int64_t rows = 2, parts = t.complex ? 2 : 1;
  std::vector<float> values(static_cast<size_t>(rows * t.length * parts));
  for (float& v : values) v = static_cast<float>(static_cast<int>(rng() % 2001) - 1000) / 1000;
  Input x = f32({rows, t.length, parts}, values);
  if (t.symbolic) x.symbols = {"", "n", ""};
  lang::Call call{.name = "DFT", .opset = 20, .source = "dft"};
  call.attributes["inverse"] = int64_t{t.inverse};
  call.attributes["onesided"] = int64_t{t.onesided};
  Expanded e;
  expand(e, library, call, {x, t.dft_length ? i64({}, {t.dft_length}) : absent()});
  REQUIRE_MESSAGE(e.status.ok(), e.status.text());
  e.function.outputs = {e.outputs[0].array};
  const auto got = nest::interpret(e.function, e.inputs, {.threads = 1});
  REQUIRE_MESSAGE(got.ok(), (got.ok() ? "" : got.status().text()));
  const std::vector<float> y = (*got)[0].values<float>();
  const size_t shown = t.inverse && t.onesided ? 1 : 2;
  CAPTURE(t.length);
  CAPTURE(t.dft_length);
  for (int64_t row = 0; row < rows; ++row) {
    std::vector<Complex> in;
    for (int64_t n = 0; n < t.length; ++n) {
      const size_t at = static_cast<size_t>((row * t.length + n) * parts);
      in.emplace_back(values[at], t.complex ? values[at + 1] : 0);
    }
    const std::vector<Complex> want = defined(std::move(in), t);
    REQUIRE((*got)[0].shape == std::vector<int64_t>{rows, static_cast<int64_t>(want.size()), static_cast<int64_t>(shown)});
    double error = 0;
    for (size_t k = 0; k < want.size(); ++k) {
      const size_t at = (static_cast<size_t>(row) * want.size() + k) * shown;
      error = std::max(error, std::abs(want[k].real() - y[at]));
      if (shown == 2) error = std::max(error, std::abs(want[k].imag() - y[at + 1]));
    }
    CHECK(error < 2e-6 * std::sqrt(static_cast<double>(t.length)) * (t.inverse ? 1 : 4));
  }
}

}  // namespace

TEST_CASE("transforms of lengths with and without divisors, real and complex, forth and back") {
  for (int64_t n : {1, 2, 3, 4, 5, 7, 12, 16, 20, 30, 36, 64, 97, 100, 128, 210, 256, 509, 1000})
    for (bool complex : {false, true})
      for (bool inverse : {false, true}) check({.length = n, .complex = complex, .inverse = inverse});
}

TEST_CASE("one side of the spectrum of a real signal, and the signal of one side") {
  for (int64_t n : {1, 2, 5, 16, 20, 30, 64, 81, 101, 400}) check({.length = n, .onesided = true});
  for (int64_t n : {2, 3, 9, 11, 33, 52, 129}) check({.length = n, .complex = true, .inverse = true, .onesided = true});
  for (int64_t n : {3, 16, 31, 64}) check({.length = n / 2 + 1, .complex = true, .inverse = true, .onesided = true, .dft_length = n});
}

TEST_CASE("signals cut and padded to the length of the transform") {
  for (int64_t length : {3, 16, 19, 40})
    for (int64_t dft_length : {5, 16, 36, 37})
      for (bool complex : {false, true})
        for (bool onesided : {false, true})
          if (!(complex && onesided)) check({.length = length, .complex = complex, .onesided = onesided, .dft_length = dft_length});
}

TEST_CASE("lengths that only the run tells, and long ones without divisors") {
  for (bool complex : {false, true}) {
    check({.length = 20, .complex = complex, .symbolic = true});
    check({.length = 1, .complex = complex, .inverse = true, .symbolic = true});
  }
  check({.length = 1031});
}
