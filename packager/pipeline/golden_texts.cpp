#include "packager/pipeline/golden_texts.h"

#include <algorithm>

#include "runtime/pipeline/host_pipeline.h"

namespace mlc::pipeline {
namespace {

constexpr const char* kFirst = "The file runs on every machine, and it answers: 42 times a day, in any language.";
constexpr const char* kSecond = "Does it run here?";
constexpr const char* kShort = "it";
constexpr int64_t kLongest = 4096;  // tokens to be cut to: a text that has more of them is too much work

// Has more tokens than `max`, whatever the tokenizer is, unless it knows no words.
std::string long_text(int64_t max) {
  constexpr const char* kWords[] = {"one", "more", "word", "of", "a", "text", "that", "goes", "on"};
  std::string text;
  for (int64_t k = 0; k < max + 16; ++k) text += (k ? " " : "") + std::string(kWords[static_cast<size_t>(k) % std::size(kWords)]);
  return text;
}

class Texts {
 public:
  Texts(const Pipeline& pipeline, int64_t fixed) : pipeline_(pipeline), fixed_(fixed) {
    for (const Step& step : pipeline.steps) {
      const auto* tokenize = std::get_if<Tokenize>(&step.what);
      if (!tokenize) continue;
      if (step.in.size() > 1) seconds_.push_back(step.in[1]);
      if (tokenize->truncates && tokenize->max <= kLongest) {
        longest_ = std::max(longest_, tokenize->max);
        // Where one of two texts is cut, the other one is short.
        if (step.in.size() > 1 && tokenize->cut == Tokenize::Cut::First) short_.push_back(step.in[1]);
        if (step.in.size() > 1 && tokenize->cut == Tokenize::Cut::Second) short_.push_back(step.in[0]);
      }
    }
  }

  bool can_be_long() const { return longest_ > 0; }
  std::vector<GivenInput> plain(bool two) const {
    return given([&](ValueId id) {
      std::vector<std::string> texts{is_in(short_, id) ? kShort : is_in(seconds_, id) ? kSecond : kFirst};
      if (two) texts.push_back(is_in(short_, id) ? kShort : is_in(seconds_, id) ? "Yes." : "Two words.");
      return texts;
    });
  }
  std::vector<GivenInput> empty() const {
    return given([&](ValueId) { return std::vector<std::string>{""}; });
  }
  std::vector<GivenInput> of_many_tokens() const {
    return given([&](ValueId id) { return std::vector<std::string>{is_in(short_, id) ? kShort : long_text(longest_)}; });
  }

 private:
  static bool is_in(const std::vector<ValueId>& ids, ValueId id) { return std::find(ids.begin(), ids.end(), id) != ids.end(); }

  template <class TextsOf>
  std::vector<GivenInput> given(const TextsOf& texts_of) const {
    std::vector<GivenInput> all;
    for (const ValueId id : pipeline_.inputs) {
      std::vector<std::string> texts = texts_of(id);
      if (fixed_ > 0) texts.resize(static_cast<size_t>(fixed_), texts[0]);
      const auto count = static_cast<int64_t>(texts.size());
      all.push_back({pipeline_.value(id).name, {}, HostTensor::of_strings({count}, std::move(texts))});
    }
    return all;
  }

  const Pipeline& pipeline_;
  std::vector<ValueId> seconds_, short_;
  int64_t fixed_, longest_ = 0;
};

}  // namespace

Result<std::vector<TextVector>> golden_texts(const Pipeline& pipeline, const std::map<std::string, std::vector<std::byte>>& assets, int64_t fixed) {
  std::vector<TextVector> vectors;
  const auto is_text = [&](ValueId id) { return pipeline.value(id).kind == ValueKind::Strings; };
  const auto is_tokens = [&](ValueId id) { return pipeline.value(id).is_tokens; };
  const std::vector<Section> all = sections(pipeline);
  const auto first = std::find_if(all.begin(), all.end(), [](const Section& section) { return section.is_array; });
  if (first == all.end()) return vectors;
  const std::vector<ValueId>& arrays = first->in;
  if (!std::all_of(pipeline.inputs.begin(), pipeline.inputs.end(), is_text) || !std::all_of(arrays.begin(), arrays.end(), is_tokens)) return vectors;
  const auto lookup = [&](std::string_view name) -> Result<Bytes> { return Bytes(assets.at(std::string(name))); };
  MLC_ASSIGN(const HostPipeline host, HostPipeline::create(pipeline, lookup));
  const Texts texts(pipeline, fixed);
  const auto add = [&](const char* name, std::vector<GivenInput> given) -> Status {
    auto made = host.before(std::move(given));
    if (!made.ok()) return std::move(made).status().note("pipeline '" + pipeline.name + "', golden vector '" + name + "'");
    // Places of tokens are for the host.
    std::erase_if(*made, [&](const NamedTensor& t) { return std::none_of(arrays.begin(), arrays.end(), [&](ValueId id) { return pipeline.value(id).name == t.name; }); });
    vectors.push_back({name, std::move(*made)});
    return ok();
  };
  MLC_RETURN_IF_ERROR(add("text", texts.plain(/*two=*/false)));
  if (fixed == 0) MLC_RETURN_IF_ERROR(add("two texts", texts.plain(/*two=*/true)));
  MLC_RETURN_IF_ERROR(add("empty text", texts.empty()));
  if (texts.can_be_long()) MLC_RETURN_IF_ERROR(add("long text", texts.of_many_tokens()));
  return vectors;
}

}  // namespace mlc::pipeline
