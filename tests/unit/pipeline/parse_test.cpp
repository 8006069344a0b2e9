// pipeline.json: what parses, and what every mistake is called.
#include <doctest/doctest.h>

#include "runtime/io/file.h"
#include "schema/pipeline/geometry.h"
#include "schema/pipeline/parse_step.h"
#include "schema/pipeline/pipeline.h"
#include "schema/pipeline/reader.h"
#include "tests/support/source_path.h"

using namespace mlc;
using namespace mlc::pipeline;

namespace {

const std::string kHead =
    R"({"mlc_pipeline": 1, "inputs": {"photo": {"accept": ["image/jpeg", "image/png"]}}, "steps": [
)";
const std::string kDecode = R"({"op": "decode_image", "in": "photo", "color": "rgb", "orient": "exif", "alpha": "drop"},
)";
const std::string kTail = R"({"op": "layout", "to": "NCHW", "out": "x"},
{"op": "run", "program": "main", "in": {"input": "x"}, "out": {"output": "logits"}}], "outputs": ["logits"]})";

Result<PipelineFile> with(const std::string& step) {
  return parse(kHead + kDecode + step + (step.empty() ? "" : ",\n") + kTail, "p.json");
}

// The whole report of a failure: message and facts.
std::string report(const Result<PipelineFile>& r) {
  REQUIRE(!r.ok());
  CHECK(r.status().code == Code::Usage);
  std::string all = r.status().message;
  for (const auto& f : r.status().facts) all += "\n" + f;
  return all;
}
bool says(const Result<PipelineFile>& r, const std::string& what) {
  std::string text = report(r);
  if (text.find(what) != std::string::npos) return true;
  MESSAGE(text);
  return false;
}

std::string file_text(const std::string& path) {
  auto f = io::read_file(path);
  REQUIRE_MESSAGE(f.ok(), path);
  return {reinterpret_cast<const char*>(f->data()), f->size()};
}

}  // namespace

TEST_CASE("an input is decoded in at most 16 ways, by any number of steps") {
  const auto decoding = [](int forms) {
    std::string steps, taken;
    for (int k = 0; k < 3 * forms; ++k) {
      const std::string number = std::to_string(k);
      steps += R"({"op":"decode_image","in":"photo","color":"rgb","orient":"ignore","alpha":"over #0000)" + std::to_string(10 + k % forms) + R"(","out":"d)" + number + "\"},";
      taken += (k ? "," : "") + std::string("\"i") + number + "\":\"d" + number + "\"";
    }
    return parse(kHead + steps + R"({"op":"run","program":"main","in":{)" + taken + R"(},"out":{"y":"y"}}],"outputs":["y"]})", "p.json");
  };
  CHECK(decoding(16).ok());
  CHECK(says(decoding(17), "'photo' is decoded in more than 16 ways"));
}

TEST_CASE("a pipeline becomes values and steps with resolved attributes") {
  auto file = parse(file_text(mlc::testing::source_path("examples/imagenet/pipeline.json")), "imagenet.json");
  REQUIRE_MESSAGE(file.ok(), file.status().text());
  REQUIRE(file->pipelines.size() == 1);
  const Pipeline& p = file->pipelines[0];
  CHECK(p.name == "default");
  REQUIRE(p.steps.size() == 8);  // softmax inside top_k's "in" is a step of its own
  const auto& resize = std::get<Resize>(p.steps[1].what);
  CHECK(resize.fit == Resize::Fit::Shorter);
  CHECK(resize.size == 256);
  CHECK(resize.round == SizeRound::Nearest);
  CHECK(resize.kernel == Kernel::Bilinear);
  const auto& crop = std::get<Crop>(p.steps[2].what);
  CHECK(crop.centered);
  CHECK(crop.height == 224);
  const auto& normalize = std::get<Normalize>(p.steps[3].what);
  CHECK(normalize.div == 255);
  CHECK(normalize.mean[2] == 0.406f);
  CHECK(normalize.exact);
  CHECK(p.value(p.steps[3].out[0]).picture->dtype == DType::F32);
  CHECK(p.value(p.steps[3].out[0]).picture->height == 224);
  CHECK(p.value(p.steps[4].out[0]).picture->layout == PixelLayout::Nchw);
  const auto& run = std::get<Run>(p.steps[5].what);
  CHECK(run.program == "main");
  CHECK(run.inputs[0].first == "image");
  CHECK(p.value(run.inputs[0].second).name == "x");
  CHECK(std::get<Softmax>(p.steps[6].what).axis == -1);
  CHECK(std::get<TopK>(p.steps[7].what).k == 5);
  CHECK(p.value(p.outputs[0]).kind == ValueKind::Classes);
  CHECK(assets(p) == std::vector<std::string>{"labels.txt"});
  const std::vector<Section> all = sections(p);
  REQUIRE(all.size() == 3);
  CHECK((all[1].is_array && !all[0].is_array && !all[2].is_array));
  CHECK(all[1].program == p.name);
  REQUIRE(all[1].in.size() == 1);
  CHECK(p.value(all[1].in[0]).name == "steps[0]");
  REQUIRE(all[1].out.size() == 1);
  CHECK(p.value(all[1].out[0]).name == "steps[6].in");
}

