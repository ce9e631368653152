# SPDX-License-Identifier: MIT
# A user's project, built with the package.
import os

from conan import ConanFile
from conan.tools.cmake import CMake, cmake_layout


class Consumer(ConanFile):
    settings = "os", "arch", "compiler", "build_type"
    generators = "CMakeDeps", "CMakeToolchain"

    def layout(self):
        cmake_layout(self)

    def requirements(self):
        self.requires(self.tested_reference_str)

    def build(self):
        cmake = CMake(self)
        cmake.configure(variables={"HEADMIX_WAY": "package_manager"}, build_script_folder=os.environ["CONSUMER"])
        cmake.build()

    def test(self):
        self.run(os.path.join(self.cpp.build.bindir, "consumer"))
