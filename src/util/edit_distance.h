// How far a slip of the keyboard is from what was meant.
#pragma once

#include <cstddef>
#include <string_view>

namespace smeltr {

// Insertions, deletions, replacements and swaps of neighbours, each one step. Bytes, not characters;
// quadratic: for words, not for files.
size_t EditDistance(std::string_view a, std::string_view b);

}  // namespace smeltr
