// The steps of a pipeline that run on the host, one function each.
#pragma once

#include <span>

#include "runtime/io/limits.h"
#include "runtime/pipeline/answer_budget.h"
#include "runtime/pipeline/answers.h"
#include "schema/pipeline/steps.h"

namespace mlc::pipeline {

Result<HostTensor> decode_image(const DecodeImage& step, Bytes file, const io::DecodeLimits& limits = {});
// f32 [samples], or [samples, channels] with Channels::Keep. A sample rate other than the step's is an error.
Result<HostTensor> decode_audio(const DecodeAudio& step, Bytes file, const io::DecodeLimits& limits = {});

// `scores`: any float type, [..., columns]; each of the leading positions is a row. Score descending, equal scores by
// index ascending, NaN last. `labels` is empty or has exactly the lines that the columns need.
Result<Classes> top_k(const TopK& step, const HostTensor& scores, std::span<const std::string> labels, AnswerBudget& budget);

// `scores`: any float type, [time, columns] or [batch, time, columns]; the columns are the charset's lines, the blank,
// and the final space where there is one.
Result<Text> ctc_greedy(const CtcGreedy& step, const HostTensor& scores, std::span<const std::string> charset, AnswerBudget& budget);

}  // namespace mlc::pipeline
