// Text form of a Model. What print writes, parse reads back; weights stand in it by content hash alone.
//
//   model "pytorch 2.1"                       ; the producer, if the file names one
//   opset ai.onnx 17
//   meta "author" "A. Author"
//   graph "main_graph" {
//     input %x : f32[N, 3, 224, 224]          ; extents, names of free ones, ? for nameless ones; f32[*]: rank unknown
//     init @w : f32[64, 3, 7, 7] sha256:9f86d081...
//     init @names : str[2] = ["cat", "dog"]
//     %y = ai.onnx.Conv(%x, @w, _) {pads = [3, 3, 3, 3], group = 1} : f32[N, 64, 112, 112] "Conv_0"
//     %a, _ = ai.onnx.If(%c) {
//       then_branch = graph "" {
//         output %y : f32[*]
//       }
//     } "If_1"
//     output %a : f32[N, 64]
//   }
//
// A value is %name, an initializer @name, an absent one _. Names are bare if they consist of letters, digits and _ . / -,
// otherwise in double quotes; so are operators of other forms: "my domain"."Op". Behind a node stand what the file tells
// about the types of its results and the node's name. Attributes: 3, 0.5, "text", [1, 2], [1.5], ["a"], ints[], floats[],
// strings[] (empty lists), tensor f32[2] sha256:..., graph, type list(f32[?]). Types of ports may be list(f32[N]) and
// optional(list(i64[2])), list(map(str, f32)). ai.onnx.Clip@11: the node means another opset than the model. Comments start with ';'.
#pragma once

#include <string>
#include <string_view>

#include "base/checked.h"
#include "packager/model/model.h"

namespace mlc::model {

std::string print(const Model& model);
std::string content_hash(Bytes bytes);  // the hexadecimal digits after "sha256:"

// Parts of the form that the parser shares.
bool is_bare_name(std::string_view text);
std::string quoted(std::string_view text);  // \" \\ \xHH
std::string print_type(const Port& port);   // "f32[N, 3, ?]"

}  // namespace mlc::model
