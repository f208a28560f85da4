# levin_add_plugin(NAME [PRECOMPILE] SOURCES files... [LINK libraries...])
# A plug-in: modules, callbacks, loggers or data modules of your own, as libNAME.so, which a YAML file names in `plugins:` and
# `levin --plugin` loads. It lands in CMAKE_LIBRARY_OUTPUT_DIRECTORY, or else in the build folder itself.
# PRECOMPILE: compiles <levin/levin.h> once, into a file of 700 MB in the build folder. A source takes 12 s then, and 25 s without.
function(levin_add_plugin name)
  cmake_parse_arguments(PLUGIN "PRECOMPILE" "" "SOURCES;LINK" ${ARGN})
  if(NOT PLUGIN_SOURCES)
    message(FATAL_ERROR "levin_add_plugin(${name}) needs SOURCES, the .cpp files of the plug-in.")
  endif()
  add_library(${name} MODULE ${PLUGIN_SOURCES})
  target_link_libraries(${name} PRIVATE levin::levin ${PLUGIN_LINK})
  if(PLUGIN_PRECOMPILE)
    target_precompile_headers(${name} PRIVATE <levin/levin.h>)
  endif()
  # What is missing shall be missing when the plug-in is linked, not when a run loads it.
  target_link_options(${name} PRIVATE "LINKER:--no-undefined")
  set_target_properties(${name} PROPERTIES PREFIX lib INSTALL_RPATH_USE_LINK_PATH ON)
  if(NOT CMAKE_LIBRARY_OUTPUT_DIRECTORY)
    set_target_properties(${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}")
  endif()
endfunction()
