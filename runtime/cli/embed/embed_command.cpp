// mlrun embed: the lines of files as vectors, and those that are nearest to a text.
#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>

#include "base/checked.h"
#include "base/cli/program.h"
#include "base/cli/report.h"
#include "base/counted.h"
#include "base/text.h"
#include "runtime/cli/answers.h"
#include "runtime/cli/commands.h"
#include "runtime/cli/crash.h"
#include "runtime/cli/duration.h"
#include "runtime/cli/embed/nearest.h"
#include "runtime/cli/isolation.h"
#include "runtime/cli/options.h"
#include "runtime/cli/program_io.h"

namespace mlc::cli {
namespace {

struct EmbedOptions {
  ContainerOptions container;
  VariantOptions variant;
  std::vector<std::string> files, queries;
  std::string pipeline, output;
  int64_t top = 5, batch = 32;
  bool as_json = false;
};

struct LineOf {
  std::string text;
  size_t number = 0;  // in its file, from 1
  size_t file = 0;
};

// Lines that are not blank.
Result<std::vector<LineOf>> lines_of(const EmbedOptions& o, io::InputFiles& files, InputMemory& memory) {
  std::vector<LineOf> lines;
  for (size_t f = 0; f < o.files.size(); ++f) {
    MLC_ASSIGN(const HostBuffer bytes, files.read(o.files[f], memory.for_files().memory));
    memory.take_files(bytes.size());
    std::string_view text = pipeline::text_in(bytes.bytes());
    for (size_t number = 1; !text.empty(); ++number) {
      const size_t end = std::min(text.find('\n'), text.size());
      std::string_view line = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      if (line.ends_with('\r')) line.remove_suffix(1);
      for (size_t at = 0; at < line.size();) {
        uint32_t point;
        const unsigned size = decode_utf8(line, at, point);
        if (size == 0) return Status(Code::InputMismatch, 4001, "{}:{}: the text is no UTF-8: byte {} of the line is wrong", o.files[f], number, at);
        at += size;
      }
      if (line.find_first_not_of(" \t") != line.npos) lines.push_back({std::string(line), number, f});
    }
  }
  if (lines.empty()) return Status(Code::InputMismatch, 4001, "there is no line with text in {}", counted(o.files.size(), "file"));
  return lines;
}

struct Vectors {
  std::string name;
  size_t width = 0;
  std::vector<float> elements;  // [texts, width]
};

// A session, and the pipeline that takes one list of texts and gives one vector for each.
class Embedder {
 public:
  Embedder(const OpenModel& model, const mlio::Target& target, MlcSession* session, pipeline::AnswerBudget budget)
      : model_(model), target_(target), session_(session), budget_(budget) {}

  // Usage if the pipeline takes anything else than texts.
  static Status check(const OpenModel& model, const mlio::Target& target) {
    const auto refuse = [&](const std::string& why) {
      return Status(Code::Usage, "embed takes a container whose pipeline makes vectors of texts, and " + why)
          .hint("mlpack build of a folder of sentence-transformers makes one; mlrun run shows what this one gives");
    };
    if (!target.pipeline) return refuse(model.info.num_programs > 0 ? "this one has no pipeline" : "this one has no program");
    const pipeline::Pipeline& p = target.pipeline->description();
    if (p.inputs.size() != 1 || p.value(p.inputs[0]).kind != pipeline::ValueKind::Strings) return refuse("this one takes " + counted(p.inputs.size(), "input") + ", not one text");
    return ok();
  }

  // Long texts beside long ones: rows of a batch are as long as the longest. No vector depends on its batch but by rounding.
  Result<Vectors> embed(const std::vector<std::string>& texts, size_t batch, const io::DecodeLimits& limits) {
    std::vector<size_t> order(texts.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return texts[a].size() > texts[b].size(); });
    Vectors all;
    for (size_t first = 0; first < order.size(); first += batch) {
      const std::span<const size_t> part(order.data() + first, std::min(batch, order.size() - first));
      MLC_RETURN_IF_ERROR(add(texts, part, limits, all));
    }
    return all;
  }

