# smeltr_embed(<target> <symbol> <file>): the bytes of <file> become read-only data of <target> between
# smeltr_embedded_<symbol>_begin and smeltr_embedded_<symbol>_end. <file> may be $<TARGET_FILE:...>.
function(smeltr_embed target symbol file)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/embedded_${symbol}.c)
  set(name smeltr_embedded_${symbol})
  file(GENERATE OUTPUT ${source}.in CONTENT
"__asm__(
    \".pushsection .rodata\\n\"
    \".balign 16\\n\"
    \".global ${name}_begin\\n\"
    \".hidden ${name}_begin\\n\"
    \"${name}_begin:\\n\"
    \".incbin \\\"${file}\\\"\\n\"
    \".global ${name}_end\\n\"
    \".hidden ${name}_end\\n\"
    \"${name}_end:\\n\"
    \".byte 0\\n\"
    \".popsection\\n\");
")
  # Compilers do not report .incbin as a dependency: a fresh source makes them read the file again.
  add_custom_command(OUTPUT ${source} COMMAND ${CMAKE_COMMAND} -E copy ${source}.in ${source}
                     DEPENDS ${source}.in "${file}" VERBATIM)
  set_source_files_properties(${source} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
  target_sources(${target} PRIVATE ${source})
endfunction()