TEST_CASE("steps on boxes have their arrays by name, and the picture that a resized one was made of") {
  const std::string before = R"({"op":"letterbox","size":[32,48],"upscale":false,"kernel":"linear","like":"opencv","value":114,"in":"steps[0]","out":"fit"},
{"op":"normalize","div":255},{"op":"layout","to":"NCHW","out":"x"},{"op":"run","program":"main","in":{"x":"x"},"out":{"c":"c","s":"s"}},
)";
  const auto of = [&](const std::string& boxes, const std::string& nms, const std::string& back) {
    return parse(kHead + kDecode + before + boxes + ",\n" + nms + ",\n" + back + R"(],"outputs":["y"]})", "p.json");
  };
  const std::string ssd = R"({"op":"boxes","form":"ssd","size":[32,48],"background":1,"in":{"boxes":"c","scores":"s"},"out":{"boxes":"b","scores":"t"}})";
  const std::string nms = R"({"op":"nms","in":{"boxes":"b","scores":"t"},"score":0.25,"iou":0.5,"per":"all","max":30})";
  const std::string back = R"({"op":"unletterbox","of":"fit","clip":true,"out":"y"})";
  const auto file = of(ssd, nms, back);
  REQUIRE_MESSAGE(file.ok(), file.status().text());
  const Pipeline& p = file->pipelines[0];
  const auto& boxes = std::get<Boxes>(p.steps[5].what);
  CHECK(boxes.form == Boxes::Form::Ssd);
  CHECK(boxes.height == 32);
  CHECK(boxes.width == 48);
  CHECK(boxes.background == 1);
  CHECK(p.value(p.steps[5].out[1]).name == "t");
  const auto& kept = std::get<Nms>(p.steps[6].what);
  CHECK(kept.score == 0.25);
  CHECK(kept.iou == 0.5);
  CHECK(!kept.per_class);
  CHECK(kept.most == 30);
  const auto& origin = std::get<Unletterbox>(p.steps[7].what);
  REQUIRE(std::holds_alternative<Letterbox>(origin.of));
  CHECK(std::get<Letterbox>(origin.of).width == 48);
  REQUIRE(p.steps[7].in.size() == 2);
  CHECK(p.value(p.steps[7].in[1]).name == "steps[0]");

  CHECK(says(of(ssd, nms, R"({"op":"unletterbox","of":"x","clip":true,"out":"y"})"),
             "'of' of step 'unletterbox' is 'x', which no 'resize' and no 'letterbox' makes"));
  CHECK(says(of(ssd, nms, R"({"op":"unletterbox","of":"fit","out":"y"})"), "step 'unletterbox' lacks 'clip'"));
  CHECK(says(of(ssd, R"({"op":"nms","in":{"boxes":"b","scores":"t"},"score":0.2})", back),
             "step 'nms' lacks 'iou' (a number), 'per' (class all), 'max' (a whole number)"));
  CHECK(says(of(ssd, R"({"op":"nms","in":{"boxes":"b","scores":"t"},"score":0.2,"iou":1.5,"per":"all","max":1})", back),
             "'iou' of step 'nms' is no number from 0 to 1"));
  CHECK(says(of(ssd, R"({"op":"nms","in":"b","score":0.2,"iou":0.5,"per":"all","max":1})", back), "'in' is a string, expected an object"));
  CHECK(says(of(R"({"op":"boxes","form":"yolo","in":"c","size":[1,1],"out":{"boxes":"b","scores":"t"}})", nms, back),
             "'size' of step 'boxes' has no meaning with \"form\": \"yolo\""));
  CHECK(says(of(R"({"op":"boxes","form":"yolo8","in":"c","out":{"boxes":"b"}})", nms, back), "lacks 'scores'"));
  CHECK(says(of(R"({"op":"boxes","form":"yolo9","in":"c","out":{"boxes":"b","scores":"t"}})", nms, back),
             "'form' of step 'boxes' is 'yolo9', did you mean 'yolo'?"));
}

