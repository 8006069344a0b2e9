#include "packager/text/sentencepiece.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/text/text.h"
#include "packager/text/charsmap.h"
#include "packager/text/proto.h"

namespace mlc::text {
namespace {

constexpr std::string_view kMeta = "\xE2\x96\x81";  // what stands for a blank

// Those of all vocabularies in use take a hundredth.
constexpr uint64_t kMaxSymbolSteps = 1u << 26;

enum class Type : uint64_t { Normal = 1, Unknown = 2, Control = 3, UserDefined = 4, Unused = 5, Byte = 6 };

struct SentencePiece {
  std::string text;
  float score = 0;
  Type type = Type::Normal;
};
struct NormalizerSpec {
  std::string_view charsmap;
  bool dummy_prefix = true, remove_extra = true, escape = true;
};
struct ModelFile {
  std::vector<SentencePiece> pieces;
  uint64_t model = 1;  // unigram, BPE, word, character
  bool byte_fallback = false, suffix = false;
  std::string unknown_surface = " \xE2\x81\x87 ";
  NormalizerSpec normalizer;
  std::string_view denormalizer;
};

class Reader {
 public:
  Reader(const std::string& name, ModelFile& file) : name_(name), file_(file) {}

  Status run(std::string_view bytes) {
    ProtoFields fields(bytes);
    while (fields.next()) {
      if (fields.is_bytes(1)) MLC_RETURN_IF_ERROR(piece(fields.bytes()));
      else if (fields.is_bytes(2)) MLC_RETURN_IF_ERROR(trainer(fields.bytes()));
      else if (fields.is_bytes(3)) MLC_RETURN_IF_ERROR(normalizer(fields.bytes(), file_.normalizer));
      else if (fields.is_bytes(5)) MLC_RETURN_IF_ERROR(denormalizer(fields.bytes()));
    }
    MLC_RETURN_IF_ERROR(whole(fields));
    return file_.pieces.empty() ? Status(Code::Malformed, "{}: no model of SentencePiece: it has no pieces", name_) : ok();
  }

 private:
  Status whole(const ProtoFields& fields) const {
    return fields.failed() ? Status(Code::Malformed, "{}: no model of SentencePiece: a message of it is not whole", name_) : ok();
  }

  Status piece(std::string_view bytes) {
    SentencePiece out;
    ProtoFields fields(bytes);
    while (fields.next()) {
      if (fields.is_bytes(1)) out.text = fields.bytes();
      else if (fields.is_float(2)) out.score = fields.real();
      else if (fields.is_number(3)) out.type = static_cast<Type>(fields.value());
    }
    MLC_RETURN_IF_ERROR(whole(fields));
    const uint64_t number = file_.pieces.size();
    if (number >= kMaxTokenIds) return Status(Code::Unsupported, "{}: more than {} pieces", name_, kMaxTokenIds);
    if (out.text.empty() || out.text.size() > kMaxTokenLen)
      return Status(Code::Unsupported, "{}: piece {} has {} bytes, expected 1 to {}", name_, number, uint64_t{out.text.size()}, kMaxTokenLen);
    if (out.type < Type::Normal || out.type > Type::Byte)
      return Status(Code::Malformed, "{}: piece {} is of type {}, expected 1 to 6", name_, number, static_cast<uint64_t>(out.type));
    if (!(std::abs(out.score) <= 1e30f)) return Status(Code::Malformed, "{}: the score of piece {} is no number up to 1e30", name_, number);
    return file_.pieces.push_back(std::move(out)), ok();
  }

  Status trainer(std::string_view bytes) {
    ProtoFields fields(bytes);
    while (fields.next()) {
      if (fields.is_number(3)) file_.model = fields.value();
      else if (fields.is_number(24)) file_.suffix = fields.value() != 0;
      else if (fields.is_number(35)) file_.byte_fallback = fields.value() != 0;
      else if (fields.is_bytes(44)) file_.unknown_surface = fields.bytes();
    }
    return whole(fields);
  }

  Status normalizer(std::string_view bytes, NormalizerSpec& out) {
    ProtoFields fields(bytes);
    while (fields.next()) {
      if (fields.is_bytes(2)) out.charsmap = fields.bytes();
      else if (fields.is_number(3)) out.dummy_prefix = fields.value() != 0;
      else if (fields.is_number(4)) out.remove_extra = fields.value() != 0;
      else if (fields.is_number(5)) out.escape = fields.value() != 0;
    }
    return whole(fields);
  }

  Status denormalizer(std::string_view bytes) {
    NormalizerSpec spec;
    MLC_RETURN_IF_ERROR(normalizer(bytes, spec));
    return file_.denormalizer = spec.charsmap, ok();
  }

  const std::string& name_;
  ModelFile& file_;
};

// What the file says, as sections.
class Maker {
 public:
  Maker(const ModelFile& file, const std::string& name, Draft& draft) : file_(file), name_(name), draft_(draft) {}

