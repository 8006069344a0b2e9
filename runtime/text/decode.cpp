#include "runtime/text/decode.h"

#include <algorithm>
#include <utility>

#include "base/text/text.h"
#include "schema/text/normalize.h"

namespace mlc::text {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// What English needs after words were put together with blanks, in this order.
constexpr std::string_view kCleanups[][2] = {{" .", "."}, {" ?", "?"}, {" !", "!"}, {" ,", ","}, {" ' ", "'"}, {" n't", "n't"},
                                             {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};

void replace_all(std::string& text, std::string_view what, std::string_view by) {
  size_t at = text.find(what);
  if (at == std::string::npos) return;
  std::string out;
  size_t done = 0;
  for (; at != std::string::npos; at = text.find(what, done)) {
    out.append(text, done, at - done).append(by);
    done = at + what.size();
  }
  text = out.append(text, done);
}

void replace_matches(const Compiled& tokenizer, const Step& step, std::string& token) {
  const std::vector<uint32_t> points = code_points(token);
  std::vector<Char> in;
  for (const uint32_t c : points) in.push_back({c, 0, 0});
  Chars out(token.size() * std::max<uint64_t>(step.other.length, 1));
  PatternSpace space;
  replace_pattern(tokenizer, step, in, out, space);
  token.clear();
  for (size_t i = 0; i < out.size(); ++i) append_utf8(token, out[i].code_point);
}

// The bytes that the code points of the text stand for; the text itself if one stands for none.
std::string bytes_of(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    uint32_t c = 0;
    const unsigned size = decode_utf8(text, at, c);
    const int byte = size == 0 ? -1 : byte_of_code_point(c);
    if (byte < 0) return std::string(text);
    out.push_back(static_cast<char>(byte));
    at += size;
  }
  return out;
}

// How many bytes at `at` are the begin of a character: up to `length`, which is how long it would be. 0: they begin none.
unsigned begun_character(std::string_view text, size_t at, unsigned& length) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(at);
  length = lead < 0x80 ? 1 : lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
  if (length == 0) return 0;
  unsigned have = 1;
  for (; have < length && at + have < text.size(); ++have) {
    uint8_t low = 0x80, high = 0xBF;
    if (have == 1) {
      if (lead == 0xE0) low = 0xA0;
      if (lead == 0xED) high = 0x9F;
      if (lead == 0xF0) low = 0x90;
      if (lead == 0xF4) high = 0x8F;
    }
    if (byte(at + have) < low || byte(at + have) > high) break;
  }
  return have;
}

// Moves what is whole or wrong from `bytes` to the answer; the begin of a character stays.
std::string whole_characters(std::string& bytes) {
  std::string out;
  size_t at = 0;
  while (at < bytes.size()) {
    unsigned length = 0;
    const unsigned have = begun_character(bytes, at, length);
    if (have == length && length != 0) out.append(bytes, at, length);
    else if (have != 0 && at + have == bytes.size()) break;  // may go on
    else out.append(kReplacement);
    at += have == 0 ? 1 : have;
  }
  bytes.erase(0, at);
  return out;
}

bool is_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    uint32_t c = 0;
    const unsigned size = decode_utf8(text, at, c);
    if (size == 0) return false;
    at += size;
  }
  return true;
}

// With U+FFFD for each byte that begins no character.
std::string mended(std::string_view bytes) {
  std::string out;
  for (size_t at = 0; at < bytes.size();) {
    uint32_t c = 0;
    const unsigned size = decode_utf8(bytes, at, c);
    out.append(size == 0 ? kReplacement : bytes.substr(at, size));
    at += size == 0 ? 1 : size;
  }
  return out;
}

// `text` in front of `token`, at most so often.
void strip_front(std::string& token, std::string_view text, uint64_t& times) {
  size_t at = 0;
  while (times > 0 && std::string_view(token).substr(at).starts_with(text)) at += text.size(), --times;
  token.erase(0, at);
}

// Vocabularies may have the text of a special token under another id as well.
bool is_special(const Compiled& tokenizer, std::string_view text) {
  for (const Trie* trie : {&tokenizer.added_trie(), &tokenizer.normalized_trie()})
    if (const uint32_t number = trie->find(text); number != kNone && (tokenizer.added(number).flags & kSpecial)) return true;
  return false;
}

// How many bytes at the end of `token` are `text`, at most so often.
size_t trailing(std::string_view token, std::string_view text, uint32_t times) {
  size_t bytes = 0;
  for (; times > 0 && token.ends_with(text); --times) token.remove_suffix(text.size()), bytes += text.size();
  return bytes;
}

void clean_up(std::string& token) {
  for (const auto& [what, by] : kCleanups) replace_all(token, what, by);
}

void word_piece(const Step& step, std::string_view prefix, bool is_first, std::string& token) {
  if (!is_first) {
    if (std::string_view(token).starts_with(prefix)) token.erase(0, prefix.size());
    else token.insert(0, " ");
  }
  if (step.a != 0) clean_up(token);
}

}  // namespace

