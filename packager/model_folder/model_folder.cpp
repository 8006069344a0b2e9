#include "packager/model_folder/model_folder.h"

#include <algorithm>
#include <charconv>

#include "packager/model_folder/dense.h"
#include "packager/model_folder/folder_file.h"

namespace mlc::model_folder {
namespace {

using Kind = JsonValue::Kind;
using File = FolderFile;

class Describer {
 public:
  Describer(const std::string& folder, const model::Model& model) : folder_(folder), model_(model) {}

  Result<Description> run() {
    if (!is_there(folder_ + "/tokenizer.json")) return Status(Code::NotFound, "{} has no tokenizer.json", folder_).hint("--pipeline FILE says what goes in and out");
    MLC_ASSIGN(const File config, File::read(folder_, "config.json"));
    const bool is_encoder = is_there(folder_ + "/modules.json");
    const JsonValue* labels = config.find("id2label");
    ranks_ = !is_encoder && labels && labels->is(Kind::Object) && labels->size() == 1;
    MLC_ASSIGN(const std::string tokenize, tokenize_step(config, is_encoder));
    steps_ = tokenize;
    MLC_RETURN_IF_ERROR(is_encoder ? sentence_steps() : ranks_ ? score_steps(config) : class_steps(config));
    const std::string accepts = ": {\"accept\": [\"text/plain\"]}", inputs = ranks_ ? "\"query\"" + accepts + ", \"text\"" + accepts : "\"text\"" + accepts;
    out_.pipeline = "{\"mlc_pipeline\": 1, \"inputs\": {" + inputs + "}, \"steps\": [\n" + steps_ + "],\n \"outputs\": [\"" + answer_ + "\"]}\n";
    return std::move(out_);
  }

 private:
  bool gives(const std::string& name) const {
    return std::any_of(model_.graph.outputs.begin(), model_.graph.outputs.end(), [&](const model::Port& p) { return p.name == name; });
  }

  // A mask keeps what is filled up out of a row; scales that are found for all rows of a run tie them together.
  bool rows_are_apart() const {
    const auto has_mask = [](const model::Port& port) { return port.name == "attention_mask"; };
    const auto scales = [](const model::Node& node) { return node.op.starts_with("DynamicQuantize"); };
    return std::any_of(model_.graph.inputs.begin(), model_.graph.inputs.end(), has_mask) && std::none_of(model_.graph.nodes.begin(), model_.graph.nodes.end(), scales);
  }

