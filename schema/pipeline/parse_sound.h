// Steps on sounds, and the presets that stand for several of them (spec/pipeline.md, "Array steps on sounds").
#pragma once

#include <string>
#include <vector>

#include "schema/pipeline/reader.h"

namespace mlc::pipeline::sound {

// Attributes, as StepKind::parse reads them.
Op fit(ObjectReader& r, const Value& in, Value& out);
Op resample(ObjectReader& r, const Value& in, Value& out);
Op frame(ObjectReader& r, const Value& in, Value& out);
Op window(ObjectReader& r, const Value& in, Value& out);
Op pre_emphasis(ObjectReader& r, const Value& in, Value& out);
Op stft(ObjectReader& r, const Value& in, Value& out);
Op istft(ObjectReader& r, const Value& in, Value& out);
Op overlap_add(ObjectReader& r, const Value& in, Value& out);
Op wav_out(ObjectReader& r, const Value& in, Value& out);
Op mel(ObjectReader& r, const Value& in, Value& out);
Op log(ObjectReader& r, const Value& in, Value& out);
Op mean_var(ObjectReader& r, const Value& in, Value& out);

struct PresetStep {
  std::string op;
  Op what;
};
// What {"op": "log_mel"} stands for, never empty.
std::vector<PresetStep> log_mel(ObjectReader& r);

}  // namespace mlc::pipeline::sound
