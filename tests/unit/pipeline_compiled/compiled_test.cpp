// Array steps as the packager compiles them, in every variant that this host runs, against the slow reference (which
// tests/unit/pipeline holds against Pillow, OpenCV and NumPy). One container holds all pipelines.
#include <doctest/doctest.h>

#include "runtime/pipeline/reference/array_steps.h"
#include "tests/support/tiny_onnx.h"
#include "tests/unit/pipeline_compiled/compiled.h"

using namespace mlc;
using test::Compiled;
using test::compare;
using test::Differences;

namespace {

// How answers must agree: bytes, integers and what is one rounded operation exactly; exponentials within 1e-6.
struct Case {
  const char* name;
  const char* steps;  // between decoding and the end; the first takes "rgb", the last gives "y"
  double tolerance = 0;
  const char* color = "rgb";
};

const Case kCases[] = {
    {"nearest_down", R"({"op":"resize","size":[7,5],"kernel":"nearest","like":"pillow")"},
    {"nearest_up", R"({"op":"resize","size":[119,86],"kernel":"nearest","like":"pillow")"},
    {"box_down", R"({"op":"resize","size":[7,5],"kernel":"box","like":"pillow")"},
    {"box_up", R"({"op":"resize","size":[41,86],"kernel":"box","like":"pillow")"},
    {"bilinear_down", R"({"op":"resize","size":[7,5],"kernel":"bilinear","like":"pillow")"},
    {"bilinear_up", R"({"op":"resize","size":[41,86],"kernel":"bilinear","like":"pillow")"},
    {"hamming_down", R"({"op":"resize","size":[7,5],"kernel":"hamming","like":"pillow")"},
    {"hamming_up", R"({"op":"resize","size":[41,86],"kernel":"hamming","like":"pillow")"},
    {"bicubic_down", R"({"op":"resize","size":[7,5],"kernel":"bicubic","like":"pillow")"},
    {"bicubic_up", R"({"op":"resize","size":[41,86],"kernel":"bicubic","like":"pillow")"},
    {"lanczos_down", R"({"op":"resize","size":[7,5],"kernel":"lanczos","like":"pillow")"},
    {"lanczos_up", R"({"op":"resize","size":[41,86],"kernel":"lanczos","like":"pillow")"},
    {"opencv_nearest", R"({"op":"resize","size":[13,90],"kernel":"nearest","like":"opencv")"},
    {"opencv_linear", R"({"op":"resize","size":[13,90],"kernel":"linear","like":"opencv")"},
    {"opencv_linear_up", R"({"op":"resize","size":[97,31],"kernel":"linear","like":"opencv")"},
    {"shorter_trunc", R"({"op":"resize","shorter":21,"round":"trunc","kernel":"bilinear","like":"pillow")"},
    {"shorter_nearest", R"({"op":"resize","shorter":20,"round":"nearest","kernel":"bicubic","like":"pillow")"},
    {"longer_ceil", R"({"op":"resize","longer":37,"round":"ceil","kernel":"linear","like":"opencv")"},
    {"longer_nearest", R"({"op":"resize","longer":30,"round":"nearest","kernel":"nearest","like":"opencv")"},
    {"height", R"({"op":"resize","height":24,"round":"nearest","kernel":"bilinear","like":"pillow")"},
    {"width", R"({"op":"resize","width":26,"round":"ceil","kernel":"box","like":"pillow")"},
    {"letterbox_grown",
     R"({"op":"letterbox","size":[40,56],"upscale":true,"kernel":"linear","like":"opencv","value":[114,7,250])"},
    {"letterbox_inside",
     R"({"op":"letterbox","size":[57,40],"upscale":false,"kernel":"bilinear","like":"pillow","value":114)"},
    {"center_floor", R"({"op":"crop","at":"center","size":[16,21],"round":"floor")"},
    {"center_half_even", R"({"op":"crop","at":"center","size":[16,21],"round":"half-even")"},
    {"center_half_up", R"({"op":"crop","at":"center","size":[16,21],"round":"half-up")"},
    {"crop_at", R"({"op":"crop","at":[3,11],"size":[18,9])"},
    {"pad_constant", R"({"op":"pad","mode":"constant","value":77,"top":3,"left":2,"right":9)"},
    {"pad_edge", R"({"op":"pad","mode":"edge","top":1,"bottom":20,"left":4)"},
    {"pad_reflect", R"({"op":"pad","mode":"reflect","top":2,"bottom":40,"left":25,"right":3)"},
    {"pad_symmetric", R"({"op":"pad","mode":"symmetric","top":2,"bottom":40,"left":25,"right":3)"},
    {"pad_multiple", R"({"op":"pad","mode":"constant","value":0,"multiple":32)"},
    {"pad_multiple_edge", R"({"op":"pad","mode":"reflect","multiple":8)"},
    {"flip_horizontal", R"({"op":"flip","axis":"horizontal")"},
    {"flip_vertical", R"({"op":"flip","axis":"vertical")"},
    {"rotate_1", R"({"op":"rotate90","turns":1)"},
    {"rotate_2", R"({"op":"rotate90","turns":2)"},
    {"rotate_3", R"({"op":"rotate90","turns":3)"},
    {"gray_pillow", R"({"op":"color","to":"gray","like":"pillow")"},
    {"gray_opencv", R"({"op":"color","to":"gray","like":"opencv")"},
    {"gray_of_bgr", R"({"op":"color","to":"gray","like":"pillow")", 0, "bgr"},
    {"swapped", R"({"op":"color","to":"bgr")"},
    {"spread", R"({"op":"color","to":"rgb")", 0, "gray"},
    {"divided", R"({"op":"normalize","div":255)"},
    {"imagenet", R"({"op":"normalize","div":255,"mean":[0.485,0.456,0.406],"std":[0.229,0.224,0.225])"},
    {"one_mean", R"({"op":"normalize","mean":127.3,"std":128.1)"},
    {"only_std", R"({"op":"normalize","std":[58.395,57.12,57.375])"},
    {"folded", R"({"op":"normalize","div":255,"mean":[0.485,0.456,0.406],"std":[0.229,0.224,0.225],"exact":false)", 1e-6},
    {"planes_normalized",
     R"({"op":"layout","to":"NCHW"},{"op":"normalize","div":255,"mean":[0.4,0.5,0.6],"std":[0.2,0.3,0.4])"},
    {"normalized_planes",
     R"({"op":"normalize","div":255,"mean":[0.4,0.5,0.6],"std":[0.2,0.3,0.4]},{"op":"layout","to":"NCHW")"},
    {"to_nchw", R"({"op":"layout","to":"NCHW")"},
    {"to_chw", R"({"op":"layout","to":"CHW")"},
    {"to_nhwc", R"({"op":"layout","to":"NHWC")"},
    {"and_back", R"({"op":"layout","to":"NCHW"},{"op":"layout","to":"NHWC")"},
    {"as_f32", R"({"op":"dtype","to":"f32")"},
    {"as_u8", R"({"op":"normalize","div":0.7,"mean":90},{"op":"dtype","to":"u8")"},
    {"as_i8", R"({"op":"normalize","div":0.5,"mean":180},{"op":"dtype","to":"i8")"},
    {"as_i32", R"({"op":"normalize","div":2,"mean":40},{"op":"dtype","to":"i32")"},
    {"as_i64", R"({"op":"normalize","div":0.3,"mean":40},{"op":"dtype","to":"i64")"},
    {"as_f16", R"({"op":"normalize","div":255,"mean":0.5},{"op":"dtype","to":"f16")"},
    {"as_bf16", R"({"op":"normalize","div":255,"mean":0.5},{"op":"dtype","to":"bf16")"},
    {"as_f64", R"({"op":"normalize","div":255},{"op":"dtype","to":"f64")"},
    {"softmax_last", R"({"op":"normalize","div":19,"mean":3},{"op":"softmax","axis":-1)", 1e-6},
    {"softmax_first", R"({"op":"normalize","div":19},{"op":"softmax","axis":0)", 1e-6},
    {"sigmoid", R"({"op":"normalize","div":9,"mean":14},{"op":"sigmoid")", 1e-6},
    {"argmax_last", R"({"op":"normalize","div":40},{"op":"argmax","axis":-1)"},
    {"argmax_rows", R"({"op":"normalize","div":40},{"op":"argmax","axis":0)"},
    {"unit_length", R"({"op":"normalize","div":9,"mean":14},{"op":"normalize","norm":"l2")", 1e-6},
    {"turned_where", R"({"op":"crop","in":"rgb","at":[0,0],"size":[1,1]},{"op":"normalize","div":255},{"op":"threshold","value":0.4,"compare":">"},
        {"op":"column","index":1},{"op":"column","index":0,"out":"light"},{"op":"rotate90","in":"rgb","turns":2,"where":"light")"},
    {"column", R"({"op":"normalize","div":40},{"op":"column","index":2)"},
    {"column_of_bytes", R"({"op":"column","index":0)"},
    {"first_columns", R"({"op":"normalize","div":40},{"op":"truncate","columns":2)"},
    {"above", R"({"op":"normalize","div":255},{"op":"threshold","value":0.4,"compare":">")"},
    {"at_least", R"({"op":"normalize","div":255},{"op":"threshold","value":0.4,"compare":">=")"},
    {"everything",
     R"({"op":"resize","shorter":40,"round":"nearest","kernel":"bicubic","like":"pillow"},
        {"op":"crop","at":"center","size":[33,31],"round":"floor"},{"op":"flip","axis":"horizontal"},
        {"op":"color","to":"bgr"},{"op":"pad","mode":"edge","multiple":16},
        {"op":"normalize","div":255,"mean":[0.4,0.5,0.6],"std":[0.2,0.3,0.4]},{"op":"layout","to":"NCHW")"},
    // Steps that become one kernel: what a step reads through a table of rows or columns, under the condition of another.
    {"letterbox_normalized", R"({"op":"letterbox","size":[44,44],"upscale":true,"kernel":"linear","like":"opencv","value":114},
        {"op":"normalize","div":255)"},
    {"letterbox_nearest", R"({"op":"letterbox","size":[44,44],"upscale":true,"kernel":"nearest","like":"opencv","value":114},
        {"op":"normalize","div":255},{"op":"layout","to":"NCHW")"},
    {"letterbox_nearest_pillow", R"({"op":"letterbox","size":[44,44],"upscale":true,"kernel":"nearest","like":"pillow","value":114},
        {"op":"normalize","div":255)"},
    {"letterbox_bicubic", R"({"op":"letterbox","size":[44,44],"upscale":false,"kernel":"bicubic","like":"pillow","value":114},
        {"op":"normalize","div":255},{"op":"layout","to":"NCHW")"},
    {"resized_and_padded", R"({"op":"resize","longer":40,"round":"nearest","kernel":"linear","like":"opencv"},
        {"op":"pad","mode":"constant","value":9,"top":3,"bottom":11,"left":5,"right":2},{"op":"normalize","mean":127.5)"},
    {"nearest_and_padded", R"({"op":"resize","size":[30,20],"kernel":"nearest","like":"opencv"},
        {"op":"pad","mode":"constant","value":9,"left":50},{"op":"normalize","div":255)"},
    {"cropped_beyond", R"({"op":"resize","size":[20,31],"kernel":"linear","like":"opencv"},
        {"op":"crop","at":"center","size":[40,50],"round":"floor"},{"op":"normalize","div":255)"},
    {"nearest_cropped_beyond", R"({"op":"resize","size":[31,20],"kernel":"nearest","like":"pillow"},
        {"op":"crop","at":[25,15],"size":[30,30]},{"op":"flip","axis":"horizontal"},{"op":"normalize","div":255)"},
    {"through_the_model",
     R"({"op":"letterbox","size":[32,48],"upscale":true,"kernel":"linear","like":"opencv","value":114},
        {"op":"normalize","div":255},{"op":"layout","to":"NCHW","out":"x"},
        {"op":"run","program":"main","in":{"x":"x"},"out":{"y":"same"}},{"op":"softmax","in":"same","axis":1)", 1e-6},
};

const std::vector<std::pair<int64_t, int64_t>> kSizes = {{1, 1}, {1, 9}, {7, 1}, {7, 5}, {16, 21}, {17, 23}, {40, 31}, {23, 40}, {9, 61}, {64, 96}, {101, 77}};

std::string pipeline_text() {
  std::string text = R"({"mlc_pipeline":1,"pipelines":{)";
  for (const Case& c : kCases) {
    if (&c != kCases) text += ",\n";
    const std::string gray = c.color == std::string("gray") ? R"(,"like":"pillow")" : "";
    text += std::string("\"") + c.name + R"(":{"inputs":{"photo":{"accept":["image/png"]}},"steps":[{"op":"decode_image","in":"photo","color":")" +
            c.color + "\"" + gray + R"(,"orient":"ignore","alpha":"drop","out":"rgb"},)" + c.steps + R"(,"out":"y"}],"outputs":["y"]})";
  }
  return text + "}}";
}

const Compiled& compiled() {
  static const Compiled once(test::one_node_onnx("Identity", {"n", "c", "h", "w"}), pipeline_text());
  return once;
}

HostTensor noise(int64_t height, int64_t width, int64_t channels) {
  auto t = HostTensor::zeros(DType::U8, {height, width, channels});
  REQUIRE(t.ok());
  uint32_t state = static_cast<uint32_t>(height * 1000 + width);
  for (uint8_t& b : t->as<uint8_t>()) {
    state = state * 1664525 + 1013904223;
    b = static_cast<uint8_t>(state >> 24);
    if (state % 11 == 0) b = 255;  // saturated areas, where clamping shows
    if (state % 13 == 0) b = 0;
  }
  return std::move(t).value();
}

// Answers of the array steps by the reference. `run` is the identity here.
HostTensor expected(const pipeline::Pipeline& p, const HostTensor& picture) {
  std::vector<NamedTensor> values;
  auto copy = picture.clone();
  REQUIRE(copy.ok());
  values.push_back({"rgb", std::move(copy).value()});
  for (int round = 0; round < 2; ++round) {
    const Status status = pipeline::reference::run_array_steps(p, values);
    REQUIRE_MESSAGE(status.ok(), status.text());
    for (const NamedTensor& v : values)
      if (v.name == "x" && round == 0) {
        auto same = v.tensor.clone();
        REQUIRE(same.ok());
        values.push_back({"same", std::move(same).value()});
        break;
      }
  }
  for (NamedTensor& v : values)
    if (v.name == "y") return std::move(v.tensor);
  FAIL("the reference gave no answer");
  return {};
}

void check(const Case& c, MlcSession* session, int64_t height, int64_t width) {
  const Compiled& all = compiled();
  const auto p = std::find_if(all.file.pipelines.begin(), all.file.pipelines.end(), [&](const auto& q) { return q.name == c.name; });
  REQUIRE(p != all.file.pipelines.end());
  const HostTensor picture = noise(height, width, c.color == std::string("gray") ? 1 : 3);
  const HostTensor want = expected(*p, picture);
  MlcTensor in = mlc_tensor(const_cast<std::byte*>(picture.data.data()), MLC_U8, 3, picture.shape.data());
  in.name = "rgb";
  MlcTensor out{};
  MlcError* error = nullptr;
  auto how = sized<MlcRunOptions>();
  how.program = c.name;
  const int code = all.api->run(session, &how, &in, 1, &out, 1, &error);
  const std::string message = error ? all.api->error_text(error) : "";
  all.api->error_release(error);
  REQUIRE_MESSAGE(code == MLC_OK, message);
  REQUIRE(static_cast<int>(out.dtype) == static_cast<int>(want.dtype));
  REQUIRE(std::vector<int64_t>(out.shape, out.shape + out.rank) == want.shape);
  REQUIRE(out.bytes == want.data.size());
  const Differences d = compare(out, want, c.tolerance);
  INFO(d.count, " of ", want.elements(), " elements differ, by at most ", d.largest, ", first ", d.first);
  CHECK(d.count == 0);
}

}  // namespace

TEST_CASE("compiled array steps give the bits of the reference in every variant") {
  const Compiled& all = compiled();
  REQUIRE(all.variants.size() >= 2);
  for (const std::string& variant : all.variants) {
    CAPTURE(variant);
    auto options = sized<MlcSessionOptions>();
    options.variant = variant.c_str();
    MlcSession* session = nullptr;
    REQUIRE(all.api->session_create(all.model, &options, &session, nullptr) == MLC_OK);
    for (const Case& c : kCases) {
      const std::string pipeline = c.name;
      CAPTURE(pipeline);
      for (const auto& [height, width] : kSizes) {
        CAPTURE(height);
        CAPTURE(width);
        check(c, session, height, width);
      }
    }
    all.api->session_release(session);
  }
}
