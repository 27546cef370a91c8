// toml++ as smeltr uses it. Its assertions are off: one of them (in toml++ 3.3, a table header that starts
// with anything but a key) fails for damaged input, which the parser behind it reports as it should.
#pragma once

#define TOML_EXCEPTIONS 0
#include <toml++/impl/preprocessor.h>

#undef TOML_ASSERT
#define TOML_ASSERT(expr) static_assert(true)
#undef TOML_ASSERT_ASSUME
#define TOML_ASSERT_ASSUME(expr) static_assert(true)
#include <toml++/toml.h>
