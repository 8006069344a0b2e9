#include "runtime/pipeline/stream_run.h"

#include <algorithm>
#include <cstring>

#include "base/counted.h"
#include "runtime/io/sound/wav.h"
#include "runtime/pipeline/joined_sound.h"

namespace mlc::pipeline {
namespace {

// The first section that takes the value says what it is.
Result<HostTensor> first_of(const Pipeline& p, ValueId id, const Programs& programs) {
  for (const Section& section : sections(p))
    if (section.is_array && std::find(section.in.begin(), section.in.end(), id) != section.in.end())
      return programs.zeros(section.program, p.value(id).name);
  return Status(Code::Internal, "no program takes '{}'", p.value(id).name);
}

// Answers of chunks, put together.
class AllChunks {
 public:
  AllChunks(uint64_t chunks, AnswerBudget& budget) : chunks_(chunks), budget_(budget) {}

  Status add(Chunk chunk) {
    if (chunk.index == 0) return begin(std::move(chunk.answers));
    for (size_t k = 0; k < chunk.answers.size(); ++k) {
      Answer& from = chunk.answers[k];
      if (auto* t = std::get_if<HostTensor>(&from.value)) {
        MLC_RETURN_IF_ERROR(add_array(k, chunk.index, *t));
      } else if (auto* classes = std::get_if<Classes>(&from.value)) {
        std::ranges::move(classes->rows, std::back_inserter(std::get<Classes>(all_[k].value).rows));
      } else if (auto* sound = std::get_if<SoundFile>(&from.value)) {
        MLC_RETURN_IF_ERROR(add_sound(k, *sound));
      } else if (auto* text = std::get_if<Text>(&from.value)) {
        std::ranges::move(text->lines, std::back_inserter(std::get<Text>(all_[k].value).lines));
      }
    }
    return ok();
  }
  std::vector<Answer> take() && {
    for (size_t k = 0; k < all_.size(); ++k)
      if (auto* sound = std::get_if<SoundFile>(&all_[k].value)) {
        std::ranges::copy(sounds_[k].header(), sound->bytes.begin());
        sound->samples = sounds_[k].about().samples;
      }
    return std::move(all_);
  }

 private:
  Status begin(std::vector<Answer> answers) {
    all_ = std::move(answers);
    one_.resize(all_.size());
    sounds_.resize(all_.size());
    for (size_t k = 0; k < all_.size(); ++k) {
      if (auto* sound = std::get_if<SoundFile>(&all_[k].value)) {
        SoundFile first = std::move(*sound);
        *sound = {first.media_type, first.rate, first.channels, 0, std::vector<std::byte>(io::kWavHeader)};
        MLC_RETURN_IF_ERROR(add_sound(k, first));
      }
      auto* t = std::get_if<HostTensor>(&all_[k].value);
      if (!t) continue;
      HostTensor first = std::move(*t);
      one_[k] = {first.dtype, first.shape};
      std::vector<int64_t> shape = first.shape;
      shape.insert(shape.begin(), static_cast<int64_t>(chunks_));
      if (first.dtype == DType::Str) {
        *t = HostTensor::of_strings(std::move(shape), {});
      } else {
        MLC_RETURN_IF_ERROR(budget_.take(chunks_, first.data.size(), all_[k].name));
        MLC_ASSIGN(*t, HostTensor::zeros(first.dtype, std::move(shape)));
      }
      MLC_RETURN_IF_ERROR(add_array(k, 0, first));
    }
    return ok();
  }

  Status add_array(size_t k, uint64_t index, HostTensor& from) {
    if (from.dtype != one_[k].dtype || from.shape != one_[k].shape)
      return Status(Code::InputMismatch, 4001, "'{}' is {} in chunk {} and {} in those before it, and all chunks together are one array", all_[k].name,
                    type_text(from.dtype, from.shape), index, type_text(one_[k].dtype, one_[k].shape))
          .hint("--stream gives the answers of each chunk");
    auto& to = std::get<HostTensor>(all_[k].value);
    std::ranges::move(from.strings, std::back_inserter(to.strings));
    if (from.data.size() > 0) std::memcpy(to.data.data() + index * from.data.size(), from.data.data(), from.data.size());
    return ok();
  }

