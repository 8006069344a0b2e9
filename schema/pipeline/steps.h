// The steps of a pipeline with every attribute resolved. What each one computes, bit by bit: spec/pipeline.md.
//
// Pictures are arrays [height, width, channels] until `layout`. Host steps (decode_*, file_bytes, tokenize, top_k, ctc_greedy, *_out,
// detokenize, text_boxes, cut, for_each, batch, join_windows) run in libmlio's neighbour runtime/pipeline; all others are array steps, which the packager
// compiles together with the models.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/dtype.h"

namespace mlc::pipeline {

// Index into Pipeline::values.
using ValueId = uint32_t;

enum class Color { Rgb, Bgr, Gray };
enum class Like { Pillow, OpenCv };
enum class AlphaMode { Drop, Over, Keep };
enum class Channels { First, Mean, Keep };
enum class Axis { Horizontal, Vertical };
enum class PixelLayout { Hwc, Chw, Nhwc, Nchw };

struct DecodeImage {
  Color color = Color::Rgb;
  Like gray = Like::Pillow;  // the formula, where color is Gray
  bool exif = false;         // turned upright
  AlphaMode alpha = AlphaMode::Drop;
  std::array<uint8_t, 3> background = {};  // R, G, B of AlphaMode::Over

  bool operator==(const DecodeImage&) const = default;
};
struct DecodeAudio {
  Channels channels = Channels::First;
  uint32_t rate = 0;  // Hz; another rate in the file is an error, nothing is resampled

  bool operator==(const DecodeAudio&) const = default;
};

// Bytes from the ends of a file as numbers i32, one part behind the other.
struct FileBytes {
  struct Part {
    bool from_end = false;
    int64_t within = 1;   // bytes at that end of the file that are looked at
    bool strips = false;  // less the white space of ASCII on the outer side
    int64_t length = 1;   // the outermost of what remains; where it is shorter, `fill` stands on the inner side
  };
  std::vector<Part> parts;
  int64_t fill = 0;
  int64_t least = 0;  // bytes that the first part has at least, else the file is an error

  int64_t length() const {
    int64_t all = 0;
    for (const Part& part : parts) all += part.length;
    return all;
  }
};

// Texts, or pairs of them, to numbers i64 [texts, tokens]. With `overlaps` a text that is too long becomes several rows, windows, and
// there are i64 [windows], the number of each one's text, and i64 [windows, tokens, 2], where in the text each token stands.
struct Tokenize {
  enum class Part { Ids, Mask, TypeIds, Positions, Texts, Offsets, Lengths /* of the rows, for the runtime where rows are grouped */ };
  // Which of two texts is cut.
  enum class Cut { Longest, First, Second };

