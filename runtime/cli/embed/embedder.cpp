#include "runtime/cli/embed/embedder.h"

#include <algorithm>
#include <numeric>

#include "base/checked.h"
#include "base/counted.h"
#include "runtime/cli/watched_programs.h"

namespace mlc::cli {

bool Embedder::takes_text(const mlio::Target& target) {
  if (!target.pipeline) return false;
  const pipeline::Pipeline& p = target.pipeline->description();
  return p.inputs.size() == 1 && p.value(p.inputs[0]).kind == pipeline::ValueKind::Strings;
}

Status Embedder::check(const OpenModel& model, const mlio::Target& target) {
  const auto refuse = [&](const std::string& why) {
    return Status(Code::Usage, "embed takes a container whose pipeline makes a vector of a text or a file, and " + why)
        .hint("mlpack build of a folder of sentence-transformers makes one; mlrun run shows what this one gives");
  };
  if (!target.pipeline) return refuse(model.info.num_programs > 0 ? "this one has no pipeline" : "this one has no program");
  const size_t inputs = target.pipeline->description().inputs.size();
  return inputs == 1 ? ok() : refuse("this one takes " + counted(inputs, "input") + ", not one");
}

Result<Vectors> Embedder::of_texts(const std::vector<std::string>& texts, size_t batch, const io::DecodeLimits& limits) {
  std::vector<size_t> order(texts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return texts[a].size() > texts[b].size(); });
  Vectors all;
  for (size_t first = 0; first < order.size(); first += batch) {
    const std::span<const size_t> part(order.data() + first, std::min(batch, order.size() - first));
    MLC_RETURN_IF_ERROR(add_batch(texts, part, limits, all));
  }
  return all;
}

Result<std::vector<pipeline::Answer>> Embedder::run(std::vector<NamedTensor> made, int64_t count, Vectors& all) {
  uint64_t run_ns = 0;
  const pipeline::Programs programs = watched_programs(model_, session_, budget_, run_ns);
  MLC_ASSIGN(std::vector<pipeline::Answer> answers, target_.pipeline->run(std::move(made), {}, budget_, programs));
  const HostTensor* rows = answers.size() == 1 ? std::get_if<HostTensor>(&answers[0].value) : nullptr;
  if (!rows || rows->dtype != DType::F32 || rows->shape.size() != 2 || rows->shape[0] != count)
    return Status(Code::Usage, "embed takes a container that gives one f32 vector for each text or file, and this one gives something else")
        .hint("mlrun run shows what it gives");
  const auto width = static_cast<size_t>(rows->shape[1]);
  if (all.name.empty()) all.name = answers[0].name, all.width = width;
  if (width != all.width) return Status(Code::Internal, "vectors of {} and of {} numbers", all.width, width);
  return answers;
}

Status Embedder::add_batch(const std::vector<std::string>& texts, std::span<const size_t> part, const io::DecodeLimits& limits, Vectors& all) {
  std::vector<std::string> chosen;
  for (const size_t k : part) chosen.push_back(texts[k]);
  const auto count = static_cast<int64_t>(chosen.size());
  std::vector<pipeline::GivenInput> given;
  given.push_back({"", {}, HostTensor::of_strings({count}, std::move(chosen))});
  MLC_ASSIGN(std::vector<NamedTensor> made, target_.pipeline->before(std::move(given), limits));
  MLC_ASSIGN(const std::vector<pipeline::Answer> answers, run(std::move(made), count, all));
  if (all.elements.empty()) {
    const auto elements = checked_mul(texts.size(), all.width);
    const auto bytes = elements ? checked_mul(*elements, sizeof(float)) : std::nullopt;
    if (!bytes) return Status(Code::Resource, 6006, "{} vectors of {} numbers are too many", texts.size(), all.width);
    MLC_RETURN_IF_ERROR(budget_.take(*bytes, all.name));
    all.elements.resize(*elements);
  }
  const std::span<const float> from = std::get<HostTensor>(answers[0].value).as<float>();
  for (size_t k = 0; k < part.size(); ++k) std::copy_n(from.data() + k * all.width, all.width, all.elements.data() + part[k] * all.width);
  return ok();
}

Status Embedder::add_file(std::vector<NamedTensor> made, Vectors& all) {
  MlcError* error = nullptr;
  MLC_RETURN_IF_ERROR(status_of(api().state_reset(session_, &error), error));  // each file as if it were alone
  MLC_ASSIGN(const std::vector<pipeline::Answer> answers, run(std::move(made), 1, all));
  MLC_RETURN_IF_ERROR(budget_.take(all.width, sizeof(float), all.name));
  const std::span<const float> row = std::get<HostTensor>(answers[0].value).as<float>();
  all.elements.insert(all.elements.end(), row.begin(), row.end());
  return ok();
}

}  // namespace mlc::cli
