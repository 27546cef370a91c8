// Puts the numbers of a column where they belong in an array of structs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "session/schema.h"
#include "session/text_table.h"

namespace smeltr::session {

// numbers[i] goes to `at` + i * `stride`. Not for lists.
void ScatterField(FieldForm form, std::span<const uint64_t> numbers, std::byte* at, size_t stride,
                  const StoredTexts& texts);

}  // namespace smeltr::session
