// Puts the nodes of a graph into an order in which every value is written before it is read.
#pragma once

#include "base/status.h"
#include "packager/model/model.h"

namespace mlc::import {

// Refuses values written twice, values read but written nowhere, and cycles; all of a kind are reported together with
// the nodes that show them. Files promise sorted nodes, exporters do not always keep it. Linear in the size of the graph
// and without recursion. In the body of an If or Loop, values of enclosing graphs may be read: `outer_values_allowed`.
Status order_nodes(model::Graph& graph, bool outer_values_allowed);

// Removes nodes of an ordered graph of whose results no output is made. Their operators may be unknown.
void drop_unused(model::Graph& graph);

}  // namespace mlc::import
