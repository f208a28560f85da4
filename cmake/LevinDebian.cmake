# `make deb`: with LEVIN_DEBIAN, cpack makes a Debian package of what is installed. All of it lies in /usr/lib/levin, as in a wheel, but for
# /usr/bin/levin, manual, completions and what find_package(levin) finds first. LibTorch is no part of it: see cli/libtorch_at_hand.h.
set(package_documents share/doc/levin)
string(TIMESTAMP now "%a, %d %b %Y %H:%M:%S +0000" UTC) # SOURCE_DATE_EPOCH, where it is set
configure_file(cmake/debian/changelog.in ${PROJECT_BINARY_DIR}/debian/changelog @ONLY)
foreach(text IN ITEMS changelog)
  execute_process(COMMAND gzip -9nkf ${PROJECT_BINARY_DIR}/debian/${text} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
install(FILES ${PROJECT_BINARY_DIR}/debian/changelog.gz cmake/debian/copyright DESTINATION ${package_documents})

file(CREATE_LINK ../lib/levin/bin/levin ${PROJECT_BINARY_DIR}/debian/levin SYMBOLIC)
install(FILES ${PROJECT_BINARY_DIR}/debian/levin DESTINATION bin)
file(WRITE ${PROJECT_BINARY_DIR}/debian/levinConfig.cmake "include(/usr/${levin_package_folder}/levinConfig.cmake)\n")
install(FILES ${PROJECT_BINARY_DIR}/debian/levinConfig.cmake ${PROJECT_BINARY_DIR}/levinConfigVersion.cmake DESTINATION lib/cmake/levin)

# The packages whose libraries liblevin is linked to. dpkg-shlibdeps would fail over LibTorch, which is of none.
function(levin_debian_packages out)
  set(packages "")
  foreach(library IN LISTS ARGN)
    file(REAL_PATH ${library} file)
    execute_process(COMMAND dpkg-query -S ${file} OUTPUT_VARIABLE owner COMMAND_ERROR_IS_FATAL ANY)
    string(REGEX MATCH "^[^:]+" owner "${owner}")
    list(APPEND packages ${owner})
  endforeach()
  list(REMOVE_DUPLICATES packages)
  set(${out} ${packages} PARENT_SCOPE)
endfunction()
find_library(levin_yaml_library yaml-cpp NO_CACHE)
find_library(levin_fmt_library fmt NO_CACHE)
find_library(levin_protobuf_library protobuf-lite NO_CACHE)
levin_debian_packages(packages ${levin_yaml_library} ${levin_fmt_library} ${levin_protobuf_library} ${PNG_LIBRARY} ${SQLite3_LIBRARY} ${ZLIB_LIBRARY})
list(APPEND packages "libc6 (>= 2.36)" "libstdc++6 (>= 12)" libgcc-s1)
list(JOIN packages ", " CPACK_DEBIAN_PACKAGE_DEPENDS)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME levin)
set(CPACK_PACKAGE_CONTACT "levin's developers <levin@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "training runtime for C++ on LibTorch")
set(CPACK_PACKAGE_DESCRIPTION "Modules, loops, logging, checkpoints, data loading and ranks, in the style of
PyTorch Lightning: a module and a YAML file, and `levin fit` trains it.
LibTorch ${LEVIN_TORCH_VERSION} comes from PyPI (`levin setup`), or from a folder of your own.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "python3-pip, g++, cmake")
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
include(CPack)