TEST_CASE("heads of anchors and of bins say where their boxes are, and soft suppression how scores decay") {
  const std::string end = R"({"op":"nms","in":{"boxes":"b","scores":"t"},)", hard = end + R"("score":0.2,"iou":0.5,"per":"all","max":1})";
  const auto boxes = [](const std::string& keys) { return R"({"op":"boxes",)" + keys + R"(,"out":{"boxes":"b","scores":"t"}})"; };
  const auto read = [](const std::string& first, const std::string& second) {
    return parse(kHead + kDecode + R"({"op":"layout","to":"NCHW","out":"x"},{"op":"run","program":"main","in":{"x":"x"},"out":{"c":"c","s":"s"}},
{"op":"new_axis","in":"s","at":0,"out":"unused"},)" + first + "," + second + R"(],"outputs":["unused","steps[5]"]})", "p.json");
  };
  const auto problem = [&](const std::string& keys, std::string_view sentence) {
    const auto file = read(boxes(keys), hard);
    if (file.ok()) return false;
    const bool found = file.status().text().find(sentence) != std::string::npos;
    if (!found) MESSAGE(file.status().text());
    return found;
  };
  const std::string anchors = R"("form":"anchors","in":{"boxes":"c","scores":"s"},"size":[30,40],"offset":0.5,"levels":[{"stride":16,"anchors":[8,[4,2.5]]},{"stride":32,"anchors":[64]}],"variance":[0.1,0.2])";
  const auto file = read(boxes(anchors + R"(,"background":0)"), end + R"("score":0.2,"like":"soft","decay":"gaussian","sigma":0.5,"per":"all","max":1})");
  REQUIRE_MESSAGE(file.ok(), file.status().text());
  const auto& head = std::get<Boxes>(file->pipelines[0].steps[4].what);
  CHECK(head.background == 0);
  CHECK(anchor_count(head) == 2 * 3 * 2 + 1 * 2);
  const std::vector<float> table = anchor_table(head);
  REQUIRE(table.size() == 14 * 4);
  CHECK(std::vector<float>(table.begin() + 12, table.begin() + 16) == std::vector<float>{24, 8, 2.5F, 4});
  CHECK(std::vector<float>(table.end() - 4, table.end()) == std::vector<float>{48, 16, 64, 64});
  CHECK(std::get<Nms>(file->pipelines[0].steps[5].what).decay == Nms::Decay::Gaussian);

  const std::string begin = R"("form":"anchors","in":{"boxes":"c","scores":"s"},"size":[30,40],"offset":0.5,"variance":[0.1,0.2],"levels":)";
  CHECK(problem(R"("form":"anchors","in":"c")", "lacks 'size' ([height, width]), 'offset' (a number), 'levels', 'variance'"));
  CHECK(problem(begin + "[]", "'levels' of step 'boxes' is no list of 1 to 16"));
  CHECK(problem(begin + "[3]", "'levels' of step 'boxes' holds something that is not {\"stride\", \"anchors\"}"));
  CHECK(problem(begin + R"([{"stride":8,"anchors":[0]}])", "'anchors' of 'levels' has a side that is not above 0 and at most 65536"));
  CHECK(problem(begin + R"([{"stride":8,"anchors":[[1,2,3]]}])", "'anchors' of 'levels' holds a list that is not [height, width]"));
  CHECK(problem(R"("form":"anchors","in":"c","size":[65536,65536],"offset":0,"variance":[1,1],"levels":[{"stride":1,"anchors":[1]}])",
                "'levels' of step 'boxes' makes 4294967296 boxes, at most 1048576"));
  CHECK(problem(R"("form":"anchors","in":"c","background":0,"size":[8,8],"offset":0,"variance":[1,1],"levels":[{"stride":8,"anchors":[1]}])",
                "'background' of step 'boxes' has no meaning with \"form\": \"anchors\" and one array"));
  CHECK(problem(R"("form":"dfl","in":"c","size":[8,8],"offset":2,"strides":[8],"bins":16)", "'offset' of step 'boxes' is no number from 0 to 1"));
  CHECK(problem(R"("form":"dfl","in":"c","size":[8,8],"offset":0,"strides":[8],"bins":16,"variance":[1,1])",
                "'variance' of step 'boxes' has no meaning with \"form\": \"dfl\""));
  const auto nms_problem = [&](const std::string& keys, std::string_view sentence) {
    const auto wrong = read(boxes(R"("form":"yolo","in":"c")"), end + keys + R"(,"per":"all","max":1})");
    return !wrong.ok() && wrong.status().text().find(sentence) != std::string::npos;
  };
  CHECK(nms_problem(R"("score":0.2,"iou":0.5,"decay":"linear")", "'decay' of step 'nms' has no meaning without \"like\": \"soft\""));
  CHECK(nms_problem(R"("score":0.2,"iou":0.5,"like":"soft","decay":"gaussian","sigma":1)", "'iou' of step 'nms' has no meaning beside"));
  CHECK(nms_problem(R"("score":0.2,"like":"soft","decay":"gaussian","sigma":0)", "'sigma' of step 'nms' is not above 0"));
  CHECK(nms_problem(R"("score":-1,"iou":0.5,"like":"soft","decay":"linear")", "needs a 'score' of at least 0"));
}