// Every token but a held one goes on at once, perhaps as several or none.
void Decoder::apply(const Step& step, State& state, std::string token, Tokens& out) const {
  const std::string_view text = tokenizer_.text(step.text);
  const bool is_first = state.seen++ == 0;
  switch (step.kind) {
    case StepKind::PieceWords: word_piece(step, text, is_first, token); break;
    case StepKind::PieceBytes:
      state.held += bytes_of(token);
      token = whole_characters(state.held);
      break;
    case StepKind::PieceReplace: replace_all(token, text, tokenizer_.text(step.other)); break;
    case StepKind::PieceReplacePattern: replace_matches(tokenizer_, step, token); break;
    case StepKind::PieceFallback:
      if (const int byte = byte_of_name(token); byte >= 0) return state.held.push_back(static_cast<char>(byte));
      flush(step, state, out);
      break;
    case StepKind::PieceStrip: {
      uint64_t times = step.a;
      strip_front(token, text, times);
      token.resize(token.size() - trailing(token, text, step.b));
      break;
    }
    case StepKind::PieceCtc: {
      if (state.holds && token == state.held) return;
      state.held = token, state.holds = true;
      replace_all(token, text, "");
      if (step.a != 0) clean_up(token), replace_all(token, tokenizer_.text(step.other), " ");
      if (token.empty()) return;
      break;
    }
    case StepKind::PieceMeta: replace_all(token, text, is_first && step.a != 0 ? "" : " "); break;
    case StepKind::PieceSuffix: {
      std::string before = std::exchange(state.held, std::move(token));
      if (!std::exchange(state.holds, true)) return;
      replace_all(before, text, " ");
      token = std::move(before);
      break;
    }
    case StepKind::TextStrip: {
      // `seen` counts what may still go, and is at its end once something else stood in front.
      uint64_t left = is_first ? step.a : state.seen - 2;
      strip_front(token, text, left);
      state.seen = token.empty() ? left + 1 : 1;
      if (step.b != 0) {  // what may be its end waits
        token.insert(0, std::exchange(state.held, {}));
        const size_t end = token.size() - trailing(token, text, step.b);
        state.held = token.substr(end);
        token.resize(end);
      }
      break;
    }
    case StepKind::FrontStrip: {
      uint64_t once = state.holds ? 0 : 1;
      strip_front(token, text, once);
      state.holds |= !token.empty();
      break;
    }
    default: break;  // Compiled::open lets none of them in
  }
  out.push_back(std::move(token));
}

void Decoder::flush(const Step& step, State& state, Tokens& out) const {
  std::string held = std::exchange(state.held, {});
  if (step.kind == StepKind::PieceSuffix && std::exchange(state.holds, false)) {
    replace_all(held, tokenizer_.text(step.text), "");
    out.push_back(std::move(held));
  } else if (step.kind == StepKind::PieceBytes && !held.empty()) {
    out.emplace_back(kReplacement);
  } else if (step.kind == StepKind::PieceFallback && !held.empty()) {
    if (step.a != 0) out.push_back(mended(held));
    else if (is_utf8(held)) out.push_back(std::move(held));
    else out.insert(out.end(), held.size(), std::string(kReplacement));
  }
}

void Decoder::run(size_t first_step, Tokens tokens, std::string& out) {
  const Table<Step>& steps = tokenizer_.decoder();
  for (size_t i = first_step; i < states_.size(); ++i) {
    const Step step = steps[static_cast<uint32_t>(i)];
    Tokens next;
    for (std::string& token : tokens) apply(step, states_[i], std::move(token), next);
    tokens = std::move(next);
  }
  for (const std::string& token : tokens) out.append(token);
}

void Decoder::push(uint32_t id, std::string& out) {
  std::string_view text;
  if (const uint32_t number = tokenizer_.added_of(id); number < tokenizer_.num_added()) {
    const Added added = tokenizer_.added(number);
    if (skip_special_ && (added.flags & kSpecial)) return;
    text = tokenizer_.text(added.content);
  } else if (!tokenizer_.token(id, text) || (skip_special_ && is_special(tokenizer_, text))) {
    return;
  }
  if (states_.empty() && begun_) out.push_back(' ');
  begun_ = true;
  run(0, {std::string(text)}, out);
}

void Decoder::finish(std::string& out) {
  const Table<Step>& steps = tokenizer_.decoder();
  for (size_t i = 0; i < states_.size(); ++i) {
    Tokens tokens;
    flush(steps[static_cast<uint32_t>(i)], states_[i], tokens);
    run(i + 1, std::move(tokens), out);
  }
  for (State& state : states_) state = {};
  begun_ = false;
}

Result<std::string> decode(const Compiled& tokenizer, std::span<const uint32_t> ids, bool skip_special, uint64_t most) {
  std::string out;
  Decoder decoder(tokenizer, skip_special);
  for (const uint32_t id : ids) {
    decoder.push(id, out);
    if (out.size() > most) return Status(Code::Resource, "the text of {} tokens has more than {} bytes", uint64_t{ids.size()}, most);
  }
  decoder.finish(out);
  return out;
}

}  // namespace mlc::text
