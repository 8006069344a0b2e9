// Small tokenizers, for tests.
#pragma once

#include <string>

namespace mlc::test {

// A tokenizer.json of these parts.
inline std::string tokenizer_json(const std::string& model, const std::string& rest = "") {
  return R"({"version": "1.0", "truncation": null, "padding": null, "model": )" + model + (rest.empty() ? "" : ", " + rest) + "}";
}

inline const char* const kWordPieceModel = R"({"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
  "max_input_chars_per_word": 10, "vocab": {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "un": 4, "##aff": 5, "##able": 6, "cafe": 7, ",": 8,
  "a": 9, "##a": 10, "\u6f22": 11}})";
inline const char* const kBertParts = R"("normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
  "strip_accents": null, "lowercase": true}, "pre_tokenizer": {"type": "BertPreTokenizer"},
  "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
  "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
  "added_tokens": [{"id": 1, "content": "[UNK]", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true},
    {"id": 3, "content": "[SEP]", "single_word": false, "lstrip": true, "rstrip": false, "normalized": false, "special": true}])";

inline const char* const kBpeModel = R"({"type": "BPE", "unk_token": null, "vocab": {"a": 0, "b": 1, "ab": 2, "abab": 3, "\u0120": 4, "\u0120ab": 5,
  "\u00c3": 6, "\u00a9": 7}, "merges": ["a b", "ab ab", "\u0120 ab"]})";
inline const char* const kByteParts = R"("pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true},
  "post_processor": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true}, "decoder": {"type": "ByteLevel"})";

}  // namespace mlc::test