  Result<std::string> tokenize_step(const File& config, bool is_encoder) {
    MLC_ASSIGN(const File tokenizer, File::read_optional(folder_, "tokenizer_config.json"));
    MLC_ASSIGN(const File sentences, File::read_optional(folder_, "sentence_bert_config.json"));
    MLC_RETURN_IF_ERROR(sentences.knows({"max_seq_length", "do_lower_case"}));
    MLC_ASSIGN(const bool lower, sentences.flag("do_lower_case", false));
    if (lower) return sentences.wrong("do_lower_case", "is true, and small letters before the tokenizer are not understood");
    // Of the first file that says it; the library takes the shorter one for pairs.
    int64_t length = -1;
    for (const auto& [file, key] : {std::pair{&sentences, "max_seq_length"}, {&tokenizer, "model_max_length"}, {&config, "max_position_embeddings"}}) {
      MLC_ASSIGN(const int64_t found, file->whole(key));
      if (found == 0 || found < -1) return file->wrong(key, "is below 1");
      if ((length < 0 || (ranks_ && found < length)) && found > 0 && found < kNoLength) length = found;
    }
    MLC_ASSIGN(const std::string cut, tokenizer.side("truncation_side"));
    MLC_ASSIGN(const std::string padded, tokenizer.side("padding_side"));
    MLC_ASSIGN(const int64_t pad, config.whole("pad_token_id"));
    if (pad < 0) return config.wrong("pad_token_id", "is missing");
    std::string fixed, in, out;
    for (const model::Port& port : model_.graph.inputs) {
      const char* part = port.name == "input_ids" ? "ids" : port.name == "attention_mask" ? "mask" : port.name == "token_type_ids" ? "type_ids"
                         : port.name == "position_ids" ? "position_ids" : nullptr;
      if (!part)
        return Status(Code::Usage, "the model takes '{}', which is none of input_ids, attention_mask, token_type_ids, position_ids", port.name)
            .hint("--pipeline FILE says what it gets");
      if (port.name != "attention_mask") out += (out.empty() ? "\"" : ", \"") + std::string(part) + "\": \"" + part + "\"";
      in += (in.empty() ? "\"" : ", \"") + port.name + "\": \"" + part + "\"";
      const auto* extent = port.shape.size() == 2 ? std::get_if<int64_t>(&port.shape[1]) : nullptr;
      if (extent) fixed = std::to_string(*extent), length = length < 0 ? *extent : std::min(length, *extent);
    }
    in_ = in;
    takes_mask_ = in.find("attention_mask") != in.npos;
    tokens_out_ = out;
    const std::string texts = ranks_ ? "{\"first\": \"query\", \"second\": \"text\"}" : "\"text\"";
    std::string prompt;
    if (is_encoder) {
      MLC_ASSIGN(prompt, default_prompt());
      has_prompt_ = !prompt.empty();
      if (has_prompt_) prompt = "\"prompt\": " + json_quote(prompt) + ", ";
    }
    return "  {\"op\": \"tokenize\", \"in\": " + texts + ", \"tokenizer\": \"tokenizer.json\", " + prompt + "\"special_tokens\": true,\n   \"truncate\": " +
           (length > 0 ? "{\"max\": " + std::to_string(length) + ", \"side\": \"" + cut + (ranks_ ? "\", \"cut\": \"longest\"}" : "\"}") : std::string("\"none\"")) + ", \"pad\": {\"to\": " +
           (fixed.empty() ? rows_are_apart() ? "\"longest_of_group\"" : "\"longest\"" : fixed) + ", \"side\": \"" + padded + "\", \"id\": " + std::to_string(pad) + "},\n";
  }

  // What the library puts before each text where nothing else is asked for.
  Result<std::string> default_prompt() {
    MLC_ASSIGN(const File sentences, File::read_optional(folder_, "config_sentence_transformers.json"));
    const JsonValue* name = sentences.find("default_prompt_name");
    if (!name) return std::string();
    if (!name->is(Kind::String)) return sentences.wrong("default_prompt_name", "is no name");
    const JsonValue* prompts = sentences.find("prompts");
    const JsonValue* prompt = prompts && prompts->is(Kind::Object) ? prompts->find(name->text()) : nullptr;
    if (!prompt || !prompt->is(Kind::String))
      return sentences.wrong("default_prompt_name", "is '" + std::string(name->text().substr(0, 80)) + "', which 'prompts' does not have");
    return std::string(prompt->text());
  }

  // The end of `tokenize`, with a mask where something asks for it, and the model.
  void add_run(const std::string& output, const std::string& as, bool pools) {
    std::string out = tokens_out_;
    if (takes_mask_ || pools) out += (out.empty() ? "" : ", ") + std::string("\"mask\": \"mask\"");
    steps_ += "   \"out\": {" + out + "}},\n  {\"op\": \"run\", \"program\": \"main\", \"in\": {" + in_ + "}, \"out\": {\"" + output + "\": \"" + as + "\"}}";
  }

