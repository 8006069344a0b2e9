// What a definition that cannot be applied says: where in its text, of which node, with which inputs.
#include "packager/ir/text/text.h"
#include "packager/lang/expand/expander.h"

namespace mlc::lang {

void Expander::fail_here(Pos pos, std::string message) const {
  throw Failure{error_at(pos, where() + ": " + message), pos.file ? *pos.file : "", pos.line};
}

void Expander::fail_call(Pos pos, std::string message) const {
  Status status = error_at(pos, where() + ": " + message);
  throw Failure{std::move(status), pos.file ? *pos.file : "", pos.line, std::move(message)};
}

std::string Expander::shown(Ex e) {
  constexpr size_t kLongest = 240;
  ir::Names names;
  names.sym = [](const ir::Sym* sym) { return sym->name; };  // as in the interface of the model
  std::string text = ir::print(e, names);
  if (text.size() > kLongest) text = text.substr(0, kLongest) + " ...";
  return text;
}

std::string Expander::where() const {
  std::string name = op_.domain + "." + op_.name + ", opset " + std::to_string(call_.opset);
  return call_.source.empty() ? name : call_.source + " (" + name + ")";
}

// "a 'scores' f32[2,K]" for each input, with the elements that are known of small ones.
std::vector<std::string> Expander::inputs_shown() const {
  std::vector<std::string> lines;
  for (size_t p = 0; p < op_.params.size() && p < inputs_.size(); ++p)
    for (size_t item = 0; item < inputs_[p].size(); ++item) {
      if (!inputs_[p][item].present) continue;
      const nest::Array& array = function_.arrays[inputs_[p][item].array];
      std::string line = item_name(op_.params[p], item) + " ";
      if (!array.name.empty() && array.name != op_.params[p].name) line += "'" + array.name + "' ";
      line += std::string(name_of(array.dtype)) + "[";
      for (size_t k = 0; k < array.shape.size(); ++k) line += (k ? "," : "") + shown(array.shape[k]);
      line += "]";
      constexpr size_t kMostElements = 8;
      static const std::vector<Ex> none;
      const std::vector<Ex>& elements = is_int(array.dtype) ? known_elements(inputs_[p][item].array) : none;
      for (size_t k = 0; k < elements.size() && elements.size() <= kMostElements; ++k)
        line += (k ? ", " : " = ") + (elements[k] ? shown(elements[k]) : "?");
      lines.push_back(line);
    }
  return lines;
}

Status Expander::refusal(const std::string& message) const {
  constexpr size_t kMostInputs = 8;
  Status s(Code::Malformed, where() + ": " + message);
  s.facts = inputs_shown();
  if (s.facts.size() > kMostInputs) s.facts.resize(kMostInputs);
  return std::move(s).fact("definition: " + op_.file + ":" + std::to_string(op_.pos.line));
}

void Expander::mismatch(std::string message) const { fail(refusal(message)); }

void Expander::wrong_rank(const std::string& what, size_t rank, size_t expected, bool or_more) const {
  throw Failure{.status = refusal(what + " has rank " + std::to_string(rank) + ", expected " + (or_more ? "at least " : "") + std::to_string(expected)), .is_other_case = true};
}

}  // namespace mlc::lang