 private:
  Status add(const std::vector<std::string>& texts, std::span<const size_t> part, const io::DecodeLimits& limits, Vectors& all) {
    std::vector<std::string> chosen;
    for (const size_t k : part) chosen.push_back(texts[k]);
    const auto count = static_cast<int64_t>(chosen.size());
    std::vector<pipeline::GivenInput> given;
    given.push_back({"", {}, HostTensor::of_strings({count}, std::move(chosen))});
    MLC_ASSIGN(std::vector<NamedTensor> made, target_.pipeline->before(std::move(given), limits));
    uint64_t run_ns = 0;
    const pipeline::Programs programs = mlio::programs_of(model_, session_, nullptr, budget_, run_ns);
    MLC_ASSIGN(std::vector<pipeline::Answer> answers, target_.pipeline->run(std::move(made), {}, budget_, programs));
    const HostTensor* rows = answers.size() == 1 ? std::get_if<HostTensor>(&answers[0].value) : nullptr;
    if (!rows || rows->dtype != DType::F32 || rows->shape.size() != 2 || rows->shape[0] != count)
      return Status(Code::Usage, "embed takes a container that gives one f32 vector for each text, and this one gives something else")
          .hint("mlrun run shows what it gives");
    const auto width = static_cast<size_t>(rows->shape[1]);
    if (all.elements.empty()) {
      const auto bytes = checked_mul(texts.size(), width * sizeof(float));
      if (!bytes) return Status(Code::Resource, 6006, "{} vectors of {} numbers are too many", texts.size(), width);
      MLC_RETURN_IF_ERROR(budget_.take(*bytes, answers[0].name));
      all = {answers[0].name, width, std::vector<float>(texts.size() * width)};
    }
    if (width != all.width) return Status(Code::Internal, "vectors of {} and of {} numbers", all.width, width);
    const std::span<const float> from = rows->as<float>();
    for (size_t k = 0; k < part.size(); ++k) std::copy_n(from.data() + k * width, width, all.elements.data() + part[k] * width);
    return ok();
  }

