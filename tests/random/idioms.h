// What people write in graphs, one function each: it takes a value of the graph and answers with what follows from it.
#pragma once

#include <string_view>
#include <vector>

#include "tests/random/maker.h"

namespace mlc::random_graphs {

enum class Form : uint8_t {
  Picture,   // float [N, C, H, W]
  Sequence,  // float [N, L, D]
  Any,       // float, of rank 1 to 4
};

struct Idiom {
  std::string_view name;
  Form takes;
  Value (*write)(Maker& m, const Value& x);
  int weight = 2;  // how often, beside the others
};

// By subject; the files are named after these.
std::vector<Idiom> pictures();
std::vector<Idiom> folds();
std::vector<Idiom> sequences();
std::vector<Idiom> language_models();
std::vector<Idiom> quantised();
std::vector<Idiom> detectors();
std::vector<Idiom> glue();
const std::vector<Idiom>& all_idioms();

bool fits(const Idiom& idiom, const Value& x);
Value start(Maker& m, Form form);  // an input

// Shared between subjects.
Value convolution(Maker& m, const Value& x, int64_t channels, int64_t kernel);  // "same", stride 1
Value some_convolution(Maker& m, const Value& x, int64_t low, int64_t high,
                       std::initializer_list<int64_t> kernels = {1, 3});
Value padded_window(Maker& m, const Value& x);  // a pool with pads, or LRN
Value code_and_back(Maker& m, const Value& x,
                    bool is_positive = false);  // QuantizeLinear, DequantizeLinear, per tensor

}  // namespace mlc::random_graphs
