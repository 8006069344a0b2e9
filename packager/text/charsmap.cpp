#include "packager/text/charsmap.h"

#include <cstring>

namespace mlc::text {
namespace {

constexpr size_t kMaxKeys = 1u << 20, kMaxKeyBytes = 64u << 20, kMaxUnits = 4u << 20;

// A unit of Darts: whether a text ends behind it, the byte that leads to it, and where its children are.
class Units {
 public:
  explicit Units(std::string_view bytes) : bytes_(bytes) {}
  size_t size() const { return bytes_.size() / 4; }
  uint32_t operator[](size_t i) const {
    uint32_t unit = 0;
    std::memcpy(&unit, bytes_.data() + 4 * i, 4);
    return unit;
  }
  static bool has_leaf(uint32_t unit) { return (unit >> 8 & 1) != 0; }
  static uint32_t value(uint32_t unit) { return unit & 0x7FFFFFFF; }
  static uint32_t label(uint32_t unit) { return unit & 0x800000FF; }
  static uint32_t offset(uint32_t unit) { return (unit >> 10) << ((unit & 512) >> 6); }

 private:
  std::string_view bytes_;
};

}  // namespace

const std::string_view kClusters =
    "\\r\\n|[\\p{GCB=CN}\\r\\n]|\\p{GCB=PP}*(?:\\p{GCB=L}*(?:\\p{GCB=V}+|\\p{GCB=LV}\\p{GCB=V}*|\\p{GCB=LVT})\\p{GCB=T}*|\\p{GCB=L}+|\\p{GCB=T}+|"
    "\\p{GCB=RI}\\p{GCB=RI}|\\p{ExtPict}(?:\\p{GCB=EX}*\\p{GCB=ZWJ}\\p{ExtPict})*|[^\\p{GCB=CN}\\r\\n])[\\p{GCB=EX}\\p{GCB=ZWJ}\\p{GCB=SM}]*";

// All keys, without recursion; units that lead to each other in a circle end at the longest key.
Status read_charsmap(std::string_view bytes, const std::string& path, Draft& draft) {
  if (!draft.charsmap.empty()) return Status(Code::Unsupported, "{} is a second charsmap, one is covered", path);
  uint32_t length = 0;
  if (bytes.size() >= 4) std::memcpy(&length, bytes.data(), 4);
  if (bytes.size() < 4 || length > bytes.size() - 4 || length % 4 != 0 || length == 0)
    return Status(Code::Malformed, "{} has {} bytes and says that {} of them are its table, which is no whole number of its items", path,
                  uint64_t{bytes.size()}, length);
  const Units units(bytes.substr(4, length));
  const std::string_view texts = bytes.substr(4 + length);
  const TextRef all = draft.put(texts);
  struct Node {
    uint32_t children;
    size_t depth;
    uint8_t byte;
  };
  std::vector<Node> todo{{Units::offset(units[0]), 0, 0}};
  std::string key;
  size_t key_bytes = 0;
  for (size_t seen = 0; !todo.empty(); ++seen) {
    const Node node = todo.back();
    todo.pop_back();
    if (seen > kMaxUnits || draft.charsmap.size() > kMaxKeys || node.depth > kMaxTokenLen)
      return Status(Code::Unsupported, "{} has more than {} keys or one of more than {} bytes", path, uint64_t{kMaxKeys}, kMaxTokenLen);
    if (key_bytes > kMaxKeyBytes) return Status(Code::Unsupported, "{} has keys of more than {} bytes in all", path, uint64_t{kMaxKeyBytes});
    if (node.depth > 0) key.resize(node.depth - 1), key.push_back(static_cast<char>(node.byte));
    for (uint32_t c = 255; c > 0; --c) {
      const uint32_t at = node.children ^ c;
      if (at >= units.size() || Units::label(units[at]) != c) continue;
      const uint32_t children = at ^ Units::offset(units[at]);
      todo.push_back({children, node.depth + 1, static_cast<uint8_t>(c)});
      if (!Units::has_leaf(units[at])) continue;
      const uint32_t value = children < units.size() ? Units::value(units[children]) : kNone;
      if (value > texts.size()) return Status(Code::Malformed, "{} has a key whose text lies outside of it", path);
      const size_t end = std::min(texts.find('\0', value), texts.size());
      if (end - value > kMaxTokenLen) return Status(Code::Unsupported, "{} has a text of more than {} bytes", path, kMaxTokenLen);
      key_bytes += key.size() + 1;
      draft.charsmap.push_back({key + static_cast<char>(c), static_cast<uint32_t>(draft.charsmap_texts.size())});
      draft.charsmap_texts.push_back({all.offset + value, static_cast<uint32_t>(end - value)});
    }
  }
  return ok();
}

}  // namespace mlc::text
