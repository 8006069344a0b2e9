// What the user of a model is told where an operator's definition does not cover a node. The definitions of this program
// are no concern of theirs: they see the node, what it was given, and what can be done. The author of a definition sees its line.
#pragma once

#include <string>

#include "packager/lang/lang.h"
#include "packager/lang/parse/ast.h"

namespace mlc::lang {

// Is the file one of those that this library was built with?
bool is_builtin(const std::string& file);

// "input x: f32[N, 3]" for each input, and the attributes, as facts.
Status with_operands(Status status, const nest::Function& function, const Call& call);

// The node is not covered by the definition at file:line, nor by others of its version, which gave these reasons.
Status not_covered(const nest::Function& function, const Call& call, const std::string& file, int line, const std::vector<Status>& reasons = {});

// "conv1 (Conv, opset 17)", "x.Y" for operators of other domains.
std::string node_text(const Call& call);

// An extent in the words of a model: numbers, names and what is made of them by + - *; anything else is "computed".
std::string extent_text(const ir::Expr* extent);

}  // namespace mlc::lang
