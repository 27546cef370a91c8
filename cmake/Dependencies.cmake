# Third-party libraries, from the system's packages, static where they end up in a shipped binary.
find_package(Threads REQUIRED)

function(smeltr_static_library target library header)
  find_library(${target}_archive NAMES lib${library}.a REQUIRED)
  find_path(${target}_include NAMES ${header} REQUIRED)
  add_library(${target} INTERFACE)
  target_link_libraries(${target} INTERFACE ${${target}_archive})
  target_include_directories(${target} SYSTEM INTERFACE ${${target}_include})
endfunction()

smeltr_static_library(third_party_zstd zstd zstd.h)
smeltr_static_library(third_party_xxhash xxhash xxhash.h)

# Debian has no libfmt.a, and header-only fmt doubles the time to compile most files: built here, once.
find_path(FMT_HEADERS NAMES fmt/format-inl.h REQUIRED)
add_library(third_party_fmt STATIC ${CMAKE_CURRENT_LIST_DIR}/fmt.cc)
set_target_properties(third_party_fmt PROPERTIES POSITION_INDEPENDENT_CODE ON)

# Header-only: nlohmann-json, CLI11, asio, toml++ and the Vulkan headers come from the system include path.
find_path(VULKAN_HEADERS NAMES vulkan/vulkan.h REQUIRED)

# Shipped executables run on other distributions: only libc stays dynamic.
set(SMELTR_STATIC_RUNTIME $<$<STREQUAL:${SMELTR_SANITIZE},>:-static-libstdc++;-static-libgcc>)

if(SMELTR_TESTS)
  find_package(GTest REQUIRED)
endif()
