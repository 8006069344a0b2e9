// mlrun embed: the vectors of lines of text or of files, and those that are nearest to a text.
#include <sys/stat.h>

#include <algorithm>
#include <memory>

#include "base/cli/program.h"
#include "base/cli/report.h"
#include "base/counted.h"
#include "base/text/text.h"
#include "runtime/cli/answers/answers.h"
#include "runtime/cli/answers/duration.h"
#include "runtime/cli/commands.h"
#include "runtime/cli/crash.h"
#include "runtime/cli/embed/embedder.h"
#include "runtime/cli/embed/nearest.h"
#include "runtime/cli/embed/vector_index.h"
#include "runtime/cli/files/file_answer.h"
#include "runtime/cli/files/file_list.h"
#include "runtime/cli/files/overlap.h"
#include "runtime/cli/inputs/program_io.h"
#include "runtime/cli/isolation.h"
#include "runtime/cli/options.h"
#include "runtime/cli/system.h"
#include "runtime/probe/probe.h"

namespace mlc::cli {
namespace {

struct EmbedOptions {
  ContainerOptions container;
  VariantOptions variant;
  std::vector<std::string> files, queries;
  std::string list, index, pipeline, query_pipeline, output;
  int64_t top = 5, batch = 32;
  bool as_json = false;
};

// The files that are embedded. A process that may open none later on has them open.
struct Sources {
  std::optional<FileList> list;
  std::vector<std::optional<Result<signing::Descriptor>>> open;
  std::vector<ListedFile> files;

