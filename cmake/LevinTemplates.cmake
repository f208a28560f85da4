# levin_embed_templates(OUTPUT): writes the initializers of a TemplateFile for each file below cli/templates (cli/new_project.cpp), so that
# `levin new` works wherever the program is.
function(levin_embed_templates output)
  set(root ${PROJECT_SOURCE_DIR}/cli/templates)
  file(GLOB_RECURSE files CONFIGURE_DEPENDS RELATIVE ${root} ${root}/*)
  list(SORT files)
  set(entries "")
  foreach(file IN LISTS files)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${root}/${file})
    file(READ ${root}/${file} text)
    cmake_path(GET file PARENT_PATH project)
    cmake_path(GET file FILENAME name)
    # Sources end with .in: they are C++ only when their places are filled.
    string(REGEX REPLACE "\\.in$" "" name "${name}")
    # A literal may be 64 KiB long.
    string(LENGTH "${text}" length)
    if(length GREATER 60000)
      message(FATAL_ERROR "cli/templates/${file} is too long to be compiled in.")
    endif()
    string(APPEND entries "{\"${project}\", \"${name}\", R\"levin_template(${text})levin_template\"},\n")
  endforeach()
  file(CONFIGURE OUTPUT ${output} @ONLY CONTENT "@entries@")
endfunction()
