// Model and methods: the model's identity, its inputs and outputs.
#include <algorithm>
#include <cmath>

#include "base/compose.h"
#include "base/text/text.h"
#include "schema/validate/validate_internal.h"

namespace mlc::format {
namespace {

// Sorted.
using Names = std::vector<std::string_view>;

constexpr size_t kMaxExpr = 1024;
constexpr int kMaxExprDepth = 32;

bool is_id_part(std::string_view text) {
  if (text.empty()) return false;
  for (char c : text)
    if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-')) return false;
  return true;
}

Status validate_model(const Manifest& m) {
  const Model& model = m.model;
  if (!is_model_id(model.id))
    return malformed("model id {}: organisation/name in [a-z0-9._-] expected", quoted(model.id));
  if (model.version == 0) return malformed("model version is 0");
  if (!is_clean_text(model.title, kMaxStringLen)) return malformed("model title: not clean UTF-8, or too long");
  if (!is_clean_text(model.licence, kMaxStringLen)) return malformed("model licence: not clean UTF-8, or too long");
  if (model.default_method >= m.methods.size())
    return malformed("default method {} of {}", model.default_method, m.methods.size());
  return ok();
}

// Words and signs of an index expression: names of declared dims, a closed list of functions, integers, + - * / % ( ) ,
// Only shown to people and never evaluated here, so its grammar is not checked further.
bool is_index_expression(std::string_view text, const Names& dims) {
  if (text.empty() || text.size() > kMaxExpr) return false;
  int depth = 0;
  for (size_t at = 0; at < text.size();) {
    char c = text[at];
    auto is_word = [](char w) {
      return (w >= 'a' && w <= 'z') || (w >= 'A' && w <= 'Z') || (w >= '0' && w <= '9') || w == '_' || w == '.';
    };
    if (is_word(c)) {
      size_t end = at;
      while (end < text.size() && is_word(text[end])) ++end;
      std::string_view word = text.substr(at, end - at);
      bool number = std::all_of(word.begin(), word.end(), [](char w) { return w >= '0' && w <= '9'; });
      bool dim = std::binary_search(dims.begin(), dims.end(), word);
      bool function = is_word_of("min max floordiv ceildiv mod select", word);
      if (!number && !dim && !(function && end < text.size() && text[end] == '(')) return false;
      at = end;
      continue;
    }
    if (c == '(' && ++depth > kMaxExprDepth) return false;
    if (c == ')' && --depth < 0) return false;
    if (std::string_view("+-*/%(), ").find(c) == std::string_view::npos) return false;
    ++at;
  }
  return depth == 0;
}

Status validate_dim_ref(const DimRef& ref, const Names& dims, const Place& place) {
  int forms = (ref.dim ? 1 : 0) + (ref.extent ? 1 : 0) + (ref.expr.empty() ? 0 : 1);
  if (forms != 1) return place.wrong("a dimension must be a symbol, a number or an expression, exactly one of them");
  if (ref.dim && *ref.dim >= dims.size())
    return place.wrong("uses dimension {} of {}", *ref.dim, dims.size());
  if (ref.extent && *ref.extent < 0) return place.wrong("negative extent {}", *ref.extent);
  if (!ref.expr.empty() && !is_index_expression(ref.expr, dims))
    return place.wrong("expression {} is not an index expression over the declared dimensions", quoted(ref.expr));
  return ok();
}

Status validate_port(const Port& port, const Manifest& m, const Names& dims, const Place& place) {
  if (!is_name(port.name)) return place.wrong("name must be 1 to 1023 bytes of UTF-8 without control characters");
  if (!is_known(port.dtype))
    return place.wrong("element type {} is unknown", static_cast<uint8_t>(port.dtype));
  if (port.dims.size() > kMaxRank) return place.wrong("rank {}, at most 8 allowed", port.dims.size());
  for (const DimRef& ref : port.dims) MLC_RETURN_IF_ERROR(validate_dim_ref(ref, dims, place));
  if (port.list_depth > kMaxListDepth) return place.wrong("a list of depth {}, at most {} allowed", port.list_depth, kMaxListDepth);
  if (port.list_depth > 0 && !port.dims.empty()) return place.wrong("a list has no dims");
  if (port.media == Media::None || static_cast<uint8_t>(port.media) > kLastMedia)
    return place.wrong("media {} is unknown", static_cast<uint8_t>(port.media));
  if (static_cast<uint8_t>(port.colour) > kLastColour)
    return place.wrong("colour {} is unknown", static_cast<uint8_t>(port.colour));
  if (!port.range.empty()) {
    bool good = port.range.size() == 2 && std::isfinite(port.range[0]) && std::isfinite(port.range[1]) &&
                port.range[0] <= port.range[1];
    if (!good) return place.wrong("range must be two finite numbers, ascending");
  }
  if (!is_clean_text(port.unit, kMaxNameLen)) return place.wrong("unit is not clean text");
  if (!is_clean_text(port.doc, kMaxStringLen)) return place.wrong("doc is not clean text");
  if (port.labels && *port.labels >= m.assets.size())
    return place.wrong("labels are asset {} of {}", *port.labels, m.assets.size());
  if (port.labels && port.label_axis >= port.dims.size()) return place.wrong("label axis is not one of its axes");
  if (port.tokenizer && *port.tokenizer >= m.assets.size())
    return place.wrong("tokenizer is asset {} of {}", *port.tokenizer, m.assets.size());
  return ok();
}

// Order is part of the interface, so lists of ports are not sorted; names are unique within a list.
Status validate_ports(const std::vector<Port>& ports, const char* list, const Manifest& m, const Method& method,
                      const Names& dims) {
  std::string where = compose("method {}: {}", quoted(method.name), list);
  MLC_RETURN_IF_ERROR(check_count(where.c_str(), ports.size(), 0, kMaxPorts));
  std::vector<std::string_view> names;
  for (size_t i = 0; i < ports.size(); ++i) {
    MLC_RETURN_IF_ERROR(validate_port(ports[i], m, dims, Place{where.c_str(), i, ports[i].name}));
    names.push_back(ports[i].name);
  }
  std::string_view twice;
  if (find_twice(names, twice)) return malformed("{}: {} is there twice", where, quoted(twice));
  return ok();
}

// The names, sorted.
Result<Names> validate_dims(const Method& method) {
  std::string where = compose("method {}: dims", quoted(method.name));
  MLC_RETURN_IF_ERROR(check_count(where.c_str(), method.dims.size(), 0, kMaxDims));
  std::vector<std::string_view> names;
  for (size_t i = 0; i < method.dims.size(); ++i) {
    const Dim& dim = method.dims[i];
    Place place{where.c_str(), i, dim.name};
    if (!is_name(dim.name)) return place.wrong("not a name");
    if (dim.min < 0 || dim.min > dim.max) return place.wrong("least and largest value must be 0 <= least <= largest");
    if (dim.multiple < 1) return place.wrong("multiple must be at least 1");
    names.push_back(dim.name);
  }
  std::string_view twice;
  if (find_twice(names, twice)) return malformed("{}: {} is there twice", where, quoted(twice));
  return names;
}

}  // namespace

Status validate_interface(const Manifest& m) {
  MLC_RETURN_IF_ERROR(validate_model(m));
  for (size_t i = 0; i < m.methods.size(); ++i) {
    const Method& method = m.methods[i];
    if (!is_name(method.name)) return Place{"methods", i, method.name}.wrong("not a name");
    MLC_ASSIGN(const Names dims, validate_dims(method));
    MLC_RETURN_IF_ERROR(validate_ports(method.inputs, "inputs", m, method, dims));
    MLC_RETURN_IF_ERROR(validate_ports(method.outputs, "outputs", m, method, dims));
    MLC_RETURN_IF_ERROR(validate_ports(method.core_inputs, "core inputs", m, method, dims));
    MLC_RETURN_IF_ERROR(validate_ports(method.core_outputs, "core outputs", m, method, dims));
    MLC_RETURN_IF_ERROR(validate_ports(method.state, "state", m, method, dims));
    if (method.batch && *method.batch >= method.dims.size()) return Place{"methods", i, method.name}.wrong("its batch is none of its dims");
    for (size_t k = 0; k < method.runs.size(); ++k)
      if (method.runs[k] >= m.methods.size() || method.runs[k] == i || (k > 0 && method.runs[k] <= method.runs[k - 1]))
        return Place{"methods", i, method.name}.wrong("what it runs is no ascending list of other methods");
    if (method.outputs.empty()) return Place{"methods", i, method.name}.wrong("has no output");
  }
  return check_sorted(m.methods, "methods", [](const Method& x) -> std::string_view { return x.name; });
}

bool is_model_id(std::string_view text) {
  const size_t slash = text.find('/');
  return slash != std::string_view::npos && text.size() <= kMaxIdLen && is_id_part(text.substr(0, slash)) && is_id_part(text.substr(slash + 1));
}

}  // namespace mlc::format
