#include "packager/cli/change/relabel_ops.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <set>

#include "base/files/links.h"
#include "base/files/regular_file.h"
#include "base/problems.h"
#include "packager/cli/change/same_programs.h"
#include "schema/pipeline/lines.h"
#include "schema/pipeline/pipeline.h"
#include "schema/validate/validate.h"

namespace mlc::cli {
namespace {

namespace fs = std::filesystem;

constexpr char kPipeline[] = "pipeline.json";

std::string_view text_of(const std::vector<std::byte>& bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
std::vector<std::byte> bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// One of the manifest's words, in place of what stands there.
Status set_word(format::Model& model, const std::string& key, const std::string& value) {
  const auto wrong = [&](const std::string& expected) { return Status(Code::Usage, "--metadata " + key + ": '" + value + "' found, " + expected + " expected"); };
  if (key == "id") {
    if (!format::is_model_id(value)) return wrong("organisation/name in [a-z0-9._-]");
    model.id = value;
  } else if (key == "version") {
    uint64_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || end != value.data() + value.size() || number == 0) return wrong("a number of 1 or more");
    model.version = number;
  } else if (key == "title") {
    model.title = value;
  } else if (key == "licence") {
    model.licence = value;
  } else {
    return Status(Code::Usage, "--metadata: '" + key + "' is no key").fact("known: id version title licence");
  }
  return ok();
}

class Relabel {
 public:
  Relabel(Rewrite& rewrite, const RelabelOptions& options) : rewrite_(rewrite), options_(options) {}

  Result<std::vector<std::string>> run() {
    MLC_RETURN_IF_ERROR(set_metadata());
    if (options_.labels.empty() && options_.pipeline.empty()) return std::move(changed_);
    MLC_RETURN_IF_ERROR(read_old_pipeline());
    MLC_RETURN_IF_ERROR(read_new_pipeline());
    MLC_RETURN_IF_ERROR(read_labels());
    MLC_RETURN_IF_ERROR(check_lists());
    std::vector<NewAsset> assets;
    for (auto& [name, bytes] : fresh_) {
      changed_.insert(std::lower_bound(changed_.begin(), changed_.end(), name), name);
      assets.push_back({name, name == kPipeline ? "application/json" : "text/plain", std::move(bytes)});
    }
    MLC_RETURN_IF_ERROR(rewrite_.replace_assets(assets));
    return std::move(changed_);
  }

 private:
  Status set_metadata() {
    for (const std::string& word : options_.metadata) {
      const size_t equals = word.find('=');
      if (equals == word.npos) return Status(Code::Usage, "--metadata: '" + word + "' has no '='").hint("--metadata title=Cats");
      MLC_RETURN_IF_ERROR(set_word(rewrite_.manifest().model, word.substr(0, equals), word.substr(equals + 1)));
      changed_.push_back(word.substr(0, equals));
    }
    std::sort(changed_.begin(), changed_.end());
    return ok();
  }

  Status read_old_pipeline() {
    const container::Container& file = *rewrite_.file().opened;
    const auto found = file.find_asset(kPipeline);
    if (!found) return Status(Code::Unsupported, rewrite_.file().path + " has no pipeline, so nothing in it names labels").hint("mlpack build with --pipeline");
    MLC_ASSIGN(old_text_, rewrite_.asset(*found));
    MLC_ASSIGN(parsed_, pipeline::parse(text_of(old_text_), kPipeline));
    return ok();
  }

  Status read_new_pipeline() {
    const std::string& path = options_.pipeline;
    if (path.empty()) return ok();
    MLC_ASSIGN(const std::string text, read_regular_file(path, pipeline::kTextLimits.bytes, Code::Usage));
    MLC_ASSIGN(parsed_, pipeline::parse(text, path));
    MLC_RETURN_IF_ERROR(check_same_programs(text_of(old_text_), text, path));
    fresh_[kPipeline] = bytes_of(text);
    Status problems;
    for (const std::string& name : lists()) add_problem(problems, read_list_beside(path, name));
    return problems;
  }

  // Of a file beside the pipeline; where there is none, the container's own stays.
  Status read_list_beside(const std::string& path, const std::string& name) {
    const auto refused = [&](const std::string& what) { return Status(Code::Usage, 5004, path + ": '" + name + "' " + what); };
    if (!format::is_label(name)) return refused("must be a plain file name, of a file beside it");
    auto place = place_inside(fs::path(path).parent_path().string(), name);
    if (!place.ok() && place.status().code == Code::Malformed) return refused("is a symbolic link that leads out of its folder");
    if (!place.ok()) {
      if (rewrite_.file().opened->find_asset(name)) return ok();
      return std::move(place).status();
    }
    MLC_ASSIGN(const std::string text, read_regular_file(*place, pipeline::kMaxListBytes, Code::Usage));
    fresh_[name] = bytes_of(text);
    return ok();
  }

