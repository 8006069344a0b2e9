// Boxes, and which of them stay, against the slow reference: bit by bit, in every variant that this host runs. The model makes
// boxes of a picture's bytes, so that many scores are alike; with roots of negative numbers some are no numbers.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/pipeline/reference/array_steps.h"
#include "tests/support/onnx_bytes.h"
#include "tests/unit/pipeline_compiled/compiled.h"

using namespace mlc;

namespace {

constexpr int64_t kColumns = 12;  // of each box, so all bytes of a picture are whole boxes

// rows [1, n, 12], columns [1, 12, n], corners [1, n, 4] and marks [1, n, 8] of x [1, 3, h, w], the latter two with holes.
std::string detector() {
  using namespace test::onnx_bytes;
  const auto ints = [](const char* name, const std::vector<int64_t>& values) {
    return tensor(name, kInt64, {static_cast<int64_t>(values.size())}, raw({reinterpret_cast<const char*>(values.data()), values.size() * 8}));
  };
  const float bias = 0.125F;
  GraphParts g;
  g.initializers = {ints("rows_shape", {1, -1, kColumns}), ints("columns_shape", {1, kColumns, -1}), ints("sizes", {4, kColumns - 4}),
                    tensor("bias", kFloat, {}, raw({reinterpret_cast<const char*>(&bias), 4}))};
  g.nodes = {node("Reshape", {"x", "rows_shape"}, {"rows"}),
             node("Reshape", {"x", "columns_shape"}, {"columns"}),
             node("Sub", {"rows", "bias"}, {"less"}),
             node("Sqrt", {"less"}, {"roots"}),
             node("Split", {"roots", "sizes"}, {"corners", "marks"}, "", {int_attribute("axis", 2)})};
  g.inputs = {value_info("x", kFloat, {1, 3, "h", "w"})};
  g.outputs = {value_info("rows", kFloat, {1, "n", kColumns}), value_info("columns", kFloat, {1, kColumns, "m"}),
               value_info("corners", kFloat, {1, "n", 4}), value_info("marks", kFloat, {1, "n", kColumns - 4})};
  return model_file(graph(g));
}

// The model's outputs of a picture of floats [1, 3, h, w].
std::vector<NamedTensor> outputs(const HostTensor& x) {
  const int64_t n = x.elements() / kColumns;
  const auto make = [&](std::vector<int64_t> shape) {
    auto t = HostTensor::zeros(DType::F32, std::move(shape));
    REQUIRE(t.ok());
    return std::move(t).value();
  };
  HostTensor rows = make({1, n, kColumns}), columns = make({1, kColumns, n}), corners = make({1, n, 4}), marks = make({1, n, kColumns - 4});
  for (size_t i = 0; i < static_cast<size_t>(x.elements()); ++i) {
    const float v = x.as<float>()[i];
    rows.as<float>()[i] = columns.as<float>()[i] = v;
    const size_t row = i / kColumns, column = i % kColumns;
    (column < 4 ? corners.as<float>()[row * 4 + column] : marks.as<float>()[row * 8 + column - 4]) = std::sqrt(v - 0.125F);
  }
  std::vector<NamedTensor> all;
  for (auto& [name, tensor] : {std::pair{"rows", &rows}, {"columns", &columns}, {"corners", &corners}, {"marks", &marks}})
    all.push_back({name, std::move(*tensor)});
  return all;
}

struct Case {
  const char* name;
  const char* before;  // what makes "fit" of "rgb"
  const char* takes;   // outputs of the model, and the step that makes "boxes" and "scores" of them
  const char* then;
  double within = 0;  // of the reference, where exponentials are
};
constexpr const char* kResize = R"({"op":"resize","size":[12,20],"kernel":"nearest","like":"opencv","in":"rgb","out":"fit"})";
constexpr const char* kShorter = R"({"op":"resize","width":24,"round":"ceil","kernel":"linear","like":"opencv","in":"rgb","out":"fit"},
    {"op":"pad","mode":"edge","multiple":4,"in":"fit"})";
