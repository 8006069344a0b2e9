#include "tests/random/generate.h"

#include <algorithm>

#include "tests/random/idioms.h"

namespace mlc::random_graphs {
namespace {

Value start_picture(Maker& m) {
  const auto [h, w] = m.r.of(std::vector<std::pair<int64_t, int64_t>>{{20, 24},
                                                                      {3, 3},
                                                                      {6, 6},
                                                                      {14, 14},
                                                                      {9, 9},
                                                                      {18, 13},
                                                                      {7, 5},
                                                                      {16, 16},
                                                                      {1, 12},
                                                                      {8, 8},
                                                                      {11, 7},
                                                                      {12, 20},
                                                                      {5, 17}});
  const int64_t n = m.r.of({1, 1, 1, 2, 2, 3, 4});
  int64_t c = m.r.of({1, 2, 3, 3, 4, 5, 6, 7, 8, 8, 12, 16});
  while (n * c * h * w > 5000) c = (c + 1) / 2;
  return m.input({n, c, h, w}, "N-HW");
}

Value start_sequence(Maker& m) {
  const int64_t n = m.r.of({1, 1, 2, 2, 3, 4}), l = m.r.of({1, 3, 4, 5, 7, 8, 12, 16, 19, 33, 49, 77, 80}),
                d = m.r.of({1, 3, 4, 6, 7, 8, 12, 16, 20, 24});
  return m.input({n, l, d}, "NL-");
}

// One idiom after `x`; false, and nothing has happened, if it does not fit.
bool attempt(Maker& m, const Idiom& idiom, const Value& x, Value& y) {
  const Maker before = m;
  try {
    y = idiom.write(m, x);
    if (y.is_float()) return true;
  } catch (const Unfit&) {}
  m.forget_from(before);
  return false;
}

const Idiom& some_idiom(Random& r) {
  const std::vector<Idiom>& all = all_idioms();
  int64_t total = 0;
  for (const Idiom& idiom : all) total += idiom.weight;
  int64_t at = r.below(total);
  for (const Idiom& idiom : all)
    if ((at -= idiom.weight) < 0) return idiom;
  return all[0];
}

// Where both have one shape, the two are added; else the graph has one output more.
void join(Maker& m, const std::vector<Value>& pool, Value& now) {
  for (const Value& old : pool)
    if (old.name != now.name && old.type == now.type && old.shape == now.shape && m.r.chance(30)) {
      now = m.node({m.r.of({"Add", "Mul", "Sub"}), {now, old}});
      return;
    }
}

}  // namespace

const std::vector<Idiom>& all_idioms() {
  static const std::vector<Idiom> all = [] {
    std::vector<Idiom> list;
    for (const auto& part : {pictures(), folds(), sequences(), language_models(), quantised(), detectors(), glue()})
      list.insert(list.end(), part.begin(), part.end());
    return list;
  }();
  return all;
}

bool fits(const Idiom& idiom, const Value& x) {
  if (!x.is_float()) return false;
  switch (idiom.takes) {
    case Form::Picture: return x.rank() == 4;
    case Form::Sequence: return x.rank() == 3;
    case Form::Any: return x.rank() >= 1 && x.rank() <= 4;
  }
  return false;
}

Value start(Maker& m, Form form) {
  if (form == Form::Any) form = m.r.chance(60) ? Form::Picture : Form::Sequence;
  return form == Form::Picture ? start_picture(m) : start_sequence(m);
}

Made generate(uint64_t seed, bool free, const Choice& choice) {
  Maker m(seed * 2 + 1, free);
  const int64_t type = m.r.below(20);
  if (type < 2) m.real = onnx::TensorProto::FLOAT16;
  if (type == 2) m.real = onnx::TensorProto::DOUBLE;
  m.opset = m.r.of({13, 17, 17, 18, 18});
  const Idiom* wanted = nullptr;
  for (const Idiom& idiom : all_idioms())
    if (idiom.name == choice.only) wanted = &idiom;
  Made made;
  std::vector<Value> pool{start(m, wanted ? wanted->takes : Form::Any)};
  Value now = pool[0];
  const int64_t length = m.r.within(1, 7);
  for (int64_t tries = 0; static_cast<int64_t>(made.idioms.size()) < length && tries < 60; ++tries) {
    const Idiom& idiom = wanted ? *wanted : some_idiom(m.r);
    if (std::find(choice.without.begin(), choice.without.end(), idiom.name) != choice.without.end()) continue;
    if (m.r.chance(15)) now = m.r.of(pool);
    Value next;
    if (!fits(idiom, now) || !attempt(m, idiom, now, next)) {
      if (wanted && tries > 20) wanted = nullptr;
      continue;
    }
    made.idioms.emplace_back(idiom.name);
    wanted = nullptr;
    now = next;
    join(m, pool, now);
    pool.push_back(now);
    if (m.r.chance(8)) m.output(now);
  }
  made.model = m.model();
  made.inputs = m.inputs();
  return made;
}

}  // namespace mlc::random_graphs
