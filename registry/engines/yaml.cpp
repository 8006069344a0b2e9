#include "registry/engines/yaml.h"

#include <algorithm>
#include <cctype>

namespace mlc::registry::engines {
namespace {

using cli::Json;

bool is_printable_ascii(char c) { return c >= ' ' && c <= '~'; }

// Words that are a truth value or null to some reader, in any case.
bool is_a_word_of_yaml(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  constexpr std::string_view kWords[] = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"};
  return std::find(std::begin(kWords), std::end(kWords), text) != std::end(kWords);
}

// It begins with a letter or '/', so that it is no number, date or mark.
bool is_plain(const std::string& text) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  if (text.empty() || !(is_letter(text[0]) || text[0] == '/') || is_a_word_of_yaml(text)) return false;
  return std::all_of(text.begin(), text.end(), [&](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.' || c == '/'; });
}

bool is_block(const std::string& text) {
  return text.size() > 1 && text.back() == '\n' && text[text.size() - 2] != '\n' && text[0] != ' ' && text[0] != '\n' &&
         std::all_of(text.begin(), text.end(), [](char c) { return c == '\n' || is_printable_ascii(c); });
}

// JSON's escapes are those of YAML's double quotes. What YAML does not allow unescaped, and JSON does, is escaped as well.
std::string quoted(const std::string& text) {
  std::string out;
  for (const char c : Json(text).print()) out += c == '\x7f' ? "\\x7f" : std::string(1, c);
  for (const auto& [found, escaped] : {std::pair("\xc2\x85", "\\u0085"), std::pair("\xe2\x80\xa8", "\\u2028"), std::pair("\xe2\x80\xa9", "\\u2029"), std::pair("\xef\xbb\xbf", "\\ufeff")})
    for (size_t at = out.find(found); at != std::string::npos; at = out.find(found, at)) out.replace(at, std::string_view(found).size(), escaped);
  return out;
}

std::string scalar(const Json& value) {
  if (!value.is(Json::Kind::String)) return value.print();  // also "[]" and "{}"
  return is_plain(value.text()) ? value.text() : quoted(value.text());
}

void add_value(std::string& out, const Json& value, size_t indent);

void add_node(std::string& out, const Json& value, size_t indent) {
  const std::string margin(indent, ' ');
  if (value.is(Json::Kind::Object)) {
    for (const cli::JsonMember& member : value.members()) {
      out += margin + scalar(Json(member.name)) + ":";
      add_value(out, member.value, indent + 2);
    }
    return;
  }
  for (const Json& item : value.items()) {
    std::string inner;
    if ((item.is(Json::Kind::Object) || item.is(Json::Kind::Array)) && !item.empty()) {
      add_node(inner, item, indent + 2);
      inner[indent] = '-';  // in the place of a blank of the first line's margin
    } else {
      inner = margin + "- " + scalar(item) + "\n";
    }
    out += inner;
  }
}

// Behind "name:".
void add_value(std::string& out, const Json& value, size_t indent) {
  if ((value.is(Json::Kind::Object) || value.is(Json::Kind::Array)) && !value.empty()) {
    out += "\n";
    add_node(out, value, indent);
  } else if (value.is(Json::Kind::String) && is_block(value.text())) {
    out += " |\n";
    const std::string& text = value.text();
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = text.find('\n', begin);
      out += end == begin ? "\n" : std::string(indent, ' ') + text.substr(begin, end - begin) + "\n";
      begin = end + 1;
    }
  } else {
    out += " " + scalar(value) + "\n";
  }
}

}  // namespace

std::string yaml_text(const Json& document) {
  std::string out;
  add_node(out, document, 0);
  return out;
}

std::string pbtxt_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (is_printable_ascii(c)) {
      out += c;
    } else {
      for (const int shift : {6, 3, 0}) out += shift == 6 ? std::string("\\") + static_cast<char>('0' + (byte >> 6)) : std::string(1, static_cast<char>('0' + (byte >> shift & 7)));
    }
  }
  return out + "\"";
}

}  // namespace mlc::registry::engines