  Status run() {
    if (file_.model != 1 && file_.model != 2) return refuse("is of kind " + std::to_string(file_.model) + "; covered are 1, unigram, and 2, BPE");
    if (file_.suffix) return refuse("puts blanks behind words, which is not covered");
    if (!file_.denormalizer.empty()) return refuse("has a charsmap for what is decoded, which is not covered");
    if (file_.unknown_surface.size() > kMaxTokenLen) return refuse("has a surface of what is unknown that is too long");
    MLC_RETURN_IF_ERROR(pieces());
    MLC_RETURN_IF_ERROR(file_.model == 1 ? scores() : merges());
    MLC_RETURN_IF_ERROR(normalizer());
    decoder();
    draft_.single = {{PieceKind::First, 0, 0}};
    draft_.pair = {{PieceKind::First, 0, 0}, {PieceKind::Second, 0, 1}};
    return ok();
  }

 private:
  Status refuse(const std::string& what) const { return Status(Code::Unsupported, "{}: this model of SentencePiece {}", name_, what); }
  Status malformed(const std::string& what) const { return Status(Code::Malformed, "{}: this model of SentencePiece {}", name_, what); }

  Status pieces() {
    auto& options = draft_.options;
    options.model = file_.model == 1 ? Model::Unigram : Model::Bpe;
    options.flags = kFuseUnknown | kSinglePrecision | (file_.byte_fallback ? kByteFallback : 0);
    for (uint32_t id = 0; id < file_.pieces.size(); ++id) {
      const SentencePiece& piece = file_.pieces[id];
      switch (piece.type) {
        case Type::Normal:
        case Type::UserDefined:
          if (!draft_.vocabulary.emplace(piece.text, id).second) return malformed("has the piece '" + piece.text + "' twice");
          if (piece.type == Type::UserDefined && file_.model == 2) add(id, kNormalized, piece.text);
          break;
        case Type::Unused:
          if (file_.model == 2) return refuse("has pieces that are not used; in BPE they are not covered");
          draft_.unfound.push_back({piece.text, id});
          break;
        case Type::Unknown:
          if (options.unknown != kNone) return malformed("has two pieces for what is unknown");
          options.unknown = id;
          draft_.unfound.push_back({piece.text, id});
          add(id, 0, file_.unknown_surface);
          break;
        case Type::Control:
          draft_.unfound.push_back({piece.text, id});
          add(id, kSpecial, "");
          break;
        case Type::Byte: {
          const int byte = byte_of_name(piece.text);
          if (byte < 0) return malformed("has the byte '" + piece.text + "', expected <0x00> to <0xFF>");
          draft_.byte_tokens[static_cast<size_t>(byte)] = id;
          draft_.unfound.push_back({piece.text, id});
          break;
        }
      }
    }
    return options.unknown != kNone ? ok() : malformed("has no piece for what is unknown");
  }

  // What an id is decoded to; only those that are normalised are looked for in texts.
  void add(uint32_t id, uint32_t flags, const std::string& text) {
    DraftAdded added{};
    added.added.id = id, added.added.flags = flags;
    added.decoded = text;
    if (flags & kNormalized) added.normalized = text;
    draft_.added.push_back(std::move(added));
  }

  // A user's symbol has more than any other way to make its text of pieces, nearly always.
  Status scores() {
    float lowest = std::numeric_limits<float>::max(), highest = std::numeric_limits<float>::lowest();
    for (const SentencePiece& piece : file_.pieces)
      if (piece.type == Type::Normal) lowest = std::min(lowest, piece.score), highest = std::max(highest, piece.score);
    if (lowest > highest) lowest = highest = 0;
    for (const SentencePiece& piece : file_.pieces) {
      double score = piece.score;
      if (piece.type == Type::UserDefined) score = static_cast<float>(piece.text.size()) * highest - 0.1;
      if (piece.type == Type::Unknown) score = lowest - 10.0f;
      draft_.scores.push_back(score);
    }
    return ok();
  }

