#include "packager/compile/interface_text.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>

namespace mlc::compile {
namespace {

constexpr size_t kTextColumn = 14;
constexpr size_t kShortExtent = 12;        // needs no name even if it is computed
constexpr size_t kLongestExplained = 400;  // bytes of an expression; all of it is in --json
const std::string kUnknown = "?";
constexpr size_t kLeastFolded = 3;         // names that become one line

// A number or a name, and no expression.
bool is_word(const std::string& extent) { return extent.find_first_of("(*+-/,") == extent.npos; }

// Whether the extent is named for what it is: this axis of this port, which no input decides.
bool is_own(const ShownPort& port, size_t axis) {
  return port.is_output && port.extents[axis].ends_with(port.name + "." + std::to_string(axis));
}

// Names for the computed extents of one program.
class Names {
 public:
  explicit Names(const std::vector<ShownPort>& ports) {
    for (const ShownPort& port : ports)
      for (const std::string& extent : port.extents)
        if (is_word(extent)) taken_.insert(extent);
    for (const ShownPort& port : ports)
      for (const std::string& extent : port.extents)
        if (!is_word(extent) && extent.size() > kShortExtent && !names_.count(extent)) add(extent);
  }
  const std::string& text(const std::string& extent) const {
    const auto named = names_.find(extent);
    return named == names_.end() ? extent : named->second;
  }
  std::string explained() const {
    std::string out;
    for (std::string extent : order_) {
      const std::string& name = names_.at(extent);
      std::erase(extent, '$');  // what free extents begin with in texts of the compiler
      const bool cut = extent.size() > kLongestExplained;
      out += line(out.empty() ? "where" : "", name + " = " + extent.substr(0, kLongestExplained) +
                                                  (cut ? " ... (" + std::to_string(extent.size()) + " characters, see --json)" : ""));
    }
    return out;
  }

 private:
  void add(const std::string& extent) {
    do names_[extent] = letters(next_++);
    while (taken_.count(names_[extent]));
    order_.push_back(extent);
  }
  // a, b, ..., z, a1, b1, ...
  static std::string letters(size_t index) {
    return std::string(1, static_cast<char>('a' + index % 26)) + (index < 26 ? "" : std::to_string(index / 26));
  }

  std::set<std::string> taken_;
  std::map<std::string, std::string> names_;
  std::vector<std::string> order_;
  size_t next_ = 0;
};

std::string described(const Names& names, const ShownPort& port) {
  std::string text = port.type;
  if (port.has_shape) {
    text += "[";
    for (size_t k = 0; k < port.extents.size(); ++k) text += (k == 0 ? "" : ",") + (is_own(port, k) ? kUnknown : names.text(port.extents[k]));
    text += "]";
  }
  return text + (port.notes.empty() ? "" : "  " + port.notes);
}

struct Numbered {
  std::string before, after;
  uint64_t number = 0;
};
// "key.3.past" around its first number; none if there is no number, or one that is not written as usual.
std::optional<Numbered> numbered(const std::string& name) {
  const size_t begin = name.find_first_of("0123456789");
  if (begin == name.npos) return std::nullopt;
  const size_t end = std::min(name.find_first_not_of("0123456789", begin), name.size());
  Numbered out{name.substr(0, begin), name.substr(end)};
  const auto [stop, error] = std::from_chars(name.data() + begin, name.data() + end, out.number);
  if (error != std::errc() || std::to_string(out.number) != name.substr(begin, end - begin)) return std::nullopt;
  return out;
}

// Ports of one line: their names are equal but for a number that counts up.
struct Group {
  std::string title, type;
  std::vector<std::string> names;
  Numbered first;
};

std::string lines_of(const Group& group) {
  std::string out;
  const size_t count = group.names.size();
  if (count >= kLeastFolded)
    return line(group.title, group.first.before + std::to_string(group.first.number) + ".." + std::to_string(group.first.number + count - 1) +
                                 group.first.after + "  " + group.type + "   x" + std::to_string(count));
  for (const std::string& name : group.names) out += line(group.title, name + "  " + group.type);
  return out;
}

}  // namespace

std::string line(std::string_view title, const std::string& text) {
  std::string out = "  " + std::string(title);
  out += std::string(out.size() < kTextColumn ? kTextColumn - out.size() : 1, ' ');
  const size_t begin = std::min(text.find_first_not_of(' '), text.size());  // what begins indented goes on so
  out += text.substr(0, begin);
  size_t column = out.size();
  for (size_t at = begin; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const size_t next = std::min(text.find_first_not_of(' ', end), text.size());
    if (at > begin && column + (end - at) > kColumns) {
      out.erase(out.find_last_not_of(' ') + 1);
      column = kTextColumn + begin + 2;
      out += "\n" + std::string(column, ' ');
    }
    out += text.substr(at, next - at);
    column += next - at;
    at = next;
  }
  out.erase(out.find_last_not_of(' ') + 1);
  return out + "\n";
}

std::string interface_lines(const std::vector<ShownPort>& ports) {
  const Names names(ports);
  std::vector<Group> groups;
  std::map<std::string, size_t> open;  // what is equal in the names and types of a group: the group that may grow
  for (const ShownPort& port : ports) {
    const std::string type = described(names, port);
    const auto parts = numbered(port.name);
    const std::string key = port.title + " " + (parts ? parts->before + "#" + parts->after : port.name) + " " + type;
    const auto found = open.find(key);
    if (parts && found != open.end() && groups[found->second].first.number + groups[found->second].names.size() == parts->number) {
      groups[found->second].names.push_back(port.name);
      continue;
    }
    open[key] = groups.size();
    groups.push_back({port.title, type, {port.name}, parts.value_or(Numbered{})});
  }
  std::string out = names.explained();
  for (const Group& group : groups) out += lines_of(group);
  for (const ShownPort& port : ports)
    for (size_t axis = 0; axis < port.extents.size(); ++axis)
      if (is_own(port, axis)) return out + line(kUnknown, "what only the run tells");
  return out;
}

}  // namespace mlc::compile