  Result<signing::Descriptor> take(size_t k) { return open.empty() ? list->open(files[k]) : *std::move(open[k]); }
};

Status allow_descriptors(uint64_t num_files) {
  constexpr uint64_t kBeside = 64;
  const uint64_t allowed = descriptors_allowed(num_files + kBeside);
  if (allowed >= num_files + kBeside) return ok();
  return Status(Code::Resource, "{} are opened before the container is, and this process may open {}", counted(num_files, "file"), allowed)
      .hint("a container that mlrun trust vouches for opens one after the other; or embed them in parts");
}

Status find_sources(const EmbedOptions& o, OpenFiles& files, Sources& sources) {
  if (o.files.empty() && o.list.empty()) return ok();
  MLC_ASSIGN(FileList list, FileList::of({o.files, o.list, ""}));
  sources.files = list.files();
  if (sources.files.empty()) return Status(Code::NotFound, "there is no file in what was given");
  if (list.links() > 0) note("warning: " + counted(list.links(), "symbolic link") + " not followed");
  sources.list.emplace(std::move(list));
  files.more_runs = sources.files.size();
  for (const ListedFile& f : sources.files) files.uses_stdin = files.uses_stdin || f.path == "-";
  if (!files.isolated) return ok();
  MLC_RETURN_IF_ERROR(allow_descriptors(sources.files.size()));
  for (const ListedFile& f : sources.files) {
    auto opened = sources.list->open(f);
    struct stat st = {};
    if (opened.ok() && fstat(opened->get(), &st) == 0 && S_ISREG(st.st_mode)) files.input_bytes += static_cast<uint64_t>(st.st_size);
    sources.open.emplace_back(std::move(opened));
  }
  sources.list.reset();
  return ok();
}

// Lines that are not blank.
Status add_lines(std::string_view text, const std::string& path, std::vector<Row>& rows) {
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    for (size_t at = 0; at < line.size();) {
      uint32_t point;
      const unsigned size = decode_utf8(line, at, point);
      if (size == 0) return Status(Code::InputMismatch, 4001, "{}:{}: the text is no UTF-8: byte {} of the line is wrong", path, number, at);
      at += size;
    }
    if (line.find_first_not_of(" \t") != line.npos) rows.push_back({path, number, std::string(line)});
  }
  return ok();
}

// What a run of the command holds.
struct Work {
  const EmbedOptions& o;
  const OpenModel& model;
  Sources& sources;
  InputMemory& memory;
  pipeline::AnswerBudget& budget;
  uint64_t skipped = 0;
  Json failed = Json::array();  // files that have no vector
};

void say_skipped(const Work& w) {
  if (w.skipped > 0) note("warning: " + counted(w.skipped, "file") + " skipped that the pipeline does not take");
}

FilesTask task_of(const Work& w, const mlio::Target& target) { return {w.model, target, w.o.variant.limits, "", 0, false}; }

Status read_lines(Work& w, const mlio::Target& target, std::vector<Row>& rows) {
  for (size_t f = 0; f < w.sources.files.size(); ++f) {
    const std::string& path = w.sources.files[f].path;
    MLC_ASSIGN(const signing::Descriptor open, w.sources.take(f));
    if (!why_skipped(task_of(w, target), w.sources.files[f], open).empty()) {
      ++w.skipped;
      continue;
    }
    MLC_ASSIGN(const HostBuffer bytes, io::read_open_file(open.get(), path, {.bytes = w.memory.for_files().memory}));
    w.memory.take_files(bytes.size());
    MLC_RETURN_IF_ERROR(add_lines(pipeline::text_in(bytes.bytes()), path, rows));
  }
  say_skipped(w);
  if (rows.empty()) return Status(Code::InputMismatch, 4001, "there is no line with text in {}", counted(w.sources.files.size(), "file"));
  return ok();
}

// A vector of each file that the pipeline takes. One that is broken is told, and the others are done.
Status embed_files(Work& w, const mlio::Target& target, Embedder& embedder, VectorIndex& index) {
  const FilesTask task = task_of(w, target);
  const auto decode = [&](size_t f) { return decode_file(task, w.sources.files[f], w.sources.take(f)); };
  std::optional<MadeAhead<DecodedFile>> ahead;  // an isolated process has memory for one file
  const size_t workers = w.o.variant.threads != 0 ? w.o.variant.threads : probe::workers_for(probe::host().topology, 0);
  if (!w.model.isolated) ahead.emplace(w.sources.files.size(), num_decoders(workers), kMostWaiting, decode, [](const DecodedFile& d) { return d.bytes; });
  for (size_t f = 0; f < w.sources.files.size(); ++f) {
    const ListedFile& file = w.sources.files[f];
    DecodedFile decoded = ahead ? ahead->take() : decode(f);
    w.skipped += !decoded.skipped.empty();
    if (!decoded.skipped.empty()) continue;
    Status done = std::move(decoded.failure);
    if (done.ok()) done = embedder.add_file(std::move(decoded.made), index.vectors);
    if (done.code == Code::Usage || done.code == Code::Resource) return done;  // so it is for all of them
    if (done.ok()) index.rows.push_back({file.path, 0, ""});
    if (done.ok()) continue;
    note("warning: no vector of " + printable(file.path) + ": " + printable(done.message));
    Json failure = {{"file", file.path}};
    failure.update(to_json(done));
    w.failed.push_back(std::move(failure));
  }
  say_skipped(w);
  if (index.rows.empty()) return Status(Code::InputMismatch, 4001, "none of {} has a vector", counted(w.sources.files.size(), "file"));
  return ok();
}

// The pipeline that makes vectors of queries: the one that is named, else that of the files, else the only one that takes a text.
Result<mlio::Target> query_target(const OpenModel& model, const EmbedOptions& o) {
  const std::string& named = !o.query_pipeline.empty() ? o.query_pipeline : o.pipeline;
  const auto choose = [&](const std::string& name) { return choose_target(model, {.specs = {}, .pipeline = name, .program = "", .dims = {}}); };
  MLC_ASSIGN(mlio::Target target, choose(named));
  MLC_RETURN_IF_ERROR(Embedder::check(model, target));
  if (Embedder::takes_text(target)) return target;
  if (!o.query_pipeline.empty()) return Status(Code::Usage, "--query-pipeline {}: it takes no text", o.query_pipeline);
  MLC_ASSIGN(const std::vector<std::string> names, mlio::pipeline_names(model));
  std::string known;
  size_t count = 0;
  for (const std::string& name : names) {
    MLC_ASSIGN(mlio::Target other, choose(name));
    if (!Embedder::takes_text(other)) continue;
    known += (count++ > 0 ? ", " : "") + name;
    target = std::move(other);
  }
  if (count == 1) return target;
  if (count == 0) return Status(Code::Usage, "--query: no pipeline of this container makes a vector of a text").hint("-o INDEX.npz writes the vectors of files");
  return Status(Code::Usage, "--query: several pipelines of this container take a text: {}", known).hint("--query-pipeline NAME");
}

std::string score_text(double cosine) {
  char text[32];
  std::snprintf(text, sizeof text, "%7.4f", cosine);
  return text;
}

// The rows nearest to each query, as text and as JSON.
void add_nearest(const EmbedOptions& o, const VectorIndex& index, const Vectors& queries, Report& report) {
  const bool one_file = std::all_of(index.rows.begin(), index.rows.end(), [&](const Row& row) { return row.file == index.rows[0].file; });
  Json all = Json::array();
  for (size_t q = 0; q < o.queries.size(); ++q) {
    const auto vector = std::span(queries.elements).subspan(q * queries.width, queries.width);
    Json found = Json::array();
    report.text += printable(o.queries[q]) + "\n";
    for (const Near& near : nearest(index.vectors.elements, index.vectors.width, vector, static_cast<size_t>(o.top))) {
      const Row& row = index.rows[near.row];
      report.text += score_text(near.cosine) + "  ";
      if (row.line == 0) report.text += printable(row.file) + "\n";
      else report.text += (one_file ? "" : printable(row.file) + ":") + std::to_string(row.line) + "  " + printable(row.text) + "\n";
      Json entry = {{"cosine", near.cosine}, {"file", row.file}};
      if (row.line > 0) entry.update({{"line", row.line}, {"text", row.text}});
      found.push_back(std::move(entry));
    }
    all.push_back({{"text", o.queries[q]}, {"nearest", std::move(found)}});
  }
  report.json["queries"] = std::move(all);
}

struct InUse {
  OpenModel model;
  OpenSession session;  // of the model
};

Result<VectorIndex> index_of(Work& w, MlcSession* session, io::InputFiles& inputs, std::vector<Row> lines, const mlio::Target* target) {
  VectorIndex index;
  if (!target) {
    MLC_ASSIGN(HostBuffer bytes, inputs.read(w.o.index, {.bytes = w.memory.for_files().memory}));
    w.memory.take_files(bytes.size());
    MLC_ASSIGN(index, read_index(std::move(bytes), w.o.index, w.memory.for_files()));
    if (index.model != std::string("sha256:") + w.model.info.root && !index.model.empty())
      note("warning: another container than this one has made " + w.o.index + ": its vectors may mean something else");
    return index;
  }
  index.model = std::string("sha256:") + w.model.info.root;
  Embedder embedder(w.model, *target, session, w.budget);
  if (lines.empty()) {
    MLC_RETURN_IF_ERROR(embed_files(w, *target, embedder, index));
    return index;
  }
  std::vector<std::string> texts;
  for (const Row& row : lines) texts.push_back(row.text);
  MLC_ASSIGN(index.vectors, embedder.of_texts(texts, static_cast<size_t>(w.o.batch), w.memory.for_files()));
  index.rows = std::move(lines);
  return index;
}

Result<Vectors> vectors_of_queries(Work& w, MlcSession* session, size_t width) {
  MLC_ASSIGN(const mlio::Target target, query_target(w.model, w.o));
  Embedder embedder(w.model, target, session, w.budget);
  MLC_ASSIGN(Vectors queries, embedder.of_texts(w.o.queries, static_cast<size_t>(w.o.batch), w.memory.for_files()));
  if (queries.width != width)
    return Status(Code::InputMismatch, 4001, "the vectors have {} numbers, and those of queries {}", width, queries.width)
        .hint("a pipeline of the same model, --query-pipeline");
  return queries;
}

Status write_vectors(const EmbedOptions& o, const VectorIndex& index, io::FileWriter& writer, pipeline::AnswerBudget& budget) {
  if (o.output.ends_with(".npz")) return write_index(index, writer);
  std::vector<pipeline::Answer> answers;
  const std::vector<int64_t> shape = {static_cast<int64_t>(index.vectors.rows()), static_cast<int64_t>(index.vectors.width)};
  MLC_ASSIGN(HostTensor matrix, HostTensor::from<float>(DType::F32, shape, index.vectors.elements));
  answers.push_back({index.vectors.name, std::move(matrix)});
  return write_answers(answers, o.output, writer, budget);
}

Result<Report> embed(const EmbedOptions& o, OpenFiles& files, Sources& sources) {
  MLC_ASSIGN(OpenModel model, open_model(files));
  std::optional<mlio::Target> target;
  if (o.index.empty()) {
    MLC_ASSIGN(target, choose_target(model, {.specs = {}, .pipeline = o.pipeline, .program = "", .dims = {}}));
    MLC_RETURN_IF_ERROR(Embedder::check(model, *target));
  }
  if (!o.queries.empty()) MLC_RETURN_IF_ERROR([&]() -> Status { auto found = query_target(model, o); return found ? ok() : found.status(); }());
  MLC_RETURN_IF_ERROR(check_variant(model, o.variant));
  MLC_ASSIGN(InputMemory memory, InputMemory::allowed(model, o.variant.limits));
  MLC_ASSIGN(pipeline::AnswerBudget budget, answer_budget(model, o.variant.limits));
  Work work{o, model, sources, memory, budget};
  std::vector<Row> lines;
  if (target && Embedder::takes_text(*target)) MLC_RETURN_IF_ERROR(read_lines(work, *target, lines));
  MLC_ASSIGN(OpenSession session, open_session(model, o.variant, {.taken = memory.shared_with_session(), .pin = false}));
  say_what_crashed(model, session.info.variant);

  const uint64_t start = now_ns();
  MLC_ASSIGN(const VectorIndex index, index_of(work, session.session.get(), files.inputs, std::move(lines), target ? &*target : nullptr));
  Report report;
  const bool has_lines = index.rows[0].line > 0;
  report.json = {{"root", std::string("sha256:") + model.info.root},
                 {"variant", session.info.variant},
                 {"threads", session.info.threads},
                 {has_lines ? "lines" : "files", static_cast<uint64_t>(index.rows.size())},
                 {"width", static_cast<uint64_t>(index.vectors.width)}};
  if (o.index.empty()) report.json["skipped"] = work.skipped;
  if (o.index.empty() && !has_lines) report.json["failed"] = std::move(work.failed);
  Vectors queries;
  if (!o.queries.empty()) {
    MLC_ASSIGN(queries, vectors_of_queries(work, session.session.get(), index.vectors.width));
  }
  const uint64_t run_ns = now_ns() - start;
  say_what_fell_back(session);
  say_what_runs(model, session, counted(index.rows.size(), has_lines ? "line" : "file") + " · width " + std::to_string(index.vectors.width) + " · " + ms_text(run_ns), o.as_json);
  add_nearest(o, index, queries, report);
  if (files.output) {
    MLC_RETURN_IF_ERROR(write_vectors(o, index, *files.output, budget));
    report.json["output_file"] = o.output;
  }
  report.json["timings"] = {{"open_ns", model.open_ns + session.load_ns}, {"run_ns", run_ns}};
  report.in_use = std::make_shared<const InUse>(InUse{std::move(model), std::move(session)});
  return report;
}

Status check_options(const EmbedOptions& o) {
  const bool has_files = !o.files.empty() || !o.list.empty();
  if (!has_files && o.index.empty()) return Status(Code::Usage, "files or folders are required, or the --index that was made of them").hint("mlrun embed --help");
  if (has_files && !o.index.empty()) return Status(Code::Usage, "--index has the vectors: files beside it are not embedded").hint("leave out the files, or --index");
  if (!o.index.empty() && !o.output.empty()) return Status(Code::Usage, "--index has the vectors: -o would write them again");
  if (o.queries.empty() && o.output.empty())
    return Status(Code::Usage, "nothing is asked for").hint("--query TEXT shows what is nearest, -o FILE.npz writes the vectors");
  return ok();
}

}  // namespace

