# SPDX-License-Identifier: MIT
# vcpkg install headmix --overlay-ports=cmake/vcpkg: the headers of this tree, with the files of find_package(headmix).
set(VCPKG_BUILD_TYPE release) # the library has headers only
cmake_path(SET SOURCE_PATH NORMALIZE "${CMAKE_CURRENT_LIST_DIR}/../../..")

vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}" OPTIONS -DHEADMIX_FETCH_DEPS=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH share/cmake/headmix)
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/share/cmake") # empty
vcpkg_fixup_pkgconfig()
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
