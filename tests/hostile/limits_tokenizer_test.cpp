// libs: mlc_tokenizer_compile mlc_tokenizer_schema
// Limits of compiled tokenizers.
#include "tests/support/limits.h"
#include "tests/support/tokenizer_bytes.h"

using namespace mlc;
using namespace mlc::test;
using text::Section;

namespace {

using Reader = std::function<Status()>;

Reader opens(std::vector<std::byte> bytes) {
  return [bytes = std::move(bytes)] {
    const auto tokenizer = text::Compiled::open(bytes);
    return tokenizer.ok() ? ok() : tokenizer.status();
  };
}
TokenizerBytes small() { return TokenizerBytes(tokenizer_json(kWordPieceModel)); }

Reader bytes(uint64_t size) {
  auto tokenizer = small();
  std::vector<std::byte> all = tokenizer.bytes();
  tokenizer[Section::Text].resize(tokenizer[Section::Text].size() + size - all.size() + all.size() % 4);
  std::vector<std::byte> made = tokenizer.bytes();
  made.resize(size);
  return opens(std::move(made));
}
Reader tokens(uint64_t count) {
  auto tokenizer = small();
  while (tokenizer[Section::Tokens].size() < count * sizeof(text::TextRef)) tokenizer.put(Section::Tokens, text::TextRef{text::kNone, 0});
  return opens(tokenizer.bytes());
}
Reader token_bytes(uint64_t count) {
  auto tokenizer = small();
  tokenizer[Section::Text].resize(count);
  tokenizer.put(Section::Tokens, text::TextRef{0, static_cast<uint32_t>(count)});
  return opens(tokenizer.bytes());
}
Reader steps(uint64_t count) {
  auto tokenizer = small();
  for (uint64_t i = 0; i < count; ++i) tokenizer.put(Section::Normalizer, text::Step{text::StepKind::Lower, 0, 0, {0, 0}, {0, 0}});
  return opens(tokenizer.bytes());
}
Reader pieces(uint64_t count) {
  auto tokenizer = small();
  tokenizer[Section::Template].clear();
  tokenizer.put(Section::Template, static_cast<uint32_t>(count));
  tokenizer.put(Section::Template, uint32_t{0});
  for (uint64_t i = 0; i < count; ++i) tokenizer.put(Section::Template, text::TemplatePiece{text::PieceKind::First, 0, 0});
  return opens(tokenizer.bytes());
}

Reader with_patterns(uint64_t patterns, uint64_t classes, uint64_t states) {
  auto tokenizer = small();
  tokenizer[Section::PatternClasses].resize(2 * (text::kCodePoints / 256 + 256));
  tokenizer.put(Section::Patterns, static_cast<uint32_t>(patterns));
  tokenizer.put(Section::Patterns, static_cast<uint32_t>(classes));
  for (uint64_t i = 0; i < patterns; ++i) tokenizer.put(Section::Patterns, static_cast<uint32_t>(states));
  auto& bytes = tokenizer[Section::Patterns];
  bytes.resize(bytes.size() + patterns * 2 * (states + 1) * (classes + 1));
  return opens(tokenizer.bytes());
}
Reader patterns(uint64_t count) { return with_patterns(count, 1, 1); }
Reader pattern_classes(uint64_t count) { return with_patterns(1, count, 1); }
Reader pattern_states(uint64_t count) { return with_patterns(1, 1, count); }

}  // namespace

TEST_CASE("a compiled tokenizer at its limits is opened, one beyond is refused") {
  const Limit limits[] = {
      {"tokenizer.bytes", 256ull << 20, bytes, "at most 268435456 are read"},
      {"tokenizer.tokens", 4'194'304, tokens, "at most 4194304 are read"},
      {"tokenizer.token-bytes", 1'024, token_bytes, "has more than 1024 bytes"},
      {"tokenizer.steps", 64, steps, "at most 64 are read"},
      {"tokenizer.pieces", 64, pieces, "at most 64 are read"},
      {"tokenizer.patterns", 64, patterns, "at most 64 and 255 are read"},
      {"tokenizer.pattern-classes", 255, pattern_classes, "at most 64 and 255 are read"},
      {"tokenizer.pattern-states", 16'384, pattern_states, "has a pattern of no or too many states"},
  };
  check_limits(limits);
}
