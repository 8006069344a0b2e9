#include "tests/conformance/run_case.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>

#include "packager/nest/text/print.h"
#include "tests/conformance/run/answers.h"
#include "tests/conformance/verdict.h"

namespace mlc::conformance {
namespace {

std::string text_of(const Status& status) {
  std::string text = status.message;
  for (const std::string& fact : status.facts) text += "; " + fact;
  return text;
}

class CaseRun {
 public:
  CaseRun(const RunOptions& options, const std::string& set, const Case& c, const std::function<void(const Outcome&)>& report)
      : options_(options), case_(c), report_(report) {
    base_.set = set;
    base_.test = c.name;
    base_.op = operator_of(c);
  }

  void run(size_t first) {
    const Status begun = begin();
    for (size_t k = first; k < options_.paths.size(); ++k) {
      const Path& path = options_.paths[k];
      const auto start = std::chrono::steady_clock::now();
      Outcome outcome = base_;
      outcome.path = path.name;
      judge(begun.ok() ? answers_->on(path) : Result<std::vector<nest::Tensor>>(begun), outcome);
      if (outcome.kind == Kind::Pass && !answers_->launches()) outcome.kind = Kind::Host;
      outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      report_(outcome);
    }
  }

 private:
  Status begin() {
    MLC_ASSIGN(LoadedCase loaded, load(case_));
    if (options_.relative) loaded.tolerance.relative = *options_.relative;
    answers_.emplace(*options_.library, std::move(loaded), options_.check);
    const Status begun = answers_->begin();
    base_.given = answers_->given();
    const bool executes = std::any_of(options_.paths.begin(), options_.paths.end(), [](const Path& p) { return p.way == Way::Executed; });
    answers_->will_run(options_.paths);
    if (begun.ok() && executes && options_.most_work) answers_->bound_executors(*options_.most_work);
    if (begun.ok() && options_.print) std::printf("%s\n", nest::print(answers_->function()).c_str());
    return begun;
  }

  void judge(const Result<std::vector<nest::Tensor>>& got, Outcome& outcome) const {
    if (!got.ok()) {
      const Code code = got.status().code;
      outcome.kind = code == Code::Unsupported || code == Code::NoVariant ? Kind::Unsupported : Kind::Fail;  // no variant: not on this device
      outcome.reason = text_of(got.status());
      return;
    }
    if (got->size() < loaded().outputs.size()) {
      outcome.kind = Kind::Fail;
      outcome.reason = "answers " + std::to_string(got->size()) + " outputs, expected " + std::to_string(loaded().outputs.size());
      return;
    }
    Difference all;
    for (size_t k = 0; k < loaded().outputs.size(); ++k) {
      const Difference one = compare((*got)[k], loaded().outputs[k], loaded().tolerance);
      if (all.text.empty() && !one.text.empty()) all.text = "output " + std::to_string(k) + " " + one.text;
      all.add(one);
    }
    const Verdict verdict = judge_difference(all, known_difference(base_.set, case_.name));
    outcome.kind = verdict.kind;
    outcome.reason = verdict.reason;
  }

  const LoadedCase& loaded() const { return answers_->loaded(); }

  const RunOptions& options_;
  const Case& case_;
  const std::function<void(const Outcome&)>& report_;
  Outcome base_;
  std::optional<Answers> answers_;  // none where the case cannot be read
};

}  // namespace

void run_case(const RunOptions& options, const std::string& set, const Case& c, size_t first, const std::function<void(const Outcome&)>& report) {
  CaseRun(options, set, c, report).run(first);
}

}  // namespace mlc::conformance