  Status read_labels() {
    const std::set<std::string> known = lists();
    std::string names;
    for (const std::string& name : known) names += (names.empty() ? "" : " ") + name;
    for (const std::string& word : options_.labels) {
      const size_t equals = word.find('=');
      const std::string path = equals == word.npos ? word : word.substr(equals + 1);
      if (equals == word.npos && known.size() != 1)
        return Status(Code::Usage, "--labels: the pipeline names " + std::to_string(known.size()) + " lists").fact("lists: " + (names.empty() ? "none" : names)).hint("--labels NAME=FILE");
      const std::string name = equals == word.npos ? *known.begin() : word.substr(0, equals);
      if (known.count(name) == 0) return Status(Code::Usage, "--labels: the pipeline names no list '" + name + "'").fact("lists: " + (names.empty() ? "none" : names));
      MLC_ASSIGN(const std::string text, read_regular_file(path, pipeline::kMaxListBytes, Code::Usage));
      fresh_[name] = bytes_of(text);
    }
    return ok();
  }

  // Labels and character sets; tokenizers are compiled and stay.
  std::set<std::string> lists() const {
    std::set<std::string> out;
    for_each_step([&](const pipeline::Pipeline&, const pipeline::Step& step) {
      if (!pipeline::asset_of(step).empty() && !pipeline::wants_tokenizer(step)) out.insert(pipeline::asset_of(step));
    });
    return out;
  }

  template <class Visit>
  void for_each_step(Visit visit) const {
    for (const pipeline::Pipeline& p : parsed_.pipelines)
      for (const pipeline::Pipeline* each : pipeline::with_bodies(p))
        for (const pipeline::Step& step : each->steps) visit(*each, step);
  }

  Status check_lists() {
    Status problems;
    for_each_step([&](const pipeline::Pipeline& p, const pipeline::Step& step) {
      Status status = check_list(p, step);
      if (!status.ok()) status.message = pipeline::place_of(p, step.where) + status.message;
      add_problem(problems, std::move(status));
    });
    return problems;
  }

  // As a build asks it, where the manifest says how many columns there are; else a list is as long as the one before.
  Status check_list(const pipeline::Pipeline& p, const pipeline::Step& step) {
    const std::string name = pipeline::asset_of(step);
    if (name.empty() || pipeline::wants_tokenizer(step)) return ok();
    const auto old = rewrite_.file().opened->find_asset(name);
    const auto fresh = fresh_.find(name);
    std::vector<std::byte> before;
    if (old) {
      MLC_ASSIGN(before, rewrite_.asset(*old));
    }
    MLC_ASSIGN(const std::vector<std::string> lines, pipeline::split_lines(fresh != fresh_.end() ? fresh->second : before, name));
    const int64_t columns = columns_of(p, step);
    if (columns >= 0) {
      if (const auto* top = std::get_if<pipeline::TopK>(&step.what)) return pipeline::check_labels(step.op, name, top->label_offset, lines.size(), columns);
      if (const auto* ctc = std::get_if<pipeline::CtcGreedy>(&step.what)) return pipeline::check_charset(*ctc, lines.size(), columns);
    }
    if (!old) return ok();  // asked before each answer
    MLC_ASSIGN(const std::vector<std::string> had, pipeline::split_lines(before, name));
    if (lines.size() == had.size()) return ok();
    return Status(Code::Usage, 5003, "step '" + step.op + "': " + name + " has " + std::to_string(lines.size()) + " lines, " + std::to_string(had.size()) + " expected, as the list of the file has");
  }

  // -1: not known before a run.
  int64_t columns_of(const pipeline::Pipeline& p, const pipeline::Step& step) const {
    const std::string& value = p.value(step.in.at(0)).name;
    for (const pipeline::Section& section : pipeline::sections(p)) {
      if (!section.is_array) continue;
      for (const format::Method& method : rewrite_.file().opened->manifest().methods) {
        if (method.name != section.program) continue;
        for (const format::Port& port : method.outputs)
          if (port.name == value && !port.dims.empty()) return port.dims.back().extent.value_or(-1);
      }
    }
    return -1;
  }

  Rewrite& rewrite_;
  const RelabelOptions& options_;
  std::vector<std::string> changed_;
  std::vector<std::byte> old_text_;
  pipeline::PipelineFile parsed_;  // of the new file
  std::map<std::string, std::vector<std::byte>> fresh_;  // assets that change, by name
};

}  // namespace

Result<Relabelled> relabel_container(const RelabelOptions& options) {
  if (options.labels.empty() && options.pipeline.empty() && options.metadata.empty())
    return Status(Code::Usage, "nothing to change").hint("--labels FILE, --pipeline FILE or --metadata KEY=VALUE");
  MLC_ASSIGN(Rewrite rewrite, Rewrite::of(options.file));
  MLC_ASSIGN(std::vector<std::string> changed, Relabel(rewrite, options).run());
  MLC_ASSIGN(Rewritten written, rewrite.write(options.output, options.resign, options.force));
  return Relabelled{std::move(written), std::move(changed)};
}

}  // namespace mlc::cli