  // Two pieces are merged if both together are one; the one of the highest score first.
  Status merges() {
    std::vector<float> order;
    for (const SentencePiece& piece : file_.pieces) order.push_back(piece.score);
    std::sort(order.begin(), order.end(), std::greater<>());
    order.erase(std::unique(order.begin(), order.end()), order.end());
    // One walk from each end of a text finds all pieces that it begins or ends with.
    std::vector<NamedNumber> texts, backwards;
    for (const auto& [text, id] : draft_.vocabulary) {
      texts.push_back({text, id});
      backwards.push_back({std::string(text.rbegin(), text.rend()), id});
    }
    const std::vector<std::byte> units = make_trie(std::move(texts)), reverse_units = make_trie(std::move(backwards));
    const Trie begins(units), ends(reverse_units);
    std::vector<uint32_t> right;  // by the place where it begins
    for (const auto& [text, id] : draft_.vocabulary) {
      const float score = file_.pieces[id].score;
      const auto rank = static_cast<uint32_t>(std::lower_bound(order.begin(), order.end(), score, std::greater<>()) - order.begin());
      right.assign(text.size(), kNone);
      uint32_t state = Trie::kRoot, unused = 0;
      for (size_t at = text.size(); at-- > 0 && (state = ends.step(state, static_cast<uint8_t>(text[at]))) != kNone;)
        if (ends.value(state) != 0) right[at] = ends.value(state) - 1;
      state = Trie::kRoot;
      for (size_t at = 0; at < text.size();) {
        const unsigned size = decode_utf8(text, at, unused);
        if (size == 0) return malformed("has the piece " + std::to_string(id) + ", which is no UTF-8");
        if (file_.pieces[id].type == Type::Normal && size < text.size() && begins.find(std::string_view(text).substr(at, size)) == kNone)
          return refuse("has the piece '" + text + "' with a character that is no piece, which is not covered");
        state = begins.walk(state, std::string_view(text).substr(at, size));
        at += size;
        if (at == text.size()) break;
        if (begins.value(state) == 0 || right[at] == kNone) continue;
        if (draft_.merges.size() == kMaxCompiledLen / sizeof(Merge)) return refuse("has more merges than a compiled tokenizer holds");
        draft_.merges.push_back({begins.value(state) - 1, right[at], rank, id});
      }
    }
    return ok();
  }

  void step(std::vector<Step>& steps, StepKind kind, uint32_t a, std::string_view text, std::string_view other) {
    steps.push_back({kind, a, 0, draft_.put(text), draft_.put(other)});
  }

  Status normalizer() {
    const NormalizerSpec& spec = file_.normalizer;
    auto& steps = draft_.normalizer;
    if (!spec.charsmap.empty()) {
      MLC_RETURN_IF_ERROR(read_charsmap(spec.charsmap, name_, draft_));
      step(steps, StepKind::Charsmap, 0, "", "");
    }
    MLC_RETURN_IF_ERROR(symbols_stay());
    const std::string_view blank = spec.escape ? kMeta : " ";
    if (spec.remove_extra) {
      MLC_ASSIGN(const uint32_t around, draft_.pattern(spec.escape ? "\\A +|[ \xE2\x96\x81]+\\z" : "\\A +| +\\z", name_));
      MLC_ASSIGN(const uint32_t runs, draft_.pattern(" {2,}", name_));
      step(steps, StepKind::ReplacePattern, around, "", "");
      step(steps, StepKind::ReplacePattern, runs, "", " ");
    }
    if (spec.dummy_prefix) step(steps, StepKind::Prepend, 0, blank, "");
    if (spec.escape) step(steps, StepKind::Replace, 0, " ", kMeta);
    return ok();
  }

  // The library leaves a user's symbols as they are in texts; so they must be what the charsmap makes of them.
  Status symbols_stay() const {
    const auto is_users = [](const SentencePiece& piece) { return piece.type == Type::UserDefined; };
    if (std::none_of(file_.pieces.begin(), file_.pieces.end(), is_users)) return ok();
    std::vector<NamedNumber> changed;
    for (const NamedNumber& key : draft_.charsmap)
      if (key.text != kMeta && draft_.text_of(draft_.charsmap_texts[key.number]) != key.text) changed.push_back(key);
    const std::vector<std::byte> units = make_trie(std::move(changed));
    const Trie keys(units);
    uint64_t steps_left = keys.empty() ? 0 : kMaxSymbolSteps;
    for (const SentencePiece& piece : file_.pieces) {
      if (!is_users(piece) || keys.empty()) continue;
      for (size_t begin = 0; begin < piece.text.size(); ++begin) {
        uint32_t state = Trie::kRoot;
        for (size_t at = begin; at < piece.text.size(); ++at) {
          if (steps_left-- == 0)
            return refuse("has symbols of the user whose comparison with its charsmap takes more than " + std::to_string(kMaxSymbolSteps) + " steps");
          if ((state = keys.step(state, static_cast<uint8_t>(piece.text[at]))) == kNone) break;
          if (keys.value(state) != 0) return refuse("has the symbol '" + piece.text + "', which its own charsmap changes; that is not covered");
        }
      }
    }
    return ok();
  }

  void decoder() {
    const NormalizerSpec& spec = file_.normalizer;
    auto& steps = draft_.decoder;
    step(steps, StepKind::PieceFallback, 1, "", "");
    if (spec.remove_extra) step(steps, StepKind::FrontStrip, 0, kMeta, "");
    else if (spec.dummy_prefix) step(steps, StepKind::TextStrip, 1, kMeta, "");
    step(steps, StepKind::PieceReplace, 0, kMeta, " ");
  }

  const ModelFile& file_;
  const std::string& name_;
  Draft& draft_;
};

}  // namespace

Status read_sentencepiece(std::string_view file, const std::string& name, Draft& draft) {
  ModelFile model;
  MLC_RETURN_IF_ERROR(Reader(name, model).run(file));
  return Maker(model, name, draft).run();
}

}  // namespace mlc::text