void add_embed_command(Program& program) {
  auto o = std::make_shared<EmbedOptions>();
  const Command command = program.add_command("embed", "vectors of lines or files, nearest to a text",
                                              "  mlrun embed minilm.mlc sentences.txt --query \"how do I cancel?\" --top 3\n"
                                              "  mlrun embed clip.mlc photos/ --pipeline picture -o photos.npz\n"
                                              "  mlrun embed clip.mlc --index photos.npz --query \"a red boat\"\n",
                                              o->as_json);
  add_container_options(command, o->container);
  add_variant_options(command, o->variant);
  add_limit_options(command, o->variant.limits);
  command.add_option("files", o->files, "files and folders; where the pipeline takes texts each line of a file is one; '-' is standard input");
  command.add_option("--input-list", o->list, "files that this file names, a line each; '-': those that standard input names");
  command.add_option("--index", o->index, "the vectors that -o FILE.npz wrote, in place of files");
  command.add_option("-q,--query", o->queries, "a text: the lines or files nearest to it are shown, by the cosine of their vectors");
  command.add_option("--top", o->top, "how many for each query").within(1, 1000000).shows_default();
  command.add_option("--batch", o->batch, "texts that run together").within(1, 4096).shows_default();
  command.add_option("--pipeline", o->pipeline, "which pipeline, where the file has several");
  command.add_option("--query-pipeline", o->query_pipeline, "which one takes queries; default: the same, or the only one that takes a text");
  command.add_option("-o,--output", o->output, "write the vectors: .npz with what each is of, for --index; .npy or .json");
  command.on_run([o] {
    if (Status right = check_options(*o); !right.ok()) return finish("embed", o->as_json, std::move(right));
    constexpr uint64_t kRuns = 64;  // of an untrusted file: how many batches is not known before its lines are read
    Sources sources;
    std::vector<std::string> inputs;
    if (!o->index.empty()) inputs.push_back(o->index);
    return answer({"embed", o->as_json, o->container, inputs, o->output,
                   {.limits = &o->variant.limits, .count = kRuns, .threads = o->variant.threads}, -1, {},
                   [&](OpenFiles& files) { return find_sources(*o, files, sources); }},
                  [&](OpenFiles& files) { return embed(*o, files, sources); });
  });
}

}  // namespace mlc::cli
