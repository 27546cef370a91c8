# Precompiled headers: half of the time of a build goes into reading the same headers. For g++ only; lint
# configures a folder without them (-DSMELTR_PRECOMPILE=OFF), so that every file still includes what it uses.
option(SMELTR_PRECOMPILE "Use precompiled headers" ON)
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(SMELTR_PRECOMPILE OFF)
endif()

# smeltr_precompiled(<name> <header>...): a set of headers, compiled as a library's files are.
function(smeltr_precompiled name)
  if(NOT SMELTR_PRECOMPILE)
    return()
  endif()
  file(WRITE ${CMAKE_BINARY_DIR}/${name}.cc "")
  add_library(${name} STATIC ${CMAKE_BINARY_DIR}/${name}.cc)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(${name} PRIVATE smeltr_warnings)
  target_precompile_headers(${name} PRIVATE ${ARGN})
endfunction()

# smeltr_use_precompiled(<target> <name>)
function(smeltr_use_precompiled target name)
  if(TARGET ${name})
    target_precompile_headers(${target} REUSE_FROM ${name})
  endif()
endfunction()

smeltr_precompiled(precompiled ${CMAKE_CURRENT_LIST_DIR}/precompiled.h)
smeltr_precompiled(precompiled_cli ${CMAKE_CURRENT_LIST_DIR}/precompiled.h <CLI/CLI.hpp>)
foreach(name precompiled precompiled_cli)
  if(TARGET ${name})
    set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  endif()
endforeach()
