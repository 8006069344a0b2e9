#include "schema/pipeline/parse_stream.h"

#include <limits>

#include "schema/pipeline/parse_step.h"

namespace mlc::pipeline {
namespace {

using Kind = Json::Kind;

constexpr size_t kMaxCarriedRank = 64;

// The name of a result, or {"from": name, "shape": [..]}.
StreamText::Carried read_carried(const Json& key, const Json& value, Problems& problems) {
  StreamText::Carried carried;
  carried.value = {std::string(key.text()), key.where()};
  if (carried.value.text.empty()) problems.add(5004, key.where(), "'carry' of the stream has a value without a name");
  const std::string what = "'carry' of " + quoted(key.text());
  if (value.is(Kind::String)) {
    carried.from = {std::string(value.text()), value.where()};
    return carried;
  }
  if (!value.is(Kind::Object)) {
    problems.add(5004, value.where(), what + " is " + std::string(name_of(value.kind())) +
        ", expected the name of a result, or an object with 'from' and 'shape'");
    return carried;
  }
  ObjectReader r(value, what, problems);
  const Json* from = r.required("from");
  carried.from = {r.string(from, "from"), from ? from->where() : value.where()};
  const Json* shape = r.required("shape");
  if (shape && (!shape->is(Kind::Array) || shape->size() > kMaxCarriedRank)) {
    r.wrong(*shape, "shape", "is no list of at most " + std::to_string(kMaxCarriedRank) + " whole numbers");
  } else if (shape) {
    std::vector<int64_t>& extents = carried.shape.emplace();
    for (const Json& extent : shape->items()) extents.push_back(r.integer(&extent, "shape", 0, std::numeric_limits<int32_t>::max()));
  }
  r.finish();
  return carried;
}

}  // namespace

StreamText read_stream(const Json& stream, Problems& problems) {
  StreamText text;
  text.where = text.numbers.where = stream.where();
  ObjectReader r(stream, "the stream", problems);
  const Json* input = r.required("input");
  text.input = {r.string(input, "input"), input ? input->where() : stream.where()};
  text.numbers.hop = r.integer(r.required("hop"), "hop", 1, kMaxChunk);
  if (const Json* context = r.optional("context")) {
    text.numbers.context = r.integer(context, "context", 0, kMaxChunk);
    if (text.numbers.window() > kMaxChunk)
      r.wrong(*context, "context", "and 'hop' are " + std::to_string(text.numbers.window()) + " samples together, expected at most " +
          std::to_string(kMaxChunk));
  }
  text.numbers.pads = r.choice<bool>(r.required("last"), "last", {{"pad", true}, {"drop", false}});
  if (const Json* carry = r.optional("carry"); carry && (!carry->is(Kind::Object) || carry->size() > kMaxCarried))
    r.wrong(*carry, "carry", "is no object of at most " + std::to_string(kMaxCarried) + " values and the results that they are next time");
  else if (carry)
    for (const auto& [key, value] : carry->members()) {
      StreamText::Carried carried = read_carried(key, value, problems);
      if (!carried.value.text.empty() && !carried.from.text.empty()) text.carry.push_back(std::move(carried));
    }
  r.finish();
  return text;
}

Op parse_constant(ObjectReader& r, const Value&, Value&) {
  Constant s;
  s.dtype = r.choice<DType>(r.required("type"), "type", {{"f32", DType::F32}, {"f64", DType::F64}, {"i64", DType::I64}, {"i32", DType::I32}});
  const Json* value = r.required("value");
  const bool is_whole = s.dtype == DType::I64 || s.dtype == DType::I32;
  const auto add = [&](const Json* v) {
    const int64_t least = s.dtype == DType::I32 ? std::numeric_limits<int32_t>::min() : std::numeric_limits<int64_t>::min();
    const int64_t most = s.dtype == DType::I32 ? std::numeric_limits<int32_t>::max() : std::numeric_limits<int64_t>::max();
    if (is_whole) s.whole.push_back(r.integer(v, "value", least, most));
    else s.real.push_back(r.number(v, "value"));
  };
  if (!value || !value->is(Kind::Array)) {
    add(value);
    return s;
  }
  s.is_list = true;
  if (value->size() > kMaxConstant)
    r.wrong(*value, "value", "has " + std::to_string(value->size()) + " numbers, expected at most " + std::to_string(kMaxConstant));
  else
    for (const Json& each : value->items()) add(&each);
  return s;
}

}  // namespace mlc::pipeline