TEST_CASE("numbers of each box follow those that are kept, and classes are painted") {
  const std::string head = R"({"op":"letterbox","size":[32,48],"upscale":false,"kernel":"linear","like":"opencv","value":114,"out":"fit"},
{"op":"layout","to":"NCHW","out":"x"},{"op":"run","program":"main","in":{"x":"x"},"out":{"c":"c"}},)";
  const std::string boxes = R"({"op":"boxes","form":"yolo8","in":"c","extra":3,"out":{"boxes":"b","scores":"t","extra":"e"}},)";
  const std::string nms = R"({"op":"nms","in":{"boxes":"b","scores":"t","extra":"e"},"score":0.2,"iou":0.5,"per":"all","max":1,"out":)";
  const std::string both = R"({"found":"f","extra":"k"}},)", points = R"({"op":"keypoints","in":"k","columns":3,"clip":true,"of":"fit","out":"y"})";
  const auto read = [&](const std::string& steps) { return parse(kHead + kDecode + head + steps + R"(],"outputs":["f","y"]})", "p.json"); };
  const auto problem = [&](const std::string& steps, std::string_view sentence) {
    const auto file = read(steps);
    if (!file.ok() && file.status().text().find(sentence) == std::string::npos) MESSAGE(file.status().text());
    return !file.ok() && file.status().text().find(sentence) != std::string::npos;
  };
  const auto file = read(boxes + nms + both + points);
  REQUIRE_MESSAGE(file.ok(), file.status().text());
  const Pipeline& p = file->pipelines[0];
  CHECK(std::get<Boxes>(p.steps[4].what).extra == 3);
  CHECK(p.steps[4].out.size() == 3);
  CHECK(p.steps[5].in.size() == 3);
  CHECK(p.value(p.steps[5].out[1]).name == "k");
  CHECK(std::holds_alternative<Letterbox>(std::get<Keypoints>(p.steps[6].what).of));
  CHECK(problem(boxes + nms + R"("f"},)" + points, "'out' is a string, expected an object"));
  CHECK(problem(boxes + nms + both + R"({"op":"keypoints","in":"k","columns":1,"clip":true,"of":"x","out":"y"})", "'columns' of step 'keypoints' is 1, expected 2 to 16"));
  CHECK(problem(boxes + nms + both + R"({"op":"masks","in":"k","boxes":"f","of":"fit","out":"y"})", "step 'masks' lacks 'prototypes'"));
  CHECK(problem(boxes + nms + both + R"({"op":"paint","in":"k","palette":["red"],"of":"fit","out":"y"})", "'palette' of step 'paint' holds something that is not \"#rrggbb\""));
}

