add_library(smeltr_warnings INTERFACE)
# g++ 12 takes "text" + std::string for an overlapping copy (its bug 105651).
target_compile_options(smeltr_warnings INTERFACE -Wall -Wextra -Wconversion -Wshadow
                       $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
                       $<$<BOOL:${SMELTR_WERROR}>:-Werror>)
