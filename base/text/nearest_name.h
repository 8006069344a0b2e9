// "Did you mean": for messages about words that are not known.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mlc {

// The candidate within a third of the word's letters (at least 2) of it, else one that is a part of it between '_' or '-', or an
// empty string. Words of more than 64 letters have none.
std::string_view nearest_name(std::string_view word, std::span<const std::string_view> candidates);

// "unknown option '--thread', did you mean '--threads'?"
std::string unknown_word(std::string_view what, std::string_view word, const std::vector<std::string>& known);

}  // namespace mlc