TEST_CASE("boxes with labels are answers that can be drawn, and a drawn picture becomes a file") {
  const auto with_steps = [](const std::string& steps, const std::string& outputs) {
    return parse(kHead + kDecode + R"({"op":"layout","to":"NCHW","out":"x"},{"op":"run","program":"main","in":{"x":"x"},"out":{"f":"found"}},
)" + steps + R"(],"outputs":[)" + outputs + "]}", "p.json");
  };
  const std::string named = R"({"op":"detections","in":"found","labels":"l.txt","label_offset":1,"out":"n"})";
  const std::string drawn = R"(,{"op":"draw","in":"steps[0]","boxes":"n"},{"op":"image_out","type":"image/png","out":"file"})";
  const auto file = with_steps(named + drawn, R"("n","file")");
  REQUIRE_MESSAGE(file.ok(), file.status().text());
  const Pipeline& p = file->pipelines[0];
  CHECK(std::get<NameBoxes>(p.steps[3].what).label_offset == 1);
  CHECK(assets(p) == std::vector<std::string>{"l.txt"});
  CHECK(p.value(p.outputs[0]).kind == ValueKind::Boxes);
  CHECK(p.value(p.outputs[1]).kind == ValueKind::Image);
  CHECK(p.value(p.steps[4].out[0]).picture->channels == 3);
  CHECK(sections(p).back().steps == std::vector<uint32_t>{3, 4, 5});
  // A drawn picture goes to array steps too.
  CHECK(with_steps(named + R"(,{"op":"draw","in":"steps[0]","boxes":"n"},{"op":"flip","axis":"vertical","out":"y"})", R"("y")").ok());

  CHECK(says(with_steps(R"({"op":"detections","in":"found","label_offset":1,"out":"n"})", R"("n")"), "has no meaning without 'labels'"));
  CHECK(says(with_steps(named + R"(,{"op":"draw","in":"steps[0]","out":"y"})", R"("y","n")"), "step 'draw' lacks 'boxes'"));
  CHECK(says(with_steps(named + R"(,{"op":"draw","in":"steps[0]","boxes":"n","out":"d"},{"op":"image_out","in":"d","out":"y"})", R"("y")"),
             "step 'image_out' lacks 'type' (image/png)"));
  CHECK(says(with_steps(named + R"(,{"op":"top_k","in":"n","k":1,"out":"y"})", R"("y")"), "step 'top_k' takes an array, 'n' is boxes with labels"));
  CHECK(says(with_steps(named + drawn + R"(,{"op":"flip","in":"file","axis":"vertical","out":"y"})", R"("y")"), "'file' is a file that was made"));
  CHECK(says(with_steps(R"({"op":"cut","in":"steps[0]","boxes":"found","out":"c"},{"op":"for_each","in":{"i":"c"},"out":{"n":"all"},"steps":[
{"op":"normalize","in":"i","div":1,"out":"f"},{"op":"detections","in":"f","out":"n"}]})", R"("all")"),
             "'n' is boxes, and each item gives one row of an array, of classes or of a text"));
}

TEST_CASE("all examples parse") {
  for (const char* name :
       {"digits/pipeline.json", "ocr/pipeline.json", "ocr/page.json", "speech/pipeline.json", "faces/pipeline.json", "sentences/pipeline.json", "rerank/pipeline.json", "imagenet/pipeline.json",
        "imagenet/mobilenet_v2_quant.json"}) {
    auto file = parse(file_text(mlc::testing::source_path("examples/") + name), name);
    CHECK_MESSAGE(file.ok(), name);
  }
}

TEST_CASE("an unknown key is named with its place and the nearest known key") {
  auto r = with(R"({"op": "resize", "size": [8, 8], "kernal": "bilinear", "kernel": "bilinear", "like": "pillow"})");
  CHECK(r.status().number == 5001);
  CHECK(r.status().message == "p.json:3:34: unknown key 'kernal' in step 'resize', did you mean 'kernel'?");
  REQUIRE(r.status().facts.size() == 1);
  CHECK(r.status().facts[0] == "known here: op in size shorter longer height width round like kernel out");
  CHECK(says(parse(R"({"mlc_pipelin": 1})", "p.json"),
             "p.json:1:2: unknown key 'mlc_pipelin' in the pipeline, did you mean 'mlc_pipeline'?"));
}

