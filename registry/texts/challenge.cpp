#include "registry/texts/challenge.h"

#include <algorithm>

#include "registry/texts/reference.h"

namespace mlc::registry {
namespace {

bool is_token_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}
bool is_token68_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || std::string_view("-._~+/").find(c) != std::string_view::npos;
}

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

// One pass over the text; each function advances and takes what it names.
class ChallengeReader {
 public:
  explicit ChallengeReader(std::string_view text) : text_(text) {}

  Result<std::vector<Challenge>> read() {
    std::vector<Challenge> out;
    for (skip_commas(); !at_end(); skip_commas()) {
      const std::string_view word = token();
      if (word.empty()) return wrong("a scheme or a parameter");
      if (is_parameter()) {
        if (out.empty() || !out.back().token.empty()) return wrong("a scheme before the first parameter");
        MLC_RETURN_IF_ERROR(parameter(word, out.back()));
      } else {
        if (out.size() == kMaxChallenges) return Status(Code::Registry, "WWW-Authenticate has more than {} challenges", kMaxChallenges);
        out.push_back({lower_case(word), {}, {}});
        MLC_RETURN_IF_ERROR(after_scheme(out.back()));
      }
      skip_blanks();
      if (!at_end() && text_[at_] != ',') return wrong("a comma");
    }
    return out;
  }

 private:
  bool at_end() const { return at_ == text_.size(); }
  bool blank() const { return !at_end() && (text_[at_] == ' ' || text_[at_] == '\t'); }
  void skip_blanks() {
    while (blank()) ++at_;
  }
  void skip_commas() {
    while (blank() || (!at_end() && text_[at_] == ',')) ++at_;
  }
  std::string_view token() {
    const size_t begin = at_;
    while (!at_end() && is_token_char(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }
  // Whether '=' follows the word that was read.
  bool is_parameter() const {
    size_t at = at_;
    while (at < text_.size() && (text_[at] == ' ' || text_[at] == '\t')) ++at;
    return at < text_.size() && text_[at] == '=';
  }
  Status wrong(std::string_view expected) const {
    return Status(Code::Registry, "WWW-Authenticate cannot be read: {} expected at byte {}", expected, at_);
  }

  // token68 is what reaches to the next comma and is no parameter: "Negotiate YII=".
  Status after_scheme(Challenge& challenge) {
    if (!blank()) return ok();
    skip_blanks();
    size_t end = at_;
    while (end < text_.size() && is_token68_char(text_[end])) ++end;
    const size_t begin = at_;
    while (end < text_.size() && end > begin && text_[end] == '=') ++end;
    size_t behind = end;
    while (behind < text_.size() && (text_[behind] == ' ' || text_[behind] == '\t')) ++behind;
    if (end > begin && (behind == text_.size() || text_[behind] == ',')) {
      challenge.token = text_.substr(begin, end - begin);
      at_ = end;
      return ok();
    }
    if (at_end() || text_[at_] == ',') return ok();
    const std::string_view name = token();
    if (name.empty() || !is_parameter()) return wrong("a parameter");
    return parameter(name, challenge);
  }

  Status parameter(std::string_view name, Challenge& challenge) {
    skip_blanks();
    ++at_;  // '='
    skip_blanks();
    std::string value;
    if (!at_end() && text_[at_] == '"') MLC_RETURN_IF_ERROR(quoted(value));
    else value = token();
    if (challenge.parameters.size() == kMaxParameters) return Status(Code::Registry, "WWW-Authenticate has more than {} parameters", kMaxParameters);
    if (!challenge.parameters.emplace(lower_case(name), value).second) return Status(Code::Registry, "WWW-Authenticate has '{}' twice", name);
    return ok();
  }

  Status quoted(std::string& value) {
    for (++at_; !at_end() && text_[at_] != '"'; ++at_) {
      if (text_[at_] == '\\' && ++at_ == text_.size()) break;
      if (static_cast<unsigned char>(text_[at_]) < 0x20 && text_[at_] != '\t') return wrong("no control character");
      value += text_[at_];
    }
    if (at_end()) return wrong("a closing quote");
    ++at_;
    return ok();
  }

  const std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

Result<std::vector<Challenge>> parse_challenges(std::string_view header) {
  if (header.size() > kMaxChallengeText) return Status(Code::Registry, "WWW-Authenticate has {} bytes, at most {} expected", header.size(), kMaxChallengeText);
  return ChallengeReader(header).read();
}

std::string challenges_text(const std::vector<Challenge>& challenges) {
  std::string out;
  for (const Challenge& challenge : challenges) {
    out += (out.empty() ? "" : ", ") + challenge.scheme + (challenge.token.empty() ? "" : " " + challenge.token);
    const char* between = " ";
    for (const auto& [name, value] : challenge.parameters) {
      out += between + name + "=\"";
      for (const char c : value) {
        if (c == '"' || c == '\\') out += '\\';
        out += c;
      }
      out += '"';
      between = ", ";
    }
  }
  return out;
}

}  // namespace mlc::registry
