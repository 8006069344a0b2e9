#include "runtime/cli/files/file_answer.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/counted.h"
#include "base/files/file_calls.h"
#include "runtime/cli/answers/answers.h"
#include "runtime/cli/watched_programs.h"
#include "runtime/isolation/child_answer.h"

namespace mlc::cli {
namespace {

using pipeline::ValueKind;

constexpr size_t kFirstBytes = 4096;  // that tell what a file is

const pipeline::Value& input_of(const FilesTask& task) {
  const pipeline::Pipeline& p = task.target.pipeline->description();
  return p.value(p.inputs[0]);
}

// Whether the pipeline's input is what a file with these first bytes holds. The array that a decoder makes is none: in a folder of pictures
// an array is no picture.
bool takes(const pipeline::Value& input, Bytes first) {
  const io::Media media = io::media_of(first);
  switch (input.kind) {
    case ValueKind::Strings: return media == io::Media::Unknown && std::find(first.begin(), first.end(), std::byte{0}) == first.end();
    case ValueKind::Bytes: return true;
    case ValueKind::Media: return std::find(input.accept.begin(), input.accept.end(), io::media_type(media)) != input.accept.end();
    default: return media == io::Media::Npy || media == io::Media::Zip;
  }
}

Result<std::vector<NamedTensor>> decoded(const FilesTask& task, const ListedFile& file, int open, InputMemory& memory) {
  const io::DecodeLimits limits = memory.for_files();
  const std::string where = file.path == "-" ? "standard input" : "'" + file.path + "'";
  const io::FileLimits most = limits.of_file();
  io::LoadedInput input;
  if (const auto ends = task.target.pipeline->ends_of("")) {
    MLC_ASSIGN(io::FileEnds found, io::read_file_ends(open, file.path, ends->first, ends->last, most.bytes));
    memory.take_files(found.bytes.size());
    input = mlio::of_ends(std::move(found));
  } else {
    MLC_ASSIGN(HostBuffer bytes, io::read_open_file(open, file.path, most));
    memory.take_files(bytes.size());
    MLC_ASSIGN(input, io::load_bytes(std::move(bytes), "", where, memory.for_files()));
  }
  std::vector<pipeline::GivenInput> given;
  mlio::give(input_of(task).name, input, given);
  MLC_ASSIGN(std::vector<NamedTensor> made, task.target.pipeline->before(std::move(given), memory.for_files()));
  for (const NamedTensor& t : made) memory.take_files(t.tensor.data.size());
  return made;
}

std::string indented(const std::string& text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    out += "  " + text.substr(at, end - at) + "\n";
    at = end + 1;
  }
  return out;
}

bool is_file(ValueKind kind) { return kind == ValueKind::Image || kind == ValueKind::Sound; }

// The picture or sound among the answers, which leaves them.
std::vector<std::byte> file_among(std::vector<pipeline::Answer>& answers) {
  for (auto a = answers.begin(); a != answers.end(); ++a) {
    auto* image = std::get_if<pipeline::ImageFile>(&a->value);
    auto* sound = std::get_if<pipeline::SoundFile>(&a->value);
    if (!image && !sound) continue;
    std::vector<std::byte> bytes = std::move(image ? image->bytes : sound->bytes);
    answers.erase(a);
    return bytes;
  }
  return {};
}

Status show(const FilesTask& task, const ListedFile& file, DecodedFile decoded, const OpenSession& session, FileAnswer& out) {
  MlcError* error = nullptr;
  MLC_RETURN_IF_ERROR(status_of(api().state_reset(session.session.get(), &error), error));  // each file is answered as if it were alone
  MLC_ASSIGN(pipeline::AnswerBudget budget, answer_budget(task.model, task.limits));
  const uint64_t start = now_ns();
  uint64_t run_ns = 0;
  const pipeline::Programs programs = watched_programs(task.model, session.session.get(), budget, run_ns);
  const std::optional<int64_t> top = task.top > 0 ? std::optional<int64_t>(task.top) : std::nullopt;
  MLC_ASSIGN(std::vector<pipeline::Answer> answers, task.target.pipeline->run(std::move(decoded.made), top, budget, programs));
  if (!task.results.empty()) out.result = file_among(answers);
  out.json = fields_of_run(task.model, session);
  if (!task.results.empty()) out.json["output_file"] = result_path(task.results, file, makes_sounds(task));
  if (task.as_json_lines) {
    MLC_ASSIGN(out.json["outputs"], json_of(answers, budget));
  } else {
    MLC_ASSIGN(const std::string text, text_of(answers, budget));
    out.text = printable(file.path) + ":\n" + indented(text);
  }
  out.json["timings"] = {{"open_ns", task.model.open_ns + session.load_ns}, {"pre_ns", decoded.ns}, {"run_ns", run_ns}, {"post_ns", now_ns() - start - run_ns}};
  out.json["isolated"] = task.model.isolated;
  return ok();
}

// A message that does not say which file it is about.
Status named(Status failure, const std::string& path) {
  return failure.message.find(path) == std::string::npos ? std::move(failure).note("{}", path) : std::move(failure);
}

}  // namespace

