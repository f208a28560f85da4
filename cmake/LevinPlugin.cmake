# Compiles <levin/levin.h> once for each compiler of this machine, into a file of 700 MB in ~/.cache/levin (LevinPrecompile.cmake):
# a source takes 12 s then, and 25 s without. A project may set it before.
option(LEVIN_PRECOMPILE "Plug-ins have a precompiled header" ON)
set(_levin_cmake_folder ${CMAKE_CURRENT_LIST_DIR})

# Without a build type CMake compiles without optimization. A training_step that forgets its return is an error, as the compiler
# would continue with what follows it.
function(_levin_compile target)
  target_compile_options(${target} PRIVATE -Werror=return-type)
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    target_compile_options(${target} PRIVATE -O2)
  endif()
endfunction()

# What GCC and clang want to be the same where a header is precompiled and where it is used: language, optimization and options, but not
# what a target defines or includes beyond levin's own.
function(_levin_precompile target)
  set(standard 20)
  if(CMAKE_CXX_STANDARD GREATER 20)
    set(standard ${CMAKE_CXX_STANDARD})
  endif()
  set(kind EXTENSION)
  if(DEFINED CMAKE_CXX_EXTENSIONS AND NOT CMAKE_CXX_EXTENSIONS)
    set(kind STANDARD)
  endif()
  string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
  separate_arguments(flags UNIX_COMMAND "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${type}}")
  list(APPEND flags -fPIC ${CMAKE_CXX${standard}_${kind}_COMPILE_OPTION})
  set(includes "$<TARGET_PROPERTY:levin::levin,INTERFACE_INCLUDE_DIRECTORIES>")
  set(torch "$<TARGET_PROPERTY:levin_torch,INTERFACE_SYSTEM_INCLUDE_DIRECTORIES>")
  set(defined "$<TARGET_PROPERTY:levin_torch,INTERFACE_COMPILE_DEFINITIONS>")
  set(flags "${flags};$<TARGET_PROPERTY:${target},COMPILE_OPTIONS>;-D$<JOIN:${defined},;-D>;-I$<JOIN:${includes},;-I>;-isystem;$<JOIN:${torch},;-isystem;>")

  get_target_property(folders levin::levin INTERFACE_INCLUDE_DIRECTORIES)
  find_file(LEVIN_HEADERS_HASH levin/core/headers_hash.h PATHS ${folders} NO_DEFAULT_PATH NO_CACHE)
  set(link ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/${target}.dir/levin_precompiled)
  set(header ${link}/levin_precompiled.h)
  add_custom_command(OUTPUT ${link}.stamp VERBATIM
    COMMAND ${CMAKE_COMMAND} "-DCOMPILER=${CMAKE_CXX_COMPILER}" -DCOMPILER_ID=${CMAKE_CXX_COMPILER_ID} "-DFLAGS=${flags}"
            "-DINCLUDES=${includes};${torch}" -DLINK=${link} -P ${_levin_cmake_folder}/LevinPrecompile.cmake
    COMMAND ${CMAKE_COMMAND} -E touch ${link}.stamp
    DEPENDS ${LEVIN_HEADERS_HASH}
    COMMENT "Precompiling <levin/levin.h>, unless this machine has it")
  set_target_properties(${target} PROPERTIES LEVIN_PRECOMPILED ${header})
  _levin_use_precompiled(${target} ${header})
endfunction()

# Not an option of the target, which its header is compiled with.
function(_levin_use_precompiled target header)
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    get_source_file_property(has_one ${source} OBJECT_DEPENDS)
    if(NOT has_one MATCHES "levin_precompiled")
      cmake_path(GET header PARENT_PATH link)
      set_property(SOURCE ${source} APPEND PROPERTY OBJECT_DEPENDS ${link}.stamp)
      if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
        set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS -include-pch ${header}.gch)
      else()
        set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS -include ${header})
      endif()
    endif()
  endforeach()
endfunction()

# levin_add_plugin(NAME [NO_PRECOMPILE] SOURCES files... [LINK libraries...])
# A plug-in: your modules, callbacks, loggers or data modules, as libNAME.so, which a YAML file names in `plugins:` and
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
  if(LEVIN_PRECOMPILE AND NOT PLUGIN_NO_PRECOMPILE AND NOT CMAKE_CONFIGURATION_TYPES)
    _levin_precompile(${name})
  endif()
  # Missing symbols are errors when the plug-in is linked, not when a run loads it.
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
  get_target_property(header ${TEST_PLUGIN} LEVIN_PRECOMPILED)
  if(header)
    _levin_use_precompiled(${name} ${header})
    # The header is compiled with -fPIC; a program, which CMake would compile with -fPIE, has to agree.
    target_compile_options(${name} PRIVATE -fPIC)
  endif()
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
endfunction()
