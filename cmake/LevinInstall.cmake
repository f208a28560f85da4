# What find_package(levin) needs, for the build tree (levin_DIR=build) and for the installed tree.
include(CMakePackageConfigHelpers)
set(levin_package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/levin)
# Where the installed CMake files look for LibTorch: as the libraries do.
set(levin_config_torch_root ${LEVIN_TORCH_ROOT})
if(LEVIN_TORCH_RPATH)
  string(REPLACE "$ORIGIN" "\${PACKAGE_PREFIX_DIR}/${CMAKE_INSTALL_LIBDIR}" levin_config_torch_root "${levin_torch_rpath}")
  string(REGEX REPLACE "/lib$" "" levin_config_torch_root "${levin_config_torch_root}")
endif()

configure_package_config_file(cmake/levinConfig.cmake.in ${PROJECT_BINARY_DIR}/levinConfig.cmake
                              INSTALL_DESTINATION ${levin_package_folder} NO_SET_AND_CHECK_MACRO
                              NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/levinConfigVersion.cmake COMPATIBILITY SameMinorVersion)
foreach(file IN ITEMS LevinTorch LevinPlugin LevinPrecompile)
  configure_file(cmake/${file}.cmake ${PROJECT_BINARY_DIR}/${file}.cmake COPYONLY)
  install(FILES cmake/${file}.cmake DESTINATION ${levin_package_folder})
endforeach()

set(levin_installed levin levin_program)
install(TARGETS levin levin_c levin_program EXPORT levinTargets)
if(TARGET levin_cuda)
  list(APPEND levin_installed levin_cuda)
  install(TARGETS levin_cuda OPTIONAL) # not built by `make demo`
  set_target_properties(levin_cuda PROPERTIES INSTALL_RPATH "$ORIGIN;${levin_torch_rpath}")
endif()
foreach(library IN ITEMS levin_images_library levin_columns_library levin_hdf5_library levin_text_library levin_zstd_library)
  if(TARGET ${library})
    list(APPEND levin_installed ${library})
    install(TARGETS ${library} OPTIONAL) # not built by `make demo`
  endif()
endforeach()
# One run path for both trees. CMake would fill up a shorter one of the build tree with colons, to write the other over it, and an
# empty entry is the working folder: whose libraries would be run.
set_target_properties(${levin_installed} PROPERTIES BUILD_WITH_INSTALL_RPATH ON)
export(EXPORT levinTargets NAMESPACE levin:: FILE ${PROJECT_BINARY_DIR}/levinTargets.cmake)
install(EXPORT levinTargets NAMESPACE levin:: DESTINATION ${levin_package_folder})
install(FILES ${PROJECT_BINARY_DIR}/levinConfig.cmake ${PROJECT_BINARY_DIR}/levinConfigVersion.cmake
        DESTINATION ${levin_package_folder})

# For other languages: the header, the Fortran module as a source, and what pkg-config needs, in both trees.
install(FILES c/levin_c.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/levin)
configure_file(c/levin.f90 ${PROJECT_BINARY_DIR}/levin.f90 COPYONLY)
install(FILES c/levin.f90 DESTINATION ${levin_package_folder})
function(levin_write_pc file levin_pc_prefix levin_pc_libdir levin_pc_includedir levin_pc_module)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/levin-c.pc.in ${file} @ONLY)
endfunction()
levin_write_pc(${PROJECT_BINARY_DIR}/lib/pkgconfig/levin-c.pc ${PROJECT_BINARY_DIR} lib include/api/c levin.f90)
set(levin_pc_paths ${CMAKE_INSTALL_LIBDIR} ${CMAKE_INSTALL_INCLUDEDIR} ${levin_package_folder}/levin.f90)
levin_write_pc(${PROJECT_BINARY_DIR}/installed/levin-c.pc "\${pcfiledir}/../.." ${levin_pc_paths})
install(FILES ${PROJECT_BINARY_DIR}/installed/levin-c.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# `levin setup` runs it.
install(PROGRAMS scripts/setup_libtorch.sh DESTINATION ${CMAKE_INSTALL_DATADIR}/levin)

install(FILES ${PROJECT_BINARY_DIR}/include/generated/levin/levin.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/levin)
install(FILES ${PROJECT_BINARY_DIR}/include/generated/levin/core/version.h ${PROJECT_BINARY_DIR}/include/generated/levin/core/headers_hash.h
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/levin/core)
foreach(room IN LISTS LEVIN_ROOM_NAMES)
  file(STRINGS ${PROJECT_SOURCE_DIR}/${room}/public_headers.txt headers)
  foreach(header IN LISTS headers)
    cmake_path(GET header PARENT_PATH folder)
    install(FILES ${room}/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/levin/${room}/${folder})
  endforeach()
endforeach()

# What the program writes of itself, in build/share: the manual page, and completion for shells. Installed where it was built.
set(levin_share ${PROJECT_BINARY_DIR}/share)
set(levin_described man man/man1/levin.1 "completion bash" bash-completion/completions/levin "completion zsh" zsh/site-functions/_levin
  "completion fish" fish/vendor_completions.d/levin.fish)
add_custom_target(levin_manual)
add_dependencies(levin_manual levin_program)
while(levin_described)
  list(POP_FRONT levin_described words file)
  separate_arguments(words)
  cmake_path(GET file PARENT_PATH folder)
  add_custom_command(TARGET levin_manual POST_BUILD VERBATIM COMMAND ${CMAKE_COMMAND} -E make_directory ${levin_share}/${folder}
    COMMAND ${CMAKE_COMMAND} -E env LEVIN_DEFAULT_CONFIG= LEVIN_TORCH=${LEVIN_TORCH_ROOT} $<TARGET_FILE:levin_program> ${words} > ${levin_share}/${file})
endwhile()
install(DIRECTORY ${levin_share}/ DESTINATION ${CMAKE_INSTALL_DATAROOTDIR} OPTIONAL)

if(LEVIN_DEBIAN)
  include(LevinDebian)
endif()
