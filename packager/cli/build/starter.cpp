#include "packager/cli/build/starter.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "base/text/json.h"
#include "base/text/shell_word.h"

namespace mlc::cli {
namespace {

// The tensor of a picture that an input takes.
struct PictureInput {
  bool has_batch = false, channels_first = false;
  int64_t channels = 3, height = -1, width = -1;  // -1: free
  DType dtype = DType::F32;
};

int64_t extent(const model::Port& port, size_t axis) {
  const int64_t* value = std::get_if<int64_t>(&port.shape[axis]);
  return value ? *value : -1;
}

std::optional<PictureInput> picture_of(const model::Port& port) {
  const size_t rank = port.shape.size();
  if (!port.has_shape || (rank != 3 && rank != 4) || (port.dtype != DType::F32 && port.dtype != DType::F16 && port.dtype != DType::U8)) return std::nullopt;
  PictureInput p{.has_batch = rank == 4, .dtype = port.dtype};
  const size_t first = rank - 3;
  if (p.has_batch && extent(port, 0) > 1) return std::nullopt;
  const auto is_channels = [&](size_t axis) { return extent(port, axis) == 1 || extent(port, axis) == 3; };
  if (!is_channels(first) && !is_channels(rank - 1)) return std::nullopt;
  p.channels_first = is_channels(first);
  p.channels = extent(port, p.channels_first ? first : rank - 1);
  p.height = extent(port, p.channels_first ? first + 1 : first);
  p.width = extent(port, p.channels_first ? first + 2 : first + 1);
  constexpr int64_t kLeast = 8, kMost = 8192;  // what is smaller or larger is no picture
  for (const int64_t side : {p.height, p.width})
    if (side != -1 && (side < kLeast || side > kMost)) return std::nullopt;
  return p;
}

// The last axis of the one output counts classes.
bool gives_classes(const model::Graph& graph) {
  if (graph.outputs.size() != 1) return false;
  const model::Port& port = graph.outputs.front();
  return port.has_shape && port.shape.size() == 2 && (port.dtype == DType::F32 || port.dtype == DType::F16) && extent(port, 0) <= 1 && extent(port, 1) != 1;
}

bool is_from(const model::Graph& graph, const std::string& output, std::string_view op) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const model::Node& node) {
    return node.op == op && std::find(node.outputs.begin(), node.outputs.end(), output) != node.outputs.end();
  });
}

class Writer {
 public:
  explicit Writer(const model::Graph& graph) : graph_(graph), classes_(gives_classes(graph)) {}

  Result<Starter> write() {
    for (const auto* ports : {&graph_.inputs, &graph_.outputs})
      for (const model::Port& port : *ports)
        if (port.list_depth > 0 || port.map_key != DType::None)
          return Status(Code::Unsupported, "{} is {}, which no pipeline takes or gives", json_quote(port.name), port.list_depth > 0 ? "a list" : "a map")
              .hint("without a pipeline mlrun takes arrays: mlrun MODEL.mlc -i NAME=FILE.npy");
    for (const model::Port& port : graph_.inputs) {
      const std::optional<PictureInput> picture = picture_of(port);
      if (!picture) return not_a_picture(port);
      add_input(port, *picture);
    }
    add_answers();
    Starter starter;
    starter.text = "{\"mlc_pipeline\": 1, \"inputs\": {" + inputs_ + "}, \"steps\": [\n" + steps_ + "],\n \"outputs\": [" + outputs_ + "]}\n";
    starter.what = classes_ ? "a picture classifier" : "pictures in, arrays out";
    starter.assumed = std::move(assumed_);
    return starter;
  }

 private:
  std::string fresh(std::string name) {
    while (!names_.insert(name).second) name += "_";
    return name;
  }
  void add_step(const std::string& body) { steps_ += (steps_.empty() ? "  {" : ",\n  {") + body + "}"; }

  // Pipelines begin with pictures so far: all else is given as arrays, without one.
  Status not_a_picture(const model::Port& port) const {
    Status status(Code::Unsupported, "{} does not look like a picture, and pipelines begin with pictures", json_quote(port.name));
    std::string command = "mlpack build MODEL -o FILE.mlc; mlrun FILE.mlc";
    for (const model::Port& one : graph_.inputs) command += " -i " + shell_word(one.name + "=FILE.npy");
    status.facts.push_back("a picture is f32, f16 or u8 of rank 3 or 4, with 1 or 3 channels first or last, sides of 8 to 8192");
    return std::move(status).hint(std::move(command));
  }

  void add_input(const model::Port& port, const PictureInput& picture) {
    const std::string file = fresh(graph_.inputs.size() == 1 ? "photo" : port.name);
    inputs_ += (inputs_.empty() ? "" : ", ") + json_quote(file) + ": {\"accept\": [\"image/jpeg\", \"image/png\", \"image/webp\"]}";
    const std::string value = add_picture(picture, file);
    fed_ += (fed_.empty() ? "" : ", ") + json_quote(port.name) + ": " + json_quote(value);
  }