TEST_CASE("everything that is missing or wrong is reported at once") {
  auto r = parse(kHead + R"({"op": "decode_image", "in": "photo", "colour": "rgb"},
{"op": "resize", "shorter": 256, "kernel": "bilnear"},
{"op": "normalise", "div": 255},
)" + kTail, "p.json");
  REQUIRE(!r.ok());
  CHECK(r.status().facts.size() >= 4);
  CHECK(says(r, "p.json:2:39: unknown key 'colour' in step 'decode_image', did you mean 'color'?"));
  CHECK(says(r, "p.json:2:1: step 'decode_image' lacks 'color' (rgb bgr gray), 'orient' (exif ignore), 'alpha' (drop keep over #rrggbb)"));
  CHECK(says(r, "p.json:3:1: step 'resize' lacks 'round' (trunc nearest ceil), 'like' (pillow opencv)"));
  CHECK(says(r, "p.json:3:44: 'kernel' of step 'resize' is 'bilnear', did you mean 'bilinear'?"));
  CHECK(says(r, "p.json:4:8: unknown step 'normalise', did you mean 'normalize'?"));
}

TEST_CASE("attributes have the right kind, range and company") {
  auto wrong = [](const std::string& step, const std::string& what) {
    CAPTURE(step);
    CHECK(says(with(step), what));
  };
  wrong(R"({"op": "resize", "size": 224, "kernel": "bilinear", "like": "pillow"})",
        "not a list of two whole numbers, height first");
  wrong(R"({"op": "resize", "size": [0, 8], "kernel": "bilinear", "like": "pillow"})", "is 0, expected 1 to 65536");
  wrong(R"({"op": "resize", "size": [8, 8], "shorter": 8, "round": "trunc", "kernel": "box", "like": "pillow"})",
        "one too many");
  wrong(R"({"op": "resize", "size": [8, 8], "round": "trunc", "kernel": "box", "like": "pillow"})",
        "'round' of step 'resize' has no meaning with 'size'");
  wrong(R"({"op": "resize", "kernel": "box", "like": "pillow"})", "lacks 'size'");
  wrong(R"({"op": "resize", "size": [8, 8], "kernel": "bilinear", "like": "opencv"})",
        "expected one of: nearest linear");
  wrong(R"({"op": "resize", "size": [8, 8], "kernel": "linear", "like": "torch"})", "expected one of: pillow opencv");
  wrong(R"({"op": "crop", "at": "middle", "size": [8, 8], "round": "floor"})", "neither \"center\" nor [top, left]");
  wrong(R"({"op": "crop", "at": "center", "size": [8, 8]})", "lacks 'round'");
  wrong(R"({"op": "crop", "at": [0, 0], "size": [8, 8], "round": "floor"})", "no meaning");
  wrong(R"({"op": "normalize"})", "lacks 'div'");
  wrong(R"({"op": "normalize", "div": 0})", "'div' of step 'normalize' is 0");
  wrong(R"({"op": "normalize", "std": [1, 0, 1]})", "holds a 0");
  wrong(R"({"op": "normalize", "mean": [1, 2]})", "has 2 numbers for 3 channels");
  wrong(R"({"op": "normalize", "div": "255"})", "is a string, expected a finite number");
  wrong(R"({"op": "color", "to": "gray"})", "lacks 'like'");
  wrong(R"({"op": "color", "to": "bgr", "like": "pillow"})", "no grey is made");
  wrong(R"({"op": "letterbox", "size": [8, 8], "upscale": true, "kernel": "linear", "like": "opencv", "value": 1.5})",
        "whole number from 0 to 255");
  wrong(R"({"op": "pad", "mode": "edge", "top": 1, "value": 3})", "no meaning in this mode");
  wrong(R"({"op": "pad", "mode": "edge"})", "lacks 'multiple'");
  wrong(R"({"op": "rotate90", "turns": 4})", "is 4, expected 1 to 3");
  wrong(R"({"op": "quantize", "to": 16000})", "step 'quantize' is not in this version");
  wrong(R"({"op": 3})", "is a whole number, expected a string");
  wrong(R"([])", "steps[1] is a list, expected an object");
  wrong(R"({"op": "top_k", "k": 1, "label_offset": 1, "out": "t"})", "no meaning without 'labels'");
}

