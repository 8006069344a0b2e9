// Random numbers that are the same on every machine: no std:: distribution, no function of libm.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

namespace mlc::random_graphs {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  // SplitMix64.
  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // 0 to count - 1; 0 if there is nothing to choose from.
  int64_t below(int64_t count) {
    return count > 0 ? static_cast<int64_t>((next() >> 11) % static_cast<uint64_t>(count)) : 0;
  }
  int64_t within(int64_t low, int64_t high) { return low + below(high - low + 1); }
  bool chance(int percent) { return below(100) < percent; }
  double real(double low, double high) { return low + (high - low) * static_cast<double>(next() >> 11) * 0x1p-53; }
  // Nearly normal, of mean 0 and deviation 1: the sum of twelve.
  double normal() {
    double sum = -6;
    for (int k = 0; k < 12; ++k) sum += real(0, 1);
    return sum;
  }
  template <class T>
  T of(std::initializer_list<T> some) {
    return some.begin()[below(static_cast<int64_t>(some.size()))];
  }
  template <class T>
  const T& of(const std::vector<T>& some) {
    return some[static_cast<size_t>(below(static_cast<int64_t>(some.size())))];
  }

 private:
  uint64_t state_;
};

}  // namespace mlc::random_graphs