  // From a file to the tensor; the name of the value that is it.
  std::string add_picture(const PictureInput& p, const std::string& file) {
    const bool grey = p.channels == 1;
    add_step("\"op\": \"decode_image\", \"in\": " + json_quote(file) + ", \"color\": \"" + (grey ? "gray\", \"like\": \"pillow" : "rgb") + "\", \"orient\": \"exif\", \"alpha\": \"over #ffffff\"");
    if (!grey) assume("color: rgb; models that were trained on pictures of OpenCV take bgr");
    add_size(p);
    add_numbers(p);
    const std::string value = fresh("x");
    const std::string layout = std::string(p.has_batch ? "N" : "") + (p.channels_first ? "CHW" : "HWC");
    add_step("\"op\": \"layout\", \"to\": \"" + layout + "\", \"out\": " + json_quote(value));
    return value;
  }

  void add_size(const PictureInput& p) {
    constexpr int64_t kUsual = 224;
    if (p.height < 0 && p.width < 0 && !classes_) {
      assume("size: the model takes pictures of any size, and gets them as they are; \"resize\" with \"longer\" bounds them");
      return;
    }
    if ((p.height < 0) != (p.width < 0)) {
      add_step("\"op\": \"resize\", " + (p.height > 0 ? "\"height\": " + std::to_string(p.height) : "\"width\": " + std::to_string(p.width)) +
               ", \"round\": \"nearest\", \"kernel\": \"bilinear\", \"like\": \"pillow\"");
      return;
    }
    const int64_t height = p.height > 0 ? p.height : kUsual, width = p.width > 0 ? p.width : kUsual;
    const std::string size = "[" + std::to_string(height) + ", " + std::to_string(width) + "]";
    if (classes_ && height == width && height >= 96) {  // as the evaluation of torchvision's classifiers does
      add_step("\"op\": \"resize\", \"shorter\": " + std::to_string(std::lround(static_cast<double>(height) * 256 / 224)) + ", \"round\": \"trunc\", \"kernel\": \"bilinear\", \"like\": \"pillow\"");
      add_step("\"op\": \"crop\", \"at\": \"center\", \"size\": " + size + ", \"round\": \"half-even\"");
      assume("resize, crop: the middle of the picture, as torchvision's classifiers are evaluated");
    } else {
      add_step("\"op\": \"resize\", \"size\": " + size + ", \"kernel\": \"bilinear\", \"like\": \"pillow\"");
      assume("resize: stretched to " + size + "; \"letterbox\" keeps the sides' relation, as many detectors want it");
    }
  }

  void add_numbers(const PictureInput& p) {
    if (p.dtype == DType::U8) return;
    const bool imagenet = classes_ && p.channels == 3;
    add_step(std::string("\"op\": \"normalize\", \"div\": 255") + (imagenet ? ", \"mean\": [0.485, 0.456, 0.406], \"std\": [0.229, 0.224, 0.225]" : ""));
    assume(imagenet ? "normalize: mean and std of ImageNet; (x - 0.5) / 0.5 and plain x / 255 are frequent too" : "normalize: x / 255; other ranges take \"mean\" and \"std\"");
    if (p.dtype == DType::F16) add_step("\"op\": \"dtype\", \"to\": \"f16\"");
  }

  void add_answers() {
    std::string given;
    std::vector<std::string> values;
    for (const model::Port& port : graph_.outputs) {
      values.push_back(fresh(port.name));
      given += (given.empty() ? "" : ", ") + json_quote(port.name) + ": " + json_quote(values.back());
    }
    add_step("\"op\": \"run\", \"program\": \"main\", \"in\": {" + fed_ + "}, \"out\": {" + given + "}");
    if (!classes_) {
      for (const std::string& value : values) outputs_ += (outputs_.empty() ? "" : ", ") + json_quote(value);
      return;
    }
    const bool are_parts = is_from(graph_, graph_.outputs.front().name, "Softmax") || is_from(graph_, graph_.outputs.front().name, "Sigmoid");
    const std::string classes = fresh("classes");
    constexpr int64_t kShown = 5;
    const int64_t columns = extent(graph_.outputs.front(), 1);
    add_step("\"op\": \"top_k\", \"in\": " + (are_parts ? json_quote(values.front()) : "{\"softmax\": " + json_quote(values.front()) + "}") + ", \"k\": " +
             std::to_string(columns < 0 ? kShown : std::min(columns, kShown)) + ", \"out\": " + json_quote(classes));
    assume("labels: numbers; \"labels\": \"labels.txt\" in top_k names them, a line each");
    outputs_ = json_quote(classes);
  }

  void assume(const std::string& line) {
    if (std::find(assumed_.begin(), assumed_.end(), line) == assumed_.end()) assumed_.push_back(line);
  }

  const model::Graph& graph_;
  const bool classes_;
  std::set<std::string> names_;
  std::string inputs_, steps_, fed_, outputs_;
  std::vector<std::string> assumed_;
};

}  // namespace

Result<Starter> starter_for(const model::Model& model) { return Writer(model.graph).write(); }

}  // namespace mlc::cli
