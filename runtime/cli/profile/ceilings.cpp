#include "runtime/cli/profile/ceilings.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include <algorithm>
#include <atomic>
#include <latch>
#include <memory>
#include <thread>

#include "runtime/cli/options.h"
#include "runtime/probe/probe.h"

namespace mlc::cli {
namespace {

// The best of many pieces counts, each short enough to lie between two interruptions. Where others use the CPUs there are fewer.
constexpr uint64_t kPieceNs = 100'000;
constexpr int kPieces = 80;
constexpr uint64_t kMostNs = 300'000'000;  // of each measurement
constexpr int kChains = 12;               // independent sums: enough for the latency of any core

// What a thread does between two looks at the clock.
struct Work {
  double (*run)(uint64_t steps, const float* data, uint64_t floats);  // units done
  const float* data = nullptr;
  uint64_t floats = 0;
};

#if defined(__x86_64__)
// Sums have names, not numbers: of an array the compiler may make memory. CLASS: the registers that they live in.
#define MLC_CHAINS(CLASS, TYPE, ZERO, STEP)                                                                            \
  TYPE s0 = ZERO, s1 = ZERO, s2 = ZERO, s3 = ZERO, s4 = ZERO, s5 = ZERO, s6 = ZERO, s7 = ZERO, s8 = ZERO, s9 = ZERO,   \
       s10 = ZERO, s11 = ZERO;                                                                                         \
  for (uint64_t i = 0; i < steps; ++i) {                                                                               \
    s0 = STEP(s0), s1 = STEP(s1), s2 = STEP(s2), s3 = STEP(s3), s4 = STEP(s4), s5 = STEP(s5), s6 = STEP(s6),           \
    s7 = STEP(s7), s8 = STEP(s8), s9 = STEP(s9), s10 = STEP(s10), s11 = STEP(s11);                                     \
    __asm__ volatile("" : CLASS(s0), CLASS(s1), CLASS(s2), CLASS(s3), CLASS(s4), CLASS(s5));                           \
    __asm__ volatile("" : CLASS(s6), CLASS(s7), CLASS(s8), CLASS(s9), CLASS(s10), CLASS(s11));                         \
  }

__attribute__((target("avx512f"))) double fma_512(uint64_t steps, const float*, uint64_t) {
  const __m512 a = _mm512_set1_ps(0.999f), b = _mm512_set1_ps(0.001f);
#define MLC_STEP(s) _mm512_fmadd_ps(s, a, b)
  MLC_CHAINS("+v", __m512, b, MLC_STEP)
#undef MLC_STEP
  return static_cast<double>(steps) * kChains * 16 * 2;
}
__attribute__((target("avx2,fma"))) double fma_256(uint64_t steps, const float*, uint64_t) {
  const __m256 a = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(0.001f);
#define MLC_STEP(s) _mm256_fmadd_ps(s, a, b)
  MLC_CHAINS("+x", __m256, b, MLC_STEP)
#undef MLC_STEP
  return static_cast<double>(steps) * kChains * 8 * 2;
}
double mul_add_128(uint64_t steps, const float*, uint64_t) {
  const __m128 a = _mm_set1_ps(0.999f), b = _mm_set1_ps(0.001f);
#define MLC_STEP(s) _mm_add_ps(_mm_mul_ps(s, a), b)
  MLC_CHAINS("+x", __m128, b, MLC_STEP)
#undef MLC_STEP
  return static_cast<double>(steps) * kChains * 4 * 2;
}
__attribute__((target("avx512f,avx512vnni"))) double dot_512(uint64_t steps, const float*, uint64_t) {
  const __m512i a = _mm512_set1_epi8(1), zero = _mm512_setzero_si512();
#define MLC_STEP(s) _mm512_dpbusd_epi32(s, a, a)
  MLC_CHAINS("+v", __m512i, zero, MLC_STEP)
#undef MLC_STEP
  return static_cast<double>(steps) * kChains * 64 * 2;
}
__attribute__((target("avx2"))) double pairs_256(uint64_t steps, const float*, uint64_t) {
  const __m256i a = _mm256_set1_epi16(1), zero = _mm256_setzero_si256();
#define MLC_STEP(s) _mm256_add_epi32(s, _mm256_madd_epi16(_mm256_or_si256(s, a), a))
  MLC_CHAINS("+x", __m256i, zero, MLC_STEP)
#undef MLC_STEP
  return static_cast<double>(steps) * kChains * 16 * 2;
}
#if defined(__linux__)  // the system that grants tiles to a process that asks for them
// Two blocks of rows by two of columns, loaded from L1 for each four products.
__attribute__((target("amx-tile,amx-int8"))) double tiles_of_bytes(uint64_t steps, const float*, uint64_t) {
  constexpr int kSide = 16, kLine = 64;
  struct alignas(64) {
    uint8_t palette = 1, row = 0, reserved[14] = {};
    uint16_t bytes[16] = {kLine, kLine, kLine, kLine, kLine, kLine, kLine, kLine};
    uint8_t rows[16] = {kSide, kSide, kSide, kSide, kSide, kSide, kSide, kSide};
  } const shape;
  alignas(64) const int8_t data[4 * kSide * kLine] = {};
  _tile_loadconfig(&shape);
  for (uint64_t i = 0; i < steps; ++i) {
    _tile_loadd(4, data, kLine);
    _tile_loadd(5, data + kSide * kLine, kLine);
    _tile_loadd(6, data + 2 * kSide * kLine, kLine);
    _tile_loadd(7, data + 3 * kSide * kLine, kLine);
    _tile_dpbssd(0, 4, 6);
    _tile_dpbssd(1, 4, 7);
    _tile_dpbssd(2, 5, 6);
    _tile_dpbssd(3, 5, 7);
  }
  _tile_release();
  return static_cast<double>(steps) * 4 * kSide * kSide * kLine * 2;
}
#endif
__attribute__((target("avx512f"))) double read_512(uint64_t steps, const float* data, uint64_t floats) {
  __m512 sums[4] = {};
  for (uint64_t i = 0; i < steps; ++i)
    for (uint64_t k = 0; k + 64 <= floats; k += 64)
      for (uint64_t j = 0; j < 4; ++j) sums[j] = _mm512_add_ps(sums[j], _mm512_loadu_ps(data + k + 16 * j));
  for (__m512& s : sums) __asm__ volatile("" : "+v"(s));
  return static_cast<double>(steps) * static_cast<double>(floats) * 4;
}
__attribute__((target("avx2"))) double read_256(uint64_t steps, const float* data, uint64_t floats) {
  __m256 sums[8] = {};
  for (uint64_t i = 0; i < steps; ++i)
    for (uint64_t k = 0; k + 64 <= floats; k += 64)
      for (uint64_t j = 0; j < 8; ++j) sums[j] = _mm256_add_ps(sums[j], _mm256_loadu_ps(data + k + 8 * j));
  for (__m256& s : sums) __asm__ volatile("" : "+x"(s));
  return static_cast<double>(steps) * static_cast<double>(floats) * 4;
}
double read_128(uint64_t steps, const float* data, uint64_t floats) {
  __m128 sums[8] = {};
  for (uint64_t i = 0; i < steps; ++i)
    for (uint64_t k = 0; k + 32 <= floats; k += 32)
      for (uint64_t j = 0; j < 8; ++j) sums[j] = _mm_add_ps(sums[j], _mm_loadu_ps(data + k + 4 * j));
  for (__m128& s : sums) __asm__ volatile("" : "+x"(s));
  return static_cast<double>(steps) * static_cast<double>(floats) * 4;
}
#else
// What the compiler makes of plain loops over vectors of 128 bits.
typedef float Vector __attribute__((vector_size(16)));
double mul_add_128(uint64_t steps, const float*, uint64_t) {
  const Vector a = {0.999f, 0.999f, 0.999f, 0.999f}, b = {0.001f, 0.001f, 0.001f, 0.001f};
  Vector sums[kChains];
  for (Vector& s : sums) s = b;
  for (uint64_t i = 0; i < steps; ++i) {
#if defined(__aarch64__)
    for (Vector& s : sums) s = vfmaq_f32(b, s, a);
    for (Vector& s : sums) __asm__ volatile("" : "+w"(s));
#else
    for (Vector& s : sums) s = s * a + b;
    for (Vector& s : sums) __asm__ volatile("" : "+m"(s));
#endif
  }
  return static_cast<double>(steps) * kChains * 4 * 2;
}
double read_128(uint64_t steps, const float* data, uint64_t floats) {
  Vector sums[8] = {};
  for (uint64_t i = 0; i < steps; ++i)
    for (uint64_t k = 0; k + 32 <= floats; k += 32)
      for (uint64_t j = 0; j < 8; ++j) sums[j] += *reinterpret_cast<const Vector*>(data + k + 4 * j);
  for (Vector& s : sums) __asm__ volatile("" : "+m"(s));
  return static_cast<double>(steps) * static_cast<double>(floats) * 4;
}
#endif

// Units per second of this thread.
double rate_of(const Work& work) {
  uint64_t steps = 1;
  double best = 0;
  const uint64_t begin = now_ns();
  int pieces = 0;
  for (uint64_t now = begin; pieces < kPieces && now - begin < kMostNs;) {
    const double units = work.run(steps, work.data, work.floats);
    const uint64_t after = now_ns();
    const uint64_t took = std::max<uint64_t>(after - now, 1);
    best = std::max(best, units * 1e9 / static_cast<double>(took));
    if (took < kPieceNs) steps *= 2;
    else ++pieces;
    now = after;
  }
  return best;
}

// Of all threads at once.
double rate_of(const std::vector<Work>& works) {
  std::latch start(static_cast<std::ptrdiff_t>(works.size()));
  std::vector<double> rates(works.size());
  {
    std::vector<std::thread> threads;
    const auto one = [&](size_t k) {
      start.arrive_and_wait();
      rates[k] = rate_of(works[k]);
    };
    for (size_t k = 1; k < works.size(); ++k) threads.emplace_back(one, k);
    one(0);
    for (std::thread& thread : threads) thread.join();
  }
  double all = 0;
  for (const double rate : rates) all += rate;
  return all;
}

struct Loops {
  decltype(Work::run) products = mul_add_128, bytes = nullptr, read = read_128;
  const char* name = "128 bits";
};
Loops loops_of_this_machine() {
  Loops loops;
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) loops = {fma_256, pairs_256, read_256, "avx2"};
  if (__builtin_cpu_supports("avx512f")) loops = {fma_512, loops.bytes, read_512, "avx512"};
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vnni")) loops.bytes = dot_512;
#if defined(__linux__)
  if (probe::host()[Feature::X86AmxInt8].answer == probe::Answer::Yes && probe::request_amx() == 0) loops.bytes = tiles_of_bytes;
#endif
#endif
  return loops;
}

uint64_t cache_bytes(uint32_t level) {
  static const probe::Layout layout = probe::probe_layout(*probe::system_sources(), probe::host().topology);
  for (const probe::Cache& c : layout.caches)
    if (static_cast<uint32_t>(c.level) == level && c.type != "Instruction") return c.size_bytes;
  return 0;
}

}  // namespace

