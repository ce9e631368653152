# SPDX-License-Identifier: MIT
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

# share/, not lib/: headers are equal on every architecture.
set(package_dir "${CMAKE_INSTALL_DATADIR}/cmake/headmix")
install(TARGETS headmix EXPORT headmixTargets FILE_SET HEADERS)
install(EXPORT headmixTargets NAMESPACE headmix:: DESTINATION "${package_dir}")
# Before 1.0 a minor version may break its users.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/headmixConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES cmake/headmixConfig.cmake cmake/headmixCompiled.cmake cmake/headmixCuda.cmake
              cmake/headmixNccl.cmake cmake/headmixMpi.cmake
              "${PROJECT_BINARY_DIR}/headmixConfigVersion.cmake"
        DESTINATION "${package_dir}")

# Relative, since `cmake --install --prefix` sets the prefix after this file is written.
file(RELATIVE_PATH pc_to_prefix "/${CMAKE_INSTALL_DATADIR}/pkgconfig" "/")
configure_file(cmake/headmix.pc.in headmix.pc @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/headmix.pc" DESTINATION "${CMAKE_INSTALL_DATADIR}/pkgconfig")
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}")
