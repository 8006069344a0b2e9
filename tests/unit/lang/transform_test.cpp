// Fourier transforms of every length against their definition in double precision.
#include <cmath>
#include <complex>
#include <numbers>

#include "tests/unit/lang/support.h"

using namespace mlc;
using namespace mlc::lang_test;

namespace {

using Complex = std::complex<double>;
using Signals = std::vector<std::vector<Complex>>;

std::vector<Complex> transformed(const std::vector<Complex>& signal, bool back) {
  const size_t n = signal.size();
  std::vector<Complex> turn(n), spectrum(n);
  for (size_t j = 0; j < n; ++j) turn[j] = std::polar(1.0, (back ? 2 : -2) * std::numbers::pi * static_cast<double>(j) / static_cast<double>(n));
  for (size_t k = 0; k < n; ++k) {
    for (size_t m = 0; m < n; ++m) spectrum[k] += signal[m] * turn[m * k % n];
    if (back) spectrum[k] /= static_cast<double>(n);
  }
  return spectrum;
}

// As DFT has them: [2, n, 2, parts], the axis in the middle.
constexpr size_t kBefore = 2, kBehind = 2;
std::vector<float> laid_out(const Signals& signals, size_t length, size_t parts) {
  std::vector<float> values;
  for (size_t a = 0; a < kBefore; ++a)
    for (size_t m = 0; m < length; ++m)
      for (size_t b = 0; b < kBehind; ++b) {
        values.push_back(static_cast<float>(signals[a * kBehind + b][m].real()));
        if (parts == 2) values.push_back(static_cast<float>(signals[a * kBehind + b][m].imag()));
      }
  return values;
}

struct Variant {
  const char* name;
  bool real, back, onesided;
};
constexpr Variant kVariants[] = {{"real, one side", true, false, true}, {"complex", false, false, false}, {"complex, back", false, true, false},
                                 {"one side, back", false, true, true}};

void check_transform(const lang::Library& library, size_t n, const Variant& v) {
  CAPTURE(n);
  CAPTURE(v.name);
  uint32_t state = static_cast<uint32_t>(n) * 2654435761u + 1;
  const auto random = [&] { return static_cast<double>(static_cast<float>((state = state * 1664525u + 1013904223u) >> 8) / 8388608.0f - 1.0f); };
  Signals given(kBefore * kBehind), wanted;
  const size_t side = n / 2 + 1;
  for (auto& signal : given) {
    for (size_t m = 0; m < n; ++m) signal.emplace_back(random(), v.real ? 0 : random());
    if (v.onesided && v.back) {  // the spectrum of a real signal
      for (auto& e : signal) e = e.real();
      wanted.push_back(signal);
      signal = transformed(signal, false);
    } else {
      wanted.push_back(transformed(signal, v.back));
    }
  }
  const size_t length = v.onesided && v.back ? side : n, parts = v.real ? 1 : 2;
  Expanded x;
  lang::Call call;
  call.name = "DFT";
  call.opset = 20;
  call.attributes = {{"inverse", int64_t{v.back}}, {"onesided", int64_t{v.onesided}}};
  expand(x, library, call,
         {f32({kBefore, static_cast<int64_t>(length), kBehind, static_cast<int64_t>(parts)}, laid_out(given, length, parts)),
          i64({}, {static_cast<int64_t>(n)}), i64({}, {1})});
  const auto results = run(x);
  const bool real_again = v.onesided && v.back;
  const std::vector<float> want = laid_out(wanted, v.onesided && !v.back ? side : n, real_again ? 1 : 2), got = results[0].values<float>();
  REQUIRE(got.size() == want.size());
  const double bound = 1e-6 * (v.back ? 1 : std::sqrt(static_cast<double>(n))) * std::log2(n + 2);
  double worst = 0;
  for (size_t k = 0; k < got.size(); ++k) worst = std::max(worst, static_cast<double>(std::fabs(got[k] - want[k])));
  CHECK(worst < bound);
}

}  // namespace

TEST_CASE("a DFT of any length answers as its definition, forward and back, of real signals and to them") {
  auto library = lang::Library::parse(lang::Library::builtin_files());
  REQUIRE(library.ok());
  for (size_t n = 1; n <= 64; ++n)
    for (const Variant& v : kVariants) check_transform(*library, n, v);
  for (const size_t n : {100, 210, 263, 384, 400, 512, 526, 1000}) check_transform(*library, n, kVariants[n % std::size(kVariants)]);
  for (const size_t n : {257, 514, 521})  // by the chirp
    for (const Variant& v : kVariants) check_transform(*library, n, v);
  check_transform(*library, 1009, kVariants[0]);
  check_transform(*library, 4096, kVariants[1]);
}

TEST_CASE("STFT of windows without small divisors answers as the transforms of the windows") {
  auto library = lang::Library::parse(lang::Library::builtin_files());
  REQUIRE(library.ok());
  const size_t length = 521, step = 100, frames = 3, side = length / 2 + 1;
  for (const size_t parts : {1, 2}) {
    std::vector<float> samples, want;
    for (size_t i = 0; i < (length + step * (frames - 1)) * parts; ++i) samples.push_back(static_cast<float>(std::sin(0.37 * static_cast<double>(i * i % 1009))));
    for (size_t f = 0; f < frames; ++f) {
      std::vector<Complex> frame;
      for (size_t m = 0; m < length; ++m) frame.emplace_back(samples[(f * step + m) * parts], parts == 2 ? samples[(f * step + m) * parts + 1] : 0.0f);
      const auto spectrum = transformed(frame, false);
      for (size_t k = 0; k < (parts == 1 ? side : length); ++k) {
        want.push_back(static_cast<float>(spectrum[k].real()));
        want.push_back(static_cast<float>(spectrum[k].imag()));
      }
    }
    Expanded x;
    lang::Call call;
    call.name = "STFT";
    call.opset = 17;
    call.attributes = {{"onesided", int64_t{parts == 1}}};
    const auto count = static_cast<int64_t>(samples.size() / parts);
    expand(x, *library, call,
           {f32({1, count, static_cast<int64_t>(parts)}, samples), i64({}, {step}), f32({static_cast<int64_t>(length)}, std::vector<float>(length, 1)),
            i64({}, {static_cast<int64_t>(length)})});
    const auto got = run(x)[0].values<float>();
    REQUIRE(got.size() == want.size());
    for (size_t k = 0; k < got.size(); ++k) REQUIRE(std::fabs(got[k] - want[k]) < 2e-4);
  }
}

TEST_CASE("a DFT takes time in proportion to the factors of its length") {
  const auto points = [](int64_t n) {
    Expanded x;
    expand_text(x, "", "DFT", {f32({1, n, 1}, std::vector<float>(static_cast<size_t>(n)))});
    REQUIRE_MESSAGE(x.status.ok(), x.status.text());
    double most = 0;
    for (const auto& s : x.function.body) {
      double all = 1;
      for (const ir::Dim* d : s.nest->dims) all *= static_cast<double>(d->extent->i);
      for (const auto& w : s.nest->writes)
        ir::walk(w.value, [&](const ir::Expr* e) {
          if (e->op == ir::Op::Fold)
            for (const ir::Dim* d : e->fold->dims) all *= static_cast<double>(d->extent->i);
        });
      most = std::max(most, all);
    }
    return most;
  };
  CHECK(points(4096) <= 4096 * 64 * 4);
  CHECK(points(1000) <= 1000 * 40 * 4);
  CHECK(points(1009) <= 1009 * 512);
  CHECK(points(2 * 4093) <= 2 * 4093 * 1536);
}
