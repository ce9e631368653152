# SPDX-License-Identifier: MIT
# conan create cmake/conan: a package of the headers, with the files of find_package(headmix). Conan 2.
import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain
from conan.tools.files import copy, load

REPOSITORY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


class Headmix(ConanFile):
    name = "headmix"
    description = "Mixture-of-attention-heads and multi-head mixture-of-experts layers, forward and backward"
    license = "MIT"
    topics = ("mixture-of-experts", "attention", "header-only")
    package_type = "header-library"
    settings = "os", "arch", "compiler", "build_type"

    def set_version(self):
        text = load(self, os.path.join(REPOSITORY, "include", "headmix", "core", "version.hpp"))
        self.version = ".".join(re.search(rf"define HEADMIX_VERSION_{part} +(\d+)", text)[1]
                                for part in ("MAJOR", "MINOR", "PATCH"))

    def export_sources(self):
        for pattern in ("CMakeLists.txt", "LICENSE", "cmake/*", "include/*"):
            copy(self, pattern, REPOSITORY, self.export_sources_folder)

    def requirements(self):
        self.requires("eigen/[>=3.4 <4]", transitive_headers=True)

    def validate(self):
        check_min_cppstd(self, 20)

    def package_id(self):
        self.info.clear()

    def generate(self):
        CMakeDeps(self).generate()
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["HEADMIX_FETCH_DEPS"] = False
        toolchain.generate()

    def build(self):
        CMake(self).configure()

    def package(self):
        CMake(self).install()

    def package_info(self):
        # find_package(headmix) is the package's own, with its components.
        self.cpp_info.bindirs, self.cpp_info.libdirs = [], []
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = [os.path.join("share", "cmake", "headmix")]
        self.cpp_info.set_property("pkg_config_name", "headmix")
        if self.settings.os in ("Linux", "FreeBSD"):
            self.cpp_info.system_libs = ["pthread"]