TEST_CASE("steps are refused where their input does not fit") {
  auto wrong = [](const std::string& step, const std::string& what) {
    CAPTURE(step);
    CHECK(says(with(step), what));
  };
  wrong(R"({"op": "normalize", "div": 255}, {"op": "resize", "size": [8, 8], "kernel": "box", "like": "pillow"})",
        "resize before 'normalize'");
  wrong(R"({"op": "layout", "to": "CHW"}, {"op": "flip", "axis": "vertical"})",
        "takes a picture [h, w, c], 'steps[1]' is a picture in another layout");
  wrong(R"({"op": "flip", "axis": "vertical", "in": "photo"})", "takes a picture [h, w, c], 'photo' is a file");
  wrong(R"({"op": "flip", "axis": "vertical", "in": "phto"})", "no value 'phto' before this, did you mean 'photo'?");
  wrong(R"({"op": "softmax", "axis": -1, "out": "photo"})", "'photo' is the name of an earlier value");
  wrong(R"({"op": "flip", "axis": "vertical", "in": {"relu": "photo"}})", "expected a string");
  wrong(R"({"op": "softmax", "axis": 0, "in": {"relu": "photo"}})", "only softmax and sigmoid");
  wrong(R"({"op": "decode_audio", "in": "photo", "channels": "mean", "rate": 16000})", "cannot decode image/jpeg");
  auto alpha =
      parse(kHead + R"({"op": "decode_image", "in": "photo", "color": "rgb", "orient": "exif", "alpha": "keep"},
{"op": "resize", "size": [8, 8], "kernel": "box", "like": "pillow"},
)" + kTail,
            "p.json");
  CHECK(says(alpha, "without alpha"));
}

TEST_CASE("every value is used, and outputs are computed") {
  CHECK(says(
      parse(
          R"({"mlc_pipeline": 1, "inputs": {"a": {"accept": ["image/png"]}, "b": {"accept": ["application/x-npy"]}}, "steps": [
    {"op": "run", "program": "main", "in": {"x": "b"}, "out": {"y": "y", "z": "z"}}], "outputs": ["y"]})",
          "p.json"),
      "'a' is used by no step and is no output"));
  CHECK(says(parse(R"({"mlc_pipeline": 1, "inputs": {"b": {"accept": ["application/x-npy"]}}, "steps": [
    {"op": "top_k", "k": 1, "in": "b", "out": "t"}], "outputs": ["t"]})",
                   "p.json"),
             "'b' passes through no array step"));
  CHECK(says(
      parse(R"({"mlc_pipeline": 1, "inputs": {"b": {"accept": []}}, "steps": [], "outputs": ["b", "b", 3]})", "p.json"),
      "'b' accepts nothing"));
  CHECK(says(parse(R"({"mlc_pipeline": 2, "inputs": {}, "steps": [], "outputs": []})", "p.json"),
             "'mlc_pipeline' of the pipeline is 2, expected 1 to 1"));
}

TEST_CASE("one file may hold several named pipelines") {
  std::string one =
      R"({"inputs": {"b": {"accept": ["application/x-npy"]}}, "steps": [{"op": "sigmoid", "in": "b", "out": "y"}], "outputs": ["y"]})";
  auto r = parse(R"({"mlc_pipeline": 1, "pipelines": {"first": )" + one + R"(, "second": )" + one + "}}", "p.json");
  REQUIRE_MESSAGE(r.ok(), r.status().text());
  CHECK(r->pipelines.size() == 2);
  CHECK(r->pipelines[1].name == "second");
}

TEST_CASE("JSON errors have a place") {
  auto at = [](std::string text) { return report(parse(text, "p.json")); };
  CHECK(at("{\n  \"a\": 1,\n  \"a\": 2}") == "p.json:3:3: key \"a\" for the second time");
  CHECK(at("") == "p.json:1:1: found the end of the text, expected a value");
  CHECK(at("{\"a\": tru}") == "p.json:1:7: found 't', expected a value");
  CHECK(at("{\"a\": \"\xFF\"}") == "p.json:1:8: not valid UTF-8");
  CHECK(at("[1]") == "p.json:1:1: a pipeline is an object");
  CHECK(at(std::string(40, '[') + std::string(40, ']')) == "p.json:1:17: nested deeper than 16");
  CHECK(at("{\"a\": 1e999}") == "p.json:1:7: a number beyond the range of 64-bit floating point");
  CHECK(at(std::string(kTextLimits.bytes + 1, ' ')) == "p.json has 1048577 bytes, at most 1048576 are read");
  CHECK(at("{} x") == "p.json:1:4: found 'x', expected nothing behind the value");
}