  std::string tokenizer;  // name of an asset
  std::string prompt;     // before each text, the first one of a pair
  bool special_tokens = true;
  bool truncates = false;
  int64_t max = 0;  // tokens of a text, where it truncates
  bool cut_left = false;
  Cut cut = Cut::Longest;
  bool overlaps = false;
  int64_t stride = 0;  // tokens that neighbouring windows of a text share
  int64_t pad_to = 0;  // 0: the longest text of the run
  bool groups = false;  // what takes the tokens runs for rows of like length, each time filled up to the longest of those
  bool pad_left = false;
  int64_t pad_id = 0;
  std::vector<Part> parts;  // what each of the step's results is
};

// Pillow: Nearest Box Bilinear Hamming Bicubic Lanczos. OpenCV: Nearest Linear.
enum class Kernel { Nearest, Box, Bilinear, Hamming, Bicubic, Lanczos, Linear };
// How a size that keeps the aspect becomes whole.
enum class SizeRound { Trunc, Nearest /* half to even */, Ceil };
struct Resize {
  enum class Fit { Exact, Shorter, Longer, Height, Width };
  Fit fit = Fit::Exact;
  int64_t height = 0, width = 0;  // Exact; Height and Width set their own
  int64_t size = 0;               // Shorter, Longer
  SizeRound round = SizeRound::Trunc;
  Kernel kernel = Kernel::Bilinear;
  Like like = Like::Pillow;
};
struct Letterbox {
  int64_t height = 0, width = 0;
  bool upscale = false;  // may small pictures grow?
  Kernel kernel = Kernel::Linear;
  Like like = Like::OpenCv;
  std::vector<double> value;  // one per channel
};

// How an odd margin is halved.
enum class MarginRound { Floor, HalfEven, HalfUp };
struct Crop {
  bool centered = false;
  int64_t top = 0, left = 0;  // where not centered
  int64_t height = 0, width = 0;
  MarginRound round = MarginRound::Floor;
};
enum class PadMode { Constant, Edge, Reflect, Symmetric };
struct Pad {
  int64_t top = 0, bottom = 0, left = 0, right = 0;
  int64_t multiple = 0;  // where above 0: bottom and right grow until both sides are multiples of it
  PadMode mode = PadMode::Constant;
  double value = 0;
};
struct Flip {
  Axis axis = Axis::Horizontal;  // Horizontal: left and right change places
};
struct Rotate90 {
  int turns = 1;  // 1..3, counter-clockwise
};
struct ConvertColor {
  Color from = Color::Rgb, to = Color::Rgb;
  Like like = Like::Pillow;  // the formula, where `to` is Gray
};
// Each part that is present is one float operation: / div, - mean, / std.
struct Normalize {
  bool has_div = false;
  float div = 1;
  std::vector<float> mean, std;  // one per channel, or empty
  bool exact = true;             // false: the compiler may fold the three into one multiply-add
};
struct LayoutStep {
  PixelLayout from = PixelLayout::Hwc, to = PixelLayout::Nchw;
};
struct Cast {
  DType to = DType::F32;  // to an integer: half to even, saturating
};
struct Softmax {
  int64_t axis = -1;
};
struct Sigmoid {};
struct Argmax {
  int64_t axis = -1;  // i64 result without that axis; of equal elements the first
};
struct Threshold {
  double value = 0;
  bool or_equal = false;  // >= instead of >; the result is bool
};

// Along the tokens of f [texts, tokens, columns], as far as a mask keeps them; 0 where it keeps none.
struct Pool {
  // MeanSqrtLen: the sum divided by the root of the number; WeightedMean: the first token has weight 1, the next 2, and so on.
  enum class How { Mean, First, Last, Max, MeanSqrtLen, WeightedMean };
  How how = How::Mean;
};
// Rows of windows f [windows, ...] as one row of each text. The second input is i64 [windows], the number of each one's text.
struct JoinWindows {
  enum class How { Mean, Max };
  How how = How::Mean;
};
// Every row of the last axis divided by its length.
struct UnitLength {};
// The first columns of the last axis.
struct Truncate {
  int64_t columns = 1;
};

// Boxes f32 [boxes, 4] as corners x1 y1 x2 y2 in pixels of the network's picture, and scores f32 [boxes, classes].
struct Boxes {
  enum class Form { Yolo, Yolo8, Ssd, Anchors, Dfl };
  // One cell for each `stride` pixels of the picture, begun ones too; of each cell so many boxes.
  struct Level {
    int64_t stride = 1;
    std::vector<std::array<double, 2>> anchors;  // height, width in pixels; Dfl: none
  };
  Form form = Form::Yolo;
  int64_t height = 0, width = 0;     // of the picture that the network saw; Ssd: whose sides are 1
  int64_t background = -1;           // Ssd and Anchors of two arrays: a class that is left out; -1: none
  std::vector<Level> levels;         // Anchors and Dfl
  double offset = 0;                 // where in a cell its centre is
  double variance[2] = {1, 1};       // Anchors: of centres, of sides
  int64_t bins = 0;                  // Dfl
  int64_t extra = 0;                 // Yolo and Yolo8: the last numbers of a box, which are no classes; a third result
};
// Detections f32 [n, 6], x1 y1 x2 y2 score class, best first. With a third input [boxes, m], numbers of each box, those of the kept ones too.
struct Nms {
  // What becomes of the score of a box that overlaps a kept one: none is left (Hard), 1 - IoU of it, or exp(-IoU * IoU / sigma) of it.
  enum class Decay { Hard, Linear, Gaussian };
  double score = 0, iou = 0;  // kept above the one, suppressed or decayed above the other
  bool per_class = true;
  int64_t most = 1;
  Decay decay = Decay::Hard;
  double sigma = 1;
};
// The step whose picture a network saw.
using Fitted = std::variant<Resize, Letterbox>;
// Detections as places of the picture that a step has resized. The second input is that picture.
struct Unletterbox {
  Fitted of;
  bool clip = false;
};
// Points of detections [n, points * columns], x and y first, likewise: f32 [n, points, columns].
struct Keypoints {
  Fitted of;
  int64_t columns = 2;
  bool clip = false;
};
// What detections cover, bool [n, height, width] of the picture that a step has resized: coefficients [n, m] times prototypes [1, m, h, w], above 0 and within
// the box. Inputs: coefficients, detections, prototypes, picture.
struct Masks {
  Fitted of;
};
// Classes i64 [h, w] or [1, h, w] of the network's picture as colours of the one that a step has resized, which is the second input.
struct Paint {
  Fitted of;
  std::vector<std::array<uint8_t, 3>> palette;  // in turn
};
// One of the last axis, which disappears.
struct Column {
  int64_t index = 0;
};

// One more axis, of extent 1, which is then axis `at`.
struct NewAxis {
  int64_t at = 0;
};

// Axes in another order, as numpy.transpose.
struct Transpose {
  std::vector<int64_t> order;
};

// The first samples of a sound, zeros behind it where it has fewer.
struct Fit {
  int64_t samples = 1;
};
// A sound at another rate, as torchaudio.transforms.Resample or scipy.signal.resample_poly have it. Equal rates change no sample.
struct Resample {
  enum class Like { Torchaudio, Scipy };
  int64_t from = 1, to = 1;  // Hz, without a common divisor
  Like like = Like::Torchaudio;
};
// Parts of a sound [.., samples] that begin `hop` samples apart: [.., frames, length].
struct Frame {
  // What is put around the sound, half a frame on each side, so that the first frame is around the first sample.
  enum class Edge { None, Zeros, Reflect };
  // What does not fill a frame is left out, or filled up with zeros. DropWhole: the last frame that is filled is left out as well.
  enum class End { Drop, Pad, DropWhole };
  int64_t length = 1, hop = 1;
  Edge edge = Edge::None;
  End end = End::Drop;
};
struct Window {
  enum class Shape { Hann, Hamming, Povey };
  Shape shape = Shape::Hann;
  bool is_periodic = true;  // false: symmetric
};
// Of each row x[i] - factor * x[i - 1]; the first element is the one before itself.
struct PreEmphasis {
  double factor = 0;
};
// Rows, with zeros behind them as far as n_fft, as their spectra, the magnitudes of those or their squares.
struct Stft {
  int64_t n_fft = 1;
  int power = 2;  // 0: complex numbers, [.., 2]
};
// Spectra of complex numbers as rows. The second input, where it is there, is what each number of a spectrum is multiplied by.
struct Istft {
  int64_t n_fft = 1;
};
// Rows as a sound: the sums of those that cover a sample. The second input, where it is there, is as long as the sound, or, where the
// sound goes on, what the rows before these have put behind themselves; then the second result is what these do.
struct OverlapAdd {
  int64_t hop = 1;
  bool goes_on = false;
  bool is_centered = false;  // half a row is cut off on each side
  bool has_window = false;   // rows are multiplied by it, and the sums divided by those of its squares
  Window window;
};
struct Mel {
  // Kaldi: htk, with triangles that are straight over mel instead of over frequency.
  enum class Scale { Htk, Slaney, Kaldi };
  int64_t bands = 1, n_fft = 1;
  double rate = 1, low = 0, high = 1;  // Hz
  Scale scale = Scale::Htk;
  bool has_slaney_norm = false;
};
struct Log {
  enum class How { Ln, Log10, Db };
  How how = How::Ln;
  double floor = 0;
  bool has_range = false;
  double below_peak = 0;  // where it has a range
};
struct MeanVar {
  enum class Over { Row, Column, All };
  enum class Deviation { None, Population, Sample };
  Over over = Over::Row;
  Deviation deviation = Deviation::None;
  double epsilon = 0;
  bool adds_to_variance = false;  // false: to the deviation
};

struct Run {
  std::string program;
  std::vector<std::pair<std::string, ValueId>> inputs, outputs;  // by the program's names
};

// A program that makes tokens, one after the other. Names of carried inputs and outputs may be patterns, in which '*' stands for any
// characters but '.'.
struct Generate {
  std::string program;
  std::vector<std::pair<std::string, ValueId>> inputs;  // that do not change, by the program's names; perhaps the first tokens among them
  std::string tokens, logits;                           // the program's names
  std::vector<int64_t> start, end;                      // `start` is empty where the first tokens are given
  int64_t most = 1;
  std::vector<std::pair<std::string, std::string>> carry, once;  // inputs, and the outputs that they are next time
  std::string again, mask, positions;                            // inputs; empty: none