Ceilings::Bound Ceilings::bound(uint64_t operations, uint64_t bytes, bool of_bytes) const {
  Bound out{static_cast<double>(operations) / peak(of_bytes) * 1e9, "arithmetic"};
  const auto level = std::find_if(levels.begin(), levels.end(), [&](const Level& l) { return bytes <= l.bytes; });
  if (level == levels.end()) return out;
  const double ns = static_cast<double>(bytes) / level->bytes_per_s * 1e9;
  return ns > out.ns ? Bound{ns, level->name} : out;
}

void Ceilings::merge(const Ceilings& other) {
  operations_per_s = std::max(operations_per_s, other.operations_per_s);
  byte_operations_per_s = std::max(byte_operations_per_s, other.byte_operations_per_s);
  for (size_t k = 0; k < levels.size() && k < other.levels.size(); ++k)
    levels[k].bytes_per_s = std::max(levels[k].bytes_per_s, other.levels[k].bytes_per_s);
}

Ceilings measure_ceilings(unsigned threads) {
  const Loops loops = loops_of_this_machine();
  Ceilings out;
  out.threads = std::max(1u, threads);
  out.arithmetic = loops.name;
  out.operations_per_s = rate_of(std::vector<Work>(out.threads, Work{loops.products}));
  if (loops.bytes) out.byte_operations_per_s = rate_of(std::vector<Work>(out.threads, Work{loops.bytes}));
  const uint64_t l2 = cache_bytes(2), l3 = cache_bytes(3);
  // Each thread reads memory of its own: half of what a level holds, and for memory twice what any cache does, within reason.
  struct Wanted {
    const char* name;
    uint64_t holds, each;
  };
  std::vector<Wanted> wanted;
  if (l2 > 0) wanted.push_back({"L2", l2 * out.threads, l2 / 2});
  if (l3 > l2) wanted.push_back({"L3", l3, l3 / 2 / out.threads});
  wanted.push_back({"memory", UINT64_MAX, std::clamp<uint64_t>(2 * l3 / out.threads, uint64_t{16} << 20, uint64_t{64} << 20)});
  uint64_t most = 0;
  for (const Wanted& w : wanted) most = std::max(most, w.each);
  std::vector<std::vector<float>> memory(out.threads, std::vector<float>(most / sizeof(float), 1.0f));
  for (const Wanted& w : wanted) {
    std::vector<Work> works;
    for (const auto& own : memory) works.push_back({loops.read, own.data(), w.each / sizeof(float)});
    out.levels.push_back({w.name, w.holds, rate_of(works)});
  }
  return out;
}

}  // namespace mlc::cli
