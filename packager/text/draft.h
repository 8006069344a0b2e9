// A tokenizer while it is read from `tokenizer.json`: the content of each section.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "packager/text/json_path.h"
#include "packager/text/pattern.h"
#include "packager/text/tables.h"
#include "schema/text/compiled.h"

namespace mlc::text {

struct DraftAdded {
  Added added;
  std::string content, normalized;
  std::optional<std::string> decoded;  // where it is neither of them
};

class Draft {
 public:
  Options options{Model::WordPiece, 0, kNone, 0, {0, 0}, {0, 0}, 0, 0};
  std::map<std::string, uint32_t, std::less<>> vocabulary;
  std::vector<NamedNumber> unfound;  // ids whose text the vocabulary has with another id
  std::vector<Merge> merges;
  std::vector<double> scores;  // Unigram: per id
  std::vector<DraftAdded> added;
  std::array<uint32_t, 256> byte_tokens = all_none();
  std::vector<Step> normalizer, splitter, decoder;
  std::vector<TemplatePiece> single, pair;
  std::vector<NamedPattern> patterns;
  size_t pattern_ranges = 0;  // of all of them
  std::vector<NamedNumber> charsmap;  // keys, to numbers of `charsmap_texts`
  std::vector<TextRef> charsmap_texts;
  bool fused = false;  // the decoder's tokens are one text
  uint16_t classes = 0;  // what the steps ask for

  TextRef put(std::string_view text) {
    const TextRef ref{static_cast<uint32_t>(texts_.size()), static_cast<uint32_t>(text.size())};
    texts_ += text;
    return ref;
  }
  std::string_view text_of(TextRef ref) const { return std::string_view(texts_).substr(ref.offset, ref.length); }
  // The id of a token, kNone without one.
  uint32_t id_of(std::string_view text) const;
  // The number of a pattern, which may be there already.
  Result<uint32_t> pattern(std::string_view text, const std::string& path);
  // The compiled form. Resource if it exceeds what a reader takes.
  Result<std::vector<std::byte>> encode();

 private:
  static std::array<uint32_t, 256> all_none() {
    std::array<uint32_t, 256> out;
    out.fill(kNone);
    return out;
  }
  std::vector<std::byte> tokens();
  std::vector<std::pair<uint32_t, uint32_t>> neighbours() const;

  std::string texts_;
};

// The parts of the file, each into its sections.
Status read_model(const JsonNode& model, Draft& draft);
Status read_added(const JsonNode& added, Draft& draft);
Status read_normalizer(const JsonNode& node, Draft& draft);
Status read_splitter(const JsonNode& node, Draft& draft);
Status read_processor(const JsonNode& node, Draft& draft);
Status read_decoder(const JsonNode& node, Draft& draft);

// Calls `read` with the node, or with each of a Sequence's `list`.
template <class Read>
Status each_of_sequence(const JsonNode& node, std::string_view list, const Read& read) {
  if (node.absent()) return ok();
  if (!node.is(JsonValue::Kind::Object)) return node.expected("an object or null");
  std::string type;
  MLC_RETURN_IF_ERROR(node["type"].text(type));
  if (type != "Sequence") return read(node, type);
  const JsonNode items = node[list];
  if (!items.is(JsonValue::Kind::Array)) return items.expected("a list");
  size_t index = 0;
  for (const JsonValue& item : items.value->items()) MLC_RETURN_IF_ERROR(each_of_sequence(items.item(item, index++), list, read));
  return ok();
}

}  // namespace mlc::text
