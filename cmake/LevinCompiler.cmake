# Compiler cache, warnings and sanitizers for levin's own code. Nothing here is exported to users.
find_program(LEVIN_CCACHE ccache)
if(LEVIN_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # pch_defines and time_macros let ccache serve files that use the precompiled header.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${LEVIN_CCACHE})
endif()

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # A tenth of GCC's time goes into looking for memory that it no longer needs.
  add_compile_options(--param=ggc-min-expand=1000 --param=ggc-min-heapsize=2000000)
endif()

add_library(levin_warnings INTERFACE)
target_compile_options(levin_warnings INTERFACE -Wall -Wextra $<$<BOOL:${LEVIN_WERROR}>:-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 reports -Wrestrict on `"text" + std::string` where nothing overlaps (GCC bug 105651).
  target_compile_options(levin_warnings INTERFACE -Wno-restrict)
endif()

# thread: ThreadSanitizer. address: AddressSanitizer, LeakSanitizer and UndefinedBehaviorSanitizer. Without the latter's check of
# virtual tables: it reads memory through a pipe, so in a program that has run out of descriptors, as tests do, it reports every
# object as invalid.
if(LEVIN_SANITIZE STREQUAL "thread")
  set(levin_sanitizers -fsanitize=thread)
elseif(LEVIN_SANITIZE STREQUAL "address")
  set(levin_sanitizers -fsanitize=address,undefined -fno-sanitize=vptr -fno-sanitize-recover=undefined)
elseif(LEVIN_SANITIZE)
  message(FATAL_ERROR "LEVIN_SANITIZE is '${LEVIN_SANITIZE}', but must be thread, address or empty.")
endif()
if(LEVIN_SANITIZE)
  # -g1 is enough for stack traces with lines, and links several times faster than -g.
  add_compile_options(${levin_sanitizers} -O1 -g1 -fno-omit-frame-pointer -D_GLIBCXX_ASSERTIONS)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # What the sanitizers add makes GCC take initialized members for uninitialized ones.
    add_compile_options(-Wno-maybe-uninitialized)
  elseif(LEVIN_SANITIZE STREQUAL "address")
    add_compile_definitions(__SANITIZE_ADDRESS__) # as GCC does
  else()
    add_compile_definitions(__SANITIZE_THREAD__)
  endif()
  add_link_options(${levin_sanitizers})
endif()

# libFuzzer's counters, and the sanitizers that report what it finds. The programs in tests/fuzz link libFuzzer's main().
if(LEVIN_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang" OR LEVIN_SANITIZE)
    message(FATAL_ERROR "LEVIN_FUZZ needs clang, and brings its own sanitizers: use `make fuzz`.")
  endif()
  set(levin_fuzz_sanitizers -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize=vptr -fno-sanitize-recover=undefined)
  add_compile_options(${levin_fuzz_sanitizers} -O1 -g1 -fno-omit-frame-pointer)
  add_link_options(${levin_fuzz_sanitizers})
endif()

# Finds a package that Debian carries, and says in one line what to install when it is missing.
function(levin_find_package name debian_package)
  find_package(${name} QUIET ${ARGN})
  if(NOT ${name}_FOUND)
    message(FATAL_ERROR "levin needs ${name}: install it with `apt-get install ${debian_package}` (or run `make setup`).")
  endif()
endfunction()

# levin_export_only(TARGET MAP): the library shows only what MAP, a linker script, lists of what is not hidden already: templates
# of the standard library and of torch that levin's code instantiates would be visible too.
function(levin_export_only target map)
  target_link_options(${target} PRIVATE "LINKER:--version-script=${map}")
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${map})
endfunction()

# levin_add_loaded_library(NAME SOURCES … LINK …): liblevin_NAME.so, which levin loads when it first needs it. It shows what levin_NAME.map
# beside the caller lists. Its target is levin_NAME_library.
function(levin_add_loaded_library name)
  cmake_parse_arguments(PARSE_ARGV 1 loaded "" "" "SOURCES;LINK")
  add_library(levin_${name}_library SHARED ${loaded_SOURCES})
  set_target_properties(levin_${name}_library PROPERTIES OUTPUT_NAME levin_${name} LINKER_LANGUAGE CXX)
  levin_export_only(levin_${name}_library ${CMAKE_CURRENT_SOURCE_DIR}/levin_${name}.map)
  target_link_libraries(levin_${name}_library PRIVATE ${loaded_LINK})
  # It is looked for beside the code that asks for it, which is in the programs themselves for tests and fuzz targets.
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  file(CREATE_LINK ${PROJECT_BINARY_DIR}/lib/liblevin_${name}.so ${PROJECT_BINARY_DIR}/bin/liblevin_${name}.so SYMBOLIC)
endfunction()