  const OpenModel& model_;
  const mlio::Target& target_;
  MlcSession* session_;
  pipeline::AnswerBudget budget_;
};

std::string score_text(double cosine) {
  char text[32];
  std::snprintf(text, sizeof text, "%7.4f", cosine);
  return text;
}

// The lines nearest to each query, as text and as JSON.
void add_nearest(const EmbedOptions& o, const std::vector<LineOf>& lines, const Vectors& all, Report& report) {
  const std::span<const float> elements = all.elements;
  Json queries = Json::array();
  for (size_t q = 0; q < o.queries.size(); ++q) {
    const auto vector = elements.subspan((lines.size() + q) * all.width, all.width);
    Json found = Json::array();
    report.text += printable(o.queries[q]) + "\n";
    for (const Near& near : nearest(elements.first(lines.size() * all.width), all.width, vector, static_cast<size_t>(o.top))) {
      const LineOf& line = lines[near.row];
      const std::string place = o.files.size() > 1 ? o.files[line.file] + ":" : "";
      report.text += score_text(near.cosine) + "  " + printable(place) + std::to_string(line.number) + "  " + printable(line.text) + "\n";
      found.push_back({{"cosine", near.cosine}, {"file", o.files[line.file]}, {"line", static_cast<uint64_t>(line.number)}, {"text", line.text}});
    }
    queries.push_back({{"text", o.queries[q]}, {"nearest", std::move(found)}});
  }
  report.json["queries"] = std::move(queries);
}

struct InUse {
  OpenModel model;
  OpenSession session;  // of the model
};

Result<Report> embed(const EmbedOptions& o, OpenFiles& files) {
  MLC_ASSIGN(OpenModel model, open_model(files));
  MLC_ASSIGN(mlio::Target target, choose_target(model, {.specs = {}, .pipeline = o.pipeline, .program = "", .dims = {}}));
  MLC_RETURN_IF_ERROR(Embedder::check(model, target));
  MLC_RETURN_IF_ERROR(check_variant(model, o.variant));
  MLC_ASSIGN(InputMemory memory, InputMemory::allowed(model, o.variant.limits));
  MLC_ASSIGN(const std::vector<LineOf> lines, lines_of(o, files.inputs, memory));
  std::vector<std::string> texts;
  for (const LineOf& line : lines) texts.push_back(line.text);
  texts.insert(texts.end(), o.queries.begin(), o.queries.end());
  MLC_ASSIGN(OpenSession session, open_session(model, o.variant, {.taken = memory.shared_with_session()}));
  say_what_crashed(model.info.file, session.info.variant);

  const uint64_t start = now_ns();
  MLC_ASSIGN(pipeline::AnswerBudget budget, answer_budget(model, o.variant.limits));
  Embedder embedder(model, target, session.session.get(), budget);
  MLC_ASSIGN(Vectors all, embedder.embed(texts, static_cast<size_t>(o.batch), memory.for_files()));
  const uint64_t run_ns = now_ns() - start;
  say_what_fell_back(session);
  say_what_runs(model, session, counted(texts.size(), "text") + " · width " + std::to_string(all.width) + " · " + ms_text(run_ns), o.as_json);

  Report report;
  report.json = {{"root", std::string("sha256:") + model.info.root},
                 {"variant", session.info.variant},
                 {"threads", session.info.threads},
                 {"lines", static_cast<uint64_t>(lines.size())},
                 {"width", static_cast<uint64_t>(all.width)}};
  add_nearest(o, lines, all, report);
  if (files.output) {
    const std::span<const float> rows(all.elements.data(), lines.size() * all.width);
    std::vector<pipeline::Answer> answers;
    MLC_ASSIGN(HostTensor matrix, HostTensor::from<float>(DType::F32, {static_cast<int64_t>(lines.size()), static_cast<int64_t>(all.width)}, rows));
    answers.push_back({all.name, std::move(matrix)});
    MLC_RETURN_IF_ERROR(write_answers(answers, o.output, *files.output, budget));
    report.json["output_file"] = o.output;
  }
  report.json["timings"] = {{"open_ns", model.open_ns + session.load_ns}, {"run_ns", run_ns}};
  report.in_use = std::make_shared<const InUse>(InUse{std::move(model), std::move(session)});
  return report;
}

}  // namespace

void add_embed_command(Program& program) {
  auto o = std::make_shared<EmbedOptions>();
  const Command command = program.add_command("embed", "vectors of lines, and the lines nearest to a text",
                                              "  mlrun embed minilm.mlc sentences.txt --query \"how do I cancel?\" --top 3\n"
                                              "  mlrun embed minilm.mlc sentences.txt -o vectors.npy\n",
                                              o->as_json);
  add_container_options(command, o->container);
  add_variant_options(command, o->variant);
  add_limit_options(command, o->variant.limits);
  command.add_option("lines", o->files, "files of lines, each line a text; '-' is standard input");
  command.add_option("-q,--query", o->queries, "a text: the lines nearest to it are shown, by the cosine of their vectors");
  command.add_option("--top", o->top, "how many lines for each query").within(1, 1000000).shows_default();
  command.add_option("--batch", o->batch, "texts that run together").within(1, 4096).shows_default();
  command.add_option("--pipeline", o->pipeline, "which pipeline, where the file has several");
  command.add_option("-o,--output", o->output, "write the vectors of the lines: .npy, .npz or .json");
  command.on_run([o] {
    if (o->files.empty()) return finish("embed", o->as_json, Status(Code::Usage, "a file of lines is required").hint("mlrun embed --help"));
    if (o->queries.empty() && o->output.empty())
      return finish("embed", o->as_json, Status(Code::Usage, "nothing is asked for").hint("--query TEXT shows the nearest lines, -o FILE.npy writes their vectors"));
    constexpr uint64_t kRuns = 64;  // of a file that nobody trusts: how many batches is not known before its lines are read
    return answer({"embed", o->as_json, o->container, o->files, o->output,
                   {.limits = &o->variant.limits, .count = kRuns, .threads = o->variant.threads}},
                  [&](OpenFiles& files) { return embed(*o, files); });
  });
}

}  // namespace mlc::cli
