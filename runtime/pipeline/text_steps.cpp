// The steps between texts and numbers, over runtime/text.
#include <algorithm>
#include <cmath>

#include "runtime/pipeline/host_steps.h"
#include "runtime/text/decode.h"
#include "runtime/text/encode.h"

namespace mlc::pipeline {
namespace {

text::EncodeOptions options_of(const Tokenize& step, uint64_t memory) {
  text::EncodeOptions o;
  o.special_tokens = step.special_tokens;
  o.memory = memory;
  if (step.truncates) {
    text::Cut cut = text::Cut::LongestFirst;
    switch (step.cut) {
      case Tokenize::Cut::Longest: break;
      case Tokenize::Cut::First: cut = text::Cut::OnlyFirst; break;
      case Tokenize::Cut::Second: cut = text::Cut::OnlySecond; break;
    }
    o.truncation = {static_cast<uint32_t>(step.max), static_cast<uint32_t>(step.stride), step.cut_left ? text::Side::Left : text::Side::Right, cut};
  }
  o.padding = {static_cast<uint32_t>(step.pad_to), 0, step.pad_left ? text::Side::Left : text::Side::Right, static_cast<uint32_t>(step.pad_id), 0};
  return o;
}

int64_t number_at(const text::Encoding& e, Tokenize::Part part, size_t i) {
  switch (part) {
    case Tokenize::Part::Ids: return e.ids[i];
    case Tokenize::Part::Mask: return e.attention[i];
    case Tokenize::Part::TypeIds: return e.type_ids[i];
    case Tokenize::Part::Positions:  // counted along the row
    case Tokenize::Part::Texts:
    case Tokenize::Part::Offsets:
    case Tokenize::Part::Lengths: break;  // no number of a token
  }
  return 0;
}

int64_t whole_at(const HostTensor& t, size_t i) {
  switch (t.dtype) {
    case DType::I64: return t.as<int64_t>()[i];
    case DType::I32: return t.as<int32_t>()[i];
    case DType::I16: return t.as<int16_t>()[i];
    case DType::I8: return t.as<int8_t>()[i];
    case DType::U64: return static_cast<int64_t>(t.as<uint64_t>()[i]);
    case DType::U32: return t.as<uint32_t>()[i];
    case DType::U16: return t.as<uint16_t>()[i];
    default: return t.as<uint8_t>()[i];
  }
}

// One result of the step: rows of `length` tokens, or what belongs to them.
Result<HostTensor> array_of(Tokenize::Part part, const std::vector<text::Encoding>& encodings, const std::vector<uint32_t>& text_of, size_t length,
                            int64_t pad_id) {
  const auto rows = static_cast<int64_t>(encodings.size()), columns = static_cast<int64_t>(length);
  if (part == Tokenize::Part::Texts) {
    MLC_ASSIGN(HostTensor t, HostTensor::zeros(DType::I64, {rows}));
    std::copy(text_of.begin(), text_of.end(), t.as<int64_t>().begin());
    return t;
  }
  if (part == Tokenize::Part::Lengths) {
    MLC_ASSIGN(HostTensor t, HostTensor::zeros(DType::I64, {rows}));
    std::transform(encodings.begin(), encodings.end(), t.as<int64_t>().begin(), [](const text::Encoding& e) { return std::count(e.attention.begin(), e.attention.end(), 1); });
    return t;
  }
  const bool has_spans = part == Tokenize::Part::Offsets;
  MLC_ASSIGN(HostTensor t, HostTensor::zeros(DType::I64, has_spans ? std::vector<int64_t>{rows, columns, 2} : std::vector<int64_t>{rows, columns}));
  const std::span<int64_t> numbers = t.as<int64_t>();
  if (part == Tokenize::Part::Ids) std::fill(numbers.begin(), numbers.end(), pad_id);
  for (size_t row = 0; row < encodings.size(); ++row) {
    const text::Encoding& e = encodings[row];
    int64_t position = 0;  // of the next token that the mask keeps
    for (size_t i = 0; i < e.ids.size(); ++i) {
      const size_t at = row * length + i;
      if (has_spans) numbers[2 * at] = e.offsets[i].begin, numbers[2 * at + 1] = e.offsets[i].end;
      else numbers[at] = part != Tokenize::Part::Positions ? number_at(e, part, i) : e.attention[i] ? position++ : 0;
    }
  }
  return t;
}

// The texts with what stands before each of them; their bytes are a quarter of the memory at most.
Result<std::vector<std::string>> with_prompt(const std::string& prompt, const TextList& list, const io::DecodeLimits& limits) {
  std::vector<std::string> texts;
  uint64_t bytes = 0;
  for (const auto& one : list.texts) {
    bytes += prompt.size() + one.size() + sizeof(std::string);
    if (bytes > limits.memory / 4)
      return Status(Code::Resource, "input '{}': the texts with 'prompt' before each take more than {} bytes; give fewer at once", list.name, limits.memory / 4);
    texts.push_back(prompt + std::string(one));
  }
  return texts;
}

}  // namespace

Result<std::vector<HostTensor>> tokenize(const Tokenize& step, const text::Compiled& tokenizer, const TextList& first, const TextList* second,
                                         const io::DecodeLimits& limits) {
  if (second && second->texts.size() != first.texts.size())
    return Status(Code::InputMismatch, 4001, "'{}' has {} texts and '{}' {}: each text of one goes with one of the other", first.name,
                  uint64_t{first.texts.size()}, second->name, uint64_t{second->texts.size()});
  std::vector<std::string> prompted;
  if (!step.prompt.empty()) {
    MLC_ASSIGN(prompted, with_prompt(step.prompt, first, limits));
  }
  std::vector<text::Texts> texts;
  for (size_t i = 0; i < first.texts.size(); ++i) {
    text::Texts& one = texts.emplace_back(text::Texts{prompted.empty() ? std::string_view(first.texts[i]) : std::string_view(prompted[i])});
    if (second) one.second = second->texts[i];
  }
  // The rest of the memory is that of the arrays.
  const bool has_offsets = std::find(step.parts.begin(), step.parts.end(), Tokenize::Part::Offsets) != step.parts.end();
  std::vector<uint32_t> text_of;
  auto encodings = text::encode_batch(tokenizer, texts, options_of(step, limits.memory / (has_offsets ? 3 : 2)), step.overlaps ? &text_of : nullptr);
  if (!encodings.ok()) {
    Status why = std::move(encodings).status();
    if (why.code == Code::Usage) why.code = Code::InputMismatch, why.number = 4001;
    return std::move(why).note(second ? "inputs '" + first.name + "' and '" + second->name + "'" : "input '" + first.name + "'");
  }
  for (uint32_t i = 0; !step.overlaps && i < texts.size(); ++i) text_of.push_back(i);
  // Texts without tokens have one place, which the mask leaves out.
  size_t length = step.pad_to > 0 ? static_cast<size_t>(step.pad_to) : 1;
  for (const text::Encoding& e : *encodings) length = std::max(length, e.ids.size());
  std::vector<HostTensor> out;
  for (const Tokenize::Part part : step.parts) {
    MLC_ASSIGN(HostTensor t, array_of(part, *encodings, text_of, length, step.pad_id));
    out.push_back(std::move(t));
  }
  return out;
}

Result<HostTensor> join_windows(const JoinWindows& step, const HostTensor& rows, const HostTensor& texts, AnswerBudget& budget) {
  const size_t rank = rows.shape.size();
  if (rows.dtype != DType::F32 || rank == 0 || texts.dtype != DType::I64 || texts.shape != std::vector<int64_t>{rows.shape[0]})
    return Status(Code::InputMismatch, 4001, "step 'join_windows' takes f32 [windows, ...] and the number of each window's text, found {} and {}",
                  type_text(rows.dtype, rows.shape), type_text(texts.dtype, texts.shape));
  const std::span<const int64_t> text_of = texts.as<int64_t>();
  for (size_t k = 0; k < text_of.size(); ++k)
    if (const int64_t before = k ? text_of[k - 1] : -1; text_of[k] != before + 1 && (k == 0 || text_of[k] != before))
      return Status(Code::InputMismatch, 4001, "step 'join_windows': window {} is of text {}, and the one before it of {}", k, text_of[k], before);
  std::vector<int64_t> shape = rows.shape;
  shape[0] = text_of.empty() ? 0 : text_of.back() + 1;
  const size_t columns = text_of.empty() ? 0 : rows.data.size() / sizeof(float) / text_of.size();
  MLC_RETURN_IF_ERROR(budget.look_at(rows.data.size() / sizeof(float), "join_windows"));
  MLC_RETURN_IF_ERROR(budget.take(static_cast<uint64_t>(shape[0]) * columns + columns, sizeof(double), "join_windows"));
  MLC_ASSIGN(HostTensor joined, HostTensor::zeros(DType::F32, shape));
  std::vector<double> row(columns);
  const std::span<const float> from = rows.as<float>();
  const std::span<float> to = joined.as<float>();
  for (size_t k = 0; k < text_of.size();) {
    const auto text = static_cast<size_t>(text_of[k]);
    const size_t first = k;
    for (; k < text_of.size() && text_of[k] == text_of[first]; ++k)
      for (size_t c = 0; c < columns; ++c) {
        const double v = from[k * columns + c];
        if (k == first) row[c] = v;
        else if (step.how == JoinWindows::How::Mean) row[c] += v;
        else if (v > row[c] || std::isnan(v)) row[c] = v;  // a NaN stays
      }
    const double count = step.how == JoinWindows::How::Mean ? static_cast<double>(k - first) : 1;
    for (size_t c = 0; c < columns; ++c) to[text * columns + c] = static_cast<float>(row[c] / count);
  }
  return joined;
}

Result<Text> detokenize(const Detokenize& step, const text::Compiled& tokenizer, const HostTensor& ids, AnswerBudget& budget) {
  const size_t rank = ids.shape.size();
  if (!is_int(ids.dtype) || bits_of(ids.dtype) < 8 || (rank != 1 && rank != 2))
    return Status(Code::InputMismatch, "step 'detokenize' takes integers of shape [tokens] or [texts, tokens], found {}", type_text(ids.dtype, ids.shape));
  const auto tokens = static_cast<size_t>(ids.shape[rank - 1]), texts = rank == 2 ? static_cast<size_t>(ids.shape[0]) : 1;
  MLC_RETURN_IF_ERROR(budget.look_at(static_cast<uint64_t>(ids.elements()), "detokenize"));
  MLC_RETURN_IF_ERROR(budget.take(texts, sizeof(Line), "detokenize"));
  Text result;
  result.lines.reserve(texts);
  for (size_t row = 0; row < texts; ++row) {
    MLC_RETURN_IF_ERROR(budget.take(tokens, sizeof(uint32_t), "detokenize"));
    std::vector<uint32_t> numbers;
    numbers.reserve(tokens);
    for (size_t i = 0; i < tokens; ++i) {
      const int64_t id = whole_at(ids, row * tokens + i);
      if (id >= 0 && id < int64_t{tokenizer.num_tokens()}) numbers.push_back(static_cast<uint32_t>(id));
    }
    MLC_ASSIGN(std::string text, text::decode(tokenizer, numbers, step.skip_special, budget.left()));
    MLC_RETURN_IF_ERROR(budget.take(text.size(), "detokenize"));
    result.lines.push_back({std::move(text), {}});
  }
  return result;
}

}  // namespace mlc::pipeline
