#include "runtime/text/decode.h"

#include "base/text.h"

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

}  // namespace

void Decoder::add_bytes(std::string_view bytes, std::string& out) {
  rest_.append(bytes);
  size_t at = 0;
  while (at < rest_.size()) {
    unsigned length = 0;
    const unsigned have = begun_character(rest_, at, length);
    if (have == length && length != 0) out.append(rest_, at, length);
    else if (have != 0 && at + have == rest_.size()) break;  // may go on
    else out.append(kReplacement);
    at += have == 0 ? 1 : have;
  }
  rest_.erase(0, at);
}

void Decoder::push(uint32_t id, std::string& out) {
  std::string_view text;
  if (const uint32_t number = tokenizer_.added_of(id); number < tokenizer_.num_added()) {
    const Added added = tokenizer_.added(number);
    if (skip_special_ && (added.flags & kSpecial)) return;
    text = tokenizer_.text(added.content);
  } else if (!tokenizer_.token(id, text)) {
    return;
  }
  std::string token(text);
  bool bytes = false;
  const Table<Step>& steps = tokenizer_.decoder();
  if (steps.size() == 0 && begun_) token.insert(0, " ");
  for (uint32_t i = 0; i < steps.size(); ++i) {
    const Step step = steps[i];
    if (step.kind == StepKind::PieceBytes) {
      token = bytes_of(token);
      bytes = true;
      continue;
    }
    const std::string_view prefix = tokenizer_.text(step.text);
    if (begun_) {
      if (std::string_view(token).starts_with(prefix)) token.erase(0, prefix.size());
      else token.insert(0, " ");
    }
    if (step.a != 0)
      for (const auto& [what, by] : kCleanups) replace_all(token, what, by);
  }
  begun_ = true;
  if (bytes) add_bytes(token, out);
  else out.append(token);
}

void Decoder::finish(std::string& out) {
  if (!rest_.empty()) out.append(kReplacement);
  rest_.clear();
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