  // Grows by half of itself, so that a sample is moved a few times however many chunks there are.
  Status add_sound(size_t k, const SoundFile& part) {
    auto& to = std::get<SoundFile>(all_[k].value).bytes;
    MLC_ASSIGN(const Bytes samples, sounds_[k].add(part, all_[k].name));
    const size_t needed = to.size() + samples.size();
    if (needed > to.capacity()) {
      const size_t room = std::max(needed, to.capacity() + to.capacity() / 2);
      MLC_RETURN_IF_ERROR(budget_.take(room - to.capacity(), all_[k].name));
      to.reserve(room);
    }
    to.insert(to.end(), samples.begin(), samples.end());
    return ok();
  }

  struct Type {
    DType dtype = DType::None;
    std::vector<int64_t> shape;
  };
  uint64_t chunks_;
  AnswerBudget& budget_;
  std::vector<Answer> all_;
  std::vector<Type> one_;  // of each array, in one chunk
  std::vector<JoinedSound> sounds_;
};

// Nothing is kept of answers that are numbers or sounds, once they are copied.
bool are_copied(const std::vector<Answer>& answers) {
  return std::ranges::all_of(answers, [](const Answer& a) {
    if (std::holds_alternative<SoundFile>(a.value)) return true;
    const auto* t = std::get_if<HostTensor>(&a.value);
    return t && t->dtype != DType::Str;
  });
}

}  // namespace

Result<StreamRun> StreamRun::open(const HostPipeline& pipeline, const Programs& programs, AnswerBudget& budget) {
  StreamRun run(pipeline);
  const Pipeline& p = pipeline.description();
  MLC_RETURN_IF_ERROR(budget.take(static_cast<uint64_t>(p.stream->window()), 2 * sizeof(float), "the chunks of the stream"));
  for (const Stream::Carried& carried : p.stream->carry) {
    MLC_ASSIGN(HostTensor first, first_of(p, carried.value, programs));
    MLC_RETURN_IF_ERROR(budget.take(first.data.size(), p.value(carried.value).name));  // what is carried next
    run.carried_.push_back(std::move(first));
  }
  run.reset();
  return run;
}

void StreamRun::reset() {
  samples_.assign(static_cast<size_t>(stream().context), 0.0f);
  at_ = 0;
  index_ = 0;
  is_finished_ = false;
  for (HostTensor& t : carried_)
    if (t.data.size() > 0) std::memset(t.data.data(), 0, t.data.size());
}

uint64_t StreamRun::fresh() const {
  const uint64_t used = at_ + static_cast<uint64_t>(stream().context);
  return samples_.size() > used ? samples_.size() - used : 0;
}

Status StreamRun::give(std::vector<NamedTensor> beside, AnswerBudget& budget) {
  if (index_ > 0) return Status(Code::InputMismatch, 4001, "the stream has begun, and what is given beside its sound stays the same").hint("reset begins another sound");
  for (NamedTensor& t : beside) {
    MLC_RETURN_IF_ERROR(budget.take(t.tensor.data.size(), t.name));
    MLC_ASSIGN(t.tensor, t.tensor.clone());  // it may be a view of what the caller has
  }
  beside_ = std::move(beside);
  is_given_ = true;
  return ok();
}

Status StreamRun::push(std::span<const float> samples) {
  if (is_finished_) return Status(Code::Usage, "the stream is finished, and takes no more samples").hint("reset begins another sound");
  if (samples.size() > io::kMaxSamples || samples_.size() - at_ + samples.size() > io::kMaxSamples)
    return Status(Code::Resource, 6006, "{} samples wait for their chunks, at most {}", samples_.size() - at_ + samples.size(), io::kMaxSamples)
        .hint("run the chunks that are complete before more is pushed");
  samples_.erase(samples_.begin(), samples_.begin() + static_cast<std::ptrdiff_t>(at_));
  at_ = 0;
  samples_.insert(samples_.end(), samples.begin(), samples.end());
  return ok();
}

bool StreamRun::has_chunk() const {
  return fresh() >= static_cast<uint64_t>(stream().hop) || (is_finished_ && stream().pads && fresh() > 0);
}

Result<Chunk> StreamRun::run_chunk(std::optional<int64_t> top, AnswerBudget& budget, const Programs& programs) {
  if (!has_chunk()) return Status(Code::Internal, "the stream has no chunk");
  const Pipeline& p = pipeline_->description();
  if (!is_given_ && p.inputs.size() > 1) MLC_RETURN_IF_ERROR(pipeline_->beside_sound({}).status());
  std::vector<NamedTensor> made;
  for (NamedTensor& t : beside_) {
    MLC_ASSIGN(HostTensor view, HostTensor::view(t.tensor.dtype, t.tensor.shape, t.tensor.data.data(), t.tensor.data.size()));
    made.push_back({t.name, std::move(view)});
  }
  MLC_ASSIGN(HostTensor window, HostTensor::zeros(DType::F32, {stream().window()}));
  const size_t there = std::min(samples_.size() - at_, static_cast<size_t>(stream().window()));
  std::memcpy(window.data.data(), samples_.data() + at_, there * sizeof(float));
  made.push_back({p.value(stream().sound).name, std::move(window)});
  for (size_t k = 0; k < carried_.size(); ++k) {
    HostTensor& t = carried_[k];
    MLC_ASSIGN(HostTensor view, HostTensor::view(t.dtype, t.shape, t.data.data(), t.data.size()));
    made.push_back({p.value(stream().carry[k].value).name, std::move(view)});
  }
  Chunk chunk{index_, index_ * static_cast<uint64_t>(stream().hop), {}, {}};
  MLC_ASSIGN(chunk.answers, pipeline_->run_chunk(std::move(made), top, budget, programs, carried_, chunk.carried));
  return chunk;
}

void StreamRun::pass(Chunk& chunk) {
  carried_.swap(chunk.carried);
  ++index_;
  at_ = std::min(at_ + static_cast<size_t>(stream().hop), samples_.size());
}

Result<std::vector<Answer>> run_all_chunks(const HostPipeline& pipeline, const HostTensor& sound, std::vector<NamedTensor> beside, std::optional<int64_t> top,
                                           AnswerBudget& budget, const Programs& programs) {
  const Stream& stream = *pipeline.description().stream;
  const uint64_t samples = sound.data.size() / sizeof(float), hop = static_cast<uint64_t>(stream.hop);
  const uint64_t chunks = samples / hop + (stream.pads && samples % hop > 0 ? 1 : 0);
  if (chunks == 0) return no_chunk(stream, samples);
  MLC_ASSIGN(StreamRun run, StreamRun::open(pipeline, programs, budget));
  MLC_RETURN_IF_ERROR(run.give(std::move(beside), budget));
  AllChunks all(chunks, budget);
  for (uint64_t at = 0; at < samples; at += hop) {
    MLC_RETURN_IF_ERROR(run.push(sound.as<float>().subspan(at, std::min(hop, samples - at))));
    if (at + hop >= samples) run.finish();
    if (!run.has_chunk()) continue;
    const uint64_t before = budget.left();
    MLC_ASSIGN(Chunk chunk, run.run_chunk(top, budget, programs));
    run.pass(chunk);
    if (are_copied(chunk.answers)) budget.give_back(before - budget.left());
    MLC_RETURN_IF_ERROR(all.add(std::move(chunk)));
  }
  return std::move(all).take();
}

Status no_chunk(const Stream& stream, uint64_t samples) {
  if (samples == 0) return Status(Code::InputMismatch, 4001, "the sound has no samples");
  return Status(Code::InputMismatch, 4001, "the sound has {}, and a chunk of the stream takes {}: what is no whole chunk is dropped",
                counted(samples, "sample"), stream.hop);
}

}  // namespace mlc::pipeline
