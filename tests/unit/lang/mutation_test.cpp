// Texts with damage: whatever a file holds, parsing and expanding end in a library, statements or a Status.
#include <cctype>
#include <random>

#include "tests/unit/lang/support.h"

using namespace mlc;
using namespace mlc::lang_test;

namespace {

// Words of the language, to hit rules rather than the lexer.
const char* const kWords[] = {"d", "d...", "x", "y", "[", "]", "(", ")", "{", "}", "|d|", "|", "@", "~", "...", "..", "0", "1", "-1", "2", "0.5", "sum(", "for",
                              "where", "let", "dim", "dims", "rank", "exists", "check", "else", "use", "clauses", "when", "match", "proc", "attr", "const", "sym", "many", "?", ":", "=",
                              "==", "<-", "->", ";", ",", "\n  ", "in", "if", "else", "while", "within", "yield", "alloc", "scan", "by", "each", "before(", "flat(",
                              "unflat(", "pick(", "put(", "[v for v in s]", "T", "f32", "bool", "lowest", "axis", "none", "*", "/", "//", "%", "+", "[]"};

lang::Call call_of(const std::string& name) {
  lang::Call c;
  c.name = name;
  c.opset = 25;
  c.source = "n";
  if (name == "Concat") c.attributes["axis"] = int64_t{0};
  if (name == "MaxPool") c.attributes["kernel_shape"] = std::vector<int64_t>{2, 2};
  if (name == "DepthToSpace") c.attributes["blocksize"] = int64_t{2};
  if (name == "Split" || name == "TopK") c.outputs = {true, true};
  return c;
}

struct Try { const char* name; std::vector<Input> inputs; };

const std::vector<Try>& tries() {
  static const std::vector<Try> all = [] {
    const Input image = f32({1, 4, 4, 4}, std::vector<float>(64, 1)), matrix = f32({4, 4}, std::vector<float>(16, 1));
    Input free = matrix;
    free.symbols = {"N", ""};
    return std::vector<Try>{{"Relu", {free}},
                       {"Conv", {image, f32({2, 4, 3, 3}, std::vector<float>(72, 1))}},
                       {"MaxPool", {image}},
                       {"Softmax", {free}},
                       {"Concat", {matrix, free}},
                       {"Split", {matrix}},
                       {"Reshape", {free, i64({2}, {2, -1})}},
                       {"Slice", {matrix, i64({1}, {0}), i64({1}, {2})}},
                       {"Gather", {matrix, i64({2}, {0, 1}, false)}},
                       {"ScatterND", {matrix, i64({1, 1}, {0}, false), f32({1, 4}, {1, 2, 3, 4})}},
                       {"CumSum", {matrix, i64({}, {0})}},
                       {"TopK", {matrix, i64({1}, {2})}},
                       {"Resize", {matrix, absent(), data<float>(DType::F32, {2}, {2, 1.5f}, true)}},
                       {"DepthToSpace", {image}},
                       {"LayerNormalization", {matrix, f32({4}, {1, 2, 3, 4})}},
                       {"ReduceSum", {matrix, i64({1}, {0})}},
                       {"Where", {data<uint8_t>(DType::Bool, {1}, {1}), matrix, matrix}}};
  }();
  return all;
}

// Places and lengths of the words of a text: names, numbers, single signs.
std::vector<std::pair<size_t, size_t>> words_of(const std::string& text) {
  std::vector<std::pair<size_t, size_t>> r;
  auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (size_t k = 0; k < text.size();) {
    size_t n = 1;
    if (is_word(text[k])) while (k + n < text.size() && is_word(text[k + n])) ++n;
    if (!std::isspace(static_cast<unsigned char>(text[k]))) r.emplace_back(k, n);
    k += n;
  }
  return r;
}

void expand_some(const lang::Library& library) {
  for (const Try& t : tries()) {
    Expanded x;
    expand(x, library, call_of(t.name), t.inputs);
    if (x.status.ok()) continue;
    CHECK(x.function.body.empty());
    CHECK_MESSAGE(x.status.code != Code::Internal, x.status.message);
  }
}

}  // namespace

TEST_CASE("damaged texts end in a library or in an error, and calls of what is left do too") {
  // Only the files of the operators that are called: each round parses them all.
  std::vector<lang::SourceFile> files;
  for (const char* name : {"common", "contraction", "pool", "norm", "movement", "indexing", "resize", "reduce", "elementwise"})
    for (const auto& f : lang::Library::builtin_files())
      if (f.name == std::string("ops/") + name + ".mlop") files.push_back(f);
  const auto good = lang::Library::parse(files);
  REQUIRE_MESSAGE(good.ok(), (good.ok() ? "" : good.status().text()));
  std::vector<std::string> texts;
  for (const auto& op : good->operators())
    for (const Try& t : tries())
      if (op.name == t.name) texts.push_back(op.text);
  std::mt19937 random(20);
  size_t parsed = 0;
  for (int round = 0; round < 300; ++round) {
    // One definition is damaged and tried before the good ones.
    std::string text = texts[random() % texts.size()];
    for (size_t e = 1 + random() % 2; e > 0; --e) {
      const auto words = words_of(text);
      auto [from, length] = words[random() % words.size()];
      const std::string old = text.substr(from, length);
      const bool word = std::isalnum(static_cast<unsigned char>(old[0])) != 0;
      static const std::string kOperators = "+-*/%<>";
      if (random() % 8 == 0) {
        text.replace(from, length, kWords[random() % std::size(kWords)]);
      } else if (word) {  // a word of the same kind from the same text, so that much of it still parses
        for (int tries_left = 20; tries_left > 0; --tries_left) {
          const auto [other, other_length] = words[random() % words.size()];
          const std::string candidate = text.substr(other, other_length);
          if ((std::isdigit(static_cast<unsigned char>(candidate[0])) != 0) != (std::isdigit(static_cast<unsigned char>(old[0])) != 0)) continue;
          if (!std::isalnum(static_cast<unsigned char>(candidate[0]))) continue;
          text.replace(from, length, candidate);
          break;
        }
      } else if (kOperators.find(old) != std::string::npos) {
        text.replace(from, length, std::string(1, kOperators[random() % kOperators.size()]));
      }
    }
    CAPTURE(text);
    auto with = files;
    with.push_back({"damaged.mlop", text + "\n"});
    auto library = lang::Library::parse(with);
    if (!library.ok()) {
      CHECK_FALSE(library.status().message.empty());
      CHECK(library.status().code != Code::Internal);
      continue;
    }
    ++parsed;
    expand_some(*library);
  }
  CHECK(parsed > 40);
}
