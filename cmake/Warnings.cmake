add_library(smeltr_warnings INTERFACE)
target_compile_options(smeltr_warnings INTERFACE -Wall -Wextra -Wconversion -Wshadow
                       $<$<BOOL:${SMELTR_WERROR}>:-Werror>)
