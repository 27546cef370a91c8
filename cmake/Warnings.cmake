add_library(smeltr_warnings INTERFACE)
# g++ 12 takes "text" + std::string for an overlapping copy (its bug 105651), or for an endless one.
# Clang sees that libstdc++ 12's stable_sort uses what is deprecated.
target_compile_options(smeltr_warnings INTERFACE -Wall -Wextra -Wconversion -Wshadow
                       "$<$<CXX_COMPILER_ID:GNU>:-Wno-restrict;-Wno-stringop-overflow>"
                       $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>
                       $<$<BOOL:${SMELTR_WERROR}>:-Werror>)
