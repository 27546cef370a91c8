if(SMELTR_SANITIZE)
  string(REPLACE ";" "," sanitizers "${SMELTR_SANITIZE}")
  add_compile_options(-fsanitize=${sanitizers} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${sanitizers})
endif()
if(SMELTR_FUZZ)
  # Coverage for every library; the fuzz programs themselves link libFuzzer's main.
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
