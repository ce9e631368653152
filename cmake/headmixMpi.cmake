# SPDX-License-Identifier: MIT
# headmix::mpi: headmix and MPI, for distributed/mpi.hpp. Read by the build and by find_package(headmix) with the
# component mpi; sets headmix_mpi_FOUND or headmix_mpi_NOT_FOUND_MESSAGE. Not by find_dependency, whose error would end
# the configuration also if the component is optional.
set(headmix_mpi_FOUND FALSE)
set(headmix_mpi_NOT_FOUND_MESSAGE "")
find_package(MPI QUIET COMPONENTS CXX)
if(NOT MPI_CXX_FOUND)
  set(headmix_mpi_NOT_FOUND_MESSAGE "no MPI was found; apt-get install libopenmpi-dev openmpi-bin, or set MPI_HOME")
elseif(MPI_CXX_VERSION AND MPI_CXX_VERSION VERSION_LESS 3)
  set(headmix_mpi_NOT_FOUND_MESSAGE "MPI 3 or newer is needed, found ${MPI_CXX_VERSION}")
else()
  set(headmix_mpi_FOUND TRUE)
  if(NOT TARGET headmix::mpi)
    add_library(headmix::mpi INTERFACE IMPORTED)
    target_link_libraries(headmix::mpi INTERFACE headmix::headmix MPI::MPI_CXX)
  endif()
endif()