  // modules.json: a list of {"idx", "name", "path", "type"}.
  Status sentence_steps() {
    MLC_ASSIGN(const File modules, File::read(folder_, "modules.json"));
    if (!modules.root().is(Kind::Array)) return Status(Code::Usage, "modules.json is {}, expected a list", name_of(modules.root().kind()));
    std::string how;
    std::vector<std::string> behind;  // programs, and "" where the length becomes 1
    size_t index = 0;
    bool is_normal = false;
    for (const JsonValue& module : modules.root().items()) {
      const auto text = [&](std::string_view key) { return module.find(key) ? module.find(key)->text() : std::string_view(); };
      const std::string_view type = text("type"), kind = type.substr(type.rfind('.') + 1);
      const std::string key = "[" + std::to_string(index) + "].type";
      if (kind == "Transformer" && index == 0 && text("path").empty()) {
      } else if (kind == "Pooling" && index == 1) {
        MLC_ASSIGN(how, pooling(std::string(text("path"))));
      } else if (kind == "Dense" && index >= 2 && !is_normal) {
        MLC_ASSIGN(Program dense, dense_program(folder_, std::string(text("path")), out_.programs.size()));
        behind.push_back(dense.name);
        out_.programs.push_back(std::move(dense));
      } else if (kind == "Normalize" && index >= 2 && !is_normal) {
        is_normal = true;
        behind.emplace_back();
      } else {
        return modules.wrong(key, "is '" + std::string(type.substr(0, 80)) + "' in this place, which is not understood");
      }
      ++index;
    }
    if (how.empty()) return Status(Code::Usage, "modules.json has no Pooling");
    const std::string hidden = gives("last_hidden_state") ? "last_hidden_state" : "token_embeddings";
    if (!gives(hidden)) return Status(Code::Usage, "the model gives neither last_hidden_state nor token_embeddings, which modules.json pools");
    add_run(hidden, "hidden", true);
    answer_ = "embedding";
    std::string from = behind.empty() ? answer_ : "pooled";
    steps_ += ",\n  {\"op\": \"pool\", \"in\": \"hidden\", \"mask\": \"mask\", \"how\": \"" + how + "\", \"out\": \"" + from + "\"}";
    for (size_t k = 0; k < behind.size(); ++k) {
      const std::string to = k + 1 == behind.size() ? answer_ : behind[k];
      if (behind[k].empty()) steps_ += ",\n  {\"op\": \"normalize\", \"in\": \"" + from + "\", \"norm\": \"l2\", \"out\": \"" + to + "\"}";
      else steps_ += ",\n  {\"op\": \"run\", \"program\": \"" + behind[k] + "\", \"in\": {\"x\": \"" + from + "\"}, \"out\": {\"y\": \"" + to + "\"}}";
      from = to;
    }
    return ok();
  }