constexpr const char* kGrown = R"({"op":"letterbox","size":[44,36],"upscale":true,"kernel":"nearest","like":"opencv","value":90,"in":"rgb","out":"fit"})";
constexpr const char* kInside = R"({"op":"letterbox","size":[28,36],"upscale":false,"kernel":"bilinear","like":"pillow","value":7,"in":"rgb","out":"fit"})";
constexpr const char* kYolo = R"("rows":"rows"}},{"op":"boxes","form":"yolo","in":"rows",)";
constexpr const char* kYolo8 = R"("columns":"columns"}},{"op":"boxes","form":"yolo8","in":"columns",)";
constexpr const char* kSsd = R"("corners":"corners","marks":"marks"}},{"op":"boxes","form":"ssd","size":[44,36],"in":{"boxes":"corners","scores":"marks"},)";
constexpr const char* kSsdPlain = R"("corners":"corners","marks":"marks"}},
    {"op":"boxes","form":"ssd","size":[1,2],"background":0,"in":{"boxes":"corners","scores":"marks"},)";
constexpr const char* kSsdLast = R"("corners":"corners","marks":"marks"}},
    {"op":"boxes","form":"ssd","size":[7,3],"background":7,"in":{"boxes":"corners","scores":"marks"},)";

constexpr const char* kAnchors = R"("corners":"corners","marks":"marks"}},
    {"op":"boxes","form":"anchors","size":[44,36],"offset":0.5,"levels":[{"stride":4,"anchors":[8,[3,5],[20,9],31]}],"variance":[0.1,0.2],"background":3,
     "in":{"boxes":"corners","scores":"marks"},)";
constexpr const char* kAnchorRows = R"("rows":"rows"}},
    {"op":"boxes","form":"anchors","size":[28,36],"offset":0,"levels":[{"stride":2,"anchors":[2.5]}],"variance":[1,1],"in":"rows",)";
constexpr const char* kDfl = R"("corners":"corners","marks":"marks"}},
    {"op":"boxes","form":"dfl","size":[12,20],"offset":0.5,"strides":[2],"bins":2,"in":{"boxes":"marks","scores":"corners"},)";
constexpr const char* kDflRows = R"("rows":"rows"}},{"op":"boxes","form":"dfl","size":[44,36],"offset":0,"strides":[2],"bins":2,"in":"rows",)";

const Case kCases[] = {
    {"yolo_class", kResize, kYolo, R"("score":0.2,"iou":0.3,"per":"class","max":1000)"},
    {"yolo_all", kGrown, kYolo, R"("score":0.2,"iou":0.3,"per":"all","max":1000)"},
    {"yolo_few", kInside, kYolo, R"("score":0.01,"iou":0.5,"per":"class","max":7)"},
    {"yolo_one", kShorter, kYolo, R"("score":-1,"iou":0,"per":"all","max":1)"},
    {"yolo_none", kResize, kYolo, R"("score":1,"iou":0.3,"per":"class","max":20)"},
    {"yolo8_class", kInside, kYolo8, R"("score":0.5,"iou":0.1,"per":"class","max":5000)"},
    {"yolo8_all", kShorter, kYolo8, R"("score":0.9,"iou":0.7,"per":"all","max":300)"},
    {"yolo8_keeps_all", kGrown, kYolo8, R"("score":0,"iou":1,"per":"class","max":5000)"},
    {"ssd_class", kGrown, kSsd, R"("score":0.5,"iou":0.45,"per":"class","max":200)"},
    {"ssd_all", kInside, kSsdPlain, R"("score":0.25,"iou":0.45,"per":"all","max":200)"},
    {"ssd_last", kResize, kSsdLast, R"("score":0.75,"iou":0.2,"per":"class","max":64)"},
    {"anchors", kGrown, kAnchors, R"("score":0.5,"iou":1,"per":"class","max":200)", 1e-4},
    {"anchors_of_rows", kInside, kAnchorRows, R"("score":0.1,"iou":1,"per":"all","max":200)", 1e-4},
    {"dfl", kResize, kDfl, R"("score":0.1,"iou":1,"per":"class","max":200)", 1e-4},
    {"dfl_of_rows", kGrown, kDflRows, R"("score":0.1,"iou":1,"per":"all","max":50)", 1e-4},
    {"soft_linear", kGrown, kYolo, R"("score":0.2,"iou":0.1,"per":"class","max":1000,"like":"soft","decay":"linear")"},
    {"soft_linear_all", kShorter, kYolo8, R"("score":0.2,"iou":0.3,"per":"all","max":30,"like":"soft","decay":"linear")"},
    {"soft_gaussian", kInside, kSsd, R"("score":0.25,"per":"class","max":300,"like":"soft","decay":"gaussian","sigma":0.5)", 1e-5},
    {"ssd_none", kShorter, kSsdLast, R"("score":2,"iou":0.2,"per":"all","max":64)"},
};
constexpr std::pair<int64_t, int64_t> kSizes[] = {{12, 20}, {40, 31}, {23, 40}, {1, 9}, {101, 77}};

