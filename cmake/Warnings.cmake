add_library(smeltr_warnings INTERFACE)
# g++ 12 takes "text" + std::string for an overlapping copy (its bug 105651), or for an endless one.
target_compile_options(smeltr_warnings INTERFACE -Wall -Wextra -Wconversion -Wshadow
                       "$<$<CXX_COMPILER_ID:GNU>:-Wno-restrict;-Wno-stringop-overflow>"
                       $<$<BOOL:${SMELTR_WERROR}>:-Werror>)
