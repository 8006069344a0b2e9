#include "runtime/cli/stream/stream_chunks.h"

#include <algorithm>
#include <cstdio>

#include "runtime/cli/answers/answers.h"
#include "runtime/cli/stream/stream_sound.h"
#include "runtime/cli/watched_programs.h"
#include "runtime/pipeline/joined_sound.h"
#include "runtime/pipeline/stream_run.h"

namespace mlc::cli {
namespace {

const pipeline::Pipeline& pipeline_of(const StreamWork& work) { return work.target.pipeline->description(); }

const pipeline::DecodeAudio& decoder_of(const pipeline::Pipeline& p) {
  const auto step = std::find_if(p.steps.begin(), p.steps.end(), [&](const pipeline::Step& s) { return !s.out.empty() && s.out[0] == p.stream->sound; });
  return std::get<pipeline::DecodeAudio>(step->what);  // the parser has seen to it
}

// What is given for the sound, without a name or by its own, and what is given beside it.
struct GivenSpecs {
  std::vector<std::string> sound;
  InputOptions beside;
};
Result<GivenSpecs> given_specs(const StreamWork& work) {
  const std::vector<std::string> names = input_names(work.model, work.target), texts = text_names(work.target);
  GivenSpecs given{{}, work.input};
  given.beside.specs.clear();
  for (const std::string& text : work.input.specs) {
    MLC_ASSIGN(const io::InputSpec spec, io::parse_input_spec(text, names, texts));
    const bool is_beside = std::find(names.begin(), names.end(), spec.name) != names.end() && spec.name != pipeline_of(work).value(pipeline_of(work).stream->input).name;
    (is_beside ? given.beside.specs : given.sound).push_back(text);
  }
  return given;
}

// Is the sound standard input, of which the pipeline takes WAV files?
bool is_wav_to_come(const StreamWork& work, const GivenSpecs& given) {
  if (given.sound.size() != 1) return false;
  const pipeline::Pipeline& p = pipeline_of(work);
  const pipeline::Value& input = p.value(p.stream->input);
  const auto spec = io::parse_input_spec(given.sound[0], std::vector<std::string>{input.name});
  if (!spec || spec->kind != io::InputSpec::Kind::File || spec->path != "-" || (!spec->name.empty() && spec->name != input.name)) return false;
  return std::find(input.accept.begin(), input.accept.end(), "audio/wav") != input.accept.end();
}

// Everything of a chunk in one line.
std::string text_line(double start_s, const std::string& text) {
  char start[32];
  std::snprintf(start, sizeof start, "%9.3f", start_s);
  std::string line = start;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    if (end > at) line += "   " + text.substr(at, end - at);
    at = end + 1;
  }
  return line + "\n";
}

// What follows waits for nothing: a reader has the line as soon as it is there.
Status print_line(const std::string& line) {
  const bool is_written = std::fwrite(line.data(), 1, line.size(), stdout) == line.size() && std::fflush(stdout) == 0;
  return is_written ? ok() : Status(Code::NotFound, "the answer could not be written to standard output");
}

// The sound that the chunks make together, as a file that gets longer.
class SoundOutput {
 public:
  explicit SoundOutput(io::FileWriter* file) : file_(file) {}

  // Takes it from the answers: the others are shown.
  Status take(std::vector<pipeline::Answer>& answers) {
    if (!file_) return ok();
    const auto answer = std::find_if(answers.begin(), answers.end(), [](const auto& a) { return std::holds_alternative<pipeline::SoundFile>(a.value); });
    if (answer == answers.end()) return Status(Code::Internal, "no sound among the answers");
    const bool is_first = sound_.about().channels == 0;
    MLC_ASSIGN(const Bytes samples, sound_.add(std::get<pipeline::SoundFile>(answer->value), answer->name));
    if (is_first) MLC_RETURN_IF_ERROR(file_->write(sound_.header()));
    MLC_RETURN_IF_ERROR(file_->write(samples));
    answers.erase(answer);
    return ok();
  }
  Status finish() {
    if (!file_) return ok();
    MLC_RETURN_IF_ERROR(file_->write_first(sound_.header()));
    return file_->sync();
  }

 private:
  io::FileWriter* file_;
  pipeline::JoinedSound sound_;
};

Status print_chunk(const StreamWork& work, const pipeline::Chunk& chunk, pipeline::AnswerBudget& budget) {
  if (chunk.answers.empty() && !work.as_json) return ok();
  const double start_s = static_cast<double>(chunk.start) / pipeline_of(work).stream->rate;
  if (!work.as_json) {
    MLC_ASSIGN(const std::string text, text_of(chunk.answers, budget));
    return print_line(printable_lines(text_line(start_s, text)));
  }
  Json json = {{"schema", "mlc.chunk/1"}, {"chunk", chunk.index}, {"start_s", start_s}};
  MLC_ASSIGN(json["outputs"], json_of(chunk.answers, budget));
  return print_line(line_of(json));
}

}  // namespace