Status check_task(const FilesTask& task, const std::string& input_name) {
  if (!task.target.pipeline)
    return Status(Code::Usage, "several files are answered by a pipeline, and this run has none").hint("mlpack build --pipeline puts one in; without --raw");
  const pipeline::Pipeline& p = task.target.pipeline->description();
  if (p.inputs.size() != 1)
    return Status(Code::Usage, "several files are given to a pipeline with one input, and this one has " + counted(p.inputs.size(), "input"))
        .hint("-i NAME=FILE for each input, one run after the other");
  if (!input_name.empty() && input_name != p.value(p.inputs[0]).name)
    return Status(Code::InputMismatch, 4001, "'{}' is no input of the pipeline", input_name).fact("it has " + p.value(p.inputs[0]).name);
  const auto made = std::count_if(p.outputs.begin(), p.outputs.end(), [&](pipeline::ValueId id) { return is_file(p.value(id).kind); });
  if (!task.results.empty() && made != 1)
    return Status(Code::Usage, "-o {}: the folder takes one picture or sound of each file, and there are {} among the answers", task.results, made)
        .hint(made == 0 ? "leave out -o: the answers are on standard output" : "a pipeline whose 'outputs' have one picture or sound");
  return ok();
}

std::string why_skipped(const FilesTask& task, const ListedFile& file, const signing::Descriptor& open) {
  if (file.is_named()) return "";  // the user named it, so errors in it are reported
  std::array<std::byte, kFirstBytes> first;
  const int64_t got = read_some_at(open.get(), first.data(), first.size(), 0);
  const Bytes bytes(first.data(), static_cast<size_t>(std::max<int64_t>(got, 0)));
  return takes(input_of(task), bytes) ? "" : std::string(io::describe_bytes(bytes));
}

DecodedFile decode_file(const FilesTask& task, const ListedFile& file, Result<signing::Descriptor> open) {
  DecodedFile out;
  const uint64_t start = now_ns();
  if (!open) {
    out.failure = std::move(open).status();
    const bool is_text = input_of(task).kind == ValueKind::Strings && out.failure.code == Code::NotFound;
    if (is_text) out.failure = std::move(out.failure).hint("a text that is no file is given without --json-lines, which takes files");
    return out;
  }
  out.skipped = why_skipped(task, file, *open);
  if (!out.skipped.empty()) return out;
  const auto done = reported(file.path, "--memory-limit allows more, if the host has it", [&]() -> Result<Report> {
    MLC_ASSIGN(InputMemory memory, InputMemory::allowed(task.model, task.limits));
    MLC_ASSIGN(out.made, decoded(task, file, open->get(), memory));
    out.counted = memory.shared_with_session();
    return Report{};
  });
  if (!done) out.failure = done.status();
  for (const NamedTensor& t : out.made) out.bytes += t.tensor.data.size();
  out.ns = now_ns() - start;
  return out;
}

FileAnswer answer_file(const FilesTask& task, const ListedFile& file, DecodedFile decoded, const OpenSession& session) {
  FileAnswer out;
  out.path = file.path;
  out.skipped = decoded.skipped;
  out.failure = std::move(decoded.failure);
  if (out.failure.ok() && out.skipped.empty()) {
    const auto done = reported(file.path, "--memory-limit allows more, if the host has it", [&]() -> Result<Report> {
      MLC_RETURN_IF_ERROR(show(task, file, std::move(decoded), session, out));
      return Report{};
    });
    if (!done) out.failure = done.status();
  }
  return out;
}

int print_answer(const FileAnswer& answer, bool as_json_lines) {
  if (!answer.skipped.empty()) return 0;
  if (!as_json_lines) {
    if (!answer.failure.ok()) note(named(answer.failure, answer.path).text());
    else std::fputs(printable_lines(answer.text).c_str(), stdout);
  } else {
    Json line = first_fields("run", answer.failure);
    line["file"] = answer.path;
    if (answer.failure.ok()) line.update(answer.json);
    const std::string text = line_of(line);
    std::fwrite(text.data(), 1, text.size(), stdout);
  }
  if (!answer.failure.ok()) std::fflush(stdout);
  return answer.failure.ok() ? flush_answer() : static_cast<int>(answer.failure.code);
}

bool makes_sounds(const FilesTask& task) {
  const pipeline::Pipeline& p = task.target.pipeline->description();
  return std::any_of(p.outputs.begin(), p.outputs.end(), [&](pipeline::ValueId id) { return p.value(id).kind == ValueKind::Sound; });
}

std::string result_path(const std::string& results, const ListedFile& file, bool is_sound) {
  return results + (results.ends_with('/') ? "" : "/") + file.place + (is_sound ? ".wav" : ".png");
}

}  // namespace mlc::cli
