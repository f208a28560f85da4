# Compiles <levin/levin.h> once for each plug-in, into a file of 700 MB in the build folder: a source takes 12 s then, and 25 s
# without.
# A project may set it before.
option(LEVIN_PRECOMPILE "Plug-ins have a precompiled header" ON)

# Without a build type CMake compiles without optimization. A training_step that forgets its return is an error, as the compiler
# would go on with whatever follows it.
function(_levin_compile target)
  target_compile_options(${target} PRIVATE -Werror=return-type)
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    target_compile_options(${target} PRIVATE -O2)
  endif()
endfunction()

# levin_add_plugin(NAME [NO_PRECOMPILE] SOURCES files... [LINK libraries...])
# A plug-in: modules, callbacks, loggers or data modules of your own, as libNAME.so, which a YAML file names in `plugins:` and
# `levin --plugin` loads. It lands in CMAKE_LIBRARY_OUTPUT_DIRECTORY, or else in the build folder itself.
# Where no CMAKE_BUILD_TYPE is set it is compiled with -O2, and, unless NO_PRECOMPILE is given or LEVIN_PRECOMPILE is off, with a
# precompiled <levin/levin.h>.
function(levin_add_plugin name)
  cmake_parse_arguments(PLUGIN "NO_PRECOMPILE" "" "SOURCES;LINK" ${ARGN})
  if(NOT PLUGIN_SOURCES)
    message(FATAL_ERROR "levin_add_plugin(${name}) needs SOURCES, the .cpp files of the plug-in.")
  endif()
  add_library(${name} MODULE ${PLUGIN_SOURCES})
  target_link_libraries(${name} PRIVATE levin::levin ${PLUGIN_LINK})
  _levin_compile(${name})
  if(LEVIN_PRECOMPILE AND NOT PLUGIN_NO_PRECOMPILE)
    target_precompile_headers(${name} PRIVATE <levin/levin.h>)
  endif()
  # What is missing shall be missing when the plug-in is linked, not when a run loads it.
  target_link_options(${name} PRIVATE "LINKER:--no-undefined")
  set_target_properties(${name} PROPERTIES PREFIX lib INSTALL_RPATH_USE_LINK_PATH ON)
  if(NOT CMAKE_LIBRARY_OUTPUT_DIRECTORY)
    set_target_properties(${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}")
  endif()
endfunction()

# levin_add_test(NAME PLUGIN plugin SOURCES files... [LINK libraries...])
# A program that ctest runs in the source folder: it includes the plug-in's headers, and shares its precompiled header.
function(levin_add_test name)
  cmake_parse_arguments(TEST "" "PLUGIN" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${TEST_SOURCES})
  target_link_libraries(${name} PRIVATE levin::levin ${TEST_LINK})
  _levin_compile(${name})
  get_target_property(header ${TEST_PLUGIN} PRECOMPILE_HEADERS)
  if(header)
    target_precompile_headers(${name} REUSE_FROM ${TEST_PLUGIN})
    # The header is compiled with -fPIC; a program, which CMake would compile with -fPIE, has to agree.
    target_compile_options(${name} PRIVATE -fPIC)
  endif()
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
endfunction()