  // How a token is drawn: by chance, as spec/pipeline.md says it bit by bit.
  struct Sampling {
    double temperature = 1;
    int64_t top_k = 0;  // most likely ones that may be drawn; 0: all
    double top_p = 1;   // of those the most likely ones that have this much together
    int64_t seed = 0;   // where no value has it
    bool has_seed_input = false;  // the step's last input, an integer
  };
  std::optional<Sampling> sampling;  // null: the greatest logit
};

struct TopK {
  int64_t k = 1;
  std::string labels;        // name of an asset, one label per line; empty: none
  int64_t label_offset = 0;  // column i has line i + label_offset

  // What a class is called whose score is not at least `below`.
  struct Unsure {
    double below = 0;
    std::string label;
  };
  std::optional<Unsure> unsure;          // null: its label
  std::map<std::string, Unsure> others;  // for classes that have these labels
};
struct CtcGreedy {
  int64_t blank = 0;
  std::string charset;  // name of an asset, one character per line
  bool final_space = false;
};

// Detections [n, 6] as an answer: boxes with labels.
struct NameBoxes {
  std::string labels;  // as in TopK
  int64_t label_offset = 0;
};
// Named boxes drawn onto a picture u8 [h, w, 3], R G B.
struct Draw {};
// A picture as a file.
struct ImageOut {};
// A sound as a file: f32 [samples], [channels, samples] or [1, channels, samples].
struct WavOut {
  int64_t rate = 1;  // Hz
};

struct Detokenize {
  std::string tokenizer;  // name of an asset
  bool skip_special = true;
};

// Lines of text in a map of scores f32 [h, w] or [1, 1, h, w]: their corners f32 [lines, 4, 2], and where that is wanted their scores f32 [lines].
// The second input is the whole picture, the third one, where it is there, what was filled up and given to the detector.
struct TextBoxes {
  double threshold = 0;        // elements above it are text
  double box_threshold = 0;    // a rectangle of a lower mean is dropped
  double unclip_ratio = 0;     // how far rectangles grow: area * ratio / perimeter
  double min_side = 0;         // a shorter rectangle is dropped; so is a grown one that is shorter than this + 2
  int64_t max_candidates = 1;  // regions that are looked at, the largest ones
};

// Parts of a picture, a list: what is within each box, f32 [boxes, 4 or more] with left, top, right and bottom first, or each quadrangle,
// f32 [quadrangles, 4, 2], seen from the front.
struct Cut {
  bool has_corners = false;
  bool upright = false;  // parts of quadrangles that are at least 1.5 times as high as wide are turned
};

// Numbers that the file says: one, or a list of them.
struct Constant {
  DType dtype = DType::F32;
  bool is_list = false;
  std::vector<int64_t> whole;  // of integer types
  std::vector<double> real;    // of the others
};

struct Pipeline;

// The steps of `body` for each item of lists of equal length.
struct ForEach {
  std::shared_ptr<const Pipeline> body;  // its inputs are the items, in the order of the step's `in`
  std::vector<ValueId> results;          // values of the body, in the order of the step's `out`
};
// Of a body: from here on items whose arrays are alike are taken together, as rows of one array.
struct Batch {
  int64_t most = 1;  // items
};

using Op = std::variant<DecodeImage, DecodeAudio, FileBytes, Tokenize, Resize, Letterbox, Crop, Pad, Flip, Rotate90, ConvertColor, Normalize,
                        LayoutStep, Cast, Softmax, Sigmoid, Argmax, Threshold, Pool, UnitLength, Truncate, Column, NewAxis, Transpose, Constant,
                        Boxes, Nms, Unletterbox, Keypoints, Masks, Paint, Fit, Resample, Frame, Window, PreEmphasis, Stft, Istft, OverlapAdd, Mel, Log, MeanVar, Run,
                        Generate, TopK, CtcGreedy, Detokenize, NameBoxes, Draw, ImageOut, WavOut,
                        TextBoxes, Cut, ForEach, Batch, JoinWindows>;

}  // namespace mlc::pipeline