  Result<std::string> pooling(const std::string& path) {
    if (path.empty() || path.find('/') != path.npos || path.find("..") != path.npos) return Status(Code::Usage, "modules.json: the path of Pooling is '{}', expected a folder beside it", path);
    MLC_ASSIGN(const File config, File::read(folder_, path + "/config.json"));
    MLC_RETURN_IF_ERROR(config.knows({"word_embedding_dimension", "pooling_mode_cls_token", "pooling_mode_mean_tokens", "pooling_mode_max_tokens",
                                      "pooling_mode_mean_sqrt_len_tokens", "pooling_mode_weightedmean_tokens", "pooling_mode_lasttoken", "include_prompt"}));
    MLC_ASSIGN(const bool pools_prompt, config.flag("include_prompt", true));
    if (has_prompt_ && !pools_prompt)
      return config.wrong("include_prompt", "is false beside a prompt, and tokens that are left out of the mean are not understood");
    std::string how;
    for (const auto& [key, name] : {std::pair{"pooling_mode_cls_token", "first"}, {"pooling_mode_mean_tokens", "mean"}, {"pooling_mode_max_tokens", "max"},
                                    {"pooling_mode_lasttoken", "last"}, {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len"},
                                    {"pooling_mode_weightedmean_tokens", "weightedmean"}}) {
      MLC_ASSIGN(const bool is_on, config.flag(key, false));
      if (!is_on) continue;
      if (!how.empty()) return config.wrong(key, "is true beside another one, which is not understood");
      how = name;
    }
    if (how.empty()) return config.wrong("pooling_mode_mean_tokens", "and all others are false: nothing is pooled");
    return how;
  }

  // Labels of a classifier.
  Status class_steps(const File& config) {
    const JsonValue* labels = config.find("id2label");
    if (!gives("logits") || !labels || !labels->is(Kind::Object))
      return config.wrong("id2label", "does not name classes of 'logits', and there is no modules.json: what the answer is is not known");
    std::vector<std::string_view> names(labels->size());
    for (const auto& [key, label] : labels->members()) {
      uint32_t number = 0;
      const std::string_view digits = key.text();
      const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), number);
      if (read.ec == std::errc() && read.ptr == digits.data() + digits.size() && number < names.size()) names[number] = label.text();
    }
    std::string text;
    for (size_t k = 0; k < names.size(); ++k) {
      const std::string_view name = names[k];
      if (name.empty() || std::any_of(name.begin(), name.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }))
        return config.wrong("id2label." + std::to_string(k), "is missing, empty or no line of text");
      text += std::string(name) + "\n";
    }
    const JsonValue* problem = config.find("problem_type");
    const std::string_view kind = problem ? problem->text() : "single_label_classification";
    if (kind != "single_label_classification" && kind != "multi_label_classification") return config.wrong("problem_type", "is neither single_label_classification nor multi_label_classification");
    out_.assets["labels.txt"] = std::move(text);
    add_run("logits", "logits", false);
    steps_ += ",\n  {\"op\": \"top_k\", \"in\": {\"" + std::string(kind.starts_with("single") ? "softmax" : "sigmoid") + "\": \"logits\"}, \"k\": " +
              std::to_string(std::min<uint32_t>(labels->size(), 5)) + ", \"labels\": \"labels.txt\", \"out\": \"classes\"}";
    answer_ = "classes";
    return ok();
  }

  // One label: a model that ranks texts for a query, as CrossEncoder of sentence-transformers has it.
  Status score_steps(const File& config) {
    if (!gives("logits")) return config.wrong("id2label", "has one label, and the model does not give 'logits'");
    // Newer versions of the library have it in an object of their own.
    std::string key = "sbert_ce_default_activation_function";
    const JsonValue* activation = config.find(key);
    if (const JsonValue* own = config.find("sentence_transformers"); own && own->is(Kind::Object) && own->find("activation_fn")) {
      key = "sentence_transformers.activation_fn";
      activation = own->find("activation_fn");
    }
    const JsonValue* problem = config.find("problem_type");
    if (!activation && problem && problem->text() == "regression")
      return config.wrong("problem_type", "is regression: whether the score is a sigmoid is not known");
    const std::string_view path = activation ? activation->text() : "Sigmoid", name = path.substr(path.rfind('.') + 1);
    if (name != "Sigmoid" && name != "Identity") return config.wrong(key, "is '" + std::string(path.substr(0, 80)) + "', expected Sigmoid or Identity");
    answer_ = "score";
    add_run("logits", name == "Identity" ? answer_ : "logits", false);
    if (name == "Sigmoid") steps_ += ",\n  {\"op\": \"sigmoid\", \"in\": \"logits\", \"out\": \"score\"}";
    return ok();
  }

  const std::string& folder_;
  const model::Model& model_;
  Description out_;
  std::string steps_, in_, tokens_out_, answer_;
  bool takes_mask_ = false, ranks_ = false, has_prompt_ = false;
};

}  // namespace

Result<std::string> model_file(const std::string& folder) {
  for (const char* name : {"/model.onnx", "/onnx/model.onnx"})
    if (is_there(folder + name)) return folder + name;
  return Status(Code::NotFound, 1003, "{} is a folder without model.onnx and onnx/model.onnx", folder);
}

Result<Description> describe(const std::string& folder, const model::Model& model) { return Describer(folder, model).run(); }

}  // namespace mlc::model_folder