std::string pipelines() {
  std::string text = R"({"mlc_pipeline":1,"pipelines":{)";
  for (const Case& c : kCases) {
    const bool clips = (&c - kCases) % 2 == 0;
    text += (&c == kCases ? "\"" : ",\n\"") + std::string(c.name) +
            R"(":{"inputs":{"photo":{"accept":["image/png"]}},"steps":[
    {"op":"decode_image","in":"photo","color":"rgb","orient":"ignore","alpha":"drop","out":"rgb"},
    )" + c.before + R"(,{"op":"normalize","div":255},{"op":"layout","to":"NCHW","out":"x"},{"op":"run","program":"main","in":{"x":"x"},"out":{)" +
            c.takes + R"("out":{"boxes":"boxes","scores":"scores"}},{"op":"nms","in":{"boxes":"boxes","scores":"scores"},)" + c.then +
            R"(},{"op":"unletterbox","of":"fit","clip":)" + (clips ? "true" : "false") + R"(,"out":"y"}],"outputs":["y"]})";
  }
  const auto add = [&](const char* name, const char* fit, const std::string& steps) {
    text += ",\n\"" + std::string(name) + R"(":{"inputs":{"photo":{"accept":["image/png"]}},"steps":[
    {"op":"decode_image","in":"photo","color":"rgb","orient":"ignore","alpha":"drop","out":"rgb"},
    )" + fit + R"(,{"op":"normalize","div":255},{"op":"layout","to":"NCHW","out":"x"},{"op":"run","program":"main","in":{"x":"x"},"out":{)" + steps +
            R"(],"outputs":["y"]})";
  };
  const std::string masks = R"("rows":"rows"}},{"op":"boxes","form":"yolo","in":"rows","extra":3,"out":{"boxes":"boxes","scores":"scores","extra":"all"}},
    {"op":"normalize","in":"all","mean":0.4,"out":"coefficients"},
    {"op":"nms","in":{"boxes":"boxes","scores":"scores","extra":"coefficients"},"score":0.5,"iou":0.3,"per":"all","max":5,"out":{"found":"small","extra":"kept"}},
    {"op":"unletterbox","in":"small","of":"fit","clip":true,"out":"found"},{"op":"masks","in":"kept","boxes":"found","prototypes":"x","of":"fit","out":"y"})";
  const std::string points = R"("corners":"corners"}},{"op":"column","in":"corners","index":1},{"op":"keypoints","columns":3,"of":"fit","clip":)";
  const std::string paint = R"("columns":"columns"}},{"op":"argmax","in":"columns","axis":1},{"op":"paint","palette":["#010203","#ff8000","#00ff7f"],"of":"fit","out":"y"})";
  add("masks", kGrown, masks);
  add("masks_of_resized", kResize, masks);
  add("points", kInside, points + R"(false,"out":"y"})");
  add("points_clipped", kResize, points + R"(true,"out":"y"})");
  add("painted", kGrown, paint);
  add("painted_whole", kResize, paint);
  return text + "}}";
}

HostTensor noise(int64_t height, int64_t width) {
  auto t = HostTensor::zeros(DType::U8, {height, width, 3});
  REQUIRE(t.ok());
  uint32_t state = static_cast<uint32_t>(height * 1000 + width);
  for (uint8_t& b : t->as<uint8_t>()) {
    state = state * 1664525 + 1013904223;
    b = static_cast<uint8_t>(state >> 24);
  }
  return std::move(t).value();
}

HostTensor expected(const pipeline::Pipeline& p, const HostTensor& picture) {
  std::vector<NamedTensor> values;
  auto copy = picture.clone();
  REQUIRE(copy.ok());
  values.push_back({"rgb", std::move(copy).value()});
  for (int round = 0; round < 2; ++round) {
    const Status status = pipeline::reference::run_array_steps(p, values);
    REQUIRE_MESSAGE(status.ok(), status.text());
    const auto x = std::find_if(values.begin(), values.end(), [](const NamedTensor& v) { return v.name == "x"; });
    REQUIRE(x != values.end());
    if (round > 0) break;
    for (NamedTensor& made : outputs(x->tensor)) values.push_back(std::move(made));
  }
  for (NamedTensor& v : values)
    if (v.name == "y") return std::move(v.tensor);
  FAIL("the reference gave no answer");
  return {};
}

int64_t check(const test::Compiled& all, const pipeline::Pipeline& p, MlcSession* session, const HostTensor& picture) {
  const HostTensor want = expected(p, picture);
  MlcTensor in = mlc_tensor(const_cast<std::byte*>(picture.data.data()), MLC_U8, 3, picture.shape.data());
  in.name = "rgb";
  MlcTensor out{};
  MlcError* error = nullptr;
  auto how = sized<MlcRunOptions>();
  how.program = p.name.c_str();
  const int code = all.api->run(session, &how, &in, 1, &out, 1, &error);
  const std::string message = error ? all.api->error_text(error) : "";
  all.api->error_release(error);
  REQUIRE_MESSAGE(code == MLC_OK, message);
  REQUIRE(std::vector<int64_t>(out.shape, out.shape + out.rank) == want.shape);
  const auto* known = std::find_if(std::begin(kCases), std::end(kCases), [&](const Case& c) { return c.name == p.name; });
  const double within = known == std::end(kCases) ? 0 : known->within;
  const test::Differences d = test::compare(out, want, within);
  INFO(d.count, " of ", want.elements(), " elements differ, by at most ", d.largest, ", first ", d.first);
  CHECK(d.count == 0);
  return want.shape[0];
}

}  // namespace

TEST_CASE("compiled steps on boxes give what the reference gives in every variant, to the bit where no exponential is") {
  const test::Compiled all(detector(), pipelines());
  REQUIRE(all.variants.size() >= 2);
  int64_t most = 0, none = 0;
  for (const std::string& variant : all.variants) {
    CAPTURE(variant);
    auto options = sized<MlcSessionOptions>();
    options.variant = variant.c_str();
    MlcSession* session = nullptr;
    REQUIRE(all.api->session_create(all.model, &options, &session, nullptr) == MLC_OK);
    for (const pipeline::Pipeline& p : all.file.pipelines)
      for (const auto& [height, width] : kSizes) {
        CAPTURE(p.name);
        CAPTURE(height);
        CAPTURE(width);
        const int64_t count = check(all, p, session, noise(height, width));
        most = std::max(most, count);
        none += count == 0;
      }
    all.api->session_release(session);
  }
  CHECK(most > 100);
  CHECK(none > 0);
}