Status check_stream(const StreamWork& work) {
  const StreamOptions& o = work.options;
  if (!o.is_on && !o.pcm.empty()) return Status(Code::Usage, "--pcm says how the samples are written that --stream reads").hint("add --stream");
  if (!o.is_on) return ok();
  if (!work.target.pipeline)
    return Status(Code::Usage, "--stream cuts the sound of a pipeline into chunks, and this run has no pipeline").hint("leave out --stream");
  if (!pipeline_of(work).stream)
    return Status(Code::Usage, "--stream: pipeline '{}' has no 'stream', and runs once over its whole inputs", pipeline_of(work).name)
        .hint("leave out --stream");
  if (work.output.empty()) return ok();
  if (!work.output.ends_with(".wav"))
    return Status(Code::Usage, "-o {} with --stream: each chunk is printed when it is there, but for a sound, FILE.wav", work.output)
        .hint("without --stream, -o writes the answers of all chunks");
  const pipeline::Pipeline& p = pipeline_of(work);
  const auto sounds = std::count_if(p.outputs.begin(), p.outputs.end(), [&](pipeline::ValueId id) { return p.value(id).kind == pipeline::ValueKind::Sound; });
  if (sounds != 1) return Status(Code::Usage, "-o {}: .wav holds one sound, there are {} among the answers", work.output, sounds);
  return ok();
}

namespace {

// Raw samples.
Result<std::unique_ptr<StreamSound>> open_pcm(const StreamWork& work, const GivenSpecs& given, OpenFiles& files) {
  MLC_ASSIGN(const io::PcmFormat format, io::parse_pcm_format(work.options.pcm));
  const std::string& name = pipeline_of(work).value(pipeline_of(work).stream->input).name;
  if (given.sound.size() != 1)
    return Status(Code::Usage, "--pcm is of one input, and there are {}", given.sound.size()).hint("--input - reads raw samples from standard input");
  MLC_ASSIGN(const io::InputSpec spec, io::parse_input_spec(given.sound[0], std::vector<std::string>{name}));
  if (spec.kind != io::InputSpec::Kind::File || !spec.array.empty())
    return Status(Code::Usage, "--pcm is of a file or of standard input, and '{}' is none", given.sound[0]).hint("--input FILE, or --input -");
  if (!spec.name.empty() && spec.name != name) return Status(Code::InputMismatch, 4001, "'{}' is no input of the pipeline", spec.name).fact("it has " + name);
  MLC_ASSIGN(io::FileReader reader, files.inputs.reader(spec.path));
  return sound_of(std::move(reader), format, decoder_of(pipeline_of(work)));
}

}  // namespace

Result<StreamInputs> open_inputs(const StreamWork& work, OpenFiles& files, InputMemory& memory) {
  StreamInputs inputs;
  MLC_ASSIGN(const GivenSpecs given, given_specs(work));
  if (!work.options.pcm.empty()) {
    MLC_ASSIGN(inputs.sound, open_pcm(work, given, files));
  } else if (is_wav_to_come(work, given)) {
    MLC_ASSIGN(inputs.sound, sound_that_comes(files.inputs, decoder_of(pipeline_of(work))));
  }
  if (inputs.sound) {
    if (pipeline_of(work).inputs.size() > 1 || !given.beside.specs.empty()) {
      MLC_ASSIGN(inputs.beside, make_inputs_beside_sound(work.model, work.target, given.beside, files.inputs, memory));
    }
    return inputs;
  }
  MLC_ASSIGN(std::vector<NamedTensor> all, make_inputs(work.model, work.target, work.input, files.inputs, memory));
  for (NamedTensor& t : all)
    if (t.name == pipeline_of(work).value(pipeline_of(work).stream->sound).name) inputs.sound = sound_of(std::move(t.tensor));
    else inputs.beside.push_back(std::move(t));
  return inputs.sound ? Result<StreamInputs>(std::move(inputs)) : Status(Code::Internal, "no step has made the sound");
}

Result<StreamDone> run_chunks(const StreamWork& work, StreamInputs inputs, MlcSession* session, io::FileWriter* file) {
  StreamDone done;
  SoundOutput output(file);
  MLC_ASSIGN(pipeline::AnswerBudget all, answer_budget(work.model, work.limits));
  const pipeline::Programs to_open = watched_programs(work.model, session, all, done.run_ns);
  MLC_ASSIGN(pipeline::StreamRun stream, pipeline::StreamRun::open(*work.target.pipeline, to_open, all));
  MLC_RETURN_IF_ERROR(stream.give(std::move(inputs.beside), all));
  for (bool is_end = false; !is_end;) {
    MLC_ASSIGN(const std::span<const float> piece, inputs.sound->next());
    is_end = piece.empty();
    done.samples += piece.size();
    if (is_end) stream.finish();
    else MLC_RETURN_IF_ERROR(stream.push(piece));
    while (stream.has_chunk()) {
      pipeline::AnswerBudget budget = all;  // what a chunk takes beside the stream is gone when it is printed
      const pipeline::Programs programs = watched_programs(work.model, session, budget, done.run_ns);
      MLC_ASSIGN(pipeline::Chunk chunk, stream.run_chunk(work.top, budget, programs));
      stream.pass(chunk);
      MLC_RETURN_IF_ERROR(output.take(chunk.answers));
      MLC_RETURN_IF_ERROR(print_chunk(work, chunk, budget));
      ++done.chunks;
    }
  }
  if (done.chunks == 0) return pipeline::no_chunk(*pipeline_of(work).stream, done.samples);
  MLC_RETURN_IF_ERROR(output.finish());
  return done;
}

}  // namespace mlc::cli