TEST_CASE("a file of mistakes is reported up to a limit, in time that its length bounds") {
  // Each of these took minutes or gigabytes: every mistake was compared with every name, and every one was reported.
  std::string keys, names, accepts, outputs, many_values;
  for (int i = 0; i < 20'000; ++i) {
    const std::string n = std::to_string(i);
    keys += ", \"kernal" + n + "\": 1";
    names += (i ? ", \"v" : "\"v") + n + "\": \"unknown" + n + "\"";
    many_values += (i ? ", \"v" : "\"v") + n + "\": \"value" + n + "\"";
    accepts += i ? ", \"image/png\"" : "\"image/png\"";
    outputs += (i ? ", \"value" : "\"value") + n + "\"";
  }
  const std::string head = R"({"mlc_pipeline": 1, "inputs": {"b": {"accept": ["application/x-npy"]}}, "steps": [)";
  const auto whole = [&](const std::string& steps, const std::string& out) {
    return parse(head + steps + "], \"outputs\": [" + out + "]}", "p.json");
  };
  auto r = whole(R"({"op": "sigmoid", "in": "b", "out": "y")" + keys + "}", "\"y\"");
  CHECK(r.status().facts.size() <= 2 * Problems::kMost);
  CHECK(says(r, "and 19950 more"));
  CHECK(says(whole(R"({"op": "run", "program": "main", "in": {)" + names + R"(}, "out": {"y": "y"}})", "\"y\""),
             "and 19950 more"));
  CHECK(says(parse(R"({"mlc_pipeline": 1, "inputs": {"b": {"accept": [)" + accepts + R"(]}}, "steps": [], "outputs": []})",
                   "p.json"),
             "'accept' of input 'b' has 'image/png' twice"));
  auto good = whole(R"({"op": "run", "program": "main", "in": {"x": "b"}, "out": {)" + many_values + "}}", outputs);
  REQUIRE_MESSAGE(good.ok(), good.status().text());
  CHECK(sections(good->pipelines[0])[0].out.size() == 20'000);
}

TEST_CASE("the nearest name is near") {
  std::string_view names[] = {"kernel", "color", "orient"};
  CHECK(nearest_name("kernal", names) == "kernel");
  CHECK(nearest_name("colour", names) == "color");
  CHECK(nearest_name("roient", names) == "orient");
  CHECK(nearest_name("x", names).empty());
  CHECK(nearest_name("something", names).empty());
}

TEST_CASE("the specification has a section for every step and error, and its examples parse") {
  std::string spec = file_text(mlc::testing::source_path("spec/pipeline.md"));
  for (auto name : step_names())
    CHECK_MESSAGE(spec.find("\n### " + std::string(name) + "\n") != std::string::npos, std::string(name));
  for (int number : {4001, 5001, 5002, 5003, 5004, 5005, 5006, 5007})
    CHECK(spec.find("| E" + std::to_string(number) + " |") != std::string::npos);
  int examples = 0;
  for (size_t at = spec.find("```json\n"); at != std::string::npos; at = spec.find("```json\n", at + 1)) {
    std::string text = spec.substr(at + 8, spec.find("```", at + 8) - at - 8);
    auto r = parse(text, "spec/pipeline.md");
    CHECK_MESSAGE(r.ok(), text);
    ++examples;
  }
  CHECK(examples >= 1);
}

TEST_CASE("damaged pipelines never crash") {
  std::string good = file_text(mlc::testing::source_path("examples/imagenet/pipeline.json"));
  for (size_t n = 0; n < good.size(); ++n)
    CHECK((!parse(good.substr(0, n), "p").ok() || good.find_first_not_of(" \n", n) == std::string::npos));
  uint64_t state = 88172645463325252u;
  auto next = [&] { return state ^= state << 13, state ^= state >> 7, state ^= state << 17, state; };
  const std::string alphabet = "{}[]\",:0-1.e tfnul\\";
  for (int i = 0; i < 3000; ++i) {
    std::string text = good;
    for (uint64_t k = 0, n = 1 + next() % 3; k < n; ++k) {
      size_t at = next() % text.size();
      if (next() % 3 == 0)
        text.erase(at, 1 + next() % 8);
      else
        text[at] = next() % 2 ? alphabet[next() % alphabet.size()] : static_cast<char>(next());
      if (text.empty()) break;
    }
    auto r = parse(text, "p");
    if (!r.ok()) CHECK(!r.status().message.empty());
  }
}
