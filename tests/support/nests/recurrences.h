// Recurrences as texts of nests, for tests of who shares them.
#pragma once

#include <doctest/doctest.h>

#include <array>
#include <random>
#include <string>

#include "tests/text/nest_text.h"

namespace mlc::test {

// A proc over %0 "x" [9, h], %1 "w" [h, h], %2 "y" [9, h], with locals of h elements, around these statements of its loop #1 from 0 to 9.
inline std::string recurrence(const std::string& h, const std::string& statements) {
  std::string text = "function \"f\"\n";
  if (h == "$h") text += "sym $h 0 1000 multiple 1\n";
  text += "array %0 \"x\" input f32 [9, " + h + "]\narray %1 \"w\" input f32 [" + h + ", " + h + "]\narray %2 \"y\" temp f32 [9, " + h + "]\n" +
          "array %3 \"z\" temp f32 [" + h + "]\ninputs %0 %1\noutputs %2 %3\nproc \"net\" () reads %0 %1 writes %2 %3 {\n";
  for (const char* local : {"%16777216 \"a\"", "%16777217 \"b\"", "%16777218 \"c\""}) text += std::string("  alloc ") + local + " f32 [" + h + "]\n";
  text += "  for #0 in 0 to " + h + " step 1 {\n    store %16777216[#0] = %0[0, #0]\n    store %16777217[#0] = 0.5\n    store %16777218[#0] = 0.25\n  }\n";
  text += "  for #1 in 0 to 9 step 1 {\n" + statements + "  }\n";
  return text + "  for #2 in 0 to " + h + " step 1 {\n    store %3[#2] = %16777216[#2]\n  }\n}\n";
}

// Statements of that loop. Locals are a, b, c; variables from `var` on are free.
class Statements {
 public:
  Statements(const std::string& h, int var) : h_(h), var_(var) {}
  std::string product(int to, int from, double scale = 0.01) {
    const std::string v = name(), sum = name(), j = name();
    return each(v, "local " + sum + ": f32 = 0.0\n for " + j + " in 0 to " + h_ + " step 1 {\n " + sum + " = " + sum + " + %1?[" + v + ", " + j + "] * " + local(from) +
                       "?[" + j + "]\n }\n store " + local(to) + "[" + v + "] = " + sum + " * " + std::to_string(scale) + "\n");
  }
  std::string update(int to, int from) {
    const std::string v = name();
    return each(v, "store " + local(to) + "[" + v + "] = " + local(from) + "?[" + v + "] * 0.5 + %0?[#1, " + v + "]\n");
  }
  std::string turned(int to, int from) {
    const std::string v = name();
    return each(v, "store " + local(to) + "[" + v + "] = " + local(from) + "?[" + h_ + " - 1 - " + v + "]\n");
  }
  std::string out(int from) {
    const std::string v = name();
    return each(v, "store %2[#1, " + v + "] = " + local(from) + "?[" + v + "]\n");
  }
  static std::string when(int turn, const std::string& then, const std::string& otherwise = "") {
    return "if #1 < " + std::to_string(turn) + " {\n" + then + (otherwise.empty() ? "}\n" : "} else {\n" + otherwise + "}\n");
  }
  static std::string local(int k) { return "%" + std::to_string(16777216 + k); }

 private:
  std::string name() { return "#" + std::to_string(var_++); }
  std::string each(const std::string& v, const std::string& body) const { return "for " + v + " in 0 to " + h_ + " step 1 {\n " + body + "}\n"; }
  std::string h_;
  int var_;
};

inline nest::Function parsed(ir::Context& ctx, const std::string& text) {
  auto f = nest::parse(ctx, text);
  REQUIRE_MESSAGE(f.ok(), (f.ok() ? std::string() : f.status().text() + "\n" + text));
  return std::move(*f);
}

// Any statements that share and read what others made, in loops of `h` iterations.
inline std::string random_recurrence(std::mt19937& rng, const std::string& h) {
  const auto any = [&](int n) { return static_cast<int>(rng() % static_cast<unsigned>(n)); };
  Statements s(h, 10);
  const auto one = [&] {
    const int to = any(3), from = (to + 1 + any(2)) % 3;
    switch (any(5)) {
      case 0: return s.turned(to, from);
      case 1: return s.update(to, any(3));
      case 2: return s.out(from);
      default: return s.product(to, from);
    }
  };
  std::string statements = s.product(1, 0) + s.product(2, 1);
  for (int k = 2 + any(3); k > 0; --k) {
    const std::string first = one(), second = one();
    statements += any(3) ? first : any(2) ? s.when(any(9), first + second) : s.when(any(9), first, second);
  }
  return recurrence(h, statements + s.update(0, 1) + s.out(0));
}

}  // namespace mlc::test
