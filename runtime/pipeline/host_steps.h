// The steps of a pipeline that run on the host, one function each.
#pragma once

#include <span>

#include "runtime/io/limits.h"
#include "runtime/io/sound/wav.h"
#include "runtime/pipeline/answer_budget.h"
#include "runtime/pipeline/answers.h"
#include "schema/pipeline/steps.h"
#include "schema/text/compiled.h"

namespace mlc::pipeline {

Result<HostTensor> decode_image(const DecodeImage& step, Bytes file, const io::DecodeLimits& limits = {});
// f32 [samples], or [samples, channels] with Channels::Keep. A sample rate other than the step's is an error.
Result<HostTensor> decode_audio(const DecodeAudio& step, Bytes file, const io::DecodeLimits& limits = {});
inline constexpr int64_t kMostSoundChannels = 64;  // of an array: [channels, samples] is told from [samples, channels] by it
// Whether an array stands for the file of a sound: f32, f64 or i16, [samples] or [samples, channels].
bool is_decoded_sound(const HostTensor& array);
// The same of such an array as of a file that holds its samples: i16 are divided by 2^15, floats are taken as they are, NaN too. Its rate is the step's.
Result<HostTensor> decode_samples(const DecodeAudio& step, const HostTensor& array, const io::DecodeLimits& limits = {});

// A file of any kind, of which a part may be left out that no step reads.
struct FileContent {
  Bytes bytes;
  uint64_t gap_at = 0, gap = 0;  // as in GivenInput

  uint64_t size() const { return bytes.size() + gap; }
};
// i32 [length of all parts]. InputMismatch (E4001): the first part has fewer bytes than the step's `least`.
Result<HostTensor> file_bytes(const FileBytes& step, const FileContent& file, const io::DecodeLimits& limits = {});

// InputMismatch where a sound has another number of samples per second than the pipeline takes.
Status check_rate(uint32_t found, uint32_t taken);
io::Channels channels_of(Channels channels);

// A list of texts [n], or one text [].
struct TextList {
  std::string name;  // of the input, for messages
  std::span<const std::string> texts;
};
// One array i64 [texts, tokens], or of windows, for each of the step's parts. `second` is null where one text is taken. Usage or InputMismatch (E4001)
// for what is no UTF-8 and for lists of unequal length.
Result<std::vector<HostTensor>> tokenize(const Tokenize& step, const text::Compiled& tokenizer, const TextList& first, const TextList* second,
                                         const io::DecodeLimits& limits = {});

// `ids`: integers, [tokens] or [texts, tokens]. One line for each text; numbers that are no token add nothing.
Result<Text> detokenize(const Detokenize& step, const text::Compiled& tokenizer, const HostTensor& ids, AnswerBudget& budget);

// `rows`: f32 [windows, ...]; `texts`: i64 [windows], numbers of texts from 0 on, not falling and without a gap.
Result<HostTensor> join_windows(const JoinWindows& step, const HostTensor& rows, const HostTensor& texts, AnswerBudget& budget);

// `scores`: any float type, [..., columns]; each of the leading positions is a row. Score descending, equal scores by
// index ascending, NaN last. `labels` is empty or has exactly the lines that the columns need.
Result<Classes> top_k(const TopK& step, const HostTensor& scores, std::span<const std::string> labels, AnswerBudget& budget);

// `found`: f32 [n, 6] of `nms`: x1 y1 x2 y2 score class. Rows stay in order. InputMismatch (E5003) for a class that the labels do not have.
Result<FoundBoxes> name_boxes(const NameBoxes& step, const HostTensor& found, std::span<const std::string> labels, AnswerBudget& budget);
// `picture`: u8 [h, w, 3], R G B. A copy of it with the boxes on it, the best on top; what of them lies outside is cut, and those with a
// corner that is no number are left out.
Result<HostTensor> draw(const HostTensor& picture, const FoundBoxes& boxes, AnswerBudget& budget);
// `picture`: u8 [h, w, c], c from 1 to 4: grey or R G B, with alpha or without.
Result<ImageFile> image_out(const HostTensor& picture, AnswerBudget& budget);
// `sound`: f32 [samples], [channels, samples] or [1, channels, samples].
Result<SoundFile> wav_out(const WavOut& step, const HostTensor& sound, AnswerBudget& budget);

// `scores`: any float type, [time, columns] or [batch, time, columns]; the columns are the charset's lines, the blank,
// and the final space where there is one.
Result<Text> ctc_greedy(const CtcGreedy& step, const HostTensor& scores, std::span<const std::string> charset, AnswerBudget& budget);

// `picture`: u8 [h, w, c]; `boxes`: f32 [n, 4 or more]. One picture for each box: the pixels that it touches, at least one and none
// outside. InputMismatch: a box is not finite.
Result<std::vector<HostTensor>> cut(const HostTensor& picture, const HostTensor& boxes, AnswerBudget& budget);

}  // namespace mlc::pipeline
