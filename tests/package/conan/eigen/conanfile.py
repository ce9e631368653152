# SPDX-License-Identifier: MIT
# Stands in for Conan's package of Eigen where no registry is reached: the headers in $EIGEN.
import os

from conan import ConanFile
from conan.tools.files import copy


class Eigen(ConanFile):
    name, version, package_type = "eigen", "3.4.0", "header-library"

    def package(self):
        for folder in ("Eigen/*", "unsupported/Eigen/*"):
            copy(self, folder, os.environ["EIGEN"], os.path.join(self.package_folder, "include", "eigen3"))

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "Eigen3")
        self.cpp_info.set_property("cmake_target_name", "Eigen3::Eigen")
        self.cpp_info.includedirs = [os.path.join("include", "eigen3")]
        self.cpp_info.bindirs, self.cpp_info.libdirs = [], []
